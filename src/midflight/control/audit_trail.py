"""Every verb leaves one record in the audit, whatever becomes of it.

A verb that appends something is recorded in the same transaction (``Submit.audit``). A verb that
appends nothing, because it is refused, fails or was done before, is recorded here before the caller
is answered.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Protocol

import anyio
import msgspec
from msgspec import Raw

from midflight import audit
from midflight.audit import Deed, Fact, Flood, current_visit, deed
from midflight.control.verbs import Verb
from midflight.errors import MidflightError, Refused, StoreError
from midflight.inputs import new_id, wall_clock
from midflight.journal.record import Actor, Limits, Request
from midflight.stores.protocol import Committed, Store, Submit

RECORD_S: Final = 2.0  # seconds that a caller waits for the record of a refusal
EACH: Final = 60  # refusals of one caller in a minute that are recorded one by one
log: Final = logging.getLogger("midflight.audit")

NAMED: Final = frozenset(
    {"agent", "attempt", "choice", "declined", "fork_at", "fork_of", "how", "message", "mode"}
    | {"no_caps", "now", "of", "order", "question", "resume", "run", "scope", "thread", "todo"}
)
"""Fields of a request that are recorded as they are: ids, places and switches."""

MEASURED: Final = frozenset({"brief", "input", "note", "payload", "text", "title"})
"""Fields with what people write and give: only their lengths are recorded."""


class _Verb:
    """A verb that is being done in a task."""

    __slots__ = ("records", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.records = 0


_verb: Final[ContextVar[_Verb | None]] = ContextVar("midflight_verb", default=None)
_quiet: Final[ContextVar[bool]] = ContextVar("midflight_repeats_not_recorded", default=False)


class Audited:
    """A block that does a verb of ``Control``, and in which it leaves its record.

    A verb that another one calls is part of that one.
    """

    __slots__ = ("_asked", "_control", "_token", "mine")

    def __init__(self, control: Audits, verb: Verb, target: object, who: object) -> None:
        self._control = control
        self._asked = (verb, target, who)
        self.mine = _Verb()
        self._token: Token[_Verb | None] | None = None

    async def __aenter__(self) -> None:
        outer = _verb.get()
        inside = outer is not None and outer.task is self.mine.task
        if not inside:
            self._token = _verb.set(self.mine)

    async def __aexit__(
        self, kind: object, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        try:
            if self.mine.records:
                return
            if isinstance(error, Exception):
                # layer verb-appends-nothing-recorded
                await _note(self._control, *self._asked, _outcome(error), why=reason(error))
            elif error is None and not _quiet.get():
                await _note(self._control, *self._asked, audit.REPEATED)
        finally:
            _verb.reset(self._token)


@contextmanager
def repeats_not_recorded() -> Iterator[None]:
    """Have a verb in the block that finds nothing new leave no record; the caller says what it is.

    A client of AG-UI sends the whole conversation with whatever it asks for.
    """
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


def wrote_record() -> None:
    """Note that what is being done is in the audit."""
    verb = _verb.get()
    if verb is not None:
        verb.records += 1
    current_visit().records += 1


def submitting(store: Store, asked: Deed) -> Callable[[Submit], Coroutine[Any, Any, Committed]]:
    """Return the way to the store that records ``asked`` with what is appended."""

    async def submit(request: Submit) -> Committed:
        audit = msgspec.structs.replace(asked, id=request.id)
        done = await store.submit(msgspec.structs.replace(request, audit=audit))
        if done.records:
            wrote_record()
        return done

    return submit


def asked_for(verb: str, target: str, request: Request) -> Deed:
    """Return a verb as it is recorded when it is done."""
    return deed(verb, target, id="", who=request.who, about=about(request))


def about(request: Request) -> dict[str, Fact]:
    """Return what is recorded of a request besides who, what and to what."""
    found: dict[str, Fact] = {}
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if name in NAMED and value not in (0, "", False, ()):
            found[name] = value if isinstance(value, bool | int) else _words(value)
        elif name == "payload" and (chosen := _choice(value)):
            found["answer"] = chosen
        elif name in MEASURED and len(bytes_of(value)):
            found[f"{name}_length"] = len(bytes_of(value))
        elif name == "effects" and value:
            found["effects"] = ",".join(map(str, value))
        elif isinstance(value, Limits) and name == "limits" and value != Limits():
            found["limits"] = msgspec.json.encode(value).decode().replace('"', "")
    return found


def _choice(payload: Raw) -> str:
    """Return which of the answers to an approval it is; empty for any other answer."""
    given = msgspec.json.decode(payload)
    if isinstance(given, dict) and len(given) == 1:
        (given,) = given
        return given if given in {"edit", "respond"} else ""
    return given if given in ("approve", "reject") else ""


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def bytes_of(value: Any) -> bytes:
    """Return the bytes that a value takes in a journal."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    plain = bytes(value)
    return b"" if plain == b"null" else plain


