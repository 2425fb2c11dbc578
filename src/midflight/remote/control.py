"""``RemoteControl``: the verbs of ``Control``, for the runs of a server.

The token says who the caller is, so ``who`` is not taken. Whatever changes something goes under a
key, the caller's or a new one, and can so be repeated when its answer is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self, Unpack

from msgspec import Struct
from msgspec.structs import asdict

from midflight.agents import Agent
from midflight.control import Ack, Control, Turn
from midflight.errors import NoResult
from midflight.inputs import Clock, Ids, new_id, wall_clock
from midflight.kernel.decide import Switch
from midflight.kernel.limits import NO_CAPS
from midflight.kernel.phases import Phase, Role
from midflight.kernel.record import Actor, Limits, Recorded
from midflight.kernel.state import Delivery
from midflight.remote.journals import RemoteJournals, place_of
from midflight.remote.link import PATIENCE_S, Connected, Link, checked_url
from midflight.remote.stream import AWAY_S, RemoteWatch
from midflight.remote.talks import RemoteTalks, check_who
from midflight.remote.tokens import checked_token
from midflight.schemas import check_switch
from midflight.stores.lookup import without_person
from midflight.stores.protocol import Delta, Killing
from midflight.verbs.looking import Looking, cursors_of
from midflight.verbs.telling import RunBy

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


class RemoteControl(RemoteTalks, Looking):
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
        """Where the server is."""
        return self._link.url

    async def me(self) -> Actor:
        """Return the caller that the token stands for."""
        session = await self._link.get("/v1/me", _Session)
        return Actor(by=session.by, role=session.role, channel="http")

    # ── starting and looking ─────────────────────────────────────────────────────────────────

    async def start(
        self,
        agent: Agent | str,
        brief: str,
        *,
        thread: str = "",
        input: Any = None,  # noqa: A002 - as in ``Control``
        limits: Limits | None = None,
        title: str = "",
        who: Actor | None = None,
        key: str = "",
    ) -> str:
        """Start a run and give its id. Repeated under the same key it gives the same run."""
        check_who(who)
        name = agent.name if isinstance(agent, Agent) else agent
        body = {"agent": name, "brief": brief, "thread": thread, "title": title, "input": input}
        body["limits"] = asdict(limits) if limits is not None else None
        started = await self._link.post("/v1/runs", Ack, body, key=key or self._ids())
        return started.run

    async def result(self, run: str, *, on_question: str = "wait") -> Any:
        """Wait for the end of a run and give what its function returned; see ``Control``."""
        state = await without_person(self.until, self.store, run, on_question)
        if state.phase is not Phase.DONE:
            raise NoResult(run, state.phase, state.error)
        return (await self._link.get(f"{place_of(run)}/result", _Result)).result

    async def applied(self, accepted: Ack) -> Delivery:
        """Wait until a verb was applied or superseded."""
        place = f"{place_of(accepted.run)}/deliveries/{accepted.position}"
        while True:
            found = await self._link.get(place, _Delivery, {"wait_s": DELIVERY_S})
            if found.status != "accepted":
                return Delivery(found.verb, found.status, found.at)

    def watch(self, watched: str | Mapping[str, int], after: int = 0) -> RemoteWatch[Recorded]:
        """Events of a run or a thread after a position, then live ones. Leaving cancels nothing."""
        return self.store.watch(cursors_of(watched, after))

    def watch_live(
        self, watched: str | Mapping[str, int], after: int = 0
    ) -> RemoteWatch[Recorded | Delta]:
        """As ``watch``, with what steps say in between."""
        return self.store.watch_live(cursors_of(watched, after))

    # ── the verbs ────────────────────────────────────────────────────────────────────────────

    async def converse(
        self,
        agent: Agent | str,
        thread: str,
        messages: Iterable[tuple[str, str]],
        *,
        key: str,
        who: Actor | None = None,
    ) -> Turn:
        """Say something in a conversation: a run that is in front hears it, or one is started."""
        check_who(who)
        name = agent.name if isinstance(agent, Agent) else agent
        said = [{"key": mine, "text": text} for mine, text in messages]
        body = {"agent": name, "messages": said}
        return await self._link.post(f"{place_of(thread)}/converse", Turn, body, key=key)

    async def pause(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Hold it: nothing further starts, what is in flight is ended or finishes."""
        return await self._press(run, "pause", {"scope": scope}, **by)

    async def resume(self, run: str, *, scope: str = "tree", **by: Unpack[RunBy]) -> Ack:
        """Go on where it was; a parked run comes to the front."""
        return await self._press(run, "resume", {"scope": scope}, **by)

    async def redirect(
        self, run: str, text: str, *, profile: str = "", resume: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Change course: finished work is kept, the next step is rewritten."""
        check_switch("resume", resume)
        body = {"text": text, "profile": profile, "resume": resume}
        return await self._press(run, "redirect", body, **by)

    async def cancel(
        self, run: str, *, now: bool = False, scope: str = "tree", **by: Unpack[RunBy]
    ) -> Ack:
        """Stop entirely: abort, undo, save. The receipt lists what is in flight."""
        check_switch("now", now)
        return await self._press(run, "cancel", {"now": now, "scope": scope}, **by)

    async def answer(self, run: str, question: int, payload: Any, **by: Unpack[RunBy]) -> Ack:
        """Answer a question of the run. The first answer wins."""
        return await self._press(run, "answer", {"question": question, "payload": payload}, **by)

    async def decline(self, run: str, question: int, **by: Unpack[RunBy]) -> Ack:
        """Leave a question of the run unanswered for good: the function goes on without."""
        return await self._press(run, "decline", {"question": question}, **by)

    async def raise_limits(
        self, run: str, limits: Limits = NO_CAPS, *, no_caps: bool = False, **by: Unpack[RunBy]
    ) -> Ack:
        """Set new caps, others stay; a run that is held at a cap goes on."""
        check_switch("no_caps", no_caps)
        body = {"limits": asdict(limits), "no_caps": no_caps}
        return await self._press(run, "raise_limits", body, **by)

    async def take_over(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Do it yourself: the run holds, as at a pause, until it is handed back."""
        return await self._press(run, "take_over", {}, **by)

    async def hand_back(self, run: str, note: str = "", **by: Unpack[RunBy]) -> Ack:
        """Give a run back that a person had; ``note`` is what it is told."""
        return await self._press(run, "hand_back", {"note": note}, **by)

    async def stop_effect(self, run: str, attempt: int, **by: Unpack[RunBy]) -> Ack:
        """Abort the effect that a pause waits for; its outcome becomes unknown."""
        return await self._press(run, "stop_effect", {"attempt": attempt}, **by)

    async def undo(self, run: str, effects: Iterable[int] = (), **by: Unpack[RunBy]) -> Ack:
        """Undo effects of a run that has ended; all that can be, if none are named."""
        return await self._press(run, "undo", {"effects": list(effects)}, **by)

    async def recover(self, run: str, **by: Unpack[RunBy]) -> Ack:
        """Bring a killed run back, paused. Operators only."""
        return await self._press(run, "recover", {}, **by)

    async def fork(
        self, run: str, at: int | str, *, brief: str = "", who: Actor | None = None, key: str = ""
    ) -> str:
        """Try again from a step of a run that has ended, and give the new run's id."""
        check_who(who)
        place, body = f"{place_of(run)}/fork", {"at": at, "brief": brief}
        return (await self._link.post(place, Ack, body, key=key or self._ids())).run

    async def kill(self, scope: str, *, who: Actor | None = None, reason: str = "") -> Killing:
        """The operator's switch: when this returns, everything in scope has stopped.

        Not repeated by itself once it may have arrived: the second answer would not list what the
        first has stopped.
        """
        check_who(who)
        body = {"scope": scope, "reason": reason}
        return await self._link.post("/v1/operator/kill", Killing, body)

    async def release(self, scope: str, *, who: Actor | None = None) -> bool:
        """Let a scope move again."""
        check_who(who)
        body = {"scope": scope}
        return (await self._link.post("/v1/operator/release", _Released, body)).released

    async def switches(self) -> list[Switch]:
        """The kill switches that are on."""
        return await self.store.switches()


AnyControl = Control | RemoteControl
"""A control of the runs in a store or of those of a server, for code that takes both."""
