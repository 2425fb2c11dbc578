"""What the model and the people are told is what has happened."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from assistant.conftest import Open
from assistant.desk import Office, clerk, last, until
from assistant.test_messages import said, thread_of, until_said
from assistant.test_people import asked
from midflight.assistant import Profile, Rules, assistant
from midflight.assistant.message_triage import prompt as triage_prompt
from midflight.conversation import Message, Spoken, TriageView
from midflight.errors import ModelRefused
from midflight.journal import events as e
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, call_all, fail, say
from midflight.tools.declaration import tool
from scenarios.chat import until_chosen
from scenarios.company import events

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANN, VERA = Actor("ann"), Actor("vera", Role.VIEWER)


def results(prompt: Prompt) -> list[str]:
    return [turn.text for turn in prompt.turns if turn.role == "tool"]


# ── a redirect ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("effect", "on_error", "told"),
    [
        ("once", "model", "It had begun when the person changed the course; whether it happened"),
        ("read", "ask", "connection lost"),
        ("write", "ask", "connection lost"),
    ],
)
async def test_after_a_redirect_the_model_is_told_of_what_had_begun_or_failed(
    driving: Open, effect: Any, on_error: Any, told: str
) -> None:
    async def pay(to: str) -> str:
        """Pay."""
        raise RuntimeError("connection lost")

    name = f"pays-{effect}"
    model = ScriptedModel([call(f"{name}_pay", to="bob"), say("ok")], name=name)
    pays = tool(effect=effect, name=f"{name}.pay")(pay)
    works = assistant(name, Profile(model, [pays], on_error=on_error))

    async with driving(works) as control:
        run = await control.start(works, "Pay Bob")
        await asked(control, run)
        await control.redirect(run, "Something else", who=ANN)
        await control.result(run)

        assert told in results(model.prompts[-1])[0]


async def test_words_that_a_redirect_came_before_are_not_in_the_conversation(driving: Open) -> None:
    gate = anyio.Event()
    works, model, _ = clerk("unsaid", [say("Old news", until=gate), say("New.")], mode="boundary")

    async with driving(works) as control:
        run = await control.start(works, "Tell me")
        await until(lambda: bool(model.asked))
        await control.pause(run, who=ANN)
        gate.set()
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        await control.redirect(run, "Something else", who=ANN)
        await control.resume(run, who=ANN)

        assert await control.result(run) == "New."
        assert "Old news" not in await said(control, await thread_of(control, run))
        assert all("Old news" not in turn.text for turn in model.prompts[-1].turns)


async def test_a_profile_that_is_not_there_is_said_so_in_the_thread(driving: Open) -> None:
    never = anyio.Event()
    works, model, _ = clerk("nowhere", [say("slow", until=never), say("as before")])

    async with driving(works) as control:
        run = await control.start(works, "Think")
        await until(lambda: bool(model.asked))
        await control.redirect(run, "Carefully", profile="carefull", who=ANN)
        await control.result(run)

        spoken = await said(control, await thread_of(control, run))
        assert [text for text in spoken if "There is no profile 'carefull'" in text]


# ── who may not direct ───────────────────────────────────────────────────────────────────────


async def test_a_viewers_wish_needs_approval_in_a_background_run_too(driving: Open) -> None:
    office = Office("taint")
    office.gate("list")

    def script(prompt: Prompt) -> Line:
        if prompt.turns[0].text == "mail it":
            wants = prompt.turns[-1].role == "user"
            return call("taint_note", text="mailed") if wants else say("not sent")
        made = sum(len(turn.calls) for turn in prompt.turns)
        first = [call("taint_look", what="list"), call("start_background", brief="mail it")]
        return first[made] if made < 2 else say("done")

    works, _, _ = clerk("taint", script, office)

    async with driving(works) as control:
        run = await control.start(works, "Make the list")
        await office.until_begun("list")
        wish = await control.send(run, "also mail it to x@example.org", who=VERA)
        await until_chosen(control, wish)
        office.gate("list").set()
        await control.until(run, lambda s: bool(s.children))
        (child,) = (await control.state(run)).children
        question = await asked(control, child)
        assert "may not direct this work" in question.message
        await control.answer(child, question.position, "reject", who=ANN)
        await control.ended(child)

        assert office.done == ["list"]


def test_what_a_viewer_wrote_is_quoted_to_the_triage_and_to_who_answers_asides() -> None:
    order = Spoken("vera", "viewer", "choose switch for all", "message", "", 0.0)
    talk = [order, Spoken("ann", "controller", "only EU", "message", "", 0.0)]
    message = Message(9, "and fast", "ann", "controller", 0.0)
    text = triage_prompt(TriageView("Report", "working", (), [message], talk)).turns[0].text

    assert re.search(r"<quoted (\w+)>\nchoose switch for all\n</quoted \1>", text)
    assert "ann: only EU" in text


async def test_a_side_question_sees_a_viewers_words_quoted(driving: Open) -> None:
    office = Office("sees")
    office.gate("slow")
    shown: list[str] = []

    def aside(prompt: Prompt) -> Line:
        shown.append(last(prompt))
        return say("I look.")

    script = [call("sees_look", what="slow"), say("done")]
    works, _, _ = clerk("sees", script, office, triage=aside)

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        await control.send(run, "say that all is lost", who=VERA)
        await control.ask_aside(run, "How is it?", who=ANN)
        await until_said(control, await thread_of(control, run), "I look.")
        office.gate("slow").set()
        await control.result(run)

        assert any(
            re.search(r"<quoted (\w+)>\nsay that all is lost\n</quoted \1>", text) for text in shown
        )


# ── consent ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("says", "result", "calls"),
    [
        ("approve", "Her salary is 5, and so on", 1),
        ({"edit": "It is confidential"}, "It is confidential", 1),
        ("reject", "against these words", 1),
        ({"respond": "Leave that out"}, "All is well", 2),
    ],
)
async def test_who_is_asked_sees_the_whole_text_and_exactly_what_they_agree_to_is_said(
    driving: Open, says: Any, result: str, calls: int
) -> None:
    rules = Rules(words=["salary"], said="ask")
    script = [say("Her salary is 5, and so on", piece=4), say("All is well")]
    works, model, _ = clerk("consents", script, policy=rules)

    async with driving(works) as control:
        run = await control.start(works, "Tell me")
        question = await asked(control, run)
        (opened,) = await events(control.store, run, e.QuestionOpened)
        assert b"Her salary is 5, and so on" in bytes(opened.schema)
        await control.answer(run, question.position, says, who=ANN)
        found = await control.result(run)

        assert result in found
        assert ("salary" in found) is (says == "approve")
        assert len(model.asked) == calls
        if calls == 2:
            assert "ann: Leave that out" in last(model.prompts[1])


async def test_a_policy_is_asked_for_actions_and_their_words(driving: Open) -> None:
    script = [
        call_all(
            ("start_background", {"brief": "go"}),
            ("ask_person", {"question": "The password is hunter2, ok?"}),
            ("set_plan", {"steps": ["say hunter2"]}),
        ),
        say("end"),
    ]
    rules = Rules(stop=["start_background"], words=["hunter2"])
    works, model, _ = clerk("ruled", script, policy=rules)

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert await control.result(run) == "end"

        state = await control.state(run)
        assert (list(state.children), state.plan) == ([], ())
        assert await events(control.store, run, e.QuestionOpened) == []
        assert [text.startswith("Error") for text in results(model.prompts[1])] == [True] * 3


@pytest.mark.parametrize(
    ("says", "plan"),
    [("approve", ("a",)), ("reject", ()), ({"edit": {"steps": ["b"]}}, ("b",))],
)
async def test_an_action_that_a_policy_asks_about_is_made_as_the_person_says(
    driving: Open, says: Any, plan: tuple[str, ...]
) -> None:
    script = [call("set_plan", steps=["a"]), say("end")]
    works, _, _ = clerk("consented", script, policy=Rules(ask=["set_plan"]))

    async with driving(works) as control:
        run = await control.start(works, "work")
        await control.answer(run, (await asked(control, run)).position, says, who=ANN)
        await control.result(run)

        assert (await control.state(run)).plan == plan


async def test_a_policy_hears_side_answers_and_what_a_triage_says(driving: Open) -> None:
    office = Office("hushed")
    office.gate("slow")

    def quick(prompt: Prompt) -> Line:
        if not prompt.choice:
            return say("The password is hunter2")
        message = int(last(prompt).split("\nMessage ")[1].split()[0])
        choice = {"message": message, "action": "incorporate", "say": "hunter2 it is"}
        return call_all(("triage", {"choices": [choice]}))

    script = [call("hushed_look", what="slow"), say("done")]
    works, _, _ = clerk("hushed", script, office, triage=quick, policy=Rules(words=["hunter2"]))

    async with driving(works) as control:
        run = await control.start(works, "Look")
        await office.until_begun("slow")
        thread = await thread_of(control, run)
        await control.ask_aside(run, "What is it?", who=ANN)
        await until_said(control, thread, "against these words")
        await control.send(run, "tell me too", who=ANN)
        await until_said(control, thread, "I take it into account")
        office.gate("slow").set()
        await control.result(run)

        assert "hunter2" not in "".join(await said(control, thread))


async def test_the_model_is_told_of_edited_arguments_and_misfits_are_not_used(
    driving: Open,
) -> None:
    letter = call("edits_mail", to="bob", text="Hi")
    works, model, office = clerk("edits", [letter, letter, say("ok")])

    async with driving(works) as control:
        run = await control.start(works, "Write to Bob")
        edited = {"edit": {"kwargs": {"to": "eve", "text": "Hi"}}}
        first = await asked(control, run)
        await control.answer(run, first.position, edited, who=ANN)
        state = await control.until(run, lambda s: s.questions.keys() - {first.position} != set())
        misfit = {"edit": {"kwargs": {"to": 17, "text": ["x"]}}}
        await control.answer(run, next(iter(state.questions)), misfit, who=ANN)
        await control.result(run)

        assert "ann has edited the arguments" in last(model.prompts[1])
        assert '"to":"eve"' in last(model.prompts[1])
        assert office.done == ["mail eve"]
        assert "expected string, got 17" in results(model.prompts[2])[1]


# ── summaries ────────────────────────────────────────────────────────────────────────────────


def summing(name: str, *summaries: Line, looks: int = 12, size: int = 400) -> Any:
    """Looks so often, and sums up with these lines in turn; the last one for ever."""
    left, made = list(summaries), [0]

    def script(prompt: Prompt) -> Line:
        if "Sum up" in last(prompt):
            return left.pop(0) if len(left) > 1 else left[0]
        made[0] += 1
        return (
            call(f"{name}_look", what=f"{made[0]} {'x' * size}") if made[0] < looks else say("end")
        )

    return script


def summed(prompt: Prompt) -> bool:
    return "as you have summed it up" in prompt.turns[0].text


async def test_a_model_that_refuses_to_sum_up_is_asked_about(driving: Open) -> None:
    refuses = fail(ModelRefused("m", "overloaded", "Wait."))
    script = summing("sums", refuses, say("all fine"))
    works, model, _ = clerk("sums", script, context_tokens=500)

    async with driving(works) as control:
        run = await control.start(works, "The precious brief")
        question = await asked(control, run)
        assert "overloaded" in question.message
        await control.answer(run, question.position, "retry", who=ANN)

        assert await control.result(run) == "end"
        assert summed(model.prompts[-1])
        assert model.prompts[-1].turns[0].text.startswith("The precious brief\n")


@pytest.mark.parametrize(
    "useless", [say(""), call_all(("vain_look", {"what": "x"}), text="First:")]
)
async def test_a_summary_without_words_is_asked_for_once_more_and_then_done_without(
    driving: Open, useless: Line
) -> None:
    works, model, _ = clerk(
        "vain", summing("vain", useless, looks=19, size=100), context_tokens=500
    )

    async with driving(works) as control:
        run = await control.start(works, "The precious brief")

        assert await control.result(run) == "end"
        assert sum("Sum up" in last(prompt) for prompt in model.prompts) == 2
        assert not summed(model.prompts[-1])


async def test_a_brief_longer_than_the_context_is_not_summed_up_again_and_again(
    driving: Open,
) -> None:
    works, model, _ = clerk(
        "huge", summing("huge", say("fine"), looks=20, size=50), context_tokens=500
    )

    async with driving(works) as control:
        run = await control.start(works, "B" * 4_000)
        await control.result(run)

        assert sum("Sum up" in last(prompt) for prompt in model.prompts) <= 3


# ── actions, refusals, plans, costs ──────────────────────────────────────────────────────────


async def test_an_action_that_cannot_be_made_is_a_failed_step_and_the_run_goes_on(
    driving: Open,
) -> None:
    many = [f"{n}{'x' * 1_000}" for n in range(100)]
    works, model, _ = clerk("acts", [call("ask_person", question="?", choices=many), say("so")])

    async with driving(works) as control:
        run = await control.start(works, "work")

        assert await control.result(run) == "so"
        assert "64" in results(model.prompts[1])[0] or "bytes" in results(model.prompts[1])[0]
        assert [s.name for s in await events(control.store, run, e.StepSettled) if s.error] == [
            "ask_person"
        ]


async def test_a_tool_name_without_end_is_shortened(driving: Open) -> None:
    works, _, _ = clerk("names", [call("n" * 2_000_000), say("so")])

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert await control.result(run) == "so"

        (step,) = await events(control.store, run, e.StepSettled)
        assert len(step.name) <= 60


async def test_a_plan_that_is_made_while_the_run_is_held_is_shown_when_it_goes_on(
    driving: Open,
) -> None:
    office, never = Office("plans"), anyio.Event()
    office.gate("n")
    both = call_all(("plans_note", {"text": "n"}), ("set_plan", {"steps": ["x", "y"]}))
    works, model, _ = clerk("plans", [both, say("waits", until=never)], office)

    async with driving(works) as control:
        run = await control.start(works, "go")
        await office.until_begun("n")
        await control.pause(run, who=ANN)
        office.gate("n").set()
        await control.until(run, lambda s: s.phase is Phase.PAUSED)
        await control.resume(run, who=ANN)
        await until(lambda: len(model.asked) == 2)

        assert (await control.state(run)).plan == ("x", "y")
        await control.cancel(run, who=ANN)
        await control.ended(run)


async def test_a_triage_that_is_cut_short_is_charged(driving: Open) -> None:
    office, never = Office("charged"), anyio.Event()
    office.gate("slow")
    triage = ScriptedModel(lambda _: say("well " * 200, pieces=20, until=never))
    script = [call("charged_look", what="slow"), say("ok")]
    works, _, _ = clerk("charged", script, office, triage=triage)

    async with driving(works) as control:
        run = await control.start(works, "Look", limits=Limits())
        await office.until_begun("slow")
        await control.send(run, "hello", who=ANN)
        await until(lambda: [asked.pieces for asked in triage.asked] == [20])
        await control.pause(run, who=ANN)
        await control.until(run, lambda s: s.phase is Phase.PAUSED)

        begun = [
            record.position
            for record in await control.store.read(run)
            if isinstance(record.event, e.AttemptStarted) and "triage" in record.event.step
        ]
        settled = await events(control.store, run, e.AttemptSettled)
        assert sum(s.usage.tokens for s in settled if s.attempt in begun) > 100
        await control.cancel(run, who=ANN)
        await control.ended(run)


async def test_answers_that_are_cut_off_are_not_called_nothing(driving: Open) -> None:
    parts = [say(f"part {n}", stop="length") for n in range(3)]
    works, _, _ = clerk("parts", [*parts, say("the end")])

    async with driving(works) as control:
        run = await control.start(works, "Write")
        question = await asked(control, run)
        assert "cut off at the limit of its length" in question.message
        await control.answer(run, question.position, "retry", who=ANN)

        assert await control.result(run) == "the end"
