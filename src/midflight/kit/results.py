"""The figures that are kept, each with the sitting in which it was measured.

Runtimes can be played one at a time, and some scenarios anew: a later figure takes the place of an
earlier one, and brings its own sitting with it. So nothing is noted for the file as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from midflight.errors import InvalidRequest
from midflight.kit.durable import Figure
from midflight.kit.score import Row, pooled

STOPS: Final = ("stream", "tool", "blocking", "process", "batch", "first")
POOLED: Final = "stops"
POOLED_METRICS: Final = (
    "unlisted", "listed", "after_stopped", "untrue", "unknown", "hung", "never_came",
)  # fmt: skip


class Sitting(Struct, omit_defaults=True):
    """One runtime, played once: with what, where, and how busy the machine was beside."""

    number: int
    runtime: str
    version: str
    machine: str = ""
    commit: str = ""
    arguments: str = ""
    seconds: float = 0.0
    load_of_others_pct: float | None = None
    note: str = ""


class Results(Struct):
    """All that is known from runs of the kit."""

    sittings: list[Sitting] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    durable: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """A runtime and a scenario -> the first error of a trial that failed or was refused."""

    def sit(
        self,
        runtime: str,
        version: str,
        *,
        machine: str = "",
        commit: str = "",
        arguments: str = "",
    ) -> Sitting:
        """Begin a sitting."""
        number = max((one.number for one in self.sittings), default=0) + 1
        self.sittings.append(Sitting(number, runtime, version, machine, commit, arguments))
        return self.sittings[-1]

    def replace(self, sitting: Sitting, scenario: str, found: Sequence[Row]) -> None:
        """Put figures in the place of earlier ones."""
        key = (sitting.runtime, scenario)
        self.rows = [row for row in self.rows if (row.runtime, row.scenario) != key]
        for row in found:
            row.sitting = sitting.number
        self.rows += found
        self.failures.pop(" ".join(key), None)

    def replace_steps(self, sitting: Sitting, found: Sequence[Figure]) -> None:
        """Put durable steps in the place of earlier ones of the same runtimes."""
        names = {figure.runtime for figure in found}
        for figure in found:
            figure.sitting = sitting.number
        self.durable = [f for f in self.durable if f.runtime not in names] + list(found)

    def forget_unused(self) -> None:
        """Drop the sittings of which no figure is left."""
        used = {row.sitting for row in self.rows} | {figure.sitting for figure in self.durable}
        self.sittings = [one for one in self.sittings if one.number in used]

    def of(self, runtime: str, scenario: str, metric: str) -> Row | None:
        """Return one figure, or None if it was not measured."""
        if scenario == POOLED:
            return self._of_all_stops(runtime, metric)
        key = (runtime, scenario, metric)
        return next((r for r in self.rows if (r.runtime, r.scenario, r.metric) == key), None)

    def _of_all_stops(self, runtime: str, metric: str) -> Row | None:
        """Pool the figures of all stop scenarios when asked, so that they are never out of date."""
        found = [row for name in STOPS if (row := self.of(runtime, name, metric))]
        return pooled(runtime, POOLED, found) if len(found) == len(STOPS) else None

    def trials(self, runtime: str, scenario: str) -> int:
        """Return the number of trials of a scenario that count."""
        if scenario == POOLED:
            return sum(self.trials(runtime, name) for name in STOPS)
        here = [r for r in self.rows if (r.runtime, r.scenario) == (runtime, scenario)]
        return max((row.trials for row in here if row.metric != "never_came"), default=0)


def read(path: Path) -> Results:
    """Return the figures in a file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{path} does not hold figures of the kit: {error}.") from None


def write(path: Path, results: Results) -> None:
    """Write the figures to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
