"""Whatever a tool, a check, an undo or an agent raises, returns or says: the driver lives.

Each run ends or asks, in time, and no tool is called more often than it should be. Every story is
told on every store, because each store has its own things that it cannot keep.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.guards import Fingerprint
from midflight.journal.phases import ENDS
from midflight.journal.state import RunState
from midflight.journal.status import Line
from midflight.run import Run, Step
from midflight.stores.postgres import PostgresStore
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import Done, Tool, Unclear, tool
from midflight.tools.options import EffectRecord, RunsIn
from midflight.tools.progress import emit
from scenarios import odd
from scenarios.conftest import failed_drivers
from stores.backends import POSTGRES, open_memory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ALL_S = 40.0  # for all runs of a story together, on a busy machine
Case = Callable[[Run], Awaitable[Any]]
plain_read: Tool
plain_effect: Tool


class Place:
    """A store, and how much is tried on it: everything in memory, elsewhere what a store sees."""

    def __init__(self, open_store: Callable[[], Any], *, all_of_it: bool) -> None:
        self.open = open_store
        self._all = all_of_it
        self.ways: tuple[RunsIn, ...] = ("async", "thread") if all_of_it else ("async",)

    def of(self, things: dict[str, Any], some: Collection[str]) -> dict[str, Any]:
        return {what: make for what, make in things.items() if self._all or what in some}

    @property
    def raised(self) -> dict[str, Callable[[], BaseException]]:
        return self.of(odd.RAISED, odd.OF_STORES)

    @property
    def returned(self) -> dict[str, Callable[[], Any]]:
        return self.of(odd.RETURNED, odd.SENT)


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "memory":
            return Place(open_memory, all_of_it=True)
        case "sqlite":
            path = tmp_path / "journals.db"
            return Place(lambda: SqliteStore.open(path), all_of_it=False)
        case _:
            address: str = request.getfixturevalue("postgres_address")
            schema = f"test_{uuid4().hex}"
            return Place(lambda: PostgresStore.open(address, schema=schema), all_of_it=False)


class World:
    """Runs of one story, one for each case."""

    def __init__(self, cases: dict[str, Case]) -> None:
        self.cases = cases
        self.control: Control
        self.runs: dict[str, str] = {}
        self.states: dict[str, RunState] = {}

    async def come_to_rest(self) -> None:
        """Start a run for each case, and wait until each has ended or asks."""
        for name in self.cases:
            self.runs[name] = await self.control.start("odd.clerk", name)
        with anyio.move_on_after(ALL_S):
            for name, run in self.runs.items():
                rests = lambda s: s.phase in ENDS or bool(s.questions)  # noqa: E731
                self.states[name] = await self.control.until(run, rests)
        assert [name for name in self.runs if name not in self.states] == []

    async def cancel_those_that_ask(self) -> None:
        with anyio.fail_after(ALL_S):
            asking = [n for n, state in self.states.items() if state.phase not in ENDS]
            for name in asking:
                await self.control.cancel(self.runs[name])
            for name in asking:
                self.states[name] = await self.control.ended(self.runs[name])

    async def undo(self, runs: Iterable[str]) -> None:
        with anyio.fail_after(ALL_S):
            wanted = list(runs)
            for run in wanted:
                await self.control.undo(run)
            for run in wanted:
                await self.control.until(run, lambda s: not (s.undo_wanted or s.undos))

    async def lines(self, run: str) -> tuple[Line, ...]:
        return (await self.control.receipt(run)).lines


@asynccontextmanager
async def world(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture, cases: dict[str, Case]
) -> AsyncIterator[World]:
    """Runs that each do their case; no driver fails, and the engine works as before."""

    @agent("odd.clerk")
    async def clerk(run: Run) -> object:
        return await made.cases[run.brief](run)

    @agent("odd.plain")
    async def plain(run: Run) -> str:
        return run.brief

    global plain_read, plain_effect
    plain_read = tool(effect="read", name="odd.give")(_give)
    plain_effect = tool(effect="once", name="odd.make")(_give)
    made = World(cases)
    caplog.set_level(logging.CRITICAL, "midflight.runtime")
    async with (
        place.open() as store,
        LocalEngine.open(store, (clerk, plain), workdir=tmp_path / "w", sweep_s=0.05) as engine,
    ):
        made.control = Control(store, engine)
        yield made
        with anyio.fail_after(ALL_S):
            run = await made.control.start(plain, "all is well")
            assert await made.control.result(run) == "all is well"
    assert failed_drivers(caplog) == []


def phases(made: World) -> dict[str, str]:
    return {name: str(state.phase) for name, state in made.states.items()}


# ── tools ────────────────────────────────────────────────────────────────────────────────────

EFFECTS = ("read", "model", "write", "once")


class Shop:
    """Makes tools, and counts how often each was called."""

    def __init__(self) -> None:
        self.called: dict[str, int] = {}

    def tool(
        self, name: str, act: Callable[[], Any], runs: RunsIn = "async", **declared: Any
    ) -> Tool:
        def counted() -> Any:
            self.called[name] = self.called.get(name, 0) + 1
            return act()

        async def awaited() -> Any:
            return counted()

        declare = tool(name=f"odd.{name}", label="thing", runs=runs, **declared)
        return declare(awaited if runs == "async" else counted)


def raising(make: Callable[[], BaseException]) -> Callable[..., Any]:
    def act(*_: Any) -> None:
        raise make()

    return act


def step(made: Tool) -> Case:
    return lambda run: run.step("Act", made)


async def test_whatever_a_tool_raises_its_run_ends_or_asks(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()
    for effect, runs, (what, make) in product(EFFECTS, place.ways, place.raised.items()):
        name = f"{effect} {runs} {what}"
        cases[name] = step(shop.tool(name, raising(make), runs, effect=effect))

    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        asks = {name for name, state in made.states.items() if state.phase not in ENDS}
        assert asks == {name for name in cases if name.startswith("once")}
        await made.cancel_those_that_ask()
        assert {name for name, times in shop.called.items() if times > 1} == set()


async def test_what_cannot_be_stored_as_it_was_returned_fails_its_step_and_is_not_done_again(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases, undone = Shop(), dict[str, Case](), dict[str, int]()

    async def undo(performed: EffectRecord) -> None:
        undone[performed.key] = undone.get(performed.key, 0) + 1

    for effect, runs, (what, give) in product(EFFECTS, place.ways, place.returned.items()):
        name = f"{effect} {runs} {what}"
        undoable = {"undo": undo} if effect in {"write", "once"} else {}
        cases[name] = step(shop.tool(name, give, runs, effect=effect, retry=0, **undoable))

    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        assert set(phases(made).values()) == {"failed"}
        for name, state in made.states.items():
            happened = "it was done, but " * name.startswith(("write", "once"))
            told = f"StepFailed: step 'Act' failed: {happened}its result cannot be stored: "
            assert state.error.startswith(told), (name, state.error[:300])
        assert {name for name, times in shop.called.items() if times > 1} == set()
        effects = {n: run for n, run in made.runs.items() if n.startswith(("write", "once"))}
        assert {line.word for run in effects.values() for line in await made.lines(run)} == {"kept"}
        await made.undo(effects.values())
        assert {line.word for run in effects.values() for line in await made.lines(run)} == {
            "undone"
        }
        assert len(undone) == len(effects)
        assert set(undone.values()) == {1}


async def test_what_looks_odd_and_can_be_stored_comes_back_as_it_was(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    expected = {"bytes": "/wA=", "a set": [1, 2, 3]}  # as JSON has them
    cases = {w: step(shop.tool(w, give, effect="read")) for w, give in odd.KEPT.items()}
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        for what, run in made.runs.items():
            given = expected.get(what, odd.KEPT[what]())
            assert await made.control.result(run) == given, what


async def test_whatever_a_tool_says_on_its_way_it_comes_to_its_end(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()

    def saying(say: Callable[[], Any]) -> Callable[[], str]:
        def act() -> str:
            for _ in range(2):
                emit(say())
            raise ValueError("and then it failed")  # so that what it said is kept

        return act

    for runs, (what, say) in product(place.ways, odd.SAID.items()):
        name = f"{runs} {what}"
        cases[name] = step(shop.tool(name, saying(say), runs, effect="read"))
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        assert set(phases(made).values()) == {"failed"}


# ── labels and reserves ──────────────────────────────────────────────────────────────────────


async def test_whatever_a_label_raises_or_says_its_step_is_done(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()
    labels: dict[str, Any] = {f"raises {w}": raising(make) for w, make in place.raised.items()}
    labels |= {f"says {what}": say for what, say in place.of(odd.SAID, odd.OF_STORES).items()}
    for what, label in labels.items():
        cases[what] = step(shop.tool(what, lambda: 1, effect="once", describe=label))

    @tool(effect="once", name="odd.template", label="thing", describe="thing {mark}")
    async def templated(mark: str = odd.HALF) -> int:
        return 1

    cases["a template"] = step(templated)
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        assert set(phases(made).values()) == {"done"}
        assert {name for name, times in shop.called.items() if times > 1} == set()
        for name, run in made.runs.items():
            (line,) = await made.lines(run)
            assert line.noun, name
            assert not name.startswith("raises") or line.noun == "thing"


async def test_whatever_reserves_raises_its_step_fails_and_nothing_is_done(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()
    for effect, (what, make) in product(EFFECTS, place.raised.items()):
        name = f"{effect} {what}"
        reserving = shop.tool(name, lambda: 1, effect=effect, reserves=raising(make))
        cases[name] = step(reserving)
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        assert set(phases(made).values()) == {"failed"}
        for name, state in made.states.items():
            told = f"StepFailed: step 'Act' failed: reserves= of odd.{name} failed: "
            assert state.error.startswith(told), (name, state.error[:300])
        assert shop.called == {}


# ── checks and undos ─────────────────────────────────────────────────────────────────────────


def answers(place: Place) -> dict[str, Callable[..., Any]]:
    """What a check may come to."""
    found: dict[str, Callable[..., Any]] = {}
    for what, make in place.raised.items():
        found[f"raises {what}"] = raising(make)
    for what, give in place.returned.items():
        found[f"returns {what}"] = lambda _, give=give: give()
        found[f"done with {what}"] = lambda _, give=give: Done(give())
    for what, say in odd.SAID.items():
        found[f"unclear with {what}"] = lambda _, say=say: Unclear(say())
    return found


def in_a_task(act: Callable[..., Any]) -> Callable[..., Any]:
    async def acting(performed: EffectRecord) -> Any:
        return act(performed)

    return acting


async def test_whatever_a_check_comes_to_its_run_ends_or_asks(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()
    for way, (what, answer) in product(place.ways, answers(place).items()):
        name = f"{way} {what}"
        check = in_a_task(answer) if way == "async" else answer
        broken = raising(lambda: ConnectionError("reset"))
        cases[name] = step(shop.tool(name, broken, effect="once", check=check))
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        await made.cancel_those_that_ask()
        assert {name for name, times in shop.called.items() if times > 1} == set()


async def test_whatever_an_undo_raises_the_cancel_comes_to_its_end(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = Shop(), dict[str, Case]()

    def asking(made: Tool) -> Case:
        async def case(run: Run) -> None:
            await run.step("Act", made)
            await run.ask("Well?")

        return case

    for way, (what, make) in product(place.ways, place.raised.items()):
        name, act = f"{way} {what}", raising(make)
        undo = in_a_task(act) if way == "async" else act
        cases[name] = asking(shop.tool(name, lambda: 1, effect="once", undo=undo))
        looks = shop.tool(f"leaves {name}", lambda: 1, effect="once", undo=print, fingerprint=undo)
        cases[f"leaves {name}"] = asking(looks)
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        await made.cancel_those_that_ask()
        assert set(phases(made).values()) == {"cancelled"}
        for run in made.runs.values():
            (line,) = await made.lines(run)
            assert line.word == "could not be undone"
            assert line.why


# ── agents ───────────────────────────────────────────────────────────────────────────────────


async def test_whatever_an_agent_raises_or_returns_its_run_ends(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def agent_raising(make: Callable[[], BaseException]) -> Case:
        async def case(run: Run) -> None:
            raise make()

        return case

    def agent_returning(give: Callable[[], Any]) -> Case:
        async def case(run: Run) -> Any:
            return give()

        return case

    cases = {f"raises {what}": agent_raising(make) for what, make in place.raised.items()}
    cases |= {f"returns {what}": agent_returning(give) for what, give in place.returned.items()}
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        assert set(phases(made).values()) == {"failed"}


CALLS: dict[str, Callable[[Run, Any], Awaitable[Any]]] = {
    "say": lambda run, odd: run.say(odd),
    "plan": lambda run, odd: run.plan("First", odd),
    "distrust": lambda run, odd: run.distrust(odd),
    "ask": lambda run, odd: run.ask(odd),
    "ask with a schema": lambda run, odd: run.ask("Which?", schema=odd),
    "ask with odd choices": lambda run, odd: run.ask("Which?", schema={"enum": [odd]}),
    "ask somebody": lambda run, odd: run.ask("Which?", answerers=[odd]),
    "approve": lambda run, odd: run.approve(odd),
    "approve details": lambda run, odd: run.approve("This?", details=odd),
    "hand over": lambda run, odd: run.hand_over(odd),
    "cancel": lambda run, odd: run.cancel(odd),
    "cancel by": lambda run, odd: run.cancel("why not", by=odd),
    "spawn": lambda run, odd: run.spawn("odd.plain", odd),
    "spawn an agent": lambda run, odd: run.spawn(odd, "brief"),
    "spawn with input": lambda run, odd: run.spawn("odd.plain", "brief", input=odd),
    "spawn with a key": lambda run, odd: run.spawn("odd.plain", "brief", key=odd),
    "snapshot": lambda run, odd: run.snapshot(odd),
    "guard": lambda run, odd: run.guard(odd),
    "guard a name": lambda run, odd: run.guard(Fingerprint(odd, lambda: 1)),
    "guard a look": lambda run, odd: run.guard(Fingerprint("look", lambda: odd)),
    "step name": lambda run, odd: run.step(odd, plain_read),
    "step key": lambda run, odd: run.step(Step("Read", key=odd), plain_read),
    "step argument": lambda run, odd: run.step("Read", plain_read, odd),
    "call arguments": lambda run, odd: run.step("Read", plain_read, what=odd),
    "effect name": lambda run, odd: run.step(odd, plain_effect),
    "effect argument": lambda run, odd: run.step("Make", plain_effect, odd),
}


async def _give(what: Any = None) -> str:
    return "given"


@pytest.mark.parametrize("kind", ["said", "returned"])
async def test_whatever_an_agent_gives_to_its_run_it_is_refused_there_or_taken_as_it_is(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    things = place.of(odd.SAID, odd.OF_STORES) if kind == "said" else place.returned
    things = {what: thing for what, thing in things.items() if what != "20 MB"}  # for the time
    took: dict[str, str] = {}

    def calling(name: str, call: Callable[[Run, Any], Awaitable[Any]], thing: Any) -> Case:
        async def case(run: Run) -> str:
            try:
                await call(run, thing())
            except Exception as error:
                took[name] = f"{type(error).__name__}: {error}"[:300]
                raise
            took[name] = ""
            return "went on"

        return case

    cases = {
        f"{called} {what}": calling(f"{called} {what}", call, thing)
        for (called, call), (what, thing) in product(CALLS.items(), things.items())
    }
    async with world(place, tmp_path, caplog, cases) as made:
        await made.come_to_rest()
        await made.cancel_those_that_ask()
        own = {name for name in took if name.endswith("no class")}  # fails where it is looked at
        kinds = {words.partition(":")[0] for name, words in took.items() if name not in own}
        assert kinds <= {"", "InvalidRequest", "NotPlainData", "PayloadTooLarge", "StepFailed"}
