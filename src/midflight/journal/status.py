"""A run in words: how it stands, what became of its effects, and what a person has changed.

The receipt has one word for the outcome of every effect, and names the work that was saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec
from msgspec import Struct

from midflight.journal.phases import Cause, Outcome, Phase
from midflight.journal.preview import listed
from midflight.journal.record import Limits
from midflight.journal.state import (
    LOST,
    NOT_SEEN,
    WORKER_LOST,
    Attempt,
    RunState,
    alone_from,
    seconds_in_motion,
)
from midflight.journal.transition_table import TRANSITIONS, VERBS

UNDO_ASKED: Final = "undo asked for"
SAVED: Final = "Saved to thread"
INHERITED: Final = "Taken over from the run before"
GROUPS: Final = {"undone": "Undone", UNDO_ASKED: "Undo asked for"}
OTHERS: Final = {Phase.DONE: "Done", Phase.CANCELLING: "To be undone"}
"""Headings of the effects that are not undone; in other phases it is "Not undone"."""


class Line(Struct, frozen=True):
    """One effect, in words for a person: *undone*, *final (irreversible)*, *unknown (why)*.

    ``noun`` is its label, by which a person knows it from others of its kind. ``group`` is the
    heading under which it stands, and ``can_undo`` says whether an undo of it can be asked for.
    """

    position: int
    noun: str
    word: str
    why: str = ""
    earlier: bool = False  # done for a brief that was changed since, and not asked for again
    group: str = ""
    can_undo: bool = False

    @property
    def text(self) -> str:
        """The line as it is shown."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.noun}: {self.word}{why}" + (", for the earlier brief" * self.earlier)


class Receipt(Struct, frozen=True):
    """Accounts for every effect, newest first as they are undone.

    ``inherited`` are effects of the run that this one was forked from: taken over, not its own.
    """

    run: str
    phase: Phase
    lines: tuple[Line, ...]
    saved: tuple[str, ...]
    inherited: tuple[str, ...] = ()


def receipt(state: RunState) -> Receipt:
    """Account for every effect of the run as it stands now."""
    effects = (effect for effect in reversed(state.effects.values()) if not state.repeated(effect))
    lines = tuple(_effect_line(state, effect) for effect in effects)
    return Receipt(state.journal, state.phase, lines, tuple(state.saved), state.inherited)


def _effect_line(state: RunState, effect: Attempt) -> Line:
    word, why = _word(state, effect)
    earlier = max(effect.course, effect.reused) < state.entered_course
    group = GROUPS.get(word) or OTHERS.get(state.phase, "Not undone")
    can_undo = effect.can_be_undone and effect.position not in state.undo_wanted
    return Line(
        effect.position,
        effect.label,
        word,
        why,
        earlier,
        group,
        can_undo and VERBS["undo"] in TRANSITIONS[state.phase],
    )


def _word(state: RunState, effect: Attempt) -> tuple[str, str]:
    if effect.undo_at_work:
        return "unknown", f"undo: {effect.undo_why}"
    if not state.alive and effect.position in state.still_to_undo and not effect.undone:
        return UNDO_ASKED, ""  # the journal does not say whether anybody works on it
    match effect.outcome:
        case None:
            return _in_flight(state)
        case Outcome.NOT_STARTED:
            return "not started", ""
        case Outcome.NOT_DONE:
            return "aborted", "proven"
        case Outcome.UNKNOWN:
            tried = effect.undone is not None or effect.undo_why
            return "unknown", "undo attempted" if tried else _doubt(effect)
        case _:
            return _done(state, effect)


def _doubt(effect: Attempt) -> str:
    """Say why nobody knows. That a check has looked in vain says more than how the try ended."""
    if not effect.unseen:
        return effect.why
    return f"{effect.why}; {NOT_SEEN}" if effect.why in LOST else NOT_SEEN


