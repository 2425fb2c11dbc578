"""Plays scenarios on runtimes, one after the other, and keeps the figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock
from midflight.kit import durable
from midflight.kit import durable as machine
from midflight.kit.catalogue import BY_NAME, SCENARIOS
from midflight.kit.plays import SCALE, Scenario
from midflight.kit.results import STOPS, Results, Sitting
from midflight.kit.score import Row, Trial, not_offered, rows
from midflight.kit.subject import (
    Kind,
    Subject,
    SubjectFailed,
    kinds,
    postgres_for,
    python_of,
    subject,
    version_of,
)
from midflight.kit.witnesses import keeping, providing

PROMISED: Final = "midflight-immediate"
NEEDED: Final = {"untrue": "receipt", "unknown": "receipt"}
"""A metric -> what a runtime has to offer for it, besides what its scenario needs."""


class Profile(Struct, frozen=True):
    """The number of trials, and the ways in which they are played."""

    stops: int  # of each stop scenario
    others: int
    scale: int = SCALE
    promised: tuple[int, int] | None = None  # the same two, of the runtime that we answer for
    steps: bool = False
    together: bool = False  # scenarios side by side: soon done, but times say little then

    def trials(self, runtime: str, scenario: str) -> int:
        """Return the number of trials of a scenario, for a runtime."""
        if scenario == "scale":
            return self.scale
        stops, others = self.stops, self.others
        if self.promised and runtime == PROMISED:
            stops, others = self.promised
        return stops if scenario in STOPS else others


PROFILES: Final = {
    "quick": Profile(stops=8, others=6, scale=16, together=True),
    "full": Profile(stops=50, others=50, promised=(340, 200), steps=True),
}


def chosen_scenarios(names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of these names, or all if no name is given."""
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise InvalidRequest(
            f"there is no scenario {', '.join(unknown)}; there are: {', '.join(BY_NAME)}. "
            "Nothing was run."
        )
    return [BY_NAME[name] for name in names] or list(SCENARIOS)


class Place(Struct, frozen=True):
    """The place where a runtime is tried: its environment, and a new folder for each try."""

    kind: Kind
    folder: Path
    python: str
    postgres: str

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[Subject]:
        """Start a new process of it, with a ledger and a provider that know of no earlier one."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        async with (
            keeping(folder) as ledger,
            providing(ledger) as provider,
            subject(
                self.kind, folder, ledger, provider, python=self.python, postgres=self.postgres
            ) as tested,
        ):
            yield tested


class Player:
    """Plays, says how it goes, and has the results so far written down."""

    def __init__(
        self,
        profile: Profile,
        *,
        results: Results | None = None,
        commit: str = "",
        arguments: str = "",
        say: Callable[[str], None] = lambda _: None,
        keep: Callable[[Results], None] = lambda _: None,
        clock: Clock = wall_clock,
    ) -> None:
        self.results = results or Results()
        self._commit = commit
        self._arguments = arguments
        self._profile = profile
        self._say = say
        self._keep = keep
        self._clock = clock

    async def play(
        self, runtimes: Sequence[str], scenarios: Sequence[Scenario], *, own: Sequence[Kind] = ()
    ) -> Results:
        """Play every scenario on every runtime: those of these names, and those in ``own``."""
        try:
            return await self._play([*kinds(list(runtimes)), *own], scenarios)
        except BaseExceptionGroup as group:
            failed = group.subgroup(SubjectFailed)
            if failed is None:
                raise
            raise SubjectFailed(str(_first(failed))) from None  # in words, for a person

    async def _play(self, chosen: Sequence[Kind], scenarios: Sequence[Scenario]) -> Results:
        with postgres_for(list(chosen)) as postgres, TemporaryDirectory(prefix="kit-") as temporary:
            for kind in chosen:
                self._say(f"{kind.name}: {version_of(kind)}")
                python = await anyio.to_thread.run_sync(python_of, kind)
                place = Place(kind, Path(temporary) / kind.name, python, postgres)
                await self._runtime(place, scenarios)
        return self.results

    async def _runtime(self, place: Place, scenarios: Sequence[Scenario]) -> None:
        sitting = self.results.sit(
            place.kind.name,
            version_of(place.kind),
            machine=machine.described(),
            commit=self._commit,
            arguments=self._arguments,
        )
        began, load = self._clock(), machine.Load()
        await self._scenarios(place, scenarios, sitting)
        if self._profile.steps:
            async with place.opened("durable") as tested:
                offered = "steps" in tested.offers
                figures = await durable.measure(tested, self._say) if offered else []
            self.results.replace_steps(sitting, figures)
        sitting.seconds = round(self._clock() - began, 1)
        sitting.load_of_others_pct = round(load.of_others_pct(), 1)
        self.results.forget_unused()
        self._keep(self.results)

    async def _scenarios(
        self, place: Place, scenarios: Sequence[Scenario], sitting: Sitting
    ) -> None:
        alone = [s for s in scenarios if "crash" in s.needs or not self._profile.together]
        beside = [s for s in scenarios if s not in alone]
        if beside:
            async with place.opened("together") as tested, anyio.create_task_group() as tasks:
                for scenario in beside:
                    tasks.start_soon(self._scenario, scenario, tested, sitting)
        for scenario in alone:  # each begins with nothing kept
            async with place.opened(scenario.name) as tested:
                await self._scenario(scenario, tested, sitting)

    async def _scenario(self, scenario: Scenario, tested: Subject, sitting: Sitting) -> None:
        name = tested.kind.name
        if not set(scenario.needs) <= tested.offers:
            found = not_offered(name, scenario.name, scenario.metrics)
            self.results.replace(sitting, scenario.name, found)
            self._say(f"  {scenario.title}: not offered")
            return
        began = self._clock()
        trials = await scenario.play(scenario, tested, self._profile.trials(name, scenario.name))
        found = _figures(name, scenario.name, scenario.metrics, trials, tested.offers)
        self.results.replace(sitting, scenario.name, found)
        if why := next((t.failed or t.refused for t in trials if t.failed or t.refused), ""):
            self.results.failures[f"{name} {scenario.name}"] = why[:500]
        seen = ", ".join(f"{row.metric} {row.failures}" for row in found if row.failures)
        took = self._clock() - began
        self._say(f"  {scenario.title}: {len(trials)} in {took:.1f} s; {seen or 'nothing amiss'}")


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


def _figures(
    runtime: str,
    scenario: str,
    metrics: Sequence[str],
    trials: Sequence[Trial],
    offers: frozenset[str],
) -> list[Row]:
    missing = [name for name in metrics if NEEDED.get(name, "") not in {"", *offers}]
    there = [name for name in metrics if name not in missing]
    return rows(runtime, scenario, there, trials) + not_offered(runtime, scenario, missing)
