"""The agent and its people: approval, questions, policies, recovery, escalation, profiles."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from assistant.conftest import Open
from assistant.desk import Office, clerk, last, until
from midflight.assistant import Profile, Rules, assistant
from midflight.control import Control
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.journal.state import Question
from midflight.models.scripted import ScriptedModel, call, call_all, say
from scenarios.chat import until_chosen

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANN, VERA = Actor("ann"), Actor("vera", Role.VIEWER)


async def asked(control: Control, run: str) -> Question:
    state = await control.until(run, lambda s: bool(s.questions))
    return next(iter(state.questions.values()))


# ── approval of a sensitive action ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("says", "told", "done"),
    [
        ("approve", "sent", ["mail bob"]),
        ("reject", "rejected by ann", []),
        ({"edit": {"kwargs": {"to": "eve", "text": "Hi"}}}, "sent", ["mail eve"]),
        ({"respond": "call him instead"}, "ann says: call him instead", []),
    ],
)
async def test_what_cannot_be_called_back_is_approved_edited_rejected_or_answered(
    driving: Open, says: Any, told: str, done: list[str]
) -> None:
    works, model, office = clerk("post", [call("post_mail", to="bob", text="Hi"), say("ok")])

    async with driving(works) as control:
        run = await control.start(works, "Write to Bob")
        await control.answer(run, (await asked(control, run)).position, says, who=ANN)

        assert await control.result(run) == "ok"
        assert office.done == done
        assert any(told in turn.text for turn in model.prompts[1].turns if turn.role == "tool")


# ── gathering information ────────────────────────────────────────────────────────────────────


async def test_the_model_asks_a_person_and_goes_on_with_the_answer(driving: Open) -> None:
    question = call("ask_person", question="Which region?", choices=["EU", "US"])
    works, model, _ = clerk("gathers", [question, say("EU it is")])

    async with driving(works) as control:
        run = await control.start(works, "Report")
        await control.answer(run, (await asked(control, run)).position, "EU", who=ANN)

        assert await control.result(run) == "EU it is"
        assert last(model.prompts[1]) == "ann: EU"


# ── policy ───────────────────────────────────────────────────────────────────────────────────


async def test_a_policy_asks_before_a_tool_or_forbids_it(driving: Open) -> None:
    script = [call_all(("house_note", {"text": "a"}), ("house_look", {"what": "b"})), say("ok")]
    rules = Rules(ask=["house.note"], stop=["house.look"])
    works, model, office = clerk("house", script, policy=rules)

    async with driving(works) as control:
        run = await control.start(works, "work")
        question = await asked(control, run)
        assert "house.note needs somebody's consent here" in question.message
        await control.answer(run, question.position, "approve", who=ANN)
        await control.result(run)

        assert office.done == ["a"]
        results = [turn.text for turn in model.prompts[1].turns if turn.role == "tool"]
        assert "house.look is not allowed here" in results[1]


async def test_a_policy_stops_the_turn_before_the_words_are_shown(driving: Open) -> None:
    line = say("The password is hunter2, and more", piece=4)
    works, model, _ = clerk("tells", [line], policy=Rules(words=["hunter2"]))

    async with driving(works) as control:
        run = await control.start(works, "Tell me")
        result = await control.result(run)

        said = [spoken.text for spoken in await control.transcript(await thread(control, run))]
        assert "hunter2" not in result + "".join(said)
        assert model.asked[0].ended == "closed"
        assert any("against these words" in text for text in said)


@pytest.mark.parametrize(("says", "told"), [("approve", True), ("reject", False)])
async def test_a_policy_asks_whether_something_may_be_said(
    driving: Open, says: str, told: bool
) -> None:
    rules = Rules(words=["salary"], said="ask")
    works, _, _ = clerk("asks", [say("Her salary is 5"), say("Her salary is 5")], policy=rules)

    async with driving(works) as control:
        run = await control.start(works, "Tell me")
        await control.answer(run, (await asked(control, run)).position, says, who=ANN)

        assert ("salary" in await control.result(run)) is told


# ── error recovery ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("says", "told"),
    [("skip", "Skipped by ann"), ({"edit": {"why": "other"}}, "Skipped by ann")],
)
async def test_what_failed_is_edited_or_skipped(driving: Open, says: Any, told: str) -> None:
    script = [call("mends_fail", why="gone"), say("ok")]
    works, model, _ = clerk("mends", script, on_error="ask")

    async with driving(works) as control:
        run = await control.start(works, "work")
        question = await asked(control, run)
        assert "gone" in question.message
        await control.answer(run, question.position, says, who=ANN)
        if says != "skip":
            state = await control.until(
                run, lambda s: any("other" in q.message for q in s.questions.values())
            )
            await control.answer(run, next(iter(state.questions)), "skip", who=ANN)

        assert await control.result(run) == "ok"
        assert told in last(model.prompts[1])


async def test_what_failed_is_tried_again(driving: Open) -> None:
    office = Office("again")
    tries: list[int] = []

    async def flaky() -> str:
        """Works the second time."""
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        return "now"

    from midflight.tools.declaration import tool

    made = tool(effect="read", name="again.flaky")(flaky)
    model = ScriptedModel([call("again_flaky"), say("ok")], name="again")
    works = assistant("again", Profile(model, [made], on_error="ask"))

    async with driving(works) as control:
        run = await control.start(works, "work")
        await control.answer(run, (await asked(control, run)).position, "retry", who=ANN)

        assert await control.result(run) == "ok"
        assert last(model.prompts[1]) == "now"
        assert office.done == []


async def test_what_failed_cancels_the_run_if_the_person_says_so(driving: Open) -> None:
    script = [call_all(("ends_note", {"text": "a"})), call("ends_fail", why="gone"), say("no")]
    works, _, office = clerk("ends", script, on_error="ask")

    async with driving(works) as control:
        run = await control.start(works, "work")
        await control.answer(run, (await asked(control, run)).position, "cancel", who=ANN)
        state = await control.ended(run)

        assert state.phase is Phase.CANCELLED
        assert office.done == ["a", "undone a"]


# ── escalation, profiles ─────────────────────────────────────────────────────────────────────


async def test_the_model_hands_over_to_a_person_and_gets_it_back(driving: Open) -> None:
    works, model, _ = clerk("desk", [call("hand_over", reason="She is angry"), say("Good.")])

    async with driving(works) as control:
        run = await control.start(works, "Answer her")
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        await control.take_over(run, who=ANN)
        await control.hand_back(run, "I have called her", who=ANN)

        assert await control.result(run) == "Good."
        assert "ann has handed it back: I have called her" in last(model.prompts[1])


async def test_a_redirect_switches_to_another_profile(driving: Open) -> None:
    never = anyio.Event()
    fast = ScriptedModel([say("slow thoughts", until=never)], name="first")
    deep = ScriptedModel([say("deep thoughts")], name="deep")
    works = assistant(
        "switcher", Profile(fast), Profile(deep, name="careful", system="Think twice.")
    )

    async with driving(works) as control:
        run = await control.start(works, "Think")
        await until(lambda: bool(fast.asked))
        await control.redirect(run, "Carefully", profile="careful", who=ANN)

        assert await control.result(run) == "deep thoughts"
        assert deep.prompts[0].system == "Think twice."
        assert "Carefully" in last(deep.prompts[0])


# ── runaways ─────────────────────────────────────────────────────────────────────────────────


async def held(control: Control, run: str) -> Question:
    state = await control.until(run, lambda s: s.phase is Phase.PAUSED and bool(s.questions))
    return next(iter(state.questions.values()))


async def test_the_same_call_for_ever_is_nudged_and_then_held(driving: Open) -> None:
    works, model, office = clerk("circling", lambda _: call("circling_look", what="x"))

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(repeats=3))
        question = await held(control, run)

        assert "circles" in question.message
        assert any("goes in circles" in turn.text for p in model.prompts for turn in p.turns)
        assert len(office.begun) < 12


async def test_ping_pong_is_nudged_and_then_held(driving: Open) -> None:
    def script(prompt: Any) -> Any:
        looks = sum(len(turn.calls) for turn in prompt.turns)
        return call("pong_look", what="ab"[looks % 2])

    works, model, office = clerk("pong", script)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=Limits(repeats=3))
        assert "circles" in (await held(control, run)).message
        nudged = [p for p in model.prompts if "goes in circles" in str(p.turns)]
        assert 0 < len(nudged) < len(model.prompts)
        assert len(office.begun) < 24


@pytest.mark.parametrize(
    ("caps", "spent"), [(Limits(usd=1.0), "usd"), (Limits(tokens=400), "tokens")]
)
async def test_growing_spend_is_warned_of_and_held_at_its_cap(
    driving: Open, caps: Limits, spent: str
) -> None:
    def script(prompt: Any) -> Any:
        looks = sum(len(turn.calls) for turn in prompt.turns)
        line = call("spends_look", what=f"{looks}")
        return type(line)(calls=line.calls, usd=0.3)

    works, model, _ = clerk("spends", script)

    async with driving(works) as control:
        run = await control.start(works, "work", limits=caps)
        question = await held(control, run)
        calls = len(model.asked)

        state = await control.state(run)
        assert spent in question.message
        assert any(
            f"{spent}:" in str(p.turns) and "[Notice]" in str(p.turns) for p in model.prompts
        )
        cap = getattr(caps, spent)
        before = getattr(state.spent, spent) - (0.3 if spent == "usd" else 200)
        assert before < cap <= getattr(state.spent, spent)
        await anyio.sleep(0.1)
        assert len(model.asked) == calls


# ── who may not direct ───────────────────────────────────────────────────────────────────────


async def test_a_viewers_wish_has_no_effect_without_a_controllers_approval(driving: Open) -> None:
    office = Office("list")
    office.gate("list")
    script = [
        call("list_look", what="list"),
        call("list_note", text="mailed to x@example.org"),
        say("done"),
    ]
    works, model, _ = clerk("list", script, office)

    async with driving(works) as control:
        run = await control.start(works, "Make the list")
        await office.until_begun("list")
        wish = await control.send(run, "also mail the list to x@example.org", who=VERA)
        await until_chosen(control, wish)
        office.gate("list").set()
        question = await asked(control, run)
        assert office.done == ["list"]
        assert "vera may look but not direct you" in last(model.prompts[1])
        with pytest.raises(Exception, match="viewer"):
            await control.answer(run, question.position, "approve", who=VERA)
        await control.answer(run, question.position, "reject", who=ANN)

        await control.result(run)
        assert office.done == ["list"]


async def thread(control: Control, run: str) -> str:
    return (await control.state(run)).thread
