"""The choices of a triage about messages, and what follows from them in their thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.conversation import (
    ACTIONS,
    DEFER,
    INCORPORATE,
    SWITCH,
    Choice,
    Message,
    TriageView,
    rule_triage,
)
from midflight.journal import events as e
from midflight.journal.limits import at_cap
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import NULL, Event, Recorded, Usage
from midflight.journal.state import RunState
from midflight.journal.status import status
from midflight.journal.threads import front
from midflight.journal.threads.thread import Message as Unread
from midflight.journal.threads.thread import Said, ThreadState
from midflight.journal.transition_table import TRIAGE
from midflight.runtime import foreign
from midflight.runtime.foreign import text
from midflight.runtime.host import Host
from midflight.runtime.journal_client import NOTHING
from midflight.runtime.signals import still_moves
from midflight.runtime.steps.bounds import Aborted, Raised, Returned, detachable
from midflight.runtime.steps.tool_call import GRACE_S, Call
from midflight.runtime.threads.recollection import spoken
from midflight.runtime.threads.succession import drafted, finder, thread_of
from midflight.stores.protocol import RUN_PREFIX, Committed, Draft, Submit, View
from midflight.tools.declaration import Tool

WORDS: Final = {
    INCORPORATE: "Noted. I take it into account in: {brief}",
    SWITCH: "I do this now, and then come back to: {brief}",
    DEFER: "Noted for later. I go on with: {brief}",
}
TRIAGE_S: Final = 20.0  # a triage that takes longer has nothing to say
TRANSCRIPT: Final = 20  # lines of the conversation that a triage sees
STOPPED: Final = "stopped"
LATE: Final = f"no end within {TRIAGE_S:g} s"


class Purse:
    """Hears what a triage spends."""

    def __init__(self) -> None:
        self.usage = Usage()

    def hear(self, text: str) -> None:
        """Drop what the call says on the way: it is for nobody."""

    def pay(self, usage: Usage) -> None:
        """One unknown price makes the sum unknown."""
        before = self.usage
        priced = usage.usd is not None and (before.usd is not None or not before.tokens)
        usd = (before.usd or 0.0) + (usage.usd or 0.0) if priced else None
        self.usage = Usage(tokens=before.tokens + usage.tokens, usd=usd)


class Chosen(msgspec.Struct, frozen=True):
    """The end of a triage: its attempt on record (0 if rules have chosen), and its choices."""

    attempt: int
    choices: tuple[Choice, ...] = ()
    outcome: Outcome = Outcome.DONE
    error: str = ""
    usage: Usage = Usage()


def is_open(talk: ThreadState, message: Unread) -> bool:
    """Return whether a message is still as it was when it was looked at."""
    now = talk.unread.get(message.position)
    # layer chosen-holds-for-text-looked
    return now is not None and not now.choice and now.text == message.text


def valid_choices(value: Any) -> tuple[Choice, ...]:
    """Return those of what a triage gave that are choices; it may have given anything.

    Their words are made storable, as all that code of others says.
    """
    try:
        made = list(value) if isinstance(value, Sequence) else []
        return tuple(_storable(c) for c in made if isinstance(c, Choice) and _can_be_meant(c))
    except Exception:  # noqa: BLE001 - code of the value's own class
        return ()


def _can_be_meant(choice: Choice) -> bool:
    return choice.action in ACTIONS and type(choice.message) is int


def _storable(choice: Choice) -> Choice:
    title = text(choice.title, front.TITLE_MAX)
    say, why = text(choice.say or ""), text(choice.why or "")
    return Choice(choice.message, choice.action, say=say, why=why, title=title)


def apply_choices(
    moves: front.Moves,
    view: View,
    talk: ThreadState,
    run: RunState,
    messages: list[Unread],
    chosen: Chosen,
    *,
    new: str,
) -> None:
    """Do with each message what was chosen for it; without a choice, incorporate it.

    Several messages that want to be done now become one new run. A message whose sender may not
    steer switches nothing.
    """
    by_message = {choice.message: choice for choice in reversed(chosen.choices)}
    now: list[Unread] = []
    said: dict[str, None] = {}
    why = ""
    for message in messages:
        choice = by_message.get(message.position) if message.who.role.steers else None
        choice = choice or Choice(message.position, INCORPORATE, why=chosen.error)
        match choice.action:
            case "switch":
                now.append(message)
                why = why or choice.why
            case "defer":
                front.defer(moves, talk, message, choice.title, choice.why)
            case _:
                front.incorporate(moves, talk, message.position, run.journal, choice.why)
        words = choice.say or WORDS[choice.action].format(brief=front.short(run.brief))
        said[words] = None
    untrusted = run.untrusted or not all(message.who.role.steers for message in messages)
    for each in said:
        words_said = Said(run=run.journal, text=each, kind="triage", untrusted=untrusted)
        moves.add(talk.journal, words_said)
    if now:
        front.switch(moves, talk, finder(view), now, front=run, new=new, why=why)


class Triage:
    """Chooses about messages for a host, with one call at a time."""

    __slots__ = ("_call", "_host")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._call: Call | None = None

    @property
    def may_ask(self) -> bool:
        """True if a call may begin: nobody holds or stops the run, and it is driven here."""
        host = self._host
        # layer nobody-asked-while-person-holds
        return host.gate.moves and host.signals.told is None and not host.gate.draining

    async def choose(self, messages: list[Unread]) -> Committed | None:
        """Choose about these messages, and make that true. None when it was stopped on the way."""
        # layer model-chooses-not-told-what-viewer
        chosen = await self._chosen([m for m in messages if m.who.role.steers])
        return None if chosen is None else await self._apply(messages, chosen)

    def abort(self, why: str) -> None:
        """End the call that is under way."""
        if self._call is not None:
            self._call.abort(why)

    def _abort_if_stopped(self, _record: Recorded) -> None:
        """Abort the call at once, in both modes, if the run is held, redirected or cancelled."""
        if self._call is None or self.may_ask:
            return
        state = self._host.journal.state
        redirected = "redirect" in state.pending.values()
        cancelled = state.phase is Phase.CANCELLING
        self.abort("redirected" if redirected else "cancelled" if cancelled else "paused")

    async def _chosen(self, messages: list[Unread]) -> Chosen | None:
        """Choose about messages of people who may steer. None when it was stopped on the way."""
        host = self._host
        if not messages:
            return Chosen(0)
        view = await self._view(messages)
        if host.agent.triage is None:
            return Chosen(0, tuple(await rule_triage(view)))
        caps = msgspec.structs.replace(host.journal.state.limits, steps=None, tool_calls=None)
        if (
            meter := at_cap(host.journal.state, host.journal.clock.in_motion(), caps=caps)
        ) is not None:
            return Chosen(0, error=f"the cap on {meter.name} is reached")
        return await self._asked(view, messages[-1].position)

    async def _view(self, messages: list[Unread]) -> TriageView:
        host, state = self._host, self._host.journal.state
        before = messages[0].position - 1
        said = await spoken(host.journal.client, state.thread, before, TRANSCRIPT)
        return TriageView(
            brief=state.brief,
            status=status(state, host.clock()),
            plan=state.plan,
            messages=[Message(m.position, m.text, m.who.by, m.who.role, m.at) for m in messages],
            transcript=said,
            run=host.journal.run,
        )

    async def _asked(self, view: TriageView, upto: int) -> Chosen | None:
        """Ask the agent's own triage, on record like every call of a model."""
        host = self._host
        written = await host.journal.decide(partial(self._started, upto))
        if not written:
            return None
        attempt, purse = written[-1].position, Purse()
        declared = Tool(name=TRIAGE, function=self._triage, effect=Effect.MODEL, timeout=TRIAGE_S)
        if not self.may_ask:  # no await from here to the first line of the call
            await self._settle(Chosen(attempt, outcome=Outcome.NOT_STARTED))
            return None
        self._call = call = Call(declared, (view,), {}, host.alarms, purse)
        deaf = host.alarms.loop.call_later(TRIAGE_S + GRACE_S, call.abort, LATE)
        try:
            with host.journal.listening(self._abort_if_stopped):  # layer hold-of-waiting-run-aborts
                ending = await call.run()
        finally:
            deaf.cancel()
            self._call = None
        match ending:
            case Returned(value=value):
                choices = valid_choices(value)
                error = "" if choices else "it has chosen nothing"
                return Chosen(attempt, choices, error=error, usage=purse.usage)
            case Raised(error=raised):
                failed, words = Outcome.FAILED, foreign.words(raised)
                return Chosen(attempt, outcome=failed, error=words, usage=purse.usage)
            case Aborted(why=why):
                ended = Chosen(attempt, outcome=Outcome.ABORTED, error=why, usage=purse.usage)
                if why == LATE:
                    return ended  # it would be as deaf the next time
                await self._settle(ended)
                return None

    async def _triage(self, view: TriageView) -> Sequence[Choice]:
        """The agent's own. It has no effects, so one that ignores its end is left behind."""
        triage, call = self._host.agent.triage, self._call
        assert triage is not None
        assert call is not None

        async def choose() -> Sequence[Choice]:
            return await triage(view)

        return await detachable(choose(), lambda: call.stubborn)

    def _started(self, upto: int, state: RunState) -> list[Event]:
        if not self.may_ask:
            return []
        return [
            e.AttemptStarted(
                epoch=self._host.journal.epoch,
                step=f"triage:{upto}",
                name="Read messages",
                tool=TRIAGE,
                effect=Effect.MODEL,
                idempotency_key=f"{state.journal}:triage:{upto}",
            )
        ]

    def _settled(self, chosen: Chosen) -> e.AttemptSettled:
        return e.AttemptSettled(
            epoch=self._host.journal.epoch,
            attempt=chosen.attempt,
            outcome=chosen.outcome,
            result=Raw(msgspec.json.encode(chosen.choices)) if chosen.choices else NULL,
            error=chosen.error if chosen.outcome is not Outcome.DONE else "",
            usage=chosen.usage,
        )

    async def _settle(self, chosen: Chosen) -> None:
        if chosen.attempt:
            await self._host.journal.settle(self._settled(chosen))

    # ── applying ─────────────────────────────────────────────────────────────────────────────

    async def _apply(self, messages: list[Unread], chosen: Chosen) -> Committed:
        """Make true what was chosen, in one transaction with the end of the call."""
        host, thread = self._host, self._host.journal.state.thread
        new = RUN_PREFIX + host.ids()

        def decided(view: View) -> Draft:
            mine, talk = view.states[host.journal.run], thread_of(view, thread)
            assert isinstance(mine, RunState)
            # layer chosen-applied-only-while-run
            if not still_moves(mine, host.journal.epoch) or talk.front != host.journal.run:
                return Draft(note=STOPPED)
            moves = front.Moves()
            if chosen.attempt:
                moves.add(host.journal.run, self._settled(chosen))
            still = [m for m in messages if is_open(talk, m)]
            apply_choices(moves, view, talk, mine, still, chosen, new=new)
            return drafted(view, moves, covered=mine.agent)  # killed, we would not drive it

        request = Submit(host.ids(), (host.journal.run, thread), decided)
        done = await host.journal.submit(request, unless=host.signals.is_stopped)
        if done.note == STOPPED or done is NOTHING:
            await self._settle(
                msgspec.structs.replace(chosen, outcome=Outcome.ABORTED, error="not needed")
            )
        return done
