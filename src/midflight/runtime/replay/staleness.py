"""Guards: stops a run that comes back to another world than the one it left, and asks a person.

The driver looks at everything that a run relies on when the run comes back, and before effects that
rely on it. The hold and its question are one decision, and the meaning of the answer is written
down with the question, so that any driver can act on it later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import msgspec

from midflight.errors import InvalidRequest
from midflight.guards import Age, Guard
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.record import Event
from midflight.journal.requests import WITHDRAWN
from midflight.journal.state import RunState
from midflight.runtime import foreign, values
from midflight.runtime.host import Host
from midflight.runtime.replay.run_forks import fork_and_stop
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps.side_calls import look
from midflight.runtime.threads.succession import cancel_itself

ACCEPTED: Final = "*"  # the look of a guard that could not be seen: whatever it is, a person said
TAKE_OVER: Final = "take over"
CHOICES: Final = {
    "go on": "Go on with it as it is now",
    "fork": "Begin a new run from there",
    "cancel": "Cancel the run",
}
LOOK_S: Final = 10.0  # seconds; a look that takes longer cannot be checked here
STOPS_S: Final = 1.0  # to end in after that: a look changes nothing, and is left behind
LOOK_MAX: Final = 10_000  # characters of a look: a digest is enough, and no more is compared
CHANGED_MAX: Final = 2_000  # characters of what a guard says about a change
NAMED_S: Final = 0.25  # seconds for a function to name its guards again, once it wants to go on
NAMED_PARTS: Final = 5  # of that time; of one in which the process was busy only a part is lost
NOTED_IN: Final = {Phase.RUNNING, Phase.WAITING, Phase.PAUSING, Phase.PAUSED}


async def hold_for_guards(host: Host, changed: Mapping[str, str], looks: Mapping[str, str]) -> None:
    """Hold the run because what it relied on has changed, and ask whether it may go on.

    A person who says *go on* accepts these looks; a later change is asked about again.
    """
    told = "; ".join(f"{name} {words}" for name, words in changed.items())
    text = f"What this run relies on has changed: {told}. Go on?"
    places = (place for name, place in host.history.guarded_at.items() if name in changed)
    run, at = next(places, (host.journal.run, 0))  # in the order of their noting
    await hold(host, text, {"guards": dict(looks), "fork_of": run, "fork_at": at})


async def hold(
    host: Host,
    told: str,
    about: dict[str, Any],
    *,
    choices: Mapping[str, str] = CHOICES,
    details: Mapping[str, str] | None = None,
) -> None:
    """Hold the run and ask; ``about`` says what an answer means."""
    text = foreign.text(told)
    schema = {"enum": list(choices), "x-labels": choices, "x-about": about}
    if details:
        schema["x-details"] = details

    def held(state: RunState) -> list[Event]:
        if state.phase not in {Phase.RUNNING, Phase.WAITING} or host.journal.lost:
            return []
        return [
            e.HoldPlaced(cause=Cause.STALE, why=text),
            e.QuestionOpened(
                epoch=host.journal.epoch,
                kind="stale",
                message=text,
                schema=values.encode("stale", "its schema", schema),
                step=f"stale:{state.head}",
            ),
        ]

    await host.journal.decide(held)


def is_answered(host: Host) -> bool:
    """Return whether the run's question is answered, so that the hold can be acted on."""
    state = host.journal.state
    asks = any(question.kind == "stale" for question in state.questions.values())
    return Cause.STALE in state.holds and not asks


async def resolve(host: Host) -> None:
    """Do what the person has answered."""
    question = host.history.stale_question
    answer = host.history.answers.get(question) if question else None
    if question is None or answer is None:
        await _lift(host, [])  # held without a question: by an older version
        return
    about = msgspec.json.decode(host.history.asked[question].schema).get("x-about", {})
    match values.decode(answer.payload) if answer.by else "":
        case "cancel":
            await _cancel(host, answer, question)
        case "fork" if not host.lineage.gone:
            place = about.get("fork_of", host.journal.run), about.get("fork_at", 0)
            await fork_and_stop(host, answer, question, place)
        case "go on" | "take over" | "fork" as said:  # a fork of nothing ends where it is called
            taken = said == TAKE_OVER
            await _lift(host, _accepting(host, about, answer.at, take_over=taken))
        case _:  # withdrawn or expired: what was to be decided still is
            await _ask_again(host, question)


