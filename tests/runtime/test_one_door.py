"""The runtime reaches the store through the journal client and in no other way.

A call that goes around it misses the client's patience: it fails its run when the store is away.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from midflight.stores.base import Store

SOURCE = Path(__file__).resolve().parents[2] / "src" / "midflight"
CLIENT = SOURCE / "runtime" / "journal_client.py"
MODULES = sorted(path for path in (SOURCE / "runtime").rglob("*.py") if path != CLIENT)
CREW = SOURCE / "engines" / "crew.py"
VERBS = {name for name in vars(Store) if not name.startswith("_")}


def ways_to_the_store(path: Path) -> list[str]:
    """Imports of the store's Protocol or of a store, and calls of a thing named store."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                named = {alias.name for alias in names}
                if module == "midflight.stores.base" and "Store" in named:
                    found.append(f"line {node.lineno} imports Store")
                if module in {f"midflight.stores.{kind}" for kind in ("memory", "opening")}:
                    found.append(f"line {node.lineno} imports from {module}")
            case ast.Attribute(attr=verb, value=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name.lstrip("_") == "store" and verb in VERBS:
                    found.append(f"line {node.lineno} uses {name}.{verb}")
            case ast.arg(arg="store"):
                found.append(f"line {node.lineno} takes a store")
            case _:
                pass
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_runtime_has_no_way_of_its_own_to_the_store(path: Path) -> None:
    assert ways_to_the_store(path) == []


def test_a_crew_asks_the_store_itself_for_nothing_but_its_lease() -> None:
    used = [line.partition(" uses ")[2] for line in ways_to_the_store(CREW)]

    assert list(filter(None, used)) == ["store.lease"]
