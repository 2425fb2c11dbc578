"""Every error that Midflight raises; the reference for Python draws them as a tree.

A message says what happened, where, what to do now, and whether anything changed.
"""

from __future__ import annotations

from typing import Final, Self

DOTS: Final = "•••"
"""Stands in a message where a secret stood."""

ENDED: Final = {
    "done": "is done",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "killed": "was killed",
}
"""The end of a run, in the words of a sentence."""


class MidflightError(Exception):
    """Base of all errors of this package."""


class Refused(MidflightError):
    """A request was understood and not taken. Nothing changed."""


class IllegalSignal(Refused):
    """The phase of the run does not accept this request."""

    def __init__(self, run: str, phase: str, signal: str, accepts: tuple[str, ...]) -> None:
        self.run, self.phase, self.signal, self.accepts = run, phase, signal, accepts
        options = ", ".join(accepts)
        if how := ENDED.get(phase):
            left = f"; what it still takes: {options}" if options else ""
            what = f"{how} and takes no {signal} any more{left}"
        else:
            what = f"is {phase} and cannot take {signal}; it accepts {options or 'nothing now'}"
        super().__init__(f"run {run} {what}. The run was not changed.")


class Outdated(Refused):
    """The caller decided on a state that has changed since."""

    def __init__(self, run: str, expected: int, changed_at: int) -> None:
        self.run, self.expected, self.changed_at = run, expected, changed_at
        super().__init__(
            f"run {run} has changed at position {changed_at}, and this request was decided on what "
            f"was known at position {expected}: look again, and repeat it if it still fits. The "
            "run was not changed."
        )


class KeyReused(Refused):
    """An idempotency key came back with another body."""

    def __init__(self, journal: str, key: str, position: int) -> None:
        self.journal, self.key, self.position = journal, key, position
        super().__init__(
            f"the idempotency key {key!r} was used at position {position} of {journal} for another "
            "request; choose a new key. Nothing was changed."
        )


class ScopeStopped(Refused):
    """An operator has stopped everything in this scope."""

    def __init__(self, scope: str, by: str) -> None:
        self.scope, self.by = scope, by
        kind, _, name = scope.partition(":")
        super().__init__(
            f"operator {by} has stopped all runs{f' of {kind} {name}' if name else ''}: none of "
            f"them starts or goes on until an operator releases {scope!r}. Nothing was changed."
        )


class NotAllowed(Refused):
    """The person who asks has not the role for it."""

    def __init__(self, by: str, role: str, signal: str, needs: str) -> None:
        self.by, self.role, self.signal, self.needs = by, role, signal, needs
        an = "an" if role.startswith("o") else "a"
        super().__init__(f"{by} is {an} {role} and {signal} needs {needs}. Nothing was changed.")


class InvalidRequest(Refused):
    """The request cannot be right, whatever the state."""


class UnknownAgent(InvalidRequest):
    """A server drives no agent of that name."""


class IllegalEvent(MidflightError):
    """A driver tried to append what the table or the pairing rules forbid."""

    def __init__(self, journal: str, event: str, why: str) -> None:
        self.journal, self.event, self.why = journal, event, why
        super().__init__(f"{journal}: {event} is not allowed here: {why}. Nothing was appended.")


