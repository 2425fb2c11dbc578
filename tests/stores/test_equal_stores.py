"""Whatever people and drivers do, a store on disk tells the same story as the one in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from midflight.errors import JournalNotFound, MidflightError, ScopeStopped
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome
from midflight.journal.record import Limits, Usage
from midflight.journal.state import RunState
from midflight.journal.threads import thread as t
from midflight.stores.memory import MemoryStore
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Append, Committed, Entry, Killing, Query, Row, Store
from midflight.stores.sqlite import SqliteStore
from stores import runs as r
from stores.backends import Open
from stores.runs import ANN, OLGA, THREAD, Driver

RUNS: Final = ("r-1", "r-2")
SCOPES: Final = ("all", "agent:agent-0", THREAD.replace("t-", "thread:t-"))
Doing = Callable[[Driver, int], Awaitable[object]]
Step = tuple[str, str, int]  # what is done, to which run, and a number that varies it


# ── what may happen to a run; much of it is refused, and then alike by both ──────────────────


async def begins(d: Driver, n: int) -> int:
    fields = {"undoable": n > 1, "irreversible": n > 4}
    effect = [Effect.ONCE, Effect.WRITE, Effect.MODEL, Effect.READ][n % 4]
    return await d.begins(f"step-{n}", effect=effect, **fields)


async def settles(d: Driver, n: int) -> list[object]:
    """Everything in flight ends, or nothing does and somebody says so all the same."""
    how = list(Outcome)[n % 6] if n > 3 else Outcome.DONE
    result = Raw(b'"' + b"x" * (n * 20_000) + b'"')
    told = [
        await d.settles(attempt, how, result=result, usage=Usage(n, n / 10))
        for attempt in [*d.state.open, n]
    ]
    return [_timeless(answer) for answer in told]


async def tells_late(d: Driver, n: int) -> Committed:
    attempt = max(d.state.effects, default=n)
    return await r.tell(d.store, r.outcome(attempt, epoch=d.epoch - 1), d.run)


async def begins_to_undo(d: Driver, n: int) -> Committed:
    able = (at for at, effect in d.state.effects.items() if effect.can_be_undone)
    effect = max(able, default=n)
    undo = e.UndoStarted(epoch=d.epoch, effect=effect, idempotency_key="k:undo")
    return await d.decides(undo)


async def has_undone(d: Driver, n: int) -> Committed:
    undo = max(d.state.undos, default=n)
    return await r.tell(d.store, e.UndoSettled(epoch=d.epoch, undo=undo, undone=n > 1), d.run)


async def is_answered(d: Driver, n: int) -> Committed:
    question = min(d.state.questions, default=n)
    return await r.ask(d.store, e.QuestionAnswered(who=ANN, question=question), d.run)


async def is_redirected(d: Driver, n: int) -> Committed:
    request = e.RedirectRequested(who=ANN, text=f"brief {n}", resume=n > 3, key=str(n % 3))
    return await r.ask(d.store, request, d.run)


async def delivers(d: Driver, n: int) -> Committed:
    upto = d.state.head - n % 3
    return await d.decides(e.RedirectDelivered(epoch=d.epoch, upto=upto, brief=f"brief {n}"))


async def comes_to_the_front(d: Driver, n: int) -> Committed:
    """One decision over a thread and a run, sent again now and then as if no answer had come."""
    thread = await r.thread_state(d.store)
    entries = (
        Entry(THREAD, thread.head, (t.FrontChanged(run=d.run),)),
        Entry(d.run, d.state.head, (e.PlanSet(epoch=d.epoch, steps=(str(n),)),)),
    )
    append = Append(f"front:{d.run}:{d.state.head}:{thread.head}", entries)
    done = await d.store.append(append)
    return await d.store.append(append) if n % 2 else done


async def decides_on_old_news(d: Driver, n: int) -> Committed:
    event = r.started("late", epoch=d.epoch - n % 3)
    return await d.store.append(r.decision(d.run, d.state.head - n % 2, event))


DOINGS: Final[dict[str, Doing]] = {
    "start": lambda d, n: r.start(d.store, d.run, agent=f"agent-{n % 2}"),
    "claim": lambda d, n: r.claim(d.store, d.run, driver=f"d-{n % 2}"),
    "enter": lambda d, n: d.enters(),
    "begin": begins,
    "settle": settles,
    "late outcome": tells_late,
    "pause": lambda d, n: r.pause(d.store, d.run),
    "paused": lambda d, n: d.pauses(),
    "resume": lambda d, n: r.resume(d.store, d.run),
    "redirect": is_redirected,
    "deliver": delivers,
    "cancel": lambda d, n: r.cancel(d.store, d.run, now=n > 3),
    "undo": begins_to_undo,
    "undone": has_undone,
    "finish": lambda d, n: d.finishes(["done", "failed", "cancelled"][n % 3]),
    "question": lambda d, n: d.asks(expires_at=2e9 + n if n % 2 else None),
    "wait": lambda d, n: d.waits(),
    "answer": is_answered,
    "leave": lambda d, n: d.leaves(),
    "raise limits": lambda d, n: r.ask(
        d.store, e.LimitsRaised(who=ANN, limits=Limits(steps=n)), d.run
    ),
    "front": comes_to_the_front,
    "old news": decides_on_old_news,
    "kill": lambda d, n: d.store.kill(SCOPES[n % 3], OLGA),
    "release": lambda d, n: d.store.release(SCOPES[n % 3], OLGA),
    "recover": lambda d, n: r.ask(d.store, e.Recovered(who=OLGA), d.run),
    "message": lambda d, n: r.say(d.store, f"message {n}"),
    "purge": lambda d, n: d.store.purge(4e9 if n == 5 else 0.0),
}

COURSES: Final = (
    ("begin", "settle", "begin"),
    ("begin", "pause", "redirect", "settle", "deliver", "paused", "resume", "enter"),
    ("settle", "question", "wait", "leave", "answer", "claim", "enter"),
    ("settle", "cancel", "undo", "undone", "finish", "leave"),
    ("settle", "front", "finish", "start", "claim", "enter"),
    ("kill", "late outcome", "recover", "release", "resume", "claim", "enter"),
)
"""What often follows each other; from single doings alone a run seldom gets far."""


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """The beginning of two runs, and then courses and single doings mixed."""
    opening = ("start", "claim", "enter", "begin")
    single = st.sampled_from(sorted(DOINGS)).map(lambda doing: (doing,))
    courses = draw(st.lists(st.sampled_from(COURSES) | single, min_size=5, max_size=20))
    numbers, runs = st.integers(0, 5), st.sampled_from(RUNS)
    played = [(doing, run, 1) for run in RUNS for doing in opening]
    for course in courses:
        run = draw(runs)
        played += [(doing, run, draw(numbers)) for doing in course]
    return played


# ── playing and comparing ────────────────────────────────────────────────────────────────────


async def play(store: Store, steps: list[Step]) -> list[object]:
    """Do it all, and say what came of each step, times aside."""
    await r.open_thread(store)
    return [await _play(store, *step) for step in steps]


async def _play(store: Store, doing: str, run: str, n: int) -> object:
    try:
        state = await r.run_state(store, run)
    except JournalNotFound:
        state = RunState(run)
    try:
        return _timeless(await DOINGS[doing](Driver(store, state, state.epoch), n))
    except ScopeStopped:
        return "stopped"  # where two switches are on, either may be named
    except MidflightError as error:
        return type(error), str(error)


def _timeless(answer: object) -> object:
    match answer:
        case Committed():
            records = sorted(
                (c.journal, c.position, msgspec.json.encode(_timeless(c.event)))
                for c in answer.records
            )
            return records, answer.note, answer.repeated
        case Killing():
            return answer.switch.scope, answer.killed, sorted(answer.revoked)
        case Row():
            return msgspec.structs.replace(answer, created_at=0.0, updated_at=0.0)
        case e.DriverClaimed():
            return msgspec.structs.replace(answer, driven_until=None)
        case _:
            return answer


async def story(store: Store) -> dict[str, Any]:
    """All that a store tells, times aside."""
    rows = await store.rows(Query()) + await store.rows(Query(kind="thread"))
    return {
        "rows": [_timeless(row) for row in rows],
        "due": sorted(row.journal for row in await store.due()),
        "switches": sorted(switch.scope for switch in await store.switches()),
        "journals": {
            row.journal: [
                _timeless(record.event) for record in await r.read_all(store, row.journal)
            ]
            for row in rows
        },
    }


async def compare(steps: list[Step], open_store: Open) -> None:
    memory = MemoryStore()
    expected = await play(memory, steps)
    async with open_store() as store:
        assert await play(store, steps) == expected
        assert await story(store) == await story(memory)
    async with open_store() as store:  # and what is left on the disk tells it too
        assert await story(store) == await story(memory)


@pytest.mark.slow
@given(steps())
@settings(max_examples=40, derandomize=True, database=None, deadline=None)
def test_sqlite_answers_and_tells_as_memory_does(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(compare, steps, lambda: SqliteStore.open(Path(folder) / "journals.db"))


@pytest.mark.postgres
@given(steps())
@settings(max_examples=10, derandomize=True, database=None, deadline=None)
def test_postgres_answers_and_tells_as_memory_does(
    postgres_address: str, steps: list[Step]
) -> None:
    schema = f"test_{uuid4().hex}"
    anyio.run(compare, steps, lambda: PostgresStore.open(postgres_address, schema=schema))
