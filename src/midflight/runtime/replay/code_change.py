"""Holds a run whose function has changed, and tells a person how it differs from its record.

The words name the steps on record and the steps that the function asks for now. They name the
arguments that have changed where a step of the same name is asked for, every effect on record that
the function may repeat, and the effects that it is about to repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from midflight.journal.phases import Outcome
from midflight.journal.state import KEYED
from midflight.runtime.host import Host
from midflight.runtime.in_flight import OpenStep
from midflight.runtime.questions import differences
from midflight.runtime.replay.history import ASKED_BY_IT
from midflight.runtime.replay.lineage import Done, own, own_spawns
from midflight.runtime.replay.staleness import CHOICES, TAKE_OVER, Guards, hold

TAKEN_OVER: Final = "Go on, and do nothing again that was done: take over its results"
NAMED: Final = 3  # steps and arguments in the message; the rest is counted
EFFECTS_NAMED: Final = 6  # effects in the message
EFFECTS_LISTED: Final = 50  # effects in the details, which have a line for themselves
HINT: Final = (
    "A value that differs at every call, such as the time, makes it a different step. Take it from "
    "run.now(), run.random() or run.uuid()"
)
KEY: Final = ", or give the step a key="
SAME_CALL: Final = ("say:", "spawn:", *ASKED_BY_IT)


class Difference(Struct, frozen=True):
    """A question about changed code: its message, its details, and the effects it is about."""

    message: str
    details: dict[str, str]
    effects: list[Done]


class Changed(Struct, frozen=True):
    """A step that is on record under the same name with other arguments, or with another key.

    ``arguments`` gives each one as it was and as it is now. It is empty where the record does not
    keep them. ``before`` is the identity of the step on record.
    """

    name: str
    before: str
    arguments: dict[str, tuple[str, str]]
    keyed: bool = False

    @property
    def told(self) -> str:
        """Return the change as a sentence."""
        if self.keyed:
            return f"Step {self.name} has another key than before"
        said = [f"{which} was {was}, is now {now}" for which, (was, now) in self.arguments.items()]
        which = f": {_some(said, NAMED, '; ')}" if said else ""
        return f"Step {self.name} has other arguments than before{which}"


async def hold_for_code(host: Host, guards: Guards, left: Collection[str] = ()) -> None:
    """The function asks for other things than before: it must not go on by itself.

    ``left`` are steps that it gave up waiting for, and now does not. If what it relies on has
    changed it may be for that: then this is what is asked about first.
    """
    if await guards.hold_if_changed():
        return
    missing = [*host.history.missing(), *left]
    below = await host.lineage.done_below(own_spawns(host.journal, missing))
    found = difference(host, missing, below)
    at = min((host.history.began_at(step) for step in missing), default=host.journal.state.head)
    choices = {TAKE_OVER: TAKEN_OVER, **CHOICES} if found.effects else CHOICES
    about = {"steps": missing, "fork_at": at}
    await hold(host, found.message, about, choices=choices, details=found.details)


def difference(host: Host, missing: Sequence[str], below: Sequence[Done]) -> Difference:
    """Compare what the function waits for with what it has ``missing`` from its record.

    ``below`` is what background runs among that have done.
    """
    effects = [*(found for step in missing for found in own(host.journal, step)), *below]
    waiting = sorted(host.in_flight.steps, key=lambda step: step.name)
    left = [one for one in effects if one.step not in host.in_flight.calls]
    repeated = _repeated(waiting, left)
    changed = _changed(host, waiting, missing)
    same_code = _is_same_code(host, missing, changed)
    parts = [] if same_code else [_expected_and_found(host, missing, changed)]
    parts += [step.told for step in changed[:NAMED]]
    if changed:
        parts.append(HINT if all(step.keyed for step in changed) else HINT + KEY)
    elif _asks_alike(host, missing):
        parts.append(HINT)
    parts += _of_effects(host, left, repeated, "The code" if same_code else "The new code")
    message = f"{'. '.join(parts)}. What now?"
    return Difference(message, _details(host, left, repeated, changed), effects)


def _details(
    host: Host, effects: Sequence[Done], repeated: Sequence[Done], changed: Sequence[Changed]
) -> dict[str, str]:
    reached = "not yet reached" if host.in_flight.names else "left out"
    listed = {
        "about to be done again": repeated,
        f"done earlier, and {reached} by the new code": [
            one for one in effects if one.outcome is Outcome.DONE and one not in repeated
        ],
        "may have been done": [
            one for one in effects if one.outcome is not Outcome.DONE and one not in repeated
        ],
    }
    return {
        **{
            f"{step.name}: {which}": f"was {was}, is now {now}"
            for step in changed
            for which, (was, now) in step.arguments.items()
        },
        **{what: _labels(found, EFFECTS_LISTED) for what, found in listed.items() if found},
    }


def _expected_and_found(host: Host, missing: Sequence[str], changed: Sequence[Changed]) -> str:
    expected = _some([host.history.name_of(step) for step in missing], NAMED) or "a redirect"
    found = _some(host.in_flight.names, NAMED) or "its end"
    by_value = changed or _asks_alike(host, missing)
    what = "The agent's code or an argument" if by_value else "The agent's code"
    return f"{what} has changed: expected {expected}, found {found}"


def _is_same_code(host: Host, missing: Sequence[str], changed: Sequence[Changed]) -> bool:
    """Return whether the function asks for the next steps on record, with other arguments."""
    only_changed = sorted(step.name for step in changed) == host.in_flight.names
    return only_changed and any(step.before == missing[0] for step in changed)


# ── effects ──────────────────────────────────────────────────────────────────────────────────


def _of_effects(
    host: Host, effects: Sequence[Done], repeated: Sequence[Done], code: str
) -> list[str]:
    """Say what was done, and what of it the function may do again."""
    done = [one for one in effects if one.outcome is Outcome.DONE]
    doubtful = [one for one in effects if one.outcome is not Outcome.DONE]
    parts = []
    if done:
        parts.append(f"Already done: {_labels(done, EFFECTS_NAMED)}")
    if doubtful:
        labels = _labels(doubtful, EFFECTS_NAMED)
        parts.append(f"It is not known whether this happened: {labels}")
    others = len(effects) - len(repeated)
    if repeated:
        them = "the other" if others == 1 else "the others"
        more = f" and may repeat {them}" if others else ""
        labels = _labels(repeated, EFFECTS_NAMED)
        parts.append(f"{code} is about to do {labels} again{more}")
    elif others and host.in_flight.names:
        parts.append(f"{code} may repeat {'it' if others == 1 else 'them'}")
    return parts


def _repeated(waiting: Sequence[OpenStep], effects: Sequence[Done]) -> list[Done]:
    """Return the effects on record that the steps which now wait would do again."""
    left, found = list(effects), []
    for step in waiting:
        same = next((one for one in left if one.is_same(step)), None)
        if same is not None and step.tool.effect.touches_world:
            left.remove(same)
            found.append(same)
    return found


def _labels(effects: Sequence[Done], limit: int) -> str:
    return _some([found.label for found in effects], limit)


# ── arguments ────────────────────────────────────────────────────────────────────────────────


def _changed(host: Host, waiting: Sequence[OpenStep], missing: Sequence[str]) -> list[Changed]:
    """Return the steps that are on record under the same name."""
    left, found = list(missing), []
    for step in waiting:
        before = next((one for one in left if host.history.name_of(one) == step.name), None)
        if before is None:
            continue
        left.remove(before)
        attempts = host.history.attempts_of(before)
        kept = differences(step.tool, attempts[-1].event.input, step.given) if attempts else {}
        keyed = before.startswith(KEYED) or step.identity.startswith(KEYED)
        found.append(Changed(step.name, before, kept, keyed))
    return found


def _asks_alike(host: Host, missing: Sequence[str]) -> bool:
    """Return whether a call that is not a step is on record with other words."""
    calls = [call for call in host.in_flight.waiting if call.startswith(SAME_CALL)]
    return any(_kind(call) == _kind(step) for call in calls for step in missing)


def _kind(call: str) -> str:
    return next((kind for kind in SAME_CALL if call.startswith(kind)), call)


def _some(names: Sequence[str], limit: int, between: str = ", ") -> str:
    """Return the first of the names, and the number of the others."""
    more = len(names) - limit
    return between.join(names[:limit]) + (f" and {more} more" if more > 0 else "")
