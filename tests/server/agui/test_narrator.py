"""Whatever happened, it is told in legal order, and the snapshot is what was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, BaseEvent, ToolMessage, UserMessage
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from journal.histories import histories
from journal.journals import ANN, Run
from journals.golden import FOLDER, read
from midflight.interfaces.agui.agui_events import Narrator, is_ours
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import Event, Recorded
from midflight.journal.threads import thread as t
from midflight.stores.hints import Delta
from server.agui.legal import Verifier

JOURNALS = sorted(FOLDER.glob("*/*.jsonl"))
RUN, THREAD = "r-1", "t-1"


class Told:
    """A narrator and who checks it, a record at a time."""

    def __init__(self) -> None:
        self.narrator = Narrator()
        self.verifier = Verifier()
        self.heads: dict[str, int] = {}

    def __call__(self, *events: Event, journal: str = RUN) -> list[str]:
        told: list[BaseEvent] = []
        for event in events:
            position = self.heads[journal] = self.heads.get(journal, 0) + 1
            told += self.narrator.hear(Recorded(journal, position, float(position), event))
        self.verifier.take(told)
        return [event.type.value for event in told]

    def live(self, text: str, offset: int, *, attempt: int = 0) -> list[str]:
        told = self.narrator.hear_live(Delta(RUN, "count", attempt, offset, text))
        self.verifier.take(told)
        return [event.type.value for event in told]

    def messages(self, kind: type[Any]) -> list[Any]:
        return [m.content for m in self.narrator.messages if isinstance(m, kind) and m.content]

    @property
    def shown(self) -> str:
        """What a client shows of the step's words."""
        return "|".join(self.verifier.texts.values())


def streamed(text: str, offset: int, *, attempt: int = 0) -> e.TextStreamed:
    return e.TextStreamed(epoch=1, step="count", offset=offset, text=text, attempt=attempt)


def started(name: str, step: str = "", effect: Effect = Effect.ONCE) -> e.AttemptStarted:
    return e.AttemptStarted(
        epoch=1, step=step or name, name=name, effect=effect, idempotency_key="k"
    )


def settled(attempt: int, outcome: Outcome = Outcome.DONE, **more: Any) -> e.AttemptSettled:
    return e.AttemptSettled(epoch=1, attempt=attempt, outcome=outcome, **more)


# ── every journal ────────────────────────────────────────────────────────────────────────────


def tell(records: list[Recorded], joins: int) -> None:
    """Somebody joins after some of the records, and follows the rest to the end."""
    narrator, verifier = Narrator(), Verifier()
    for record in records[:joins]:
        narrator.hear(record)
    verifier.take(narrator.reopen())
    for record in records[joins:]:
        verifier.take(narrator.hear(record))
    verifier.take(narrator.close())
    assert verifier.all_is_closed()
    calls = [c.id for m in narrator.messages for c in getattr(m, "tool_calls", None) or ()]
    results = [m.tool_call_id for m in narrator.messages if isinstance(m, ToolMessage)]
    assert len(set(calls)) == len(calls)
    assert len(set(results)) == len(results)
    assert set(results) <= set(calls)


@given(histories(), st.integers(0, 60))
def test_any_history_is_told_legally_wherever_somebody_joins(run: Run, joins: int) -> None:
    tell(run.records, joins)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_golden_journal_is_told_legally(path: Path) -> None:
    records = sorted(read(path), key=lambda record: (record.at, record.journal, record.position))
    for joins in range(len(records)):
        tell(records, joins)


# ── steps and their results ──────────────────────────────────────────────────────────────────


def test_an_effect_is_a_step_and_a_call_with_one_result() -> None:
    told = Told()

    assert told(started("pay")) == [
        "STEP_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
    ]
    assert told(settled(1, result=Raw(b'{"paid":1}'))) == ["TOOL_CALL_RESULT", "STEP_FINISHED"]
    assert told.messages(ToolMessage) == ['{"paid":1}']


def test_steps_of_one_name_at_once_are_told_apart() -> None:
    told = Told()
    told(started("pay", "pay#1"), started("pay", "pay#2"))

    assert told(settled(2), settled(1)).count("STEP_FINISHED") == 2
    assert told.verifier.all_is_closed()


def test_a_second_try_is_a_call_of_its_own() -> None:
    told = Told()
    told(started("pay"), settled(1, Outcome.NOT_DONE), started("pay"), settled(3))

    assert told.messages(ToolMessage) == ["not done", "null"]


def test_what_became_known_later_corrects_the_conversation_and_is_not_told_twice() -> None:
    told = Told()
    told(started("pay"), settled(1, Outcome.UNKNOWN, error="cut off"))
    late = e.LateOutcome(epoch=2, attempt=1, outcome=Outcome.DONE, result=Raw(b'"paid"'))

    assert told(late) == []
    assert told.messages(ToolMessage) == ["paid"]


def test_what_a_lost_worker_tells_is_the_result_of_its_own_call_and_not_of_the_repeat() -> None:
    told = Told()
    told(started("pay"), settled(1, Outcome.UNKNOWN, error="worker lost"), started("pay"))
    told(e.LateOutcome(epoch=1, attempt=1, outcome=Outcome.DONE, result=Raw(b'"paid"')))
    told(settled(3, Outcome.NOT_STARTED))

    assert told.messages(ToolMessage) == ["paid", "not started"]
    assert told.verifier.all_is_closed()