def _accepting(host: Host, about: dict[str, Any], at: float, *, take_over: bool) -> list[Event]:
    """The changed world is the one to go on with. The age of a look counts from the answer on."""
    epoch, guards = host.journal.epoch, host.journal.state.guards
    accepted: list[Event] = [
        e.GuardSet(
            epoch=epoch,
            name=name,
            kind=guards[name][0],
            fingerprint=repr(at) if guards[name][0] == Age.kind else look,
            why="accepted",
        )
        for name, look in about.get("guards", {}).items()
        if name in guards
    ]
    if "steps" in about:
        steps = tuple(about["steps"])
        accepted += _withdrawn(host, steps)
        accepted.append(e.RecordsDropped(epoch=epoch, steps=steps, take_over=take_over))
    return accepted


def _withdrawn(host: Host, steps: Collection[str]) -> list[Event]:
    """Questions among them that are still open: nobody waits for their answer."""
    asked = (host.history.questions.get(step) for step in steps)
    return [
        e.QuestionClosed(question=question, why=f"{WITHDRAWN}: not asked any more")
        for question in asked
        if question in host.journal.state.questions
    ]


async def _lift(host: Host, before: list[Event]) -> None:
    lifted = [*before, e.HoldLifted(cause=Cause.STALE)]
    await host.journal.decide(
        lambda s: lifted if Cause.STALE in s.holds and not host.journal.lost else []
    )


async def _ask_again(host: Host, question: int) -> None:
    asked = host.history.asked[question]
    again = msgspec.structs.replace(asked, epoch=host.journal.epoch, expires_at=None)
    await host.journal.decide(
        lambda s: [again] if Cause.STALE in s.holds and not host.journal.lost else []
    )


async def _cancel(host: Host, answer: Answered, question: int) -> None:
    """The answer is the person's cancel, under a key of its own."""
    assert answer.who is not None
    request = e.CancelRequested(who=answer.who, key=f"answer:{question}")
    await cancel_itself(host, request)


