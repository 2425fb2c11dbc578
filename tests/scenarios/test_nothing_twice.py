"""The code has changed, or the run is a fork: nothing is done again without a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.state import Question, RunState
from midflight.run import Run, Step
from midflight.tools.declaration import tool
from midflight.tools.options import EffectName, EffectRecord
from midflight.tools.secret import Secret
from midflight.view import RunBook
from midflight.view.data import StepSheet
from scenarios.conftest import Live, Open
from scenarios.rests import asked, events_of, times_asked
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio

PEOPLE = ["ada", "bob", "cleo"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.driver.REPLAY_S", 0.05)


class Post:
    """A mail room: an agent that mails three people, and a version with another name for that."""

    def __init__(self, name: str, effect: EffectName = "once") -> None:
        self.stage = Stage(name)
        self.mail = self.stage.writer(effect=effect, describe="")
        self.look = self.stage.reader()
        self.stage.gate("end")

    def version(self, body: Callable[[Post, Run], Awaitable[object]]) -> Agent:
        async def clerk(run: Run) -> object:
            return await body(self, run)

        return Agent("clerk", clerk)

    @property
    def sent(self) -> list[str]:
        return [what for what in self.stage.done if what != "end"]

    async def before(self, crashing: Open, body: Any = None) -> str:
        """The first version sends its mails, and dies while it reads."""
        async with crashing(self.version(body or mailing)) as control:
            run = await control.start("clerk", "work")
            await self.stage.until_begun("end")
        self.stage.gate("end").set()
        return str(run)


async def mailing(post: Post, run: Run) -> list[object]:
    sent = [await run.step("Mail", post.mail, to) for to in PEOPLE]
    return [*sent, await run.step("Read", post.look, "end")]


async def renamed(post: Post, run: Run) -> list[object]:
    return [await run.step("Send mail", post.mail, to) for to in PEOPLE]


def held(state: RunState) -> bool:
    return Cause.STALE in state.holds and state.phase is Phase.PAUSED


async def schema_of(control: Control, run: str, question: int) -> Any:
    records = await control.store.read(run)
    return msgspec.json.decode(next(r.event.schema for r in records if r.position == question))


async def steps_of(control: Control, run: str) -> list[StepSheet]:
    book = RunBook(run)
    for record in await control.store.read(run):
        book.take(record)
    return book.sheet().steps


async def stale_question(control: Control, run: str) -> Question:
    with anyio.fail_after(5):
        state = await control.until(run, held)
    (question,) = state.questions.values()
    return question


async def repeat_question(control: Control, run: str, after: int = 0) -> Question:
    question = await asked(control, run, after=after)
    assert question.kind == "repeat"
    return question


# ── another name for the same step ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect", ["once", "write"])
async def test_a_renamed_step_asks_before_it_does_again_what_is_on_record(
    driving: Open, crashing: Open, effect: EffectName
) -> None:
    post = Post(f"twice-renamed-{effect}", effect)
    run = await post.before(crashing)

    async with driving(post.version(renamed)) as control:
        question = await stale_question(control, run)
        assert question.message == (
            "The agent's code has changed: expected Mail, Mail, Mail, found Send mail. "
            "Already done: thing ada, thing bob, thing cleo. The new code is about to do thing ada "
            "again and may repeat the others. What now?"
        )
        await control.answer(run, question.position, "go on")
        last = 0
        for to in PEOPLE:
            question = await repeat_question(control, run, after=last)
            assert f"thing {to} was done already, by step Mail" in question.message
            assert post.sent == PEOPLE
            asking = [step for step in await steps_of(control, run) if step.status == "waiting"]
            assert [(step.name, step.question) for step in asking] == [
                ("Send mail", question.position)
            ]
            await control.answer(run, question.position, "take over")
            last = question.position
        assert await control.result(run) == [f"made {to}" for to in PEOPLE]
        assert post.sent == PEOPLE
        lines = [line.text for line in (await control.receipt(run)).lines]
        assert lines == [f"thing {to}: kept" for to in reversed(PEOPLE)]
        steps = await steps_of(control, run)
        assert [(step.name, step.status) for step in steps] == [("Send mail", "done")] * 3


async def test_one_answer_takes_all_of_it_over(driving: Open, crashing: Open) -> None:
    post = Post("twice-all")
    run = await post.before(crashing)

    async with driving(post.version(renamed)) as control:
        question = await stale_question(control, run)
        schema = await schema_of(control, run, question.position)
        assert list(schema["enum"]) == ["take over", "go on", "fork", "cancel"]
        assert schema["x-details"] == {
            "about to be done again": "thing ada",
            "done earlier, and not yet reached by the new code": "thing bob, thing cleo",
        }
        await control.answer(run, question.position, "take over")
        assert await control.result(run) == [f"made {to}" for to in PEOPLE]
        assert await times_asked(control, run, "repeat") == 0
    assert post.sent == PEOPLE


async def test_a_list_that_is_cut_says_how_many_more_there_are(
    driving: Open, crashing: Open
) -> None:
    post = Post("twice-many")
    everybody = [f"person {number}" for number in range(8)]

    async def many(post: Post, run: Run) -> list[object]:
        sent = [await run.step("Mail", post.mail, to) for to in everybody]
        return [*sent, await run.step("Read", post.look, "end")]

    async def many_renamed(post: Post, run: Run) -> list[object]:
        return [await run.step("Send mail", post.mail, to) for to in everybody]

    run = await post.before(crashing, many)
    async with driving(post.version(many_renamed)) as control:
        question = await stale_question(control, run)
        assert "expected Mail, Mail, Mail and 5 more, found Send mail." in question.message
        six = ", ".join(f"thing person {number}" for number in range(6))
        assert f"Already done: {six} and 2 more. The new code is" in question.message
        schema = await schema_of(control, run, question.position)
        rest = ", ".join(f"thing {to}" for to in everybody[1:])
        assert rest in schema["x-details"].values()  # the details name all of them


async def test_a_step_with_another_key_is_not_said_to_have_other_arguments(
    driving: Open, crashing: Open
) -> None:
    post = Post("twice-key")

    async def keyed(post: Post, run: Run) -> object:
        await run.step(Step("Mail", key="first"), post.mail, "ada")
        return await run.step("Read", post.look, "end")

    async def keyed_anew(post: Post, run: Run) -> object:
        return await run.step(Step("Mail", key="second"), post.mail, "ada")

    run = await post.before(crashing, keyed)
    async with driving(post.version(keyed_anew)) as control:
        question = await stale_question(control, run)
        assert question.message.startswith("Step Mail has another key than before. A value that")
        assert "is about to do thing ada again. What now?" in question.message


async def test_repeat_does_it_again_and_cancel_ends_the_run(driving: Open, crashing: Open) -> None:
    post = Post("twice-repeat")
    run = await post.before(crashing)

    async with driving(post.version(renamed)) as control:
        await control.answer(run, (await stale_question(control, run)).position, "go on")
        first = await repeat_question(control, run)
        await control.answer(run, first.position, "repeat")
        second = await repeat_question(control, run, after=first.position)
        assert post.sent == [*PEOPLE, "ada"]
        await control.answer(run, second.position, "cancel")
        assert (await control.ended(run)).phase is Phase.CANCELLED
    assert sorted(post.sent) == sorted([*PEOPLE, "ada", *(f"undone {x}" for x in [*PEOPLE, "ada"])])


async def test_all_in_the_question_about_one_counts_for_the_others(
    driving: Open, crashing: Open
) -> None:
    for choice, twice in (("take over all", []), ("repeat all", PEOPLE)):
        post = Post(f"twice-{choice}")
        run = await post.before(crashing)
        async with driving(post.version(renamed)) as control:
            await control.answer(run, (await stale_question(control, run)).position, "go on")
            await control.answer(run, (await repeat_question(control, run)).position, choice)
            assert await control.result(run) == [f"made {to}" for to in PEOPLE]
            assert await times_asked(control, run, "repeat") == 1
        assert post.sent == [*PEOPLE, *twice]


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["take over", "go on"])
async def test_a_crash_at_any_moment_after_the_answer_does_nothing_twice(
    driving: Open, living: Live, crashing: Open, choice: str
) -> None:
    for after in range(50):
        post = Post("twice-crash")
        run = await post.before(crashing)
        new = post.version(renamed)
        async with living(new) as life:
            question = await stale_question(life.control, run)
            await life.control.answer(run, question.position, choice)
            if choice == "go on":
                one = await repeat_question(life.control, run)
                await life.control.answer(run, one.position, "take over all")
            life.cord.pull(after)
            died = await life.is_cut_short(run)
        async with driving(new) as control:
            with anyio.fail_after(5):
                assert await control.result(run) == [f"made {to}" for to in PEOPLE]
            assert await times_asked(control, run, "repeat") == (choice == "go on")
        assert post.sent == PEOPLE
        if not died:
            return
    raise AssertionError("it never outlived the story")


async def test_what_may_have_happened_is_asked_about_by_itself(
    driving: Open, crashing: Open
) -> None:
    post = Post("twice-doubt")
    post.stage.gate("bob")
    async with crashing(post.version(mailing)) as control:
        run = await control.start("clerk", "work")
        await post.stage.until_begun("bob")
    post.stage.gate("bob").set()

    async with driving(post.version(renamed)) as control:
        stale = await stale_question(control, run)
        assert "Already done: thing ada. It is not known whether this happened: thing bob" in (
            stale.message
        )
        await control.answer(run, stale.position, "take over")
        question = await repeat_question(control, run)
        assert "It is not known whether this happened: thing bob" in question.message
        await control.answer(run, question.position, "take over")
        assert await control.result(run) == ["made ada", None, "made cleo"]
        assert post.sent == ["ada", "cleo"]
        words = {line.noun: line.word for line in (await control.receipt(run)).lines}
        assert words["thing bob"] == "kept"


async def test_a_step_that_is_really_new_is_just_done(driving: Open, crashing: Open) -> None:
    post = Post("twice-new")
    run = await post.before(crashing)

    async def more(post: Post, run: Run) -> list[object]:
        sent = [await run.step("Mail", post.mail, to) for to in PEOPLE]
        again = await run.step("Mail", post.mail, "ada")  # the code wants it twice
        return [*sent, again, await run.step("Read", post.look, "end")]

    async with driving(post.version(more)) as control:
        assert len(await control.result(run)) == 5
        assert await events_of(control, run, e.QuestionOpened) == []
    assert post.sent == [*PEOPLE, "ada"]


async def test_a_step_of_the_same_name_with_other_arguments_is_asked_about_too(
    driving: Open, crashing: Open
) -> None:
    post = Post("twice-other")
    run = await post.before(crashing)

    async def changed(post: Post, run: Run) -> list[object]:
        return [await run.step("Mail", post.mail, "zoe")]

    async with driving(post.version(changed)) as control:
        await control.answer(run, (await stale_question(control, run)).position, "go on")
        question = await asked(control, run)
        assert question.kind == "again"
        assert question.message == (
            "thing cleo was done before, by step Mail with other arguments. Do this too: thing zoe?"
        )
        schema = await schema_of(control, run, question.position)
        assert schema["x-details"] == {
            "tool": "twice-other.make",
            "earlier": "what: cleo",
            "now": "what: zoe",
        }
        await control.answer(run, question.position, "keep")
        assert await control.result(run) == ["made cleo"]
    assert post.sent == PEOPLE


async def test_two_steps_at_once_take_over_one_effect_once(driving: Open, crashing: Open) -> None:
    post = Post("twice-parallel")

    async def one(post: Post, run: Run) -> object:
        await run.step("Mail", post.mail, "ada")
        return await run.step("Read", post.look, "end")

    async def three(post: Post, run: Run) -> object:
        async with anyio.create_task_group() as together:
            for _ in range(2):
                together.start_soon(run.step, "Send mail", post.mail, "ada")
        return await run.step("Send mail", post.mail, "ada")

    run = await post.before(crashing, one)
    async with driving(post.version(three)) as control:
        await control.answer(run, (await stale_question(control, run)).position, "take over")
        await control.result(run)
    assert post.sent == ["ada"] * 3, "one of the three is taken over, the others are new"


@pytest.mark.parametrize("choice", ["take over", "go on"])
async def test_a_snapshot_of_the_new_code_settles_nothing_about_what_is_left(
    driving: Open, crashing: Open, choice: str
) -> None:
    post = Post(f"twice-snapshot-{choice}")
    run = await post.before(crashing)
    post.stage.gate("next")

    async def saving(post: Post, run: Run) -> list[object]:
        sent: list[object] = list(run.restored or [])
        for to in PEOPLE[len(sent) :]:
            sent.append(await run.step("Send mail", post.mail, to))
            await run.snapshot(sent)
            await run.step("Read", post.look, "next")
        return sent

    new = post.version(saving)
    async with crashing(new) as control:
        await control.answer(run, (await stale_question(control, run)).position, choice)
        if choice == "go on":
            await control.answer(run, (await repeat_question(control, run)).position, "take over")
        await post.stage.until_begun("next")
    post.stage.gate("next").set()
    async with driving(new) as control:
        last = 0
        for _ in PEOPLE[1:] if choice == "go on" else ():
            question = await repeat_question(control, run, after=last)
            last = question.position
            await control.answer(run, last, "take over")
        assert await control.result(run) == [f"made {to}" for to in PEOPLE]
    assert [what for what in post.sent if what != "next"] == PEOPLE


# ── another brief ────────────────────────────────────────────────────────────────────────────


async def test_after_a_redirect_the_same_effect_under_another_name_is_asked_about(
    driving: Open,
) -> None:
    post = Post("twice-redirect")

    async def by_brief(post: Post, run: Run) -> list[object]:
        made = await run.step(f"Mail for {run.brief}", post.mail, "ada")
        return [made, await run.step("Read", post.look, "end")]

    async with driving(post.version(by_brief)) as control:
        run = await control.start("clerk", "spring")
        await post.stage.until_begun("end")
        await control.redirect(run, "autumn")
        question = await repeat_question(control, run)
        assert "by step Mail for spring. Step Mail for autumn would do it again" in question.message
        post.stage.gate("end").set()
        await control.answer(run, question.position, "take over")
        assert await control.result(run) == ["made ada", "END"]
        (line,) = (await control.receipt(run)).lines
        assert line.text == "thing ada: kept", "it is asked for again, so it is not the old brief's"
    assert post.sent == ["ada"]


# ── a fork ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect", ["once", "write"])
@pytest.mark.parametrize("undo", [True, False], ids=["with undo", "without undo"])
async def test_a_fork_asks_before_it_does_again_what_the_other_run_did(
    driving: Open, effect: EffectName, undo: bool
) -> None:
    post = Post(f"twice-fork-{effect}-{undo}", effect)
    if not undo:
        post.mail = post.stage.writer(effect=effect, undo=None, describe="")
    post.stage.gate("end").set()
    clerk = post.version(mailing)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        (_, second, _) = [
            r.position
            for r in await control.store.read(run)
            if isinstance(r.event, e.AttemptStarted)
        ]
        fork = await control.fork(run, second)
        last = 0
        for _ in range(2 * undo):
            question = await asked(control, fork)
            assert question.kind == "inherited"
            await control.answer(fork, question.position, "keep")
            last = max(last, question.position)
        bob = await repeat_question(control, fork, after=last)
        assert f"thing bob was done already, by step Mail of run {run}" in bob.message
        await control.answer(fork, bob.position, "take over")
        cleo = await repeat_question(control, fork, after=bob.position)
        await control.answer(fork, cleo.position, "repeat")
        assert await control.result(fork) == [*(f"made {to}" for to in PEOPLE), "END"]
        assert post.sent == [*PEOPLE, "cleo"]
        receipt = await control.receipt(fork)
        assert receipt.inherited == ("thing ada", "thing bob")
        assert [line.noun for line in receipt.lines] == ["thing cleo"]


async def test_a_fork_does_again_what_was_undone_without_a_second_question(driving: Open) -> None:
    post = Post("twice-fork-undone")
    post.stage.gate("end").set()
    clerk = post.version(mailing)

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        fork = await control.fork(run, 2)
        for _ in PEOPLE:
            await control.answer(fork, (await asked(control, fork)).position, "undo")
        await control.result(fork)
        assert await times_asked(control, fork, "repeat") == 0
    assert post.sent == [*PEOPLE, *(f"undone {to}" for to in reversed(PEOPLE)), *PEOPLE]


async def test_a_fork_of_changed_code_asks_about_what_it_took_over_too(driving: Open) -> None:
    post = Post("twice-fork-renamed")
    post.stage.gate("end").set()
    versions = [mailing]

    async def body(post: Post, run: Run) -> list[object]:
        return await versions[-1](post, run)

    clerk = post.version(body)
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        versions.append(renamed)
        fork = await control.fork(run, (await control.state(run)).head + 1)
        question = await repeat_question(control, fork)
        await control.answer(fork, question.position, "take over all")
        assert await control.result(fork) == [f"made {to}" for to in PEOPLE]
    assert post.sent == PEOPLE


# ── what a question shows ────────────────────────────────────────────────────────────────────


async def test_questions_about_an_effect_show_its_tool_and_arguments_and_no_secret(
    driving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POST_TOKEN", "hush-hush")
    fails = [False]

    async def unsend(performed: EffectRecord) -> None:
        pass

    @tool(effect="once", name="shown.send", label="mail", describe="mail to {to}", undo=unsend)
    async def send(to: str, text: str, token: object = None) -> str:
        if fails.pop():
            raise ConnectionError("reset by peer")
        return "sent"

    @agent(name="shown")
    async def clerk(run: Run) -> object:
        return await run.step("Send", send, "ada", text="x" * 500, token=Secret("POST_TOKEN"))

    shown = {
        "tool": "shown.send",
        "to": "ada",
        "text": "x" * 500,
        "token": "•••",
    }
    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.result(run)
        fork = await control.fork(run, "Send")
        inherited = await asked(control, fork)
        assert inherited.message.startswith(
            "The run that this is a fork of went on and did: mail to ada."
        )
        await control.answer(fork, inherited.position, "keep")
        repeat = await repeat_question(control, fork, after=inherited.position)
        fails.append(True)
        await control.answer(fork, repeat.position, "repeat")
        doubt = await asked(control, fork, after=repeat.position)
        assert doubt.message.startswith("It is not known whether this happened: mail to ada.")
        for question in (inherited, repeat, doubt):
            schema = await schema_of(control, fork, question.position)
            assert (schema["x-details"], schema["x-tool"]) == (shown, "shown.send")
        await control.answer(fork, doubt.position, "happened")
        await control.result(fork)
