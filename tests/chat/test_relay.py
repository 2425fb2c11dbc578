"""Telling a chat: each line once and in order, also when the process ends in between."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from typing_extensions import override

from assistant.desk import Office, clerk, slow_clerk, until
from chat.conftest import until_chosen
from chat.paper import ANN, LostAnswer, Paper, life, working
from midflight.agents import agent
from midflight.interfaces.chat import Heard, Post
from midflight.interfaces.chat.channel import Action, mark
from midflight.journal.phases import Role
from midflight.journal.record import Actor, Limits
from midflight.models.scripted import call, say
from midflight.run import Run
from midflight.stores.protocol import Query

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def driving(tmp_path: Path) -> Any:
    return partial(working, tmp_path)


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_what_was_being_posted_when_the_process_ended_is_shown_once(
    driving: Any, tmp_path: Path, after: int
) -> None:
    works, _, _ = clerk("paper", [say("One."), say("Two.")])
    paper = Paper()
    paper.loses_answers_after = after

    async with driving(works) as control:
        for _ in range(2):
            try:
                async with life(paper, control, works, tmp_path / "chats") as board:
                    await board.hear("desk", Heard("1", "first"), ANN)
                    await until(lambda: "One." in paper.text and "**Done** first" in paper.text)
                    await board.hear("desk", Heard("2", "second"), ANN)
                    await until(lambda: "Two." in paper.text and "**Done** second" in paper.text)
            except* LostAnswer:
                paper.loses_answers_after = -1

    texts = [post.text for post in paper.shown.values()]
    assert texts.count("One.") == texts.count("Two.") == 1
    assert [text for text in texts if text in {"One.", "Two."}] == ["One.", "Two."]
    assert sum("first" in text for text in texts) == 1


async def test_what_happens_between_two_lives_is_not_taken_for_what_was_shown_already(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("between", [say("One."), say("Two.")])
    paper = Paper()
    paper.loses_answer_to = "One."

    async with driving(works) as control:
        with pytest.RaisesGroup(LostAnswer, flatten_subgroups=True, allow_unwrapped=True):
            async with life(paper, control, works, tmp_path / "chats") as board:
                await board.hear("desk", Heard("1", "first"), ANN)
                await until(lambda: False)
        paper.loses_answer_to = ""
        (row,) = await control.runs()
        await control.ended(row.journal)
        second = await control.send("t-paper-desk", "second", who=ANN)
        await control.ended(second.target)
        async with life(paper, control, works, tmp_path / "chats") as board:
            await until(lambda: "Two." in paper.text and "**Done** second" in paper.text)

    texts = [post.text for post in paper.shown.values()]
    assert texts.count("One.") == texts.count("Two.") == 1


async def test_an_end_is_not_shown_before_the_last_words_however_slowly_a_chat_is_told(
    driving: Any, tmp_path: Path
) -> None:
    @agent(name="slowly", converses=True)
    async def slowly(run: Run) -> None:
        await run.step("Wait", paper.shows_it.wait)
        await run.say("On my way.")
        await run.step("Go", paper.begun.wait)
        await run.say("Ready.")

    paper = SlowPaper()
    async with (
        driving(slowly) as control,
        life(paper, control, slowly, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "first"), ANN)
        await until(lambda: "**Running** first" in paper.text)
        paper.shows_it.set()
        (row,) = await control.runs()
        await control.ended(row.journal)
        paper.goes_on.set()
        await until(lambda: "**Done** first" in paper.text and "Ready." in paper.text)

    assert paper.told_at_the_end
    assert all("Ready." in told for told in paper.told_at_the_end)


class SlowPaper(Paper):
    """Takes its time for the first words; keeps what stood there whenever an end was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shows_it, self.begun, self.goes_on = anyio.Event(), anyio.Event(), anyio.Event()
        self.told_at_the_end: list[str] = []

    @override
    async def post(self, chat: str, post: Post) -> str:
        if post.text == "On my way.":
            self.begun.set()
            await self.goes_on.wait()
        return await super().post(chat, post)

    @override
    async def edit(self, chat: str, message: str, post: Post) -> None:
        if "**Done**" in post.text:
            self.told_at_the_end.append(self.text)
        await super().edit(chat, message, post)