class Guards:
    """The guards on what the function has said it relies on."""

    __slots__ = ("_calls", "_checking", "_host", "_live")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._live: dict[str, Guard] = {}
        self._calls: dict[str, int] = {}
        self._checking = False

    @property
    def any(self) -> bool:
        """True if the run relies on anything."""
        return bool(self._host.journal.state.guards)

    @property
    def due(self) -> bool:
        """True if somebody must look at the guards before anything begins."""
        return not self._host.gate.fresh and not self._checking

    def enter(self) -> None:
        """The function is called (again), and names its guards again."""
        self._host.gate.look_again()
        if not self.any:
            self._host.gate.be_fresh()
        self._calls.clear()

    # ── noting ───────────────────────────────────────────────────────────────────────────────

    async def take(self, guard: Guard, course: int) -> None:
        """``run.guard``: note how it looks now, unless it was noted before the function came back.

        Then how it looked at that time stands, and is compared.
        """
        name, host = guard.name, self._host
        self._live[name] = guard
        self._calls[name] = self._calls.get(name, 0) + 1
        host.journal.stir()
        relied_on = 1 if name in host.journal.state.guards else 0
        noted = max(host.history.entry.guards.get(name, 0), relied_on)
        if self._calls[name] <= noted:
            return
        if not host.history.unfinished:  # or it would wait for what comes after it
            await host.gate.wait(course)
        seen = await self._look(guard)
        if not seen:
            raise InvalidRequest(
                f"guard {name} returned an empty value, which cannot be compared later. The guard "
                "was not recorded."
            )
        await self._note(guard, seen)

    async def _note(self, guard: Guard, look: str, why: str = "") -> None:
        host = self._host
        noted = e.GuardSet(
            epoch=host.journal.epoch, name=guard.name, kind=guard.kind, fingerprint=look, why=why
        )

        def note(state: RunState) -> list[Event]:
            if host.journal.lost or state.phase not in NOTED_IN:
                return []
            return [*host.journal.wait_over(state), noted]

        await host.journal.decide(note)

    async def _look(self, guard: Guard) -> str:
        see = partial(guard.look, self._host.clock())
        seen: str = await self._see(see, f"guard {guard.name}: nothing seen within {LOOK_S:g} s")
        values.check_text(f"guard {guard.name}", "how it looks", seen, LOOK_MAX)
        return seen

    async def _see(self, see: Callable[[], Awaitable[str]], too_late: str) -> Any:
        host = self._host
        return await look(host, see, within=LOOK_S, stops_within=STOPS_S, too_late=too_late)

    async def _seen(self, guard: Guard | None) -> str:
        """Return how a guarded thing looks now; ``ACCEPTED`` where that cannot be told."""
        try:
            return (await self._look(guard) if guard else "") or ACCEPTED
        except Exception:  # noqa: BLE001 - a user's code, and nobody has to see it
            return ACCEPTED

    # ── comparing ────────────────────────────────────────────────────────────────────────────

    def start_check(self) -> None:
        """The run came back: is everything as it was? Otherwise it is held, and asks.

        In a task of its own, so that a stop is heard although a look takes long.
        """
        self._checking = True
        self._host.tasks.begin(self._check)

    async def _check(self) -> None:
        came_back, guards = self._host.gate.returns, self._host.journal.state.guards
        try:
            await self._until_named(guards)
            changed = {name: words for name, words in (await self.intact()).items() if words}
            if came_back != self._host.gate.returns:
                return
            if changed:
                await self._hold(changed)
            else:
                self._host.gate.be_fresh()
        finally:
            self._checking = False
            self._host.journal.stir()

    async def _until_named(self, guards: Mapping[str, object]) -> None:
        """Wait until the function has named them again, for a while.

        A loop that was busy gets round to the function only after its timers.
        """
        for _ in range(NAMED_PARTS):  # layer worker-busy-gives-function-time
            with anyio.move_on_after(NAMED_S / NAMED_PARTS):
                await self._host.journal.until(lambda: guards.keys() <= self._live.keys())
                return

    async def intact(self) -> dict[str, str]:
        """Return what is different about each guard; empty for one that is as it was noted."""
        names = list(self._host.journal.state.guards)
        found = dict.fromkeys(names, "")

        async def compare(name: str) -> None:
            found[name] = await self._compare(name)

        async with anyio.create_task_group() as looks:
            for name in names:
                looks.start_soon(compare, name)
        return found

    async def _compare(self, name: str) -> str:
        guard = self._live.get(name)
        _, before = self._host.journal.state.guards[name]
        if before == ACCEPTED:
            look = await self._seen(guard)
            if guard is not None and look != ACCEPTED:
                await self._note(guard, look, "accepted")
            return ""
        if guard is None:
            return "cannot be checked here"
        too_late = f"nothing seen within {LOOK_S:g} s"
        see = partial(guard.changed, before, self._host.clock())
        try:
            return foreign.text(await self._see(see, too_late), CHANGED_MAX)
        except Exception as error:  # noqa: BLE001 - a user's code: what it cannot say has changed
            why = too_late if str(error) == too_late else foreign.words(error)
            return f"cannot be checked ({why})"

    async def hold_unless(self, names: Iterable[str], found: Mapping[str, str]) -> bool:
        """Return whether all of these are intact; otherwise hold the run, which asks then."""
        changed = {name: found[name] for name in names if found[name]}
        if changed:
            await self._hold(changed)
        return not changed

    async def _hold(self, changed: Mapping[str, str]) -> None:
        looks = {name: await self._seen(self._live.get(name)) for name in changed}
        await hold_for_guards(self._host, changed, looks)

    async def hold_if_changed(self) -> bool:
        """Hold the run if a guard that the function has named again has changed; return whether."""
        found = {} if self._host.gate.fresh else await self.intact()
        return not await self.hold_unless(self._live.keys() & found.keys(), found)

    async def refresh(self, found: Mapping[str, str]) -> None:
        """Note new looks after an effect of our own: its changes are as they should be.

        A guard that cannot be looked at now keeps its old look, and the person is asked when it
        matters. Knowledge does not become younger by anything that the run does.
        """
        for name in [name for name, words in found.items() if not words]:
            guard = self._live.get(name)
            if guard is None or guard.kind == Age.kind or not await self._compare(name):
                continue
            if (look := await self._seen(guard)) != ACCEPTED:
                await self._note(guard, look, "refreshed")
