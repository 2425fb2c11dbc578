"""The cursor: the function's place in the journal's record of its steps.

After a crash or an eviction the function is called again and asks for its steps as before; those
that have an outcome on record get it, in any order. A step that is not on record waits until the
function has asked for everything on record: only then is it certain that the function is where it
was. A redirect that it was told of is told again at the same place.

A function that did not catch a redirect was *entered again*, with the new brief: from there on the
earlier records are at hand, and none of them must be asked for.

An approval and a record count only for the call that they are about, byte for byte. Identities of
steps and questions hold a digest of what the function has given. In runs of earlier releases that
digest has 48 bits, and two calls with the same one can be made in minutes. So what is on record
under such an identity is compared with what is asked for now. Where they differ, the call gets an
identity with a full-length digest, and nothing that was said about the other one counts for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from midflight.journal import events as e
from midflight.journal.state import KEYED, about_step, turn
from midflight.run import Redirected
from midflight.runtime import values
from midflight.runtime.replay.history import ASKED_BY_IT, History
from midflight.runtime.replay.step_records import Begun, Record, Told


@dataclass(slots=True, eq=False)
class Cursor(History):
    """Answers the function's steps from the record; it learns the record by hearing every event."""

    _order: list[tuple[int, str]] = field(default_factory=list)
    """Records still to be given, the next one last."""

    def enter(self) -> None:
        """The function is called (again): it must ask for everything since its start."""
        self._begin_counting()
        entry = self.entry
        entry.told = 0
        self.brief, self.profile, self.now = entry.brief, entry.profile, entry.at
        since = entry.position
        records = self.records
        order = [
            (found.position, step) for step, found in records.items() if found.position > since
        ]
        others = self._doubts | self._asked_by_the_function()  # layer question-on-record-has
        expected = {step for _, step in order}
        expected.update(step for step, position in others.items() if position > since)
        expected.update(step for step in entry.reused if step in records or step in others)
        self.unclaimed = unclaimed = expected.difference(entry.excused, entry.left)
        not_needed = [step for step in (*records, *others) if step not in expected]
        self.left_over = dict.fromkeys((*not_needed, *entry.excused, *entry.carried))
        if len(unclaimed) < len(expected):
            order = [place for place in order if place[1] in unclaimed]
        self._order = sorted(order, reverse=True)

    def _asked_by_the_function(self) -> dict[str, int]:
        """Questions of the function itself, and where it learnt the answer."""
        return {
            step: self._answered_at(question)
            for step, question in self.questions.items()
            if step.startswith(ASKED_BY_IT)
        }

    def _answered_at(self, question: int) -> int:
        answer = self.answers.get(question)
        return answer.position if answer is not None else question

    @property
    def unfinished(self) -> bool:
        """True while the function is not yet where it was."""
        return bool(self.unclaimed) or self.entry.told < len(self.entry.redirects)

    def given(self, step: str) -> Record | None:
        """The record of the very next step, if nothing is left to look after: the usual case."""
        entry = self.entry
        if not self._order or self._order[-1][1] != step or entry.left or entry.tells:
            return None
        self._order.pop()
        self.unclaimed.discard(step)
        if self.left_over:
            self.left_over.pop(step, None)
        record = self.records[step]
        if record.at > self.now:
            self.now = record.at
        return record

    def place_step(
        self, key: str, name: str, stored: Raw, asked: str, *, reusable: bool
    ) -> tuple[str, str]:
        """Return the identity of a step, and the digest of its arguments that is in it."""
        if key:
            return self.identity(f"{KEYED}{key}"), asked
        identity = self.identity(self.scoped(f"{name}:{asked}", reusable=reusable))
        if self.digest_bytes < values.DIGEST_BYTES and _is_another_call(self, identity, stored):
            self.give_back(identity)
            asked = values.digest(bytes(stored))
            identity = self.identity(self.scoped(f"{name}:{asked}", reusable=reusable))
        return identity, asked

    def is_new(self, step: str) -> bool:
        """Return whether nothing on record concerns this step: the usual case of new work."""
        entry = self.entry
        known = step in self.records or step in self._doubts or step in entry.left
        return not known and entry.told == len(entry.redirects)

    def is_turn_of(self, step: str) -> bool:
        """Return whether a call need not wait: its record can be given, or there is no record."""
        if step in self.entry.left or (self.tells and self.is_told(step)):
            return False
        record = self.records.get(step)
        return record is None or (record.position < self.entry.horizon and self.is_next(step))

    def is_next(self, step: str) -> bool:
        """Return whether everything that the function had learnt before this was given to it again.

        So what it does in parallel comes to its ends in the order of that time.
        """
        while self._order and self._order[-1][1] not in self.unclaimed:
            self._order.pop()
        return not self._order or self.records[step].position <= self._order[-1][0]

    def give_in_any_order(self) -> bool:
        """The function asks in another order; what is on record may be given all the same."""
        kept, self._order = self._order, []
        return bool(kept)

    def _is_asked_for(self, step: str) -> None:
        self.unclaimed.discard(step)
        self.left_over.pop(step, None)

    def ask_for_question(self, step: str) -> None:
        """The function asks a person; a question on record is the one that it asked before."""
        if self.question_of(step) is not None:
            self._is_asked_for(step)

    def question_of(self, step: str) -> int | None:
        """The question that a step has asked, unless that was after a redirect still to be told."""
        question = self.questions.get(step)
        return question if question is not None and question < self.entry.horizon else None

    @property
    def tells(self) -> bool:
        """True if there is a redirect that the function has still to be told."""
        return self.entry.told < len(self.entry.redirects)

    def count_call(self) -> None:
        """The function makes one more call."""
        self.calls += 1

    def redirect_due(self, waiting: Collection[str]) -> bool:
        """Return whether the function has come to where the next redirect was told."""
        if not self.entry.tells:
            return False
        told = self.entry.redirects[self.entry.told]
        missing = (self.position_of(s) < told.position for s in self.unclaimed - told.calls)
        there = told.calls <= set(waiting) and (bool(told.calls) or self.calls >= told.after)
        return there and not any(missing)

    def redirect(self) -> Told:
        """Tell the next redirect."""
        told = self.entry.redirects[self.entry.told]
        self.brief, self.profile = told.brief, told.profile
        self.entry.told += 1
        begun = (step for step in told.calls if self.position_of(step) < told.position)
        self.unclaimed.difference_update(begun)  # asked for, and may never be again
        return told

    def is_told(self, step: str) -> bool:
        """Return whether a call is one of those that the next redirect is told to."""
        entry = self.entry
        return entry.tells and step in entry.redirects[entry.told].calls

    def is_done(self, step: str) -> bool:
        """Return whether a call has what it waited for, and only has to give it to the function."""
        return step in self.records or step in self.spawned or step in self.taken

    def missing(self) -> list[str]:
        """Return the steps that the function should have asked for and has not, in their order."""
        return sorted(self.unclaimed, key=self.position_of)

    def position_of(self, step: str) -> int:
        """Return where a step was recorded, or begun if nobody knows how it ended."""
        if step in self.records:
            return self.records[step].position
        if step in self._doubts:
            return self._doubts[step]
        question = self.questions.get(step)
        return self.entry.position + 1 if question is None else self._answered_at(question)

    def began_at(self, step: str) -> int:
        """Return where a step was begun; a plain read is where it was recorded."""
        attempts = self._by_step.get(step)
        return attempts[0] if attempts else self.position_of(step)

    def name_of(self, step: str) -> str:
        """Return the name of a step, in words for a person."""
        if step in self.entry.left:
            return f"giving up {self.entry.left[step].name}"
        record = self.records.get(step)
        if step in self.spawned:
            return f"background run: {self.spawned[step].brief}"
        if record is not None:
            return record.name or ("messages read" if step in self.taken else "something said")
        if step in self._doubts:
            return self._begun[self._doubts[step]].event.name
        return f"the question {self.asked[self.questions[step]].message!r}"

    def identity(self, what: str) -> str:
        """The n-th time that this is asked for since the function was entered.

        Once needs no number, unless what follows a ``#`` of its own could be taken for one.
        """
        free = self._free.get(what)
        if free:
            number = min(free)
            free.remove(number)
        else:
            self._occurrences[what] = number = self._occurrences.get(what, 0) + 1
        return what if number == 1 and "#" not in what else f"{what}#{number}"

    def give_back(self, identity: str) -> None:
        """A call has not used up its turn: the next one may have it."""
        what, number = turn(identity)
        self._free.setdefault(what, []).append(number)

    def scoped(self, what: str, *, reusable: bool = True) -> str:
        """An unkeyed identity: new after a snapshot, and after a redirect unless reusable."""
        since = self.scope if reusable else max(self.scope, self._unlike)
        return f"{what}@{since}" if since else what

    def turn_away(self, step: str, signal: Redirected) -> None:
        """A call that is told of a redirect has not used up its turn; it may have begun, though."""
        self.give_back(step)
        told, redirects = self.entry.told, self.entry.redirects
        signal.in_doubt = bool(told) and step in redirects[told - 1].doubts
        if signal.in_doubt:
            signal.cut = self._cut_before(step, redirects[told - 1].position)

    def _cut_before(self, step: str, position: int) -> str:
        """Return words about the cut of a step's last attempt before a position, or nothing."""
        begun = [attempt for attempt in self._by_step.get(step, ()) if attempt < position]
        cut = self.cuts.get(begun[-1]) if begun else None
        return cut.words() if cut is not None else ""

    def find(self, step: str) -> Record | None:
        """The record of a step, if there is one and it is its turn."""
        record = self.records.get(step)
        return record if record is not None and record.position < self.entry.horizon else None

    def claim(self, step: str) -> Record | None:
        """Ask for a step: its record, or None if it has to be done."""
        record = self.find(step)
        if record is not None:
            self.learn(record.at)
        if record is not None or self._doubts.get(step, math.inf) < self.entry.horizon:
            self._is_asked_for(step)
        return record

    def is_reuse(self, step: str) -> bool:
        """Return whether a record stems from before the last redirect that was not caught.

        It is noted once: then the record belongs to this brief, too.
        """
        before = 0 < self.records[step].position < self.redirected_at
        return before and step not in self.entry.reused

    def has_begun(self, step: str) -> bool:
        """Return whether there was an attempt at a step."""
        return step in self._by_step

    def is_first_call(self, step: str) -> bool:
        """Return whether no attempt was made at this step, or at one with the same arguments.

        Only a call that was made before can be part of a circle.
        """
        return step not in self._by_step and ("#" not in step or turn(step)[1] == 1)

    def attempts_of(self, step: str) -> list[Begun]:
        """The attempts at a step, in order."""
        return [self._begun[position] for position in self._by_step.get(step, ())]

    def begun(self, position: int) -> Begun:
        """Return the attempt that was begun at a position."""
        return self._begun[position]


