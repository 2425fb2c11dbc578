"""A front door never reads a sentence made for people: what it needs to know is a field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SENTENCES = frozenset(
    {"confirm", "consequence", "detail", "message", "note", "says", "stands", "status", "words"}
)
"""Names of fields and variables that hold a sentence, or a part of one."""
CUTTING = frozenset(
    {"endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace"}
    | {"rpartition", "rsplit", "split", "startswith"}
)
DOORS = ("control", "interfaces", "view")
ONCE = {"view/shown_values.py"}  # a journal has the name of a cap in a text: one place reads it
SOURCES = [path for door in DOORS for path in sorted((ROOT / "src/midflight" / door).rglob("*.py"))]
SOURCES.append(ROOT / "src/midflight/telemetry.py")
PAGE = [path for path in (ROOT / "web/src").rglob("*.ts*") if "generated" not in path.parts]
IN_TYPESCRIPT = re.compile(
    rf"\b(?:{'|'.join(SENTENCES)})\??\.(?:split|startsWith|endsWith|indexOf|includes|match|replace)\("
)


def name_of(node: ast.AST) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case _:
            return ""


def parsed(tree: ast.AST) -> Iterator[str]:
    """Yield the places where a sentence is cut up, or looked into for some words."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=whole, attr=how), args=[_, *_]) if (
                how in CUTTING
            ):
                if name_of(whole) in SENTENCES:
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In()], comparators=[whole]):
                if name_of(whole) in SENTENCES:
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case _:
                pass


def test_every_door_is_looked_at() -> None:
    found = {path.relative_to(ROOT / "src/midflight").parts[0] for path in SOURCES}
    assert found == {*DOORS, "telemetry.py"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_door_parses_a_sentence(path: Path) -> None:
    if str(path.relative_to(ROOT / "src/midflight")) not in ONCE:
        assert list(parsed(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", PAGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_page_parses_none_either(path: Path) -> None:
    assert IN_TYPESCRIPT.findall(path.read_text(encoding="utf-8")) == []
