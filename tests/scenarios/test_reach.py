"""How far a verb goes down a tree of runs, and that what is said of it before is true after it."""

from __future__ import annotations

import anyio
import pytest

from midflight.agents import Agent, agent
from midflight.control import Control
from midflight.errors import InvalidRequest
from midflight.run import Run
from midflight.stores.protocol import Query
from midflight.tools.declaration import tool
from scenarios.company import child_of
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
async def test_a_reach_that_is_none_is_refused_and_nothing_is_changed(
    driving: Open, verb: str
) -> None:
    stage = Stage(f"reach-{verb}")
    look = stage.reader()
    stage.gate("it")

    @agent(stage.name)
    async def works(run: Run) -> None:
        await run.step("Look", look, "it")

    async with driving(works) as control:
        run = await control.start(works, "one")
        await stage.until_begun("it")
        if verb == "resume":
            await control.applied(await control.pause(run))
        before = (await control.state(run)).phase
        words = "scope 'trees' is unknown; use one of tree, this. Nothing was changed"
        with pytest.raises(InvalidRequest, match=words):
            await getattr(control, verb)(run, scope="trees")

        assert (await control.state(run)).phase is before
        await control.cancel(run)
        await control.ended(run)


def mailing(stage: Stage, *, ends: bool = False) -> tuple[Agent, Agent]:
    """A parent whose child makes a thing, sends a mail, leaves a note, and goes on or ends."""
    make, look = stage.writer(), stage.reader()

    @tool(
        effect="once", label="email", irreversible=True, approval=False, name=f"{stage.name}.mail"
    )
    async def mail() -> None:
        stage.note(stage.begun, "mail")
        if "mail" in stage.gates:
            await stage.gates["mail"].wait()

    @tool(effect="once", label="note", name=f"{stage.name}.note")
    async def leave_note() -> None:
        pass

    @agent(f"{stage.name}-child")
    async def child(run: Run) -> None:
        await run.step("Make", make, "it")
        await run.step("Note", leave_note)
        await run.step("Mail", mail)
        if not ends:
            await run.step("Look", look, "child")

    @agent(f"{stage.name}-parent")
    async def parent(run: Run) -> None:
        await (await run.spawn(child, "help")).result()
        await run.step("Look", look, "parent")

    stage.gate("child")
    stage.gate("parent")
    return parent, child


async def receipts(control: Control, run: str) -> list[str]:
    thread = (await control.state(run)).thread
    rows = await control.runs(Query(thread=thread))
    found = [await control.receipt(row.journal) for row in rows]
    return sorted(line.text for receipt in found for line in receipt.lines)


@pytest.mark.parametrize("ends", [False, True], ids=["lives", "has ended"])
async def test_the_preview_of_a_parents_cancel_names_what_its_child_cannot_take_back(
    driving: Open, ends: bool
) -> None:
    stage = Stage(f"reach-mail-{ends}")
    parent, child = mailing(stage, ends=ends)

    async with driving(parent, child) as control:
        run = await control.start(parent, "one")
        await stage.until_begun("parent" if ends else "child")
        offer = (await control.preview(run))["cancel"]
        cancels = "" if ends else "cancels background run, "
        text = f"{cancels}undoes thing, note and email stay, saves partial work to thread"
        assert offer.consequence == text[0].upper() + text[1:]
        assert offer.confirm == ""  # it is out already

        await control.cancel(run)
        await control.ended(run)

        left = "email: final (irreversible); note: kept (no undo)"
        assert await receipts(control, run) == [
            f"background run: help: could not be undone ({left})",
            "email: final (irreversible)",
            "note: kept (no undo)",
            "thing: undone",
        ]


async def test_a_parents_cancel_asks_first_while_its_child_does_what_cannot_be_stopped(
    driving: Open,
) -> None:
    stage = Stage("reach-flying")
    stage.gate("mail")
    parent, child = mailing(stage)

    async with driving(parent, child) as control:
        run = await control.start(parent, "one")
        await stage.until_begun("mail")
        offers = await control.preview(run)
        assert offers["cancel"].confirm == (
            "email is under way and cannot be stopped. Cancel anyway?"
        )
        assert offers["pause"].consequence == "Finishes email first, keeps context"
        stage.gate("mail").set()
        await control.cancel(run)
        await control.ended(run)


async def test_a_stop_word_offers_a_cancel_in_the_words_of_the_whole_tree(driving: Open) -> None:
    stage = Stage("reach-word")
    parent, child = mailing(stage)

    async with driving(parent, child) as control:
        run = await control.start(parent, "one")
        await stage.until_begun("child")
        sent = await control.send(run, "stop")
        assert "Cancels background run, undoes thing, note and email stay" in sent.status
        await control.cancel(run)
        await control.ended(run)


async def test_an_undo_of_what_has_ended_names_what_stays_below(driving: Open) -> None:
    stage = Stage("reach-undo")
    parent, child = mailing(stage, ends=True)
    stage.gate("parent").set()

    async with driving(parent, child) as control:
        run = await control.start(parent, "one")
        await control.ended(run)
        offer = (await control.preview(run))["undo"]
        assert offer.consequence == "Undoes thing, note and email stay"
        await control.undo(run)
        born = await child_of(control, run)
        with anyio.fail_after(10):
            await control.until(born, lambda state: not (state.undo_wanted or state.undos))
            while stage.done[-1] != "undone it":
                await stage.news.wait()


async def test_a_slip_of_the_pen_is_refused_in_words_that_name_nothing_private(
    driving: Open,
) -> None:
    @agent("reach-slip")
    async def works(run: Run) -> None:
        await run.ask("Well?")

    async with driving(works) as control:
        run = await control.start(works, "one")
        thread = (await control.state(run)).thread
        for asked, taken in (
            (control.pause(run, whom="ann"), "scope=, who=, key=, expect="),  # type: ignore[call-arg]
            (control.withdraw_message(thread, 1, whom="ann"), "message=, who=, key="),  # type: ignore[call-arg]
        ):
            with pytest.raises(TypeError, match=f"no argument whom=.* takes {taken}. Nothing"):
                await asked
        await control.cancel(run)
        await control.ended(run)