def _is_another_call(history: Cursor, identity: str, stored: Raw) -> bool:
    """Return whether the call on record under a short identity had other arguments.

    A person may have edited the arguments of the attempt: then the question shows what was given.
    """
    about = [asked for asked in history.asked.values() if about_step(asked) == identity]
    given = [begun.event.input for begun in history.attempts_of(identity)]
    given += [shown for asked in about if (shown := arguments_shown(asked)) is not None]
    # layer earlier-releases-have-done
    return bool(given) and not any(bytes(each) == bytes(stored) for each in given)


def question_name(history: Cursor, kind: str, message: str, schema: Raw) -> str:
    """Return what the identity of a question of the function is made of."""
    size = history.digest_bytes
    short = f"{kind}:{message}:{values.digest(bytes(schema), size)}"
    if size == values.DIGEST_BYTES:
        return short
    identity = history.identity(history.scoped(short))
    history.give_back(identity)
    at = history.questions.get(identity)
    before = history.asked_before.get(identity) if at is None else history.asked[at]
    if before is None or bytes(before.schema) == bytes(schema):
        return short
    return f"{kind}:{message}:{values.digest(bytes(schema))}"


def arguments_shown(asked: e.QuestionOpened) -> Raw | None:
    """Return the arguments that a question about a step shows, as they were stored."""
    schema = msgspec.json.decode(asked.schema)
    if not isinstance(schema, dict) or "x-details" not in schema:
        return None
    return values.encode(asked.step, "its arguments", schema["x-details"])
