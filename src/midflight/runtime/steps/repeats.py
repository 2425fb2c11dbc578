"""Asks a person before an effect is done a second time.

The code of a run may have changed, its brief may have, or the run may be a fork. Then a step that
is not on record may want what is on record under another identity:

* *the same*: the same tool with the same arguments. The person says whether the step takes over
  what was done, does it again, or the run is cancelled. A provider cannot tell it from a new
  effect, because the idempotency key follows from the identity: so ``write`` is no exception.
* *something like it*: a ``once`` step of the same name with other arguments. The person says
  whether it is done as well, instead of the earlier one, or not at all.

An effect that was taken over is recorded under the new identity, so the person is asked once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import NULL, Earlier
from midflight.journal.state import AGAIN, REPEAT, Attempt
from midflight.runtime import values
from midflight.runtime.host import Host
from midflight.runtime.questions import call_in_words, choice_of
from midflight.runtime.replay.lineage import Done, own, own_spawns
from midflight.runtime.replay.staleness import TAKE_OVER
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps.step import Step
from midflight.runtime.steps.step_end import record
from midflight.runtime.steps.undo import undo_now
from midflight.runtime.threads.succession import cancel_itself

ALL: Final = " all"  # behind either: the answer also counts for all that come after it
AS_WELL: Final = {
    "as well": "Do this as well",
    "keep": "Keep the earlier one, skip this",
    "undo": "Undo the earlier one, then do this",
}


async def result_instead(step: Step) -> Raw | None:
    """The result of an earlier effect that is to stand for this step; None: it is to be done."""
    host, history = step.host, step.host.history
    state = host.journal.state
    may_repeat = history.unfinished or history.left_over or state.fork_of or state.entered_course
    if not may_repeat or history.attempts_of(step.identity):
        return None
    await step.may_start()  # what the function has not asked for is known only from here on
    found = await _the_same(step)  # layer on-record-not-done-again
    if found is None:
        return await _like_it(step)
    with host.lineage.repeats(found.place):  # not for two steps at once
        return await _ask_about(step, found)


# ── the same ─────────────────────────────────────────────────────────────────────────────────


async def _the_same(step: Step) -> Done | None:
    """The effect on record that this step would do again, if there is one."""
    host, history = step.host, step.host.history
    name = f"{REPEAT}:{step.identity}"
    candidates = [  # layer fork-knows-what-run-before-did
        *(found for left in history.left_over for found in own(host.journal, left)),
        *await host.lineage.done(),
        *await host.lineage.done_below(await spawns_before(host)),
    ]
    same = [found for found in candidates if found.is_same(step)]
    if name in history.questions:
        about = about_effect(host, history.questions[name])
        return next((found for found in same if found.place == about), None)
    asked_about = {*host.lineage.repeating, *decided(host)}
    # layer taken-over-noted-so-counts
    left = [one for one in same if one.place not in asked_about and not _counts(host, one)]
    return min(left, key=lambda found: found.step != step.identity, default=None)


async def spawns_before(host: Host) -> list[Done]:
    """Return the spawns that the function has not asked for, of this run and of a fork's line."""
    mine = own_spawns(host.journal, list(host.history.left_over))
    before = [found for found in await host.lineage.done() if not found.tool]
    return [found for found in (*mine, *before) if not _counts(host, found)]


def _counts(host: Host, found: Done) -> bool:
    """Return whether a step that the function has asked for since has taken the effect over."""
    by = host.history.taken_over.get(found.place)
    return by is not None and by not in host.history.left_over


def decided(host: Host) -> dict[Earlier, str]:
    """Effects that a person was asked about since the code or the brief changed, and the answer."""
    history = host.history
    since = max(history.redirected_at, history.stale_question or 0)
    return {
        about_effect(host, question): str(values.decode(answer.payload))
        for question, asked in history.asked.items()
        if asked.kind == REPEAT
        and question > since
        and (answer := history.answers.get(question)) is not None
        and answer.by
    }


def about_effect(host: Host, question: int) -> Earlier:
    """Return the effect that a question of this kind is about."""
    schema = msgspec.json.decode(host.history.asked[question].schema)
    return msgspec.convert(schema["x-about"], Earlier)


async def _ask_about(step: Step, found: Done) -> Raw | None:
    host, name = step.host, f"{REPEAT}:{step.identity}"
    choice = "" if name in host.history.questions else _known_choice(step, found)
    answer: Answered | None = None
    if not choice:
        answer = await step.ask(
            name,
            REPEAT,
            _question(step, found),
            _schema(step, found),
            about=0 if found.place.run else found.place.position,
        )
        choice = str(values.decode(answer.payload)) if answer.by else ""
    match choice.removesuffix(ALL):
        case "repeat":
            return None
        case "undo":
            return await _undone(step, found.place.position)
        case "cancel" if answer is not None and answer.who is not None:
            key = f"answer:{host.history.questions[name]}"
            request = e.CancelRequested(who=answer.who, key=key)
            await cancel_itself(host, request)
            await step.may_start()  # tells the function that the run is cancelled
            return await record(step, NULL, f"not done again: cancelled by {answer.by}")
        case "take over":
            return await _take_over(step, found)
        case _ if found.outcome is Outcome.DONE:  # nobody wants it done again
            return await _take_over(step, found)
        case _:
            return await record(
                step, NULL, f"not done again, and not known to be done: {found.label}"
            )