class InvalidTool(MidflightError):
    """A tool is declared in a way that could do harm."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"tool {name}: {why}.")


class StepFailed(MidflightError):
    """A step has failed. Raised live as at replay, with the words that were recorded."""

    def __init__(self, step: str, error: str) -> None:
        self.step, self.error = step, error
        super().__init__(f"step {step!r} failed: {error}")


class NoResult(MidflightError):
    """A run has ended without returning anything, and its result was asked for.

    ``phase`` says how it ended, ``error`` why, where that is known.
    """

    def __init__(self, run: str, phase: str, error: str = "") -> None:
        self.run, self.phase, self.error = run, phase, error
        how = "has failed" if phase == "failed" else f"was {phase}"
        why = f": {error.rstrip('.')}" if error else ""
        super().__init__(
            f"run {run} {how} and has no result{why}. What it has done is in its receipt."
        )


class NeedsPerson(MidflightError):
    """A run waits for a person's answer, and the caller of ``result`` does not want to wait.

    Raised by ``result(run, on_question="raise")``. ``question`` is what ``answer`` takes.
    """

    def __init__(self, run: str, question: int, message: str, kind: str = "") -> None:
        self.run, self.question, self.message, self.kind = run, question, message, kind
        asked = message.rstrip()
        stop = "" if asked.endswith((".", "?", "!", "…")) else "."
        super().__init__(
            f"run {run} waits for a person to answer: {asked}{stop} Answer question {question} and "
            "wait for the result again; the run goes on waiting until then."
        )


class SourceGone(MidflightError):
    """A fork cannot go on: the run that it takes over from is not in the store any more."""

    def __init__(self, source: str) -> None:
        self.source = source
        super().__init__(
            f"this run cannot go on: it builds on work of run {source}, which is not in this store "
            "any more, because it was purged, or the store comes from a backup without it. Start a "
            "new run instead."
        )


class NotPlainData(MidflightError):
    """A value that has to be stored is not plain data. ``path`` leads to the part of it."""

    def __init__(self, step: str, why: str, path: str = "") -> None:
        self.step, self.why, self.path = step, why, path
        place = f"step {step!r}: " if step else ""
        super().__init__(
            f"{place}{why}. Use plain data: numbers, text, lists, dicts with text as keys, "
            "dataclasses. Nothing was stored."
        )


class NotReadable(MidflightError):
    """A part of an entry is not what it has to be: text where there should be a number."""

    def __init__(self, journal: str, event: str, why: str) -> None:
        self.journal, self.event = journal, event
        super().__init__(f"{journal}: {event} cannot be stored: {why}. Nothing was appended.")


class ProcessFailed(MidflightError):
    """Work in a process of its own has come to nothing."""


class ProcessNotStarted(ProcessFailed):
    """The command could not be run."""

    def __init__(self, command: str, why: str) -> None:
        self.command, self.why = command, why
        super().__init__(f"{command!r} could not be started: {why}. Nothing was run.")


class CallRefused(ProcessFailed):
    """A call cannot be sent to another process."""

    def __init__(self, function: str, why: str) -> None:
        self.function, self.why = function, why
        super().__init__(f"{function} cannot be called in a process: {why}. Nothing was run.")


class CallFailed(ProcessFailed):
    """A function failed in its process. ``kind`` is the type of what it raised, if it did."""

    def __init__(self, function: str, why: str, *, kind: str = "", traceback: str = "") -> None:
        self.function, self.why, self.kind, self.traceback = function, why, kind, traceback
        super().__init__(f"{function} failed in its process: {why}.")
        if traceback:
            self.add_note(f"The traceback from there:\n{traceback.rstrip()}")


class ModelError(MidflightError):
    """A language model gave no whole answer. ``retryable`` says whether asking again may help."""

    retryable = False


class ModelBusy(ModelError):
    """The model cannot answer now: limits, overload, a network that fails, silence."""

    retryable = True

    def __init__(self, model: str, why: str, *, retry_after: float | None = None) -> None:
        self.model, self.why, self.retry_after = model, why, retry_after
        when = "in a while" if retry_after is None else f"in {retry_after:g} s"
        super().__init__(
            f"{model} cannot answer now: {why}. Ask again {when}. No part of an answer came."
        )


class ModelRefused(ModelError):
    """The provider does not take the request. ``status`` is its HTTP status, 0 if there is none."""

    def __init__(self, model: str, why: str, now: str, *, status: int = 0) -> None:
        self.model, self.why, self.now, self.status = model, why, now, status
        super().__init__(f"{model} refused the request: {why}. {now} No answer was made.")


class ModelBroken(ModelError):
    """An answer broke off, or a piece of it could not be read. ``partial`` is its text so far."""

    retryable = True

    def __init__(self, model: str, why: str, partial: str = "") -> None:
        self.model, self.why, self.partial = model, why, partial
        kept = (
            f"Its text so far ({len(partial):,} characters) is kept as partial work"
            if partial
            else "No text of it had come"
        )
        super().__init__(f"the answer of {model} is not whole: {why}. {kept}. Ask again.")


class ModelUnavailable(ModelError):
    """There is no such model here: its address, its key or its package is missing."""

    def __init__(self, why: str, now: str) -> None:
        super().__init__(f"{why}. {now} Nothing was sent.")


class ModelNotInstalled(ModelUnavailable):
    """The package that speaks to the model is missing; the message names the extra."""


class UnpairedCall(ModelError):
    """A conversation in which a tool call has not exactly one result, right after it."""

    def __init__(self, call: str, why: str) -> None:
        self.call = call
        super().__init__(
            f"tool call {call} {why}. Each call needs one result, right after it. Nothing was sent."
        )


class RemoteError(MidflightError):
    """A server could not be asked."""


class ServerAway(RemoteError):
    """The server cannot be reached. ``sent`` says whether what was asked may have arrived."""

    def __init__(self, url: str, why: str, *, sent: bool = False, key: str = "") -> None:
        self.url, self.why, self.sent, self.key = url, why, sent, key
        unsure = "It is not known whether the request was taken: look before you send it again"
        unsure += f", or send it again with the key {key}: then it is done only once" * bool(key)
        super().__init__(
            f"cannot reach the agent server at {url}: {why}. Runs are saved there and go on when "
            f"it is back. {unsure if sent else 'Nothing was changed'}."
        )


class NotAdmitted(RemoteError):
    """The server does not let this caller in."""


class ServerFailed(RemoteError):
    """The server failed at it, or what answers there is not Midflight."""


class StoreError(MidflightError):
    """The journal could not be read or written. ``unsure``: it may have been written."""

    unsure = False

    def leaving_it_open(self) -> Self:
        """Mark an error as unsure, and return it: something may have been changed."""
        self.unsure = True
        return self


class JournalConflict(StoreError):
    """The journal has moved on. Read again and decide anew; this never means a lost run."""

    def __init__(self, journal: str, expected: int, found: int) -> None:
        self.journal, self.expected, self.found = journal, expected, found
        super().__init__(
            f"{journal} has gone on to position {found} since it was read at {expected}: read it "
            "again and decide anew. Nothing was appended."
        )


class JournalNotFound(StoreError):
    """There is no such run or thread."""

    def __init__(self, journal: str) -> None:
        self.journal = journal
        super().__init__(
            f"there is no run or thread {journal} in this store: check the id. What ended long ago "
            "may have been purged."
        )


class NoSuchRequest(JournalNotFound):
    """There is no request of a person at that position."""

    def __init__(self, journal: str, position: int) -> None:
        super().__init__(journal)
        self.position = position
        self.args = (
            f"there is no request at position {position} of {journal}: give the position that its "
            "acknowledgement names. Nothing was changed.",
        )


class CorruptEntry(StoreError):
    """A stored entry cannot be read. Only its own journal is affected."""

    def __init__(self, journal: str, position: int, why: str) -> None:
        self.journal, self.position = journal, position
        super().__init__(
            f"{journal} cannot be read at position {position}: {why}. Entries before it are "
            "intact and other journals are not affected; restore this journal from a backup."
        )


class PayloadTooLarge(StoreError):
    """A value is larger than a journal takes."""

    def __init__(self, journal: str, event: str, size: int, limit: int) -> None:
        self.journal, self.size, self.limit = journal, size, limit
        super().__init__(
            f"{journal}: {event} carries {size:,} bytes and the limit is {limit:,}. Save the data "
            "to a file or a table and record where it is. Nothing was appended."
        )


class StoreVersion(StoreError):
    """The store has a newer layout than this code knows."""


class StoreBusy(StoreError):
    """Another process holds the store for longer than we wait."""


class StoreReadOnly(StoreError):
    """The store may be read and not written."""


class StoreFull(StoreError):
    """There is no space left for the store."""


class StoreReplaced(StoreError):
    """The file was moved, deleted, replaced or overwritten, or is in use under another name.

    Waiting does not help: a process that drives runs on it has to stop.
    """


class StoreUnavailable(StoreError):
    """The store cannot be reached, or it went away before it answered."""


def to_install(*extras: str) -> str:
    """Return the command that installs Midflight with these extras.

    There is no release: the name on the package index is not ours, so nobody is told to use it.
    """
    where = "in the folder that holds your clone of Midflight"
    return f"pip install './midflight[{','.join(extras)}]' ({where})"
