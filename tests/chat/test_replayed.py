"""What was given before the process ended means the same in its next life, and is done once."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.desk import Office, clerk
from chat.conftest import Talking
from chat.paper import ANN, Paper, life, working
from midflight.interfaces.chat import Heard, People
from midflight.interfaces.chat.channel import Action, mark
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor
from midflight.models.scripted import call, say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

OLGA = Actor("olga", Role.OPERATOR, "paper:desk")
OPERATED = People.listed(["1=olga:operator", "2=ann:controller"])


@pytest.mark.parametrize("later", [0.0, 3_600.0])
async def test_a_command_that_is_done_again_means_the_run_that_was_in_front_when_it_was_given(
    tmp_path: Path, later: float
) -> None:
    office = Office("again")
    office.gate("slow")
    office.gate("slower")
    script = [call("again_look", what="slow"), call("again_look", what="slower")]
    works, _, _ = clerk("again", script, office)
    paper, chats, now = Paper(), tmp_path / "chats", [1_000_000.0]

    async with working(tmp_path, works) as control:
        async with life(paper, control, works, chats, clock=lambda: now[0]) as board:
            await board.hear("desk", Heard("1", "task A"), ANN)
            await office.until_begun("slow")
            await board.remember("desk", "k", "/cancel", ANN, way="", fields={})
            await board.press("desk", "/cancel", ANN, key="k")  # and dies before it answers
            (first,) = await control.runs()
            await control.ended(first.journal)
        now[0] += later
        await control.send("t-paper-desk", "task B", who=ANN)
        await office.until_begun("slower")
        async with life(paper, control, works, chats, clock=lambda: now[0]) as board:
            answered = await board.press_again(board.memory("desk"), "k")
            assert "**Cancel** is on record" in answered.text
            (second,) = [r for r in await control.runs() if r.journal != first.journal]
            assert second.phase == Phase.RUNNING


async def test_a_command_given_where_nothing_was_started_does_not_wait_for_something_to_hit(
    tmp_path: Path,
) -> None:
    office = Office("early")
    office.gate("slow")
    works, _, _ = clerk("early", [call("early_look", what="slow")], office)
    paper, chats = Paper(), tmp_path / "chats"

    async with working(tmp_path, works) as control:
        async with life(paper, control, works, chats) as board:
            await board.open("desk")
            await board.remember("desk", "k", "/cancel", ANN, way="", fields={})
        async with life(paper, control, works, chats) as board:
            await board.hear("desk", Heard("1", "task A"), ANN)
            await office.until_begun("slow")
            answered = await board.press_again(board.memory("desk"), "k")
            assert "nothing was ever started here" in answered.text
            (run,) = await control.runs()
            assert run.phase == Phase.RUNNING


async def test_a_late_redirect_is_asked_again_and_its_words_are_kept_however_it_was_given(
    tmp_path: Path,
) -> None:
    office = Office("words")
    office.gate("slow")
    works, _, _ = clerk("words", [call("words_look", what="slow")], office)
    paper, chats, now = Paper(), tmp_path / "chats", [1_000_000.0]
    words = "look at the garden, " * 25

    async with working(tmp_path, works) as control:
        async with life(paper, control, works, chats, clock=lambda: now[0]) as board:
            await board.hear("desk", Heard("1", "task A"), ANN)
            await office.until_begun("slow")
            (run,) = await control.runs()
            code = Action("redirect", mark(run.journal)).code
            await board.remember("desk", "form", code, ANN, way="", fields={"text": words})
            await board.remember("desk", "slash", f"/redirect {words}", ANN, way="", fields={})
        now[0] += 3_600.0
        for key in ("form", "slash"):
            async with life(paper, control, works, chats, clock=lambda: now[0]) as board:
                asked = await board.press_again(board.memory("desk"), key)
                assert "while I was away. Nothing was changed. Do it now?" in asked.text
                form = await board.form("desk", asked.buttons[0].action, ANN)
                assert form.fields[0].value == words.strip()
        assert (await control.state(run.journal)).brief == "task A"


async def test_a_kill_that_was_released_meanwhile_is_not_done_again(tmp_path: Path) -> None:
    works, _, _ = clerk("killed", [say("One.")])
    paper, chats, now = Paper(), tmp_path / "chats", [1_000_000.0]

    async with working(tmp_path, works) as control:
        async with life(
            paper, control, works, chats, clock=lambda: now[0], people=OPERATED
        ) as board:
            await board.open("desk")
            await board.remember("desk", "k", "/kill all enough", OLGA, way="", fields={})
            done = await board.press("desk", "/kill all enough", OLGA, key="k")
            assert "**all is stopped**" in done.text
        await control.release("all", who=OLGA)
        now[0] += 60.0
        async with life(
            paper, control, works, chats, clock=lambda: now[0], people=OPERATED
        ) as board:
            answered = await board.press_again(board.memory("desk"), "k")
        assert "all is not stopped" in answered.text
        assert await control.switches() == []


@pytest.mark.parametrize(
    ("people", "answer"),
    [
        (["9=ann:viewer"], "needs the role controller"),
        (["9=bob:controller"], "are not on the list of people any more."),
        (["9=ann:operator"], "**Pause** is on record"),
    ],
)
async def test_who_may_not_any_more_by_the_next_life_has_nothing_done_there(
    tmp_path: Path, people: list[str], answer: str
) -> None:
    office = Office("demoted")
    office.gate("slow")
    works, _, _ = clerk("demoted", [call("demoted_look", what="slow")], office)
    paper, chats = Paper(), tmp_path / "chats"

    async with working(tmp_path, works) as control:
        async with life(paper, control, works, chats) as board:
            await board.hear("desk", Heard("1", "task A"), ANN)
            await office.until_begun("slow")
            await board.remember("desk", "k", "/pause", ANN, way="", fields={})
        async with life(paper, control, works, chats, people=People.listed(people)) as board:
            answered = await board.press_again(board.memory("desk"), "k")
            assert answer in answered.text
            (run,) = await control.runs()
            assert (run.phase == Phase.RUNNING) == ("record" not in answer)


async def test_a_message_that_comes_again_from_somebody_with_a_new_name_is_stored_once(
    tmp_path: Path,
) -> None:
    works, _, _ = clerk("renamed", [say("One."), say("Two.")])
    paper = Paper()

    async with working(tmp_path, works) as control:
        for number, name in enumerate(["ann", "anna"]):
            who = Actor(f"{name}@paper:7", Role.CONTROLLER, "paper:desk")
            async with life(paper, control, works, tmp_path / f"{number}") as board:
                for message in ("1", "2"):
                    await board.hear("desk", Heard(message, f"message {message}"), who)
                await control.ended((await control.runs())[0].journal)
        lines = await control.transcript("t-paper-desk")

    said = [(line.by, line.text) for line in lines if line.kind == "message"]
    assert said == [("ann@paper:7", "message 1"), ("ann@paper:7", "message 2")]


async def test_a_command_whose_run_was_never_looked_up_is_to_be_given_again(
    driving: Talking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office("unknown")
    office.gate("slow")
    works, _, _ = clerk("unknown", [call("unknown_look", what="slow")], office)
    paper, chats = Paper(), tmp_path / "chats"

    async with driving(works) as control:
        async with life(paper, control, works, chats) as board:
            await board.hear("desk", Heard("1", "task A"), ANN)
            await office.until_begun("slow")
            monkeypatch.setattr("midflight.interfaces.chat.switchboard.MEANT_S", 0.0)
            await board.remember("desk", "dies", "/cancel", ANN, way="", fields={})
            await board.remember("desk", "lives", "/pause", ANN, way="", fields={})
            done = await board.press("desk", "/pause", ANN, key="lives")
            assert "**Pause** is on record" in done.text
        async with life(paper, control, works, chats) as board:
            pending = board.memory("desk").pending
            assert [pending["dies"].code, pending["lives"].code[:9]] == ["/cancel", "mf:pause:"]
            answered = await board.press_again(board.memory("desk"), "dies")
            assert (
                "You gave /cancel just before this bot ended. Nothing was changed." in answered.text
            )
            assert (await control.runs())[0].phase in {Phase.PAUSING, Phase.PAUSED}
