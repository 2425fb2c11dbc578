"""``RemoteControl``: the verbs, for the runs of a server.

The token says who the caller is, so ``who`` is not taken. A request that changes something has a
key, the caller's or a new one, so that it can be repeated when its answer is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import asdict
from typing_extensions import override

from midflight.agents import Agent
from midflight.control.ack import Ack, Turn
from midflight.control.any_control import AWAY_S, PATIENCE_S, AnyControl, cursors_of
from midflight.control.remote.link import Connected, Link, checked_token, checked_url
from midflight.control.remote.remote_journals import RemoteJournals, RemoteWatch, place_of
from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.control.verbs import VERBS, Verb
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.journal.phases import Role
from midflight.journal.record import Actor, Limits, Recorded
from midflight.journal.requests import Switch
from midflight.journal.state import Delivery, RunState
from midflight.journal.threads.thread import Todo
from midflight.stores.hints import Delta
from midflight.stores.protocol import THREAD_PREFIX, Killing

DELIVERY_S: Final = 20.0  # how long the server is asked to wait, again and again


class _Session(Struct):
    by: str
    role: Role


class _Result(Struct):
    result: Any


class _Delivery(Struct):
    verb: str
    status: str
    at: int


class _Released(Struct):
    released: bool


class _Thread(Struct):
    todos: list[Todo]


class _Offers(Struct):
    todos: list[TodoOffer]


class _Transcript(Struct):
    lines: list[Line]
    next: int | None = None


ANSWERS: Final[dict[str, Any]] = {
    "ack": Ack,
    "run": Ack,
    "turn": Turn,
    "killing": Killing,
    "released": _Released,
}
"""The answer of a verb, by its name in the table -> the struct that a server sends."""


class RemoteControl(AnyControl):
    """Controls the runs of a server. Made by ``RemoteControl.open``."""

    store: RemoteJournals

    def __init__(
        self,
        link: Link,
        *,
        ids: Ids = new_id,
        away_s: float = AWAY_S,
    ) -> None:
        self._link = link
        self._ids = ids
        self.store = RemoteJournals(link, away_s=away_s)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        token: str = "",
        *,
        patience_s: float = PATIENCE_S,
        away_s: float = AWAY_S,
        connected: Connected | None = None,
        insecure: bool = False,
        ids: Ids = new_id,
        clock: Clock = wall_clock,
    ) -> AsyncIterator[Self]:
        """Talk to a server for as long as the block runs.

        A request is repeated for ``patience_s`` seconds while the server is away, a watch for
        ``away_s``; ``connected`` hears whether the server was found, by each request and watch.
        ``insecure`` lets a token go over plain HTTP to another machine.
        """
        checked = checked_url(url, insecure=insecure)
        token = checked_token(token, "what was given as a token") if token else ""
        link = Link(checked, token, patience_s=patience_s, connected=connected, clock=clock)
        async with link.http:
            yield cls(link, ids=ids, away_s=away_s)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._link.url

    async def me(self) -> Actor:
        """Return the caller that the token stands for."""
        session = await self._link.get("/v1/me", _Session)
        return Actor(by=session.by, role=session.role, channel="http")

    @override
    async def _do(
        self, verb: str, target: Any, given: dict[str, Any], by: Mapping[str, Any]
    ) -> Any:
        """Have a verb done, under a key.

        A kill has none and is not repeated by itself once it may have arrived: the second answer
        would not list what the first has stopped.
        """
        entry = VERBS[verb]
        taken = entry.checked(given, by)
        _check_who(by.get("who"))
        body = {name: _sent(value) for name, value in taken.items()}
        if entry.expect and by.get("expect") is not None:
            body["expect"] = by["expect"]
        if verb == "converse":
            body["messages"] = [{"key": key, "text": text} for key, text in body["messages"]]
        if entry.on in {"agent", "scope"}:
            body[entry.on] = _sent(target)
        key = (by.get("key") or self._ids()) if entry.key else ""
        answer = await self._link.post(_path(entry, target), ANSWERS[entry.answers], body, key=key)
        match entry.answers:
            case "run":
                return answer.run
            case "released":
                return answer.released
            case _:
                return answer

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    @override
    async def _returned(self, state: RunState) -> Any:
        return (await self._link.get(f"{place_of(state.journal)}/result", _Result)).result

    @override
    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a verb was applied or superseded; a message until it was read or put off."""
        place = f"{place_of(accepted.run)}/deliveries/{accepted.position}"
        while True:
            found = await self._link.get(place, _Delivery, {"wait_s": DELIVERY_S})
            if found.status != "accepted":
                return Delivery(found.verb, found.status, found.at)

    @override
    def watch(self, watched: str | Mapping[str, int], after: int = 0) -> RemoteWatch[Recorded]:
        """Events after a position, then new ones as they come."""
        return self.store.watch(cursors_of(watched, after))

    @override
    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> RemoteWatch[Recorded | Delta]:
        """As ``watch``, with what steps say while they work."""
        return self.store.watch_live(cursors_of(watched, after))

    @override
    async def todos(self, thread: str) -> list[Todo]:
        """List the todos of a thread, in the order in which they will be done."""
        return (await self._link.get(_of_thread(thread), _Thread)).todos

    @override
    async def preview_todos(self, thread: str) -> list[TodoOffer]:
        """List the todos, each with what it would mean now to do or to remove it."""
        return (await self._link.get(f"{_of_thread(thread)}/todos", _Offers)).todos

    @override
    async def transcript(self, thread: str) -> list[Line]:
        """All that was said and chosen in a thread, in order."""
        lines: list[Line] = []
        after: int | None = 0
        while after is not None:
            params = {"after": after}
            page = await self._link.get(f"{_of_thread(thread)}/transcript", _Transcript, params)
            lines += page.lines
            after = page.next
        return lines

    @override
    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""
        return await self.store.switches()


def _path(verb: Verb, target: Any) -> str:
    """Return the path at which a verb is asked for of this target."""
    if verb.on in {"agent", "scope"}:
        return verb.paths[0]
    place = _of_thread(target) if verb.on == "thread" else place_of(target)
    return f"{place}/{verb.place or verb.name}"


def _sent(value: Any) -> Any:
    """Return an argument as it is sent."""
    match value:
        case Agent():
            return value.name
        case Limits():
            return asdict(value)
        case _:
            return value


def _check_who(who: Actor | None) -> None:
    """Refuse a name that the server would not believe."""
    if who is not None:
        raise InvalidRequest(
            "over HTTP the token says who asks: open one connection for each person instead of "
            "giving who=. Nothing was sent."
        )


def _of_thread(thread: str) -> str:
    if not thread.startswith(THREAD_PREFIX):
        raise JournalNotFound(thread)
    return place_of(thread)