def reason(error: Exception) -> str:
    """Return the name of a refusal; its words may hold what people wrote."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def _outcome(error: Exception) -> str:
    if isinstance(error, StoreError) and error.unsure:
        return audit.UNKNOWN
    kept_out = isinstance(error, MidflightError) and not isinstance(error, StoreError)
    missing = reason(error) in {"journal_not_found", "no_such_request", "payload_too_large"}
    refused = isinstance(error, Refused | TypeError | ValueError) or kept_out or missing
    return audit.REFUSED if refused else audit.FAILED


async def _note(
    control: Audits, verb: Verb, target: object, who: object, outcome: str, *, why: str = ""
) -> None:
    """Record a verb that has appended nothing."""
    asker = who if isinstance(who, Actor) else control._who
    named = str(getattr(target, "name", target))
    asked = deed(verb.said, named, id=new_id(), who=asker, outcome=outcome, why=why)
    await record_undone(control, asked)


class Audits(Protocol):
    """The part of ``Control`` that is needed here."""

    store: Store
    _who: Actor
    _floods: Flood


async def record_undone(control: Audits, asked: Deed) -> None:
    """Record a control that has appended nothing."""
    if asked.outcome == audit.REFUSED:
        await record_refusal(control, asked)
    else:
        await record_now(control.store, asked)
    wrote_record()


async def record_refusal(control: Audits, asked: Deed) -> None:
    """Record that somebody was refused, or count it where that has happened too often."""
    if control._floods.admits(f"{asked.by} {asked.address}".strip()):
        await record_now(control.store, msgspec.structs.replace(asked, outcome=audit.REFUSED))
    await record_counted(control)


async def record_counted(control: Audits, *, last: bool = False) -> None:
    """Record the refusals that were counted in windows that are over; all of them at the end."""
    await record_now(control.store, *summed_up(control._floods, "", all_of_them=last))


async def record_now(store: Store, *deeds: Deed) -> None:
    """Record what no journal holds, within a bound; the log says what could not be recorded."""
    if not deeds:
        return
    try:
        with anyio.fail_after(RECORD_S, shield=True):
            await store.audit(*deeds)
    except (StoreError, TimeoutError) as error:
        for lost in deeds:
            told = {"action": "audit_not_written", "deed": msgspec.structs.asdict(lost)}
            words = "The audit lacks a record (%s by %s, %s), which could not be written: %s"
            given = (
                lost.action,
                lost.by or "nobody",
                lost.outcome,
                str(error) or "no answer in time",
            )
            log.error(words, *given, extra=told | {"error": str(error)})


def summed_up(floods: Flood, door: str, *, all_of_them: bool = False) -> list[Deed]:
    """Return records of refusals that were counted and not recorded one by one."""
    return [
        Deed(
            id=new_id(),
            action="more refused",
            door=door,
            address=counted.source,
            outcome=audit.REFUSED,
            why="too_many_to_record",
            about={"count": counted.more, "since": counted.since, "until": counted.until},
        )
        for counted in floods.over(all_of_them=all_of_them)
    ]


def floods_of_callers() -> Flood:
    """Return what decides which refusals of callers that are known are recorded."""
    return Flood(wall_clock, each=EACH)
