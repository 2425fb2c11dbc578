"""Stories of workers that are lost, and what must be true of them at the end.

The tests tell them with small counts, and ``make bench-scale`` with the full ones.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Sequence

import anyio
from msgspec import Struct

from engines import fleet_world
from engines.fleet import Fleet, Freeze, Hand
from engines.fleet_world import Noted
from midflight.control import Control
from midflight.inputs import wall_clock
from midflight.journal import events as e
from midflight.journal.fold import fold
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Decision, Recorded
from midflight.journal.state import WORKER_LOST, RunState
from midflight.journal.status import receipt
from midflight.stores.protocol import Query, Row

TAKEOVER_S = 60.0
SETTLE_S = 0.5
WAKES_S = 8.0  # after a takeover: by then others have given up waiting and gone on
PONDERS_S = 2.0
AT_ONCE_S = 0.05  # the coarsest of the clocks, and a signal on its way
NEAR_S = 15.0  # around what was done twice: what is told of it
UNCHECKED = fleet_world.order.name
MOVING = (Phase.QUEUED, Phase.RUNNING)  # one that waits for a person needs no driver


class Person:
    """Answers what workers ask who do not know whether something happened, by the world's file.

    Not at once: a worker that was only slow, and lost its lease by that, may still be at it.
    """

    def __init__(self, control: Control, fleet: Fleet) -> None:
        self._control = control
        self._fleet = fleet
        self.asked = 0
        self._seen: dict[tuple[str, int], float] = {}
        self.patient = False  # while a worker is frozen nobody can know what it may still do

    async def answer(self, runs: Sequence[str]) -> None:
        left = set(runs)
        while left:
            rows = await self._control.store.rows(Query(phases=(Phase.WAITING,), limit=500))
            for row in rows:
                if row.journal in left and not self.patient:
                    await self._answer(row.journal)
            await anyio.sleep(0.2)

    async def _answer(self, run: str) -> None:
        state = await self._control.state(run)
        for position, question in list(state.questions.items()):
            assert question.kind == "doubt", question.message
            seen = self._seen.setdefault((run, position), anyio.current_time())
            if anyio.current_time() - seen < PONDERS_S:
                continue
            key = state.effects[question.about].key
            choice = "happened" if fleet_world.is_done(key, self._fleet.folder) else "again"
            self.asked += 1
            await self._control.answer(run, position, choice, key=f"answer-{position}")


class Loss(Struct, frozen=True):
    """A worker that was lost while it drove these runs, each with the head that it had then."""

    driver: str
    at: float
    runs: dict[str, int]


async def lose(
    control: Control, fleet: Fleet, chance: random.Random, how: str
) -> tuple[Hand, Loss]:
    """Kill or freeze a worker that has something to do."""
    while True:
        rows = await control.store.rows(Query(phases=MOVING, limit=2000))
        drivers = sorted({row.driver for row in rows if fleet.hand(row.driver)})
        if drivers:
            break
        await anyio.sleep(0.05)
    hand = fleet.hand(chance.choice(drivers))
    assert hand is not None
    await anyio.sleep(chance.random() / 2)
    rows = await control.store.rows(Query(phases=MOVING, limit=2000))
    at = wall_clock()
    getattr(hand, how)()
    return hand, Loss(hand.driver, at, _driven(rows, hand.driver))


def _driven(rows: Sequence[Row], driver: str) -> dict[str, int]:
    return {row.journal: row.head for row in rows if row.driver == driver}


async def taken_over(control: Control, loss: Loss) -> list[float]:
    """Wait until others have all the runs, and give after how many seconds each."""
    found: list[float] = []

    async def one(run: str, after: int) -> None:
        async with control.store.watch({run: after}) as news:
            async for record in news:
                match record.event:
                    case e.DriverClaimed(driver=driver) if driver != loss.driver:
                        found.append(record.at - loss.at)
                        return
                    case e.RunFinished() | e.DriverReleased() | e.WaitBegan():
                        return  # in its last moment
                    case _:
                        pass

    with anyio.fail_after(TAKEOVER_S):
        async with anyio.create_task_group() as all_of_them:
            for run, head in loss.runs.items():
                all_of_them.start_soon(one, run, head)
    return found


class Told(Struct, frozen=True):
    """What a story of lost workers came to."""

    runs: list[str]
    takeovers: list[float]
    asked: int


async def losing_workers(
    control: Control,
    fleet: Fleet,
    *,
    runs: int,
    times: int,
    how: str = "kill",
    seed: int = 1,
) -> Told:
    """Lose a worker so many times while runs are at work, and let them come to their end."""
    chance, takeovers = random.Random(seed), list[float]()
    started = [await control.start(fleet_world.busy, str(n)) for n in range(runs)]
    person = Person(control, fleet)
    async with anyio.create_task_group() as beside:
        beside.start_soon(person.answer, started)
        for _ in range(times):
            hand, loss = await lose(control, fleet, chance, how)
            person.patient = how == "freeze"
            takeovers += await taken_over(control, loss)
            if how == "freeze":  # at once, or when others have looked up and gone on
                await anyio.sleep(chance.choice((0, chance.random() * WAKES_S)))
                hand.wake()
                await anyio.sleep(2 * fleet_world.STEP_S + SETTLE_S)
                person.patient = False
            else:
                await hand.hire()
        fleet.enough()
        for run in started:
            await control.ended(run)
        beside.cancel_scope.cancel()
    return Told(started, takeovers, person.asked)


# ── what must be true ────────────────────────────────────────────────────────────────────────


def applied_twice(world: Sequence[Noted]) -> list[str]:
    """Keys under which something was done more than once."""
    times = Counter(line.key for line in world if line.what == "done")
    return [key for key, count in times.items() if count > 1]


def stopped_in_the_middle(world: Sequence[Noted], freezes: Sequence[Freeze]) -> set[str]:
    """Keys under which a process did something that stood still between meaning to and doing it.

    No lease and no clock can help there: its next line is run when it wakes.
    """
    return {
        deed.key
        for deed in world
        for freeze in freezes
        if deed.what == "done" and deed.process == freeze.process
        if deed.at <= freeze.since + AT_ONCE_S and deed.over >= freeze.until - AT_ONCE_S
    }


def how_it_came(
    key: str, journal: Sequence[Recorded], world: Sequence[Noted], freezes: Sequence[Freeze]
) -> str:
    """What was written down about a key, and what was done under it, in its order."""
    attempts: set[int] = set()
    found = [
        (one.over or one.at, f"{one.what} by {one.process}") for one in world if one.key == key
    ]
    ahead = wall_clock() - time.monotonic()
    for record in journal:
        about = getattr(record.event, "attempt", 0)
        if getattr(record.event, "idempotency_key", "") == key:
            attempts.add(about := record.position)
        if about in attempts or isinstance(record.event, e.DriverClaimed):
            found.append((record.at - ahead, f"{record.position} {record.event}"))
    for freeze in freezes:
        found += [(freeze.since, f"{freeze.process} is frozen"), (freeze.until, "and woken")]
    first, last = (journal[place(attempts) - 1].at - ahead for place in (min, max))
    near = sorted(one for one in found if first - NEAR_S <= one[0] <= last + NEAR_S)
    return "\n".join([key, *(f"  {at - first:+8.3f} s  {what}" for at, what in near)])


def untold(journal: Sequence[Recorded], keys: Collection[str]) -> list[str]:
    """Which of these were done twice without the run having a notice of it."""
    state = fold(RunState(journal[0].journal), journal)
    assert isinstance(state, RunState)
    told = [text for _, text in state.notices if text.endswith("may have been done twice.")]
    nouns = {
        effect.key: effect.noun or effect.name
        for effect in state.effects.values()
        if effect.key in keys
    }
    return [key for key, noun in nouns.items() if not any(t.startswith(f"{noun}: ") for t in told)]


def repeated_unasked(journal: Sequence[Recorded]) -> list[str]:
    """Attempts of a ``once`` after one of which nobody had proved that it did not happen.

    Where it cannot be looked up, a person is the only one who can say that.
    """
    last: dict[str, int] = {}
    known: dict[int, Outcome] = {}
    answered = 0
    found = []
    for record in journal:
        match record.event:
            case e.AttemptSettled(attempt=attempt, outcome=outcome):
                known[attempt] = outcome
            case e.LateOutcome(attempt=attempt, outcome=outcome):
                known[attempt] = outcome
            case e.QuestionAnswered():
                answered = record.position
            case e.AttemptStarted(effect=Effect.ONCE, step=step, tool=tool):
                before = last.get(step)
                proved = {Outcome.NOT_STARTED}
                if tool != UNCHECKED or (before or 0) < answered:
                    proved |= {Outcome.NOT_DONE}
                if before is not None and known.get(before) not in proved:
                    found.append(f"{step} at {record.position}: {known.get(before)}")
                last[step] = record.position
            case _:
                pass
    return found


def only_on_record(journal: Sequence[Recorded], world: Sequence[Noted]) -> list[str]:
    """Effects that are said to be done, and that the world knows nothing of."""
    done, keys = {line.key for line in world if line.what == "done"}, dict[int, str]()
    found = []
    for record in journal:
        match record.event:
            case e.AttemptStarted(effect=effect, idempotency_key=key) if effect.touches_world:
                keys[record.position] = key
            case (
                e.AttemptSettled(attempt=attempt, outcome=Outcome.DONE)
                | e.LateOutcome(attempt=attempt, outcome=Outcome.DONE)
            ):
                found += [keys[attempt]] if keys.get(attempt, "") not in {"", *done} else []
            case _:
                pass
    return found


def decided_when_lost(journal: Sequence[Recorded]) -> list[str]:
    """Decisions of a driver that had been taken over from."""
    epoch, found = 0, []
    for record in journal:
        if isinstance(record.event, e.DriverClaimed):
            epoch = record.event.epoch
        elif isinstance(record.event, Decision) and record.event.epoch < epoch:
            found.append(f"{type(record.event).__name__} at {record.position}")
    return found


def begun_off_the_record(
    journal: Sequence[Recorded], world: Sequence[Noted], drivers: dict[int, str]
) -> list[str]:
    """What a process began more often than attempts of its own were ever written down."""
    driver, written = "", Counter[tuple[str, str]]()
    for record in journal:
        match record.event:
            case e.DriverClaimed(driver=claimed):
                driver = claimed
            case e.AttemptStarted(idempotency_key=key):
                written[driver, key] += 1
            case _:
                pass
    begun = Counter(
        (drivers[line.process], line.key)
        for line in world
        if line.what == "begin" and line.key.startswith(f"{journal[0].journal}:")
    )
    return [f"{key} by {who}" for (who, key), times in begun.items() if times > written[who, key]]


def unaccounted(journal: Sequence[Recorded]) -> list[str]:
    """Attempts of a lost worker of which the receipt did not say that nobody knows."""
    in_flight: set[int] = set()
    orphans: set[int] = set()
    found = []
    for record in journal:
        match record.event:
            case e.AttemptStarted(effect=effect) if effect is not Effect.READ:
                in_flight.add(record.position)
            case e.DriverClaimed():
                orphans, in_flight = orphans | in_flight, set()
            case e.AttemptSettled(attempt=attempt):
                in_flight.discard(attempt)
                line = _line_of(journal[: record.position], attempt) if attempt in orphans else ""
                if attempt in orphans and not line.endswith(f": unknown ({WORKER_LOST})"):
                    found.append(f"{attempt}: {line}")
                orphans.discard(attempt)
            case e.LateOutcome(attempt=attempt):
                if attempt in orphans:
                    line = _line_of(journal[: record.position - 1], attempt)
                    if not line.endswith(f": unknown ({WORKER_LOST})"):
                        found.append(f"{attempt}: {line}")
                orphans.discard(attempt)
            case _:
                pass
    return [*found, *map(str, orphans)]


def _line_of(journal: Sequence[Recorded], attempt: int) -> str:
    """What the receipt of a run said of one of its attempts when its journal went so far."""
    state = fold(RunState(journal[0].journal), journal)
    assert isinstance(state, RunState)
    return next((line.text for line in receipt(state).lines if line.position == attempt), "no line")


def twice_in_the_middle(fleet: Fleet) -> set[str]:
    """What was done twice because a process was stopped while it did it."""
    world = fleet_world.noted(fleet.folder)
    return stopped_in_the_middle(world, fleet.freezes).intersection(applied_twice(world))


async def audit(control: Control, fleet: Fleet, told: Told) -> dict[str, list[str]]:
    """Everything that is not as it must be, by what it is."""
    world = fleet_world.noted(fleet.folder)
    middle = stopped_in_the_middle(world, fleet.freezes)
    twice = applied_twice(world)
    wrong: dict[str, list[str]] = {"twice": [], "untold": [], "unasked": [], "decided": []}
    wrong |= {"off the record": [], "unaccounted": [], "only on record": [], "not done": []}
    for run in told.runs:
        journal = await _read(control, run)
        mine = [key for key in twice if key.startswith(f"{run}:")]
        came = {key: how_it_came(key, journal, world, fleet.freezes) for key in mine}
        wrong["twice"] += [came[key] for key in mine if key not in middle]
        wrong["untold"] += untold(journal, middle.intersection(mine))
        wrong["unasked"] += repeated_unasked(journal)
        wrong["decided"] += decided_when_lost(journal)
        wrong["off the record"] += begun_off_the_record(journal, world, fleet.drivers)
        wrong["unaccounted"] += unaccounted(journal)
        wrong["only on record"] += only_on_record(journal, world)
        if (await control.state(run)).phase is not Phase.DONE:
            wrong["not done"].append(run)
    return {what: found for what, found in wrong.items() if found}


async def _read(control: Control, run: str) -> list[Recorded]:
    journal: list[Recorded] = []
    while page := await control.store.read(run, after=len(journal)):
        journal += page
    return journal
