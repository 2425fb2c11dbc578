"""No module of the runtime is part of an import cycle, and no cycle appears anywhere.

Every import counts: those inside functions and those under ``TYPE_CHECKING`` too. They make a cycle
of knowledge even where Python does not meet it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
Graph = Mapping[str, set[str]]


def named(path: Path, root: Path) -> str:
    """Return the dotted name of a module or package."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, package: str, known: set[str]) -> Iterator[str]:
    """Yield the known modules that a module names in any of its imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield from [name for name in (inner, base or "") if name in known][:1]


def imports_of(root: Path) -> Graph:
    """Return which modules each module below a folder imports."""
    paths = {named(path, root): path for path in root.rglob("*.py")}
    known = set(paths)
    graph = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = set(imported(tree, package, known)) - {name}
    return graph


def reached(graph: Graph, start: str) -> set[str]:
    """Return the modules that a module imports, directly or by others."""
    found: set[str] = set()
    unseen = list(graph[start])
    while unseen:
        name = unseen.pop()
        if name not in found:
            found.add(name)
            unseen += graph[name]
    return found


def cycles(graph: Graph) -> set[frozenset[str]]:
    """Return the groups of modules that all import each other, directly or by others."""
    below = {name: reached(graph, name) for name in graph}
    return {
        frozenset(other for other in below[name] if name in below[other])
        for name in graph
        if name in below[name]
    }


@cache
def of_the_source() -> set[frozenset[str]]:
    """Return the cycles of all of ``src/midflight``."""
    return cycles(imports_of(SOURCE))


def test_there_is_no_import_cycle() -> None:
    assert not [sorted(cycle) for cycle in of_the_source()]


def test_imports_in_functions_and_for_types_count(tmp_path: Path) -> None:
    (tmp_path / "kin").mkdir()
    (tmp_path / "kin" / "__init__.py").write_text("")
    (tmp_path / "kin" / "a.py").write_text("def call() -> None:\n    from kin.b import b\n")
    (tmp_path / "kin" / "b.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import c\n"
    )
    (tmp_path / "kin" / "c.py").write_text("import kin.a\n")
    (tmp_path / "kin" / "d.py").write_text("from kin.a import call\n")

    assert cycles(imports_of(tmp_path)) == {frozenset({"kin.a", "kin.b", "kin.c"})}
