"""The runtime reaches the store through the journal client and in no other way.

A call that goes around it misses the client's patience: it fails its run when the store is away.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from midflight.stores.protocol import Store

SOURCE = Path(__file__).resolve().parents[2] / "src" / "midflight"
(CLIENT,) = SOURCE.rglob("journal_client.py")
(CREW,) = SOURCE.rglob("driver_pool.py")
MODULES = sorted(path for path in CLIENT.parent.rglob("*.py") if path != CLIENT)
ENGINES = sorted(CREW.parent.rglob("*.py"))
VERBS = {name for name in vars(Store) if not name.startswith("_")}
PATIENT = {"client", "journals", "journal"}  # and the run's journal, which writes through them
WRITERS = {"sweep": ["self._store.submit"]}


def ways_to_the_store(path: Path) -> list[str]:
    """Imports of the store's Protocol or of a store, and calls of a thing named store."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                named = {alias.name for alias in names}
                if module == "midflight.stores.protocol" and "Store" in named:
                    found.append(f"line {node.lineno} imports Store")
                if module in {f"midflight.stores.{kind}" for kind in ("memory", "factory")}:
                    found.append(f"line {node.lineno} imports from {module}")
            case ast.Attribute(attr=verb, value=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name.lstrip("_") == "store" and verb in VERBS:
                    found.append(f"line {node.lineno} uses {name}.{verb}")
            case ast.arg(arg="store"):
                found.append(f"line {node.lineno} takes a store")
            case _:
                pass
    return found


def impatient_writes(source: str) -> list[str]:
    """Return writes to a store by whatever name: only the client and the journal may be asked to.

    A list has ``append`` too, but nobody awaits it.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Await(value=ast.Call(func=ast.Attribute(attr="append", value=asked))):
                pass
            case ast.Attribute(attr="submit", value=asked):
                pass
            case _:
                continue
        if ast.unparse(asked).rpartition(".")[2].lstrip("_") not in PATIENT:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", MODULES + ENGINES, ids=lambda path: path.stem)
def test_who_drives_writes_to_no_store_by_any_name(path: Path) -> None:
    """A sweep has no run that could fail: it hands the store on, and looks again later.

    The run's journal calls its own ``submit``, which goes through the client.
    """
    found = impatient_writes(path.read_text(encoding="utf-8"))

    assert found == WRITERS.get(path.stem, [])


@pytest.mark.parametrize(
    "source", ["await kept.append(x)", "await self._s.submit(x)", "later(lambda: kept.submit(x))"]
)
def test_a_write_under_another_name_is_found(source: str) -> None:
    assert len(impatient_writes(f"async def f(): {source}")) == 1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_runtime_has_no_way_of_its_own_to_the_store(path: Path) -> None:
    assert ways_to_the_store(path) == []


def test_a_crew_asks_the_store_itself_for_nothing_but_its_lease() -> None:
    used = [line.partition(" uses ")[2] for line in ways_to_the_store(CREW)]

    assert list(filter(None, used)) == ["store.lease"]