# ── words ────────────────────────────────────────────────────────────────────────────────────


def test_live_words_and_their_records_are_told_once() -> None:
    told = Told()
    told.live("one ", 0)
    told.live("two ", 4)
    told(streamed("one two ", 0))
    told.live("three", 8)
    told(streamed("three", 8))

    assert told.shown == "one two three"


def test_words_said_again_after_an_interruption_are_told_once() -> None:
    told = Told()
    told(streamed("one two ", 0))
    told.live("one ", 0)
    told.live("two three", 4)

    assert told.shown == "one two three"


def test_other_words_after_an_interruption_are_another_message() -> None:
    told = Told()
    told(streamed("one two ", 0))
    told.live("one TWO", 0)

    assert told.shown == "one two |one TWO"
    told.verifier.take(told.narrator.close())
    assert told.verifier.all_is_closed()


def test_words_of_a_step_that_is_done_give_way_to_its_result() -> None:
    told = Told()
    told.live("thinking", 0)
    told(e.StepSettled(epoch=1, step="count", name="Count", result=Raw(b"3")))

    assert told.messages(AssistantMessage) == []
    assert told.live("thinking more", 0) == []  # heard late
    assert told.verifier.all_is_closed()


def test_words_of_a_step_that_was_stopped_stay() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL), streamed("half a thou", 0, attempt=1))
    told(settled(1, Outcome.ABORTED))

    assert told.messages(AssistantMessage) == ["half a thou"]


def test_what_was_streamed_and_is_then_said_is_told_once() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL))
    told.live("Hello there.", 0, attempt=1)
    told(settled(1, said="Hello there."))

    assert told(t.Said(run=RUN, text="Hello there."), journal=THREAD) == []
    assert told.messages(AssistantMessage) == ["Hello there."]
    assert told(t.Said(run=RUN, text="Hello there."), journal=THREAD) != []


def test_words_that_are_said_after_a_crash_are_found_by_comparing_them() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL), settled(1, said="Hello there. "))
    told(t.Said(run=RUN, text="Hello there. [stopped]"), journal=THREAD)

    assert told.messages(AssistantMessage) == ["Hello there. [stopped]"]
    assert list(told.verifier.texts) == ["r-1:count:1:0"]


def test_words_of_a_model_that_nobody_has_heard_live_are_told_at_its_end() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL), streamed("one ", 0, attempt=1))
    told(settled(1, said="one two"))

    assert told.shown == "one two"
    assert told.messages(AssistantMessage) == ["one two"]
    assert told.verifier.all_is_closed()


def test_another_attempt_at_a_step_replaces_the_words_of_the_one_before() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL))
    told.live("half a thou", 0, attempt=1)
    told(settled(1, Outcome.ABORTED), started("Think", "count", Effect.MODEL))

    first_words = told.live("a whole", 0, attempt=3)
    assert first_words == ["MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert told.messages(AssistantMessage) == ["a whole"]


def test_words_before_a_redirect_are_not_replaced() -> None:
    told = Told()
    told(started("Think", "count", Effect.MODEL), streamed("half a thou", 0, attempt=1))
    told(settled(1, Outcome.ABORTED), e.RedirectDelivered(epoch=1, upto=3, brief="b"))
    told(started("Think", "count", Effect.MODEL), settled(5, said="a whole one"))

    assert told.messages(AssistantMessage) == ["half a thou", "a whole one"]


def test_tool_calls_belong_to_the_message_of_the_model_that_was_asked_last() -> None:
    told = Told()
    told(started("first"), started("Think", "think", Effect.MODEL), settled(2, said="I pay."))
    told(started("pay"), settled(4))

    alone, caller = (m for m in told.narrator.messages if isinstance(m, AssistantMessage))
    assert [call.id for call in alone.tool_calls or ()] == [alone.id]
    assert caller.content == "I pay."
    assert [call.function.name for call in caller.tool_calls or ()] == ["pay"]


# ── people ───────────────────────────────────────────────────────────────────────────────────


def test_a_clients_message_keeps_its_id_and_others_get_one_of_ours() -> None:
    told = Told()
    told(t.MessageSent(who=ANN, key="agui:m1", text="tea"), journal=THREAD)
    told(t.MessageSent(who=ANN, text="milk"), journal=THREAD)

    ids = [m.id for m in told.narrator.messages]
    assert ids == ["m1", "t-1:2"]
    assert [is_ours(one) for one in ids] == [False, True]


def test_an_edited_message_is_shown_as_it_is_and_a_withdrawn_one_is_not() -> None:
    told = Told()
    told(t.MessageSent(who=ANN, text="tae"), t.MessageSent(who=ANN, text="no"), journal=THREAD)
    told(t.MessageEdited(who=ANN, message=1, text="tea"), journal=THREAD)
    told(t.MessageWithdrawn(who=ANN, message=2), journal=THREAD)

    assert told.messages(UserMessage) == ["tea"]


def test_the_brief_of_a_run_that_was_begun_elsewhere_is_what_somebody_said() -> None:
    told = Told()
    created = e.RunCreated(who=ANN, agent="a", thread=THREAD, brief="Order tea")
    told(created, journal="r-1")
    told(replace(created, messages=(3,), brief="as was written"), journal="r-2")

    assert told.messages(UserMessage) == ["Order tea"]
    assert is_ours(told.narrator.messages[0].id)
