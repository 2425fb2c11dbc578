"""Asks a person before a background run is begun that may repeat the work of an earlier one.

A new background run has a journal of its own, which knows nothing of the earlier one: it would do
all of that again. So the spawn counts as an effect that ``repeats`` the earlier one. The question
names what the earlier background run and the runs below it have done. The person says whether its
result is taken over, another one is begun, what it did is undone first, or the run is cancelled.

Every earlier run of the same agent counts, whatever its brief: nobody can know beforehand where
another brief leads. Where the earlier background run has done nothing and is at its end, nobody is
asked.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from midflight.errors import StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import NULL, Earlier
from midflight.journal.state import REPEAT
from midflight.runtime import values
from midflight.runtime.children import WAS_PURGED
from midflight.runtime.foreign import text
from midflight.runtime.host import Host
from midflight.runtime.questions import choice_of
from midflight.runtime.replay.lineage import Done, Tree
from midflight.runtime.replay.staleness import TAKE_OVER
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps.repeats import ALL, about_effect, decided, for_all, spawns_before
from midflight.runtime.steps.undo import undo_now
from midflight.runtime.threads.succession import cancel_itself

ASKED: Final = "spawn"  # before the identity of the spawn, in the name of its question
NOT_UNDONE: Final = "the earlier one could not be undone"
NOT_BEGUN: Final = "not begun again, and what the earlier one did is not known"


class Wanted(Struct, frozen=True):
    """A spawn that the function asks for: its identity, and what it would begin."""

    step: str
    agent: str
    brief: str
    input: Raw
    course: int

    @property
    def label(self) -> str:
        """The words that a person has for it."""
        return f"background run: {text(self.brief)}"


class Before(Struct, frozen=True):
    """An earlier background run of the same agent, which would be begun once more."""

    spawn: Done
    tree: Tree
    same: bool  # brief and input, too


async def child_instead(host: Host, wanted: Wanted) -> str:
    """Return the earlier background run that is to stand for a spawn; empty: one is to be begun."""
    history = host.history
    record = history.claim(wanted.step)
    if record is None and (history.unfinished or history.left_over or host.journal.state.fork_of):
        await host.gate.wait(wanted.course)  # what it has not asked for is known from here on
        if (found := await _before(host, wanted)) is not None:
            with host.lineage.repeats(found.spawn.place):  # not for two spawns at once
                await _ask_about(host, wanted, found)
        record = history.claim(wanted.step)
    if record is None or wanted.step in history.spawned:
        return ""
    if record.error:
        raise StepFailed(wanted.label, record.error)
    return str(values.decode(await host.journal.raw(record)))


async def _before(host: Host, wanted: Wanted) -> Before | None:
    """Return the earlier background run that this spawn resembles most, if there is one."""
    history, name = host.history, f"{ASKED}:{wanted.step}"
    spawns = [found for found in await spawns_before(host) if found.name == wanted.agent]
    if name in history.questions:
        about = about_effect(host, history.questions[name])
        spawns = [found for found in spawns if found.place == about]
    else:
        asked_about = {*host.lineage.repeating, *decided(host)}
        spawns = [found for found in spawns if found.place not in asked_about]
    alike: Before | None = None
    for spawn in spawns:
        tree = await host.lineage.tree_of(spawn)
        found = Before(spawn, tree, same=_is_same(wanted, tree))
        if tree.counts and spawn.place not in host.lineage.repeating:
            if found.same:
                return found
            alike = alike or found
    return alike


def _is_same(wanted: Wanted, tree: Tree) -> bool:
    begun = tree.created
    return (
        begun is not None
        and begun.brief == wanted.brief
        and bytes(begun.input) == bytes(wanted.input)
    )


async def _ask_about(host: Host, wanted: Wanted, found: Before) -> None:
    """Have the choice made and acted on; the record under the spawn then stands for it."""
    name, spawn = f"{ASKED}:{wanted.step}", found.spawn
    choice = "" if name in host.history.questions else _known_choice(host, found)
    answer: Answered | None = None
    if not choice:
        answer = await host.questions.ask(
            name,
            REPEAT,
            _question(wanted, found),
            schema=_schema(wanted, found),
            about=0 if spawn.place.run else spawn.place.position,
            course=wanted.course,
        )
        choice = str(values.decode(answer.payload)) if answer.by else ""
    match choice.removesuffix(ALL):
        case "repeat":
            pass
        case "undo":
            await _undo(host, wanted, spawn.place.position)
        case "cancel" if answer is not None and answer.who is not None:
            key = f"answer:{host.history.questions[name]}"
            request = e.CancelRequested(who=answer.who, key=key)
            await cancel_itself(host, request)
            await host.gate.wait(wanted.course)  # tells the function that the run is cancelled
        case _ if found.tree.created is None:  # nobody wants another one, and this one is gone
            await _record(host, wanted, error=NOT_BEGUN)
        case _:
            place = msgspec.structs.replace(spawn.place, label=spawn.label)
            await _record(host, wanted, child=spawn.child, earlier=place)


def _known_choice(host: Host, found: Before) -> str:
    """Return a person's choice for all effects of this kind; empty if each is asked about."""
    if not found.same:
        return ""
    if not found.spawn.place.run and found.spawn.step in host.history.entry.counting:
        return TAKE_OVER
    certain = all(one.outcome is Outcome.DONE for one in found.tree.effects)
    return for_all(host) if certain and not found.tree.alive else ""