def _known_choice(step: Step, found: Done) -> str:
    """Return a person's choice for all effects of this kind; empty if each is asked about."""
    host = step.host
    if found.outcome is not Outcome.DONE or not found.is_surely_same(step):
        return ""
    mine = not found.place.run or found.child
    if mine and found.step in host.history.entry.counting:
        return TAKE_OVER
    return for_all(host)


def for_all(host: Host) -> str:
    """Return a person's last choice that was for all of them; empty if there is none."""
    return next((said for said in reversed(decided(host).values()) if said.endswith(ALL)), "")


def _question(step: Step, found: Done) -> str:
    whose = f" of run {found.place.run}" if found.place.run else ""
    done = f"step {found.name}{whose}"
    if found.outcome is Outcome.DONE:
        return (
            f"{found.label} was done already, by {done}. Step {step.name} would do it again: "
            "the same tool with the same arguments. Do it again?"
        )
    return (
        f"It is not known whether this happened: {found.label}, by {done}. Step {step.name} would "
        "do it again: the same tool with the same arguments. Do it again?"
    )


def _schema(step: Step, found: Done) -> dict[str, Any]:
    known = found.outcome is Outcome.DONE
    taken = "Do not do it again: take over its result" if known else "It did happen: take it over"
    choices = {TAKE_OVER: taken, REPEAT: "Do it again"}
    if known and found.can_be_undone:
        choices["undo"] = "Undo it, then do it again"
    if known:
        choices |= {
            f"{TAKE_OVER}{ALL}": "Take over this and all others that would be done again",
            f"{REPEAT}{ALL}": "Do this and all others again",
        }
    choices["cancel"] = "Cancel the run"
    about = {"x-about": msgspec.to_builtins(found.place)}
    return choice_of(choices) | about | call_in_words(step.tool, step.given)


async def _take_over(step: Step, found: Done) -> Raw:
    """The effect counts for this step, with its result; from here on that is on record."""
    host, place = step.host, msgspec.structs.replace(found.place, label=found.label)
    if found.record is not None:
        raw = await host.journal.raw(found.record)
        return await record(step, raw, found.record.error, earlier=place)
    if not place.run:  # a person says that it happened
        learned = e.LateOutcome(
            epoch=host.journal.epoch, attempt=place.position, outcome=Outcome.DONE, how="person"
        )
        await host.journal.settle(learned)
    return await record(step, NULL, "", earlier=place)


# ── something like it ────────────────────────────────────────────────────────────────────────


async def _like_it(step: Step) -> Raw | None:
    """Ask about a ``once`` effect that was done before under this name, with other arguments.

    As well, or instead of it? Gives the earlier result if that is to stand for this step.
    """
    history, name = step.host.history, f"{AGAIN}:{step.identity}"
    if name in history.questions:  # before a crash: an answer is about that and nothing else
        earlier = history.asked[history.questions[name]].about
    else:
        earlier = _alike(step)
    if not earlier:
        return None
    begun = history.begun(earlier).event
    label = begun.label or begun.noun or begun.name
    message = (
        f"{label} was done before, by step {begun.name} with other arguments. "
        f"Do this too: {step.label}?"
    )
    shown = call_in_words(step.tool, step.given, before=begun.input)
    answer = await step.ask(name, AGAIN, message, choice_of(AS_WELL) | shown, about=earlier)
    match values.decode(answer.payload) if answer.by else "keep":
        case "as well":
            return None
        case "undo":
            return await _undone(step, earlier)
        case _:
            known = history.outcomes[earlier]
            return await record(step, await step.host.journal.raw(known), known.error)


async def _undone(step: Step, earlier: int) -> Raw | None:
    """Undo the earlier one first; a stop in between is waited out."""
    effect = step.host.journal.state.effects[earlier]
    while effect.can_be_undone and effect.undone is None:
        await step.may_start()
        await undo_now(step.host, effect)
    if not effect.undone:
        return await record(step, NULL, f"{step.label}: the earlier one could not be undone")
    return None


def _alike(step: Step) -> int:
    """The settled attempt that this one resembles; rather one that this brief has not asked for."""
    state, history = step.host.journal.state, step.host.history
    if step.tool.effect is not Effect.ONCE or _as_well(step):
        return 0

    def resembles(effect: Attempt) -> bool:
        before = effect.course < state.entered_course or effect.step in history.left_over
        done = effect.outcome is Outcome.DONE and not effect.undone and not effect.child
        known = effect.position > history.scope or effect.step in history.entry.carried
        return before and done and known and effect.name == step.name

    alike = [effect for effect in state.effects.values() if resembles(effect)]
    newest = max(
        alike,
        key=lambda effect: (effect.reused < state.entered_course, effect.position),
        default=None,
    )
    return 0 if newest is None else newest.position


def _as_well(step: Step) -> bool:
    """Return whether a person has said, of this course and a step of this name: do it as well."""
    history = step.host.history
    return any(
        asked.kind == AGAIN
        and position > history.redirected_at
        and history.begun(asked.about).event.name == step.name
        and (answer := history.answers.get(position)) is not None
        and answer.by
        and values.decode(answer.payload) == "as well"
        for position, asked in history.asked.items()
    )