def _in_flight(state: RunState) -> tuple[str, str]:
    if state.alive:
        return "in flight", ""
    return "unknown", "in flight when the run was stopped"


def _done(state: RunState, effect: Attempt) -> tuple[str, str]:
    if effect.undone:
        return "undone", ""
    if effect.undone is False:
        return "could not be undone", effect.undo_why
    if effect.irreversible:
        return "final", "irreversible"
    if not effect.undoable:
        return "kept", "no undo"
    if effect.child and not state.cancel_tree:
        return "kept", "goes on by itself"
    if effect.undo:
        return "being undone", ""
    if state.phase is Phase.CANCELLING and not state.cancel_now:
        return "to be undone", ""
    if effect.undo_why == WORKER_LOST:  # it may have been undone, and nobody has tried again
        return "unknown", "undo attempted"
    if effect.undo_why:
        return "could not be undone", effect.undo_why
    skipped = state.phase is Phase.KILLED or state.cancel_now
    return "kept", "undo skipped" if skipped else ""


STATUS_WIDTH: Final = 120
WORKING: Final = "working: "
HELD: Final = {
    Cause.USER: "paused",
    Cause.CAP: "held at a cap, waiting for you",
    Cause.STALE: "held because something has changed, waiting for you",
    Cause.HUMAN: "handed to a person",
    Cause.PARKED: "parked",
    Cause.DRAIN: "paused, its process is ending",
}
"""The person's own hold first: it is what they remember."""

NOBODY: Final = "nobody drives this"
"""Of a run that needs a driver and has none that lives."""

MAY_BE_DEAF: Final = (
    ", but it is not known whether this agent reads messages while it works: a redirect reaches it"
)
"""Of an agent that does not converse and has not looked for messages yet."""


def status(state: RunState, now: float, *, alone: bool = False) -> str:
    """Return the line, for example ``working: Score churn, step 3 of 5, 2:10``.

    ``alone`` says that the run needs a driver and has none that lives.
    """
    line = _line(state, now, alone)
    if alone:
        line = f"{NOBODY}, for {_span(now - alone_from(state))} now; it was {line}"
    return _cut(line, STATUS_WIDTH)


def doing(state: RunState, now: float, *, alone: bool = False) -> str:
    """Return what a run is at, for example ``Score churn, step 3 of 5, 2:10``; "" if at nothing."""
    if alone or state.phase is not Phase.RUNNING:
        return ""
    return _cut(_doing(state, now, alone), STATUS_WIDTH - len(WORKING))


def undoing(state: RunState) -> str:
    """Return what a run that is being cancelled still does, in a few words; "" if nothing."""
    if state.phase is not Phase.CANCELLING:
        return ""
    labels = ", ".join(state.effects[effect].label for effect in state.undos.values())
    return _unseen(state) or (f"undoing {labels}" if labels else "")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _line(state: RunState, now: float, alone: bool) -> str:
    match state.phase:
        case Phase.RUNNING:
            return f"{WORKING}{_doing(state, now, alone)}"
        case Phase.PAUSING:
            finishing = _names(state)
            return f"pausing: finishing {finishing}" if finishing else "pausing"
        case Phase.PAUSED if state.human and Cause.USER not in state.holds:
            return f"{state.human} has taken it over"
        case Phase.PAUSED:
            words = next((held for cause, held in HELD.items() if cause in state.holds), "paused")
            parked = words == HELD[Cause.PARKED] and state.parked_for
            return f"{words} {state.parked_for}" if parked else words
        case Phase.WAITING:
            return "waiting for you"
        case Phase.CANCELLING:
            return ": ".join(filter(None, ["cancelling", undoing(state)]))
        case _ if not state.alive and state.still_to_undo:
            return f"{state.phase}; {UNDO_ASKED}: {listed(_to_be_undone(state))}"
        case Phase.FAILED:
            return f"failed: {state.error}" if state.error else "failed"
        case _:
            return str(state.phase)