def _question(wanted: Wanted, found: Before) -> str:
    spawn, tree = found.spawn, found.tree
    by = f", by run {spawn.place.run}," if spawn.place.run else ""
    did = f"did: {tree.words}" if tree.effects else "has done nothing yet"
    works = " It is still at work." if tree.alive else ""
    if tree.created is None:
        did = f"what it did is not known: {WAS_PURGED}"
    if found.same:
        return (
            f"{spawn.label} was begun already{by} and {did}.{works} "
            "Another one may do that again. Begin another one?"
        )
    other = "" if tree.created is None else " with another brief or input"
    return (
        f"{spawn.label} was begun before{by} and {did}.{works} Another one{other} may do that "
        f"again. Begin another one: {wanted.label}?"
    )


def _schema(wanted: Wanted, found: Before) -> dict[str, Any]:
    spawn, tree = found.spawn, found.tree
    choices = {}
    if tree.created is not None:
        choices[TAKE_OVER] = (
            "Begin no other: wait for it and take over its result"
            if tree.alive
            else "Begin no other: take over its result"
        )
    choices[REPEAT] = "Begin another one"
    if spawn.can_be_undone and (tree.alive or tree.can_be_undone):
        first = "Cancel the earlier one and undo" if tree.alive else "Undo"
        choices["undo"] = f"{first} what it did, then begin another one"
    if found.same and not tree.alive:
        choices |= {
            f"{TAKE_OVER}{ALL}": "Take over this and all others that would be done again",
            f"{REPEAT}{ALL}": "Do this and all others again",
        }
    choices["cancel"] = "Cancel the run"
    details = {
        "agent": wanted.agent,
        "earlier": spawn.label,
        "now": wanted.label,
        "it did": tree.words,
    }
    about = {"x-about": msgspec.to_builtins(spawn.place)}
    return choice_of(choices) | about | {"x-details": {k: v for k, v in details.items() if v}}


async def _undo(host: Host, wanted: Wanted, spawn: int) -> None:
    """Cancel the earlier one if it lives and undo what it did; a stop in between is waited out."""
    effect = host.journal.state.effects[spawn]
    while effect.can_be_undone and effect.undone is None:
        await host.gate.wait(wanted.course)
        await undo_now(host, effect)
    if not effect.undone:
        await _record(host, wanted, error=NOT_UNDONE)


async def _record(
    host: Host,
    wanted: Wanted,
    *,
    child: str = "",
    error: str = "",
    earlier: Earlier | None = None,
) -> None:
    """Write down what stands for the spawn, so that this time is like every later one."""
    settled = e.StepSettled(
        epoch=host.journal.epoch,
        step=wanted.step,
        name=wanted.label,
        result=values.encode("spawn", "its run", child) if child else NULL,
        error=error,
        earlier=earlier,
    )
    while host.history.claim(wanted.step) is None:
        await host.gate.wait(wanted.course)
        if host.journal.busy or host.journal.state.phase is Phase.WAITING:
            await host.journal.decide(host.journal.wait_over)  # or the run would not take it
        await host.journal.settle(settled)
