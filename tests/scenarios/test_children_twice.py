"""A background run that was begun before is not begun again without a question about what it did.

The code may have changed, the brief may have, or the run may be a fork.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.state import Question, RunState
from midflight.run import Run
from scenarios.conftest import Live, Open
from scenarios.rests import asked, events_of, times_asked
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

Brief = Callable[[Run], str]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.05)


class Office:
    """A clerk that has its mail sent by a background run, and rests before its end."""

    def __init__(self, name: str, **declared: Any) -> None:
        self.stage = stage = Stage(name)
        self.send, self.look = stage.writer(describe="", **declared), stage.reader()
        send, look = self.send, self.look

        @agent(f"{name}-sender")
        async def sender(run: Run) -> object:
            sent = await run.step("Send", send, "mail")
            await run.step("Wait", look, "sender")
            return [run.brief, sent]

        self.sender = sender

    def clerk(self, brief: Brief = lambda _: "spring") -> Agent:
        async def clerk(run: Run) -> object:
            child = await run.spawn(self.sender, brief(run))
            result = await child.result()
            return [result, await run.step("Read", self.look, "end")]

        return Agent(f"{self.stage.name}-clerk", clerk)

    def silent(self) -> Agent:
        """A version that spawns nothing and sends the mail itself."""

        async def clerk(run: Run) -> object:
            return await run.step("Mail", self.send, "mail")

        return Agent(f"{self.stage.name}-clerk", clerk)

    @property
    def sent(self) -> list[str]:
        return [what for what in self.stage.done if what.endswith("mail")]

    async def before(self, crashing: Open) -> str:
        """The first version has its mail sent, and dies while it reads."""
        self.stage.gate("end")
        clerk = self.clerk()
        async with crashing(clerk, self.sender) as control:
            run = await control.start(clerk, "work")
            await self.stage.until_begun("end")
        self.stage.gate("end").set()
        return run


async def place_of_spawn(control: Control, run: str) -> int:
    records = await control.store.read(run)
    return next(r.position for r in records if isinstance(r.event, e.ChildSpawned))


async def question_of(control: Control, run: str, kind: str, after: int = 0) -> Question:
    question = await asked(control, run, after=after)
    assert question.kind == kind, question.message
    return question


async def choices_of(control: Control, run: str, question: Question) -> Any:
    records = await control.store.read(run, after=question.position - 1, limit=1)
    assert isinstance(records[0].event, e.QuestionOpened)
    return msgspec.json.decode(records[0].event.schema)


async def stale_question(control: Control, run: str) -> Question:
    def held(state: RunState) -> bool:
        return Cause.STALE in state.holds and state.phase is Phase.PAUSED

    with anyio.fail_after(5):
        state = await control.until(run, held)
    (question,) = state.questions.values()
    return question


# ── a fork ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("choice", "sent"), [("take over", ["mail"]), ("repeat", ["mail", "mail"])]
)
async def test_a_fork_asks_before_it_begins_a_background_run_again(
    driving: Open, choice: str, sent: list[str]
) -> None:
    office = Office(f"respawn-fork-{choice}", undo=None)
    clerk = office.clerk()
    async with driving(clerk, office.sender) as control:
        run = await control.start(clerk, "work")
        first = await control.result(run)
        fork = await control.fork(run, await place_of_spawn(control, run))
        question = await question_of(control, fork, "repeat")
        assert question.message == (
            f"background run: spring was begun already, by run {run}, and did: thing mail. "
            "Another one may do that again. Begin another one?"
        )
        schema = await choices_of(control, fork, question)
        assert schema["enum"] == ["take over", "repeat", "take over all", "repeat all", "cancel"]
        assert office.sent == ["mail"]
        await control.answer(fork, question.position, choice)
        assert await control.result(fork) == first
        assert office.sent == sent
        again = choice == "repeat"
        assert len(await events_of(control, fork, e.ChildSpawned)) == again
        assert (await control.receipt(fork)).inherited == ("background run: spring",) * (not again)
        assert len((await control.receipt(fork)).lines) == again


@pytest.mark.parametrize("says", ["undo", "keep"])
async def test_a_fork_offers_to_undo_what_the_background_run_did(driving: Open, says: str) -> None:
    office = Office(f"respawn-fork-{says}")
    clerk = office.clerk()
    async with driving(clerk, office.sender) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        fork = await control.fork(run, await place_of_spawn(control, run))
        first = await question_of(control, fork, "inherited")
        assert "went on and did: background run: spring (thing mail). Undo it or keep it?" in (
            first.message
        )
        await control.answer(fork, first.position, says)
        if says == "keep":
            question = await question_of(control, fork, "repeat", after=first.position)
            await control.answer(fork, question.position, "take over")
        await control.result(fork)
        assert office.sent == (["mail"] if says == "keep" else ["mail", "undone mail", "mail"])
        assert await times_asked(control, fork, "repeat") == (says == "keep")


async def test_a_fork_names_what_was_done_below_the_background_run(driving: Open) -> None:
    office = Office("respawn-deep", undo=None)

    @agent("respawn-deep-middle")
    async def middle(run: Run) -> object:
        return await (await run.spawn(office.sender, run.brief)).result()

    @agent("respawn-deep-top")
    async def top(run: Run) -> object:
        return await (await run.spawn(middle, "delegate")).result()

    async with driving(top, middle, office.sender) as control:
        run = await control.start(top, "work")
        await control.result(run)
        fork = await control.fork(run, await place_of_spawn(control, run))
        question = await question_of(control, fork, "repeat")
        assert "and did: thing mail." in question.message
        await control.answer(fork, question.position, "cancel")
        assert (await control.ended(fork)).phase is Phase.CANCELLED
    assert office.sent == ["mail"]


async def test_a_background_run_that_only_read_is_begun_again_without_a_question(
    driving: Open,
) -> None:
    stage = Stage("respawn-reads")
    look = stage.reader()

    @agent("respawn-reads-leaf")
    async def leaf(run: Run) -> object:
        return await run.step("Read", look, "page")

    @agent("respawn-reads-clerk")
    async def clerk(run: Run) -> object:
        return await (await run.spawn(leaf, "read")).result()

    async with driving(clerk, leaf) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        fork = await control.fork(run, await place_of_spawn(control, run))
        assert await control.result(fork) == "PAGE"
        assert await events_of(control, fork, e.QuestionOpened) == []


async def test_a_fork_waits_for_a_background_run_at_work_that_it_takes_over(driving: Open) -> None:
    office = Office("respawn-alive", undo=None)
    office.stage.gate("sender")
    first = [True]

    @agent("respawn-alive-clerk")
    async def clerk(run: Run) -> object:
        child = await run.spawn(office.sender, "spring")
        if first:
            first.clear()
            return "left it"
        return await child.result()

    async with driving(clerk, office.sender) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        await office.stage.until_begun("sender")
        fork = await control.fork(run, await place_of_spawn(control, run))
        question = await question_of(control, fork, "repeat")
        assert "and did: thing mail. It is still at work." in question.message
        await control.answer(fork, question.position, "take over")
        office.stage.gate("sender").set()
        assert await control.result(fork) == ["spring", "made mail"]
    assert office.sent == ["mail"]


# ── other code ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("choice", ["take over", "repeat", "undo", "cancel"])
async def test_a_background_run_with_another_brief_is_asked_about(
    driving: Open, crashing: Open, choice: str
) -> None:
    office = Office(f"respawn-code-{choice}")
    run = await office.before(crashing)
    async with driving(office.clerk(lambda _: "autumn"), office.sender) as control:
        stale = await stale_question(control, run)
        assert "Already done: thing mail (background run: spring)" in stale.message
        await control.answer(run, stale.position, "go on")
        question = await question_of(control, run, "repeat", after=stale.position)
        assert question.message == (
            "background run: spring was begun before and did: thing mail. "
            "Another one with another brief or input may do that again. "
            "Begin another one: background run: autumn?"
        )
        schema = await choices_of(control, run, question)
        assert schema["enum"] == ["take over", "repeat", "undo", "cancel"]
        await control.answer(run, question.position, choice)
        if choice == "cancel":
            assert (await control.ended(run)).phase is Phase.CANCELLED
            assert office.sent == ["mail", "undone mail"]
            return
        brief = "spring" if choice == "take over" else "autumn"
        assert await control.result(run) == [[brief, "made mail"], "END"]
        done = {"take over": ["mail"], "repeat": ["mail"] * 2}
        assert office.sent == done.get(choice, ["mail", "undone mail", "mail"])
        words = [line.word for line in (await control.receipt(run)).lines]
        assert words == ["kept", *{"repeat": ["kept"], "undo": ["undone"]}.get(choice, [])]


async def test_code_that_does_itself_what_a_background_run_did_asks_before(
    driving: Open, crashing: Open
) -> None:
    office = Office("respawn-inline")
    run = await office.before(crashing)
    async with driving(office.silent(), office.sender) as control:
        stale = await stale_question(control, run)
        assert "is about to do thing mail (background run: spring) again" in stale.message
        await control.answer(run, stale.position, "go on")
        question = await question_of(control, run, "repeat", after=stale.position)
        assert "thing mail (background run: spring) was done already" in question.message
        await control.answer(run, question.position, "take over")
        assert await control.result(run) == "made mail"
    assert office.sent == ["mail"]


async def test_the_same_background_run_under_a_key_is_taken_over_by_the_answer_about_the_code(
    driving: Open, crashing: Open
) -> None:
    office = Office("respawn-key")
    run = await office.before(crashing)

    async def keyed(run: Run) -> object:
        return await (await run.spawn(office.sender, "spring", key="mine")).result()

    async with driving(Agent("respawn-key-clerk", keyed), office.sender) as control:
        stale = await stale_question(control, run)
        await control.answer(run, stale.position, "take over")
        assert await control.result(run) == ["spring", "made mail"]
        assert await times_asked(control, run, "repeat") == 0
    assert office.sent == ["mail"]


@pytest.mark.slow
async def test_a_crash_at_any_moment_after_the_answer_sends_nothing_twice(
    driving: Open, living: Live, crashing: Open
) -> None:
    for after in range(60):
        office = Office("respawn-crash")
        run = await office.before(crashing)
        new = office.clerk(lambda _: "autumn")
        async with living(new, office.sender) as life:
            stale = await stale_question(life.control, run)
            await life.control.answer(run, stale.position, "go on")
            question = await question_of(life.control, run, "repeat", after=stale.position)
            await life.control.answer(run, question.position, "take over")
            life.cord.pull(after)
            died = await life.is_cut_short(run)
        async with driving(new, office.sender) as control:
            with anyio.fail_after(10):
                state = await control.until(run, lambda s: not s.alive or bool(s.questions))
            assert state.phase is Phase.DONE, state.questions
            assert await times_asked(control, run, "repeat") == 1
        assert office.sent == ["mail"]
        if not died:
            return
    raise AssertionError("it never outlived the story")


# ── another brief ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("choice", "sent"), [("take over", 1), ("repeat", 2)])
async def test_after_a_redirect_the_background_run_of_the_earlier_brief_is_asked_about(
    driving: Open, choice: str, sent: int
) -> None:
    office = Office(f"respawn-redirect-{choice}")
    office.stage.gate("end")
    clerk = office.clerk(lambda run: run.brief)
    async with driving(clerk, office.sender) as control:
        run = await control.start(clerk, "spring")
        await office.stage.until_begun("end")
        await control.redirect(run, "autumn")
        question = await question_of(control, run, "repeat")
        assert "Begin another one: background run: autumn?" in question.message
        office.stage.gate("end").set()
        await control.answer(run, question.position, choice)
        brief = "spring" if choice == "take over" else "autumn"
        assert await control.result(run) == [[brief, "made mail"], "END"]
    assert office.sent.count("mail") == sent