def read_by(state: RunState, *, hosted: bool, heard: bool = False) -> str:
    """Return whether anybody reads a message, in words; "" if the run reads it as it goes.

    Where an agent converses (``hosted``) somebody always does; a stop word is ``heard`` at once.
    """
    if not (state.alive or hosted):
        return "nobody reads this until a run is started here"
    reads = hosted or heard or state.reads_messages
    if Cause.USER in state.holds and not heard:
        return f"your message is kept until you resume{'' if reads else MAY_BE_DEAF}"
    return "" if reads else f"stored{MAY_BE_DEAF}"


def place(state: RunState) -> str:
    """Return the place of a run: ``step 3 of 5`` of its plan, or just ``step 3``."""
    number = state.spent.steps - state.plan_from
    planned = number < len(state.plan)
    return f"step {number + 1} of {len(state.plan)}" if planned else f"step {state.spent.steps + 1}"


def _doing(state: RunState, now: float, alone: bool) -> str:
    number = state.spent.steps - state.plan_from
    planned = state.plan[number] if number < len(state.plan) else ""
    seconds = seconds_in_motion(state, now, alone=alone)
    asked = len(state.questions)
    parts = [
        _names(state) or _unseen(state) or planned,
        place(state),
        _clock(int(seconds)),
        f"{asked} question{'s' * (asked > 1)} for you" if asked else "",
    ]
    return ", ".join(part for part in parts if part)


def _to_be_undone(state: RunState) -> list[Attempt]:
    return [state.effects[position] for position in sorted(state.still_to_undo)]


def _names(state: RunState) -> str:
    """Name the attempts in flight; a plain read is not on record until it has its result."""
    return " and ".join(dict.fromkeys(attempt.name for attempt in state.open.values()))


def _unseen(state: RunState) -> str:
    """Name the effects that may still arrive, and are looked up again."""
    labels = ", ".join(dict.fromkeys(attempt.label for attempt in state.unseen))
    return f"{NOT_SEEN}: {labels}" if labels else ""


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _span(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h``, ``2 d``: how long something lasts, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


DIFF_WIDTH: Final = 160  # one line of the page; the full text is a tap away


class Piece(Struct, frozen=True):
    """Some words that were kept, removed or added."""

    kind: str  # "same" | "removed" | "added"
    text: str


def word_diff(old: str, new: str) -> tuple[Piece, ...]:
    """Return the change from ``old`` to ``new``, by words."""
    before, after = old.split(), new.split()
    pieces: list[Piece] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", " ".join(before[a:b])))
            continue
        if a < b:
            pieces.append(Piece("removed", " ".join(before[a:b])))
        if c < d:
            pieces.append(Piece("added", " ".join(after[c:d])))
    return tuple(pieces)


def one_line(old: str, new: str) -> str:
    """Return the change as text: removed words between ``~``, added ones between ``=``."""
    marks = {"same": ("", ""), "removed": ("~", "~"), "added": ("=", "=")}
    words = (f"{marks[p.kind][0]}{p.text}{marks[p.kind][1]}" for p in word_diff(old, new))
    line = " ".join(words)
    return line if len(line) <= DIFF_WIDTH else line[: DIFF_WIDTH - 1] + "…"


def changed_meanwhile(
    brief: tuple[str, str],
    limits: tuple[Limits, Limits],
    *,
    answers: Sequence[str] = (),
    messages: int = 0,
) -> str:
    """Return the line that a resume shows: before and after of what the person could change."""
    parts = []
    if brief[0] != brief[1]:
        parts.append(one_line(*brief))
    old, new = (msgspec.structs.asdict(side) for side in limits)
    parts += [f"{name} cap {old[name]} → {new[name]}" for name in new if old[name] != new[name]]
    parts += [f"answered {answer!r}" for answer in answers]
    if messages:
        parts.append(f"{messages} new message{'s' if messages > 1 else ''}")
    return "; ".join(parts) or "nothing changed"