@pytest.mark.slow
async def test_a_chat_that_is_away_for_a_while_is_told_everything_later(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("away", [say("One.")])
    paper = Paper()
    paper.away = 2

    async with (
        driving(works) as control,
        life(paper, control, works, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "first"), ANN)
        await until(lambda: "One." in paper.text and "**Done**" in paper.text)


async def test_a_late_press_is_done_if_it_costs_nothing_and_otherwise_asked_again(
    driving: Any, tmp_path: Path
) -> None:
    works, office = slow_clerk("late", say("Never."))
    paper, now = Paper(), [1_000_000.0]

    async with driving(works) as control:
        chats, clock = tmp_path / "chats", lambda: now[0]
        async with life(paper, control, works, chats, clock=clock) as board:
            await board.hear("desk", Heard("1", "first"), ANN)
            await office.until_begun("slow")
            (row,) = await control.runs()
            for verb in ("pause", "cancel"):
                code = Action(verb, mark(row.journal)).code
                await board.remember("desk", verb, code, ANN, way="", fields={})
        now[0] += 60.0
        async with life(paper, control, works, chats, clock=clock) as board:
            memory = board.memory("desk")
            paused = await board.press_again(memory, "pause")
            cancelled = await board.press_again(memory, "cancel")
        assert "**Pause** is on record" in paused.text
        assert "while I was away. Nothing was changed. Do it now?" in cancelled.text
        (sure,) = cancelled.buttons
        state = await control.state(row.journal)
        assert state.alive
        async with life(paper, control, works, chats, clock=clock) as board:
            done = await board.press("desk", sure.action.code, ANN, key="now")
            assert "**Cancel** is on record" in done.text


async def test_a_late_press_that_was_done_before_is_not_said_to_have_changed_nothing(
    driving: Any, tmp_path: Path
) -> None:
    office = Office("done-late")
    office.gate("slow")
    works, _, _ = clerk("done-late", [call("done-late_look", what="slow")], office)
    paper, now = Paper(), [1_000_000.0]

    async with driving(works) as control:
        chats, clock = tmp_path / "chats", lambda: now[0]
        async with life(paper, control, works, chats, clock=clock) as board:
            await board.hear("desk", Heard("1", "first"), ANN)
            await office.until_begun("slow")
            (row,) = await control.runs()
            code = Action("cancel", mark(row.journal)).code
            await board.remember("desk", "k", code, ANN, way="", fields={})
            await board.press("desk", code, ANN, key="k")  # and dies before it answers
            await control.ended(row.journal)
        now[0] += 60.0
        async with life(paper, control, works, chats, clock=clock) as board:
            answered = await board.press_again(board.memory("desk"), "k")

    assert "**Cancel** is on record" in answered.text
    assert "Nothing was changed" not in answered.text


async def test_a_cap_is_raised_in_a_form_that_offers_twice_as_much_of_what_holds_it_alone(
    driving: Any, tmp_path: Path
) -> None:
    caps = Limits(steps=2, seconds=900, tokens=50, usd=3.0, tool_calls=9, repeats=4)

    @agent(name="capped", converses=True, limits=caps)
    async def capped(run: Run) -> str:
        for number in range(3):
            await run.step(f"Step {number}", _nothing)
        return "through"

    paper = Paper()
    async with (
        driving(capped) as control,
        life(paper, control, capped, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "go"), ANN)
        await until(lambda: "**Paused at the cap**" in paper.text)
        await until(lambda: any(_labels(p) == ["Raise cap"] for p in paper.shown.values()))
        card = next(p for p in paper.shown.values() if _labels(p) == ["Raise cap"])
        form = await board.form("desk", card.buttons[0].action, ANN)
        assert [(f.name, f.value) for f in form.fields] == [("steps", "4")]
        for typed in ("x", "2.5", "inf", "-1", ""):
            given = {"steps": typed}
            wrong = await board.press("desk", form.action.code, ANN, key=typed, fields=given)
            assert f"limit steps={typed} is not a whole number" in wrong.text
            assert "Nothing was changed" in wrong.text
        await board.press("desk", form.action.code, ANN, key="b", fields={"steps": "4"})
        await until(lambda: "**Done** go" in paper.text)
        (run,) = await control.runs(Query(agent="capped"))
        assert (await control.state(run.journal)).limits == replace(caps, steps=4)
        late = await board.form("desk", card.buttons[0].action, ANN)
        assert late.text == "the run is not held at a cap any more. Nothing was changed."


async def test_a_cap_of_nothing_and_one_on_circles_are_offered_too(
    driving: Any, tmp_path: Path
) -> None:
    @agent(name="capped-at-0", converses=True, limits=Limits(steps=0))
    async def at_once(run: Run) -> str:
        await run.step("Step", _nothing)
        return "through"

    @agent(name="capped-circles", converses=True, limits=Limits(repeats=1))
    async def circles(run: Run) -> str:
        for _ in range(9):
            await run.step("Step", _nothing)
        return "through"

    for works, offered in ((at_once, ("steps", "1")), (circles, ("repeats", "2"))):
        paper = Paper()
        async with (
            driving(works) as control,
            life(paper, control, works, tmp_path / works.name) as board,
        ):
            await board.hear("desk", Heard("1", "go"), ANN)
            await until(lambda: any(_labels(p) == ["Raise cap"] for p in paper.shown.values()))  # noqa: B023 - it is awaited here
            card = next(p for p in paper.shown.values() if _labels(p) == ["Raise cap"])
            form = await board.form("desk", card.buttons[0].action, ANN)
            assert [(f.name, f.value) for f in form.fields] == [offered]


async def _nothing() -> None:
    pass


def _labels(post: Any) -> list[str]:
    return [button.label for button in post.buttons]


async def test_a_chat_whose_ledger_is_lost_goes_on_from_now(driving: Any, tmp_path: Path) -> None:
    works, _, _ = clerk("lost", [say("One."), say("Two.")])
    first, second = Paper(), Paper()

    async with driving(works) as control:
        async with life(first, control, works, tmp_path / "chats") as board:
            await board.hear("desk", Heard("1", "first"), ANN)
            await until(lambda: "**Done** first" in first.text)
        async with life(second, control, works, tmp_path / "elsewhere") as board:
            await board.hear("desk", Heard("2", "second"), ANN)
            await until(lambda: "**Done** second" in second.text and "Two." in second.text)

    assert "One." not in second.text


async def test_a_button_of_another_thread_means_nothing_here(driving: Any, tmp_path: Path) -> None:
    works, _, _ = clerk("other", [say("One."), say("Two.")])
    paper = Paper()

    async with driving(works) as control:
        elsewhere = await control.start(works, "not yours", thread="t-private")
        async with life(paper, control, works, tmp_path / "chats") as board:
            await board.hear("desk", Heard("1", "first"), ANN)
            await until(lambda: "**Done**" in paper.text)
            done = await board.press("desk", Action("cancel", mark(elsewhere)).code, ANN, key="x")
            assert "or is too old to be found. Nothing was changed: " in done.text


async def test_who_may_only_look_begins_nothing_and_is_told_so(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("first-viewer", [say("Never.")])
    paper, eve = Paper(), Actor("eve", Role.VIEWER, "paper:desk")

    async with (
        driving(works) as control,
        life(paper, control, works, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "do my homework"), eve)
        await until(lambda: "eve" in paper.text)
        assert await control.runs() == []

    assert "Nothing was" in paper.text


async def test_two_bots_in_one_chat_have_a_thread_each_and_answer_what_is_theirs(
    driving: Any, tmp_path: Path
) -> None:
    first, _, _ = clerk("cook", [say("Soup.")])
    second, _, _ = clerk("waiter", [say("Table four.")])
    kitchen, hall = Paper(), Paper()

    async with (
        driving(first, second) as control,
        life(kitchen, control, first, tmp_path / "kitchen") as cook,
        life(hall, control, second, tmp_path / "hall") as waiter,
    ):
        await cook.hear("desk", Heard("1", "what is there?"), ANN)
        await until(lambda: "**Done**" in kitchen.text and "Soup." in kitchen.text)
        await waiter.hear("desk", Heard("2", "where do I sit?"), ANN)
        await until(lambda: "**Done**" in hall.text and "Table four." in hall.text)

    assert "Table" not in kitchen.text
    assert "Soup" not in hall.text


async def test_two_bots_of_one_agent_on_one_thread_tell_everything_once_each_and_echo_nothing(
    driving: Any, tmp_path: Path
) -> None:
    works, office = slow_clerk("both")
    left, right = Paper(), Paper()
    right.name = "slate"
    bob = Actor("bob", Role.CONTROLLER, "slate:wall")

    async with (
        driving(works) as control,
        life(left, control, works, tmp_path / "left") as one,
        life(right, control, works, tmp_path / "right") as two,
    ):
        await one.hear("desk", Heard("1", "begin"), ANN)
        await office.until_begun("slow")
        await two.join("wall", "t-paper-desk", bob)
        await until(lambda: "**Running** begin" in right.text)
        await one.hear("desk", Heard("2", "from the left"), ANN)
        await two.hear("wall", Heard("2", "from the right"), bob)  # a chat's ids are its own
        await until(lambda: "**bob** (slate): from the right" in left.text)
        await until(lambda: "**ann** (paper): from the left" in right.text)
        await one.withdraw("desk", "2")
        await until(lambda: "**Withdrawn**, nobody had read it: a message of ann" in left.text)
        status = next(p for p in right.shown.values() if "**Running**" in p.text)
        paused = await two.press("wall", status.buttons[0].action.code, bob, key="p")
        assert "**Pause** is on record" in paused.text
        await until(lambda: "**Paused**" in left.text and "**Paused**" in right.text)
        await one.press("desk", "/resume", ANN, key="r")
        await until_chosen(control, "t-paper-desk")
        office.gate("slow").set()
        await until(lambda: "Ready." in left.text and "Ready." in right.text)
        lines = await control.transcript("t-paper-desk")

    said = [(line.by, line.text) for line in lines if line.kind == "message"]
    assert said == [("ann", "begin"), ("ann", "from the left"), ("bob", "from the right")]
    statuses = [line.status for line in lines if line.kind == "message"]
    assert statuses == ["read", "withdrawn", "read"]
    for paper, theirs in ((left, "(paper): "), (right, "(slate): ")):
        assert theirs not in paper.text
        assert paper.text.count("Ready.") == 1


async def test_a_chat_that_was_gone_and_comes_back_is_told_what_happens_from_then_on(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("back", [say("One."), say("Two."), say("Three.")])
    paper = Paper()

    async with (
        driving(works) as control,
        life(paper, control, works, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "first"), ANN)
        await until(lambda: "**Done** first" in paper.text)
        paper.gone = True
        await board.hear("desk", Heard("2", "second"), ANN)
        await until(lambda: board.memory("desk") is None)
        paper.gone = False
        await board.hear("desk", Heard("3", "third"), ANN)
        await until(lambda: "Three." in paper.text and "**Done** third" in paper.text)


async def test_a_chat_that_goes_on_with_a_thread_is_not_told_what_was_over_before(
    driving: Any, tmp_path: Path
) -> None:
    office = Office("old")
    office.gate("slow")
    script = [call("old_look", what="slow"), say("Two."), say("Three.")]
    works, _, _ = clerk("old", script, office)
    here, there = Paper(), Paper()
    there.name = "slate"
    bob = Actor("bob", Role.CONTROLLER, "slate:wall")

    async with (
        driving(works) as control,
        life(here, control, works, tmp_path / "here") as first,
        life(there, control, works, tmp_path / "there") as second,
    ):
        await first.hear("desk", Heard("1", "first"), ANN)
        await office.until_begun("slow")
        await first.press("desk", "/cancel", ANN, key="k")
        await until(lambda: "⏹ **Cancelled** first" in here.text)
        await first.hear("desk", Heard("2", "second"), ANN)
        await until(lambda: "Two." in here.text and "**Done** second" in here.text)
        await second.join("wall", "t-paper-desk", bob)
        await second.hear("wall", Heard("1", "third"), bob)
        await until(lambda: "Three." in there.text and "**Done** third" in there.text)

    assert "Cancelled" not in there.text
    assert "Two." not in there.text


async def test_another_chats_conversation_is_brought_here_by_an_operator_only(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("private", [say("For you alone."), say("And here.")])
    paper = Paper()
    async with driving(works) as control, life(paper, control, works, tmp_path) as board:
        await board.hear("ann-alone", Heard("1", "first"), ANN)
        await until(lambda: "For you alone." in paper.text)

        bob = Actor("bob", Role.CONTROLLER, "paper:wall")
        refused = await board.join("wall", "t-paper-ann-alone", bob)
        assert "needs the role operator; yours is controller. Nothing was changed." in refused.text
        assert board.memory("wall") is None

        olga = Actor("olga", Role.OPERATOR, "paper:wall")
        assert "goes on with" in (await board.join("wall", "t-paper-ann-alone", olga)).text


async def test_two_first_messages_at_once_make_one_memory_of_their_chat(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("race", [say("One.")])
    found = []

    async with (
        driving(works) as control,
        life(Paper(), control, works, tmp_path / "chats") as board,
        anyio.create_task_group() as tasks,
    ):

        async def opens() -> None:
            found.append(await board.open("desk"))

        tasks.start_soon(opens)
        tasks.start_soon(opens)
        await until(lambda: len(found) == 2)

    assert found[0] is found[1]


async def test_what_a_chat_does_not_take_is_shown_in_plain_words_and_holds_nothing_up(
    driving: Any, tmp_path: Path
) -> None:
    @agent(name="coloured", converses=True)
    async def coloured(run: Run) -> str:
        said = await run.ask("Which colour?", schema={"enum": ["red", "blue"]})
        return f"It is {said.payload}."

    paper = Paper()
    paper.takes = lambda post: not any(b.label == "Red" for b in post.buttons)

    async with (
        driving(coloured) as control,
        life(paper, control, coloured, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "go"), ANN)
        await until(lambda: "Which colour?" in paper.text)
        card = next(p for p in paper.shown.values() if "Which colour?" in p.text)
        assert card.buttons == ()
        assert "This chat does not take what belongs to this: buttons" in card.text
        (run,) = await control.runs()
        (question,) = (await control.state(run.journal)).questions
        await control.answer(run.journal, question, "red", who=ANN)
        await until(lambda: "**ann: Red**" in paper.text)


async def test_of_what_a_chat_takes_in_no_form_it_is_told_that_there_is_something(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("odd", [say("It is red."), say("It is blue.")])
    paper = Paper()
    paper.takes = lambda post: "red" not in post.text

    async with (
        driving(works) as control,
        life(paper, control, works, tmp_path / "chats") as board,
    ):
        await board.hear("desk", Heard("1", "first"), ANN)
        await until(lambda: "Something could not be shown: this chat" in paper.text)
        await board.hear("desk", Heard("2", "second"), ANN)
        await until(lambda: "It is blue." in paper.text)


@pytest.mark.slow
async def test_a_press_is_answered_when_its_answer_is_shown_and_not_before(
    driving: Any, tmp_path: Path
) -> None:
    works, _, _ = clerk("settled", [say("One.")])
    paper = Paper()

    async with driving(works) as control:
        async with life(paper, control, works, tmp_path / "chats") as board:
            await board.open("desk")
            await board.remember("desk", "k", "/status", ANN, way="", fields={})
            paper.away = 1_000
            await board.say("desk", Post("It stands well.", "late:k"), settles="k")
            await until(lambda: paper.away < 1_000)
        async with life(paper, control, works, tmp_path / "chats") as board:
            assert list(board.memory("desk").pending) == ["k"]
            paper.away = 0
            await board.say("desk", Post("It stands well.", "late:k"), settles="k")
            await until(lambda: not board.memory("desk").pending)

    assert "It stands well." in paper.text
