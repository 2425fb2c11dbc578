"""Marks: comments that say where a protecting layer is, and the ways to take it out there.

A mark is the comment ``# layer some-name`` (in SQL ``-- layer some-name``) at the end of the first
line of what protects, or on a line of its own above it. It marks the statement that begins on that
line, or, within a longer statement, the operand, argument or entry that begins there. In SQL it
marks the line.

Code may be renamed and moved under its mark. So most ways to take a layer out name nothing that
stands in the code; `Swap` does, and is for what no other way can say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("src/midflight/**/*.py", "src/midflight/**/*.sql", "scripts/test.py")
MARK = re.compile(r"(?:#|--) layer ([a-z0-9-]+)$")
NOTHING = re.compile(r"\s*(?:(?:#|--).*)?$")

Span = tuple[int, int]
"""From one character of a file up to another."""
Node = ast.expr | ast.stmt | ast.ExceptHandler | ast.keyword | ast.pattern
Clause = ast.stmt | ast.ExceptHandler | ast.match_case


class NotHere(Exception):
    """A layer cannot be taken out in this way at the place that is marked."""


class Place:
    """What a mark marks: its file as text, and the code that begins on the marked line."""

    def __init__(self, text: str, line: int, *, sql: bool) -> None:
        self.text, self.line, self.sql = text, line, sql
        self.starts = [0]
        for each in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(each))
        self.clause = None if sql else clause_at(text, line)

    def span(self, node: Node) -> Span:
        """Where a node stands."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def _at(self, line: int, column: int) -> int:
        start = self.starts[line - 1]
        ahead = self.text[start : self.starts[line]].encode()[:column]
        return start + len(ahead.decode())

    def code(self, node: ast.expr) -> str:
        """The source of an expression, fit to stand in another one."""
        start, end = self.span(node)
        return f"({self.text[start:end]})"

    def lines(self) -> Span:
        """The marked lines: of a short statement all, of one with a block what precedes that."""
        first = last = self.line
        if self.clause is not None:
            body = getattr(self.clause, "body", None)
            if isinstance(body, list):
                last = max(self.line, body[0].lineno - 1)
            else:
                assert isinstance(self.clause, ast.stmt)
                last = self.clause.end_lineno or last
        elif not self.sql:
            last = max((n.end_lineno or 0 for n in self.parts()), default=last)
        return self.starts[first - 1], self.starts[last]

    def parts(self) -> list[ast.expr | ast.keyword]:
        """The operands, arguments and entries that begin on a line within a statement."""
        nodes = ast.walk(tree_of(self.text))
        kinds, chains = (ast.expr, ast.keyword), (ast.BoolOp, ast.BinOp, ast.Compare)
        return [
            node
            for node in nodes
            if isinstance(node, kinds) and node.lineno == self.line
            if not isinstance(node, chains) or node.end_lineno == self.line
        ]

    def with_(self, span: Span, code: str) -> str:
        """The file with other code at a place."""
        return self.text[: span[0]] + code + self.text[span[1] :]


@cache
def tree_of(text: str) -> ast.Module:
    """Parse a file once."""
    return ast.parse(text)


def clause_at(text: str, line: int) -> Clause | None:
    """The statement that begins on a line, or the branch of a ``match`` or ``try``."""
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.match_case):
            if node.pattern.lineno == line:
                return node
        elif isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno == line:
            return node
    return None


class Way(Protocol):
    """A way to take out a layer."""

    def out_of(self, place: Place) -> str:
        """Return the file without the layer, or raise `NotHere`."""
        ...


@dataclass(frozen=True)
class Instead:
    """Other statements in place of the marked one, its block included."""

    code: str

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        if place.sql:
            end = place.text.index(";\n", place.starts[place.line - 1]) + 2
            return place.with_((place.starts[place.line - 1], end), f"{self.code}\n")
        if not isinstance(place.clause, ast.stmt):
            raise NotHere("no statement begins there")
        indent = "\n" + " " * place.clause.col_offset
        return place.with_(place.span(place.clause), indent.join(self.code.splitlines()))


@dataclass(frozen=True)
class Drop:
    """Nothing in place of the marked statement, or of the marked lines within one."""

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        if isinstance(place.clause, ast.stmt):
            return Instead("pass").out_of(place)
        if place.clause is not None:
            raise NotHere("a branch cannot be dropped: it can be taken never")
        return place.with_(place.lines(), "\n")


@dataclass(frozen=True)
class Taken:
    """The marked branch is taken always or never, whatever its condition says.

    The condition is that of an ``if``, a ``while``, a ``case``, an ``assert``; or the only one of a
    short statement: ``a if … else b``, ``for … if …``; never is also for an ``except``.
    """

    always: bool

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        clause = place.clause
        if isinstance(clause, ast.ExceptHandler):
            if self.always or clause.type is None:
                raise NotHere("an except can be taken never, if it names what it catches")
            return place.with_(place.span(clause.type), "()")
        if isinstance(clause, ast.match_case) and clause.guard is None:
            if self.always:
                raise NotHere("the case has no condition")
            end = place.span(clause.pattern)[1]
            return place.with_((end, end), " if False")
        conditions = list(conditions_of(clause)) if clause is not None else []
        if len(conditions) != 1:
            raise NotHere(f"{len(conditions)} conditions stand there")
        return place.with_(place.span(conditions[0]), str(self.always))


NEVER, ALWAYS, DROP = Taken(always=False), Taken(always=True), Drop()


def conditions_of(clause: Clause) -> Iterator[ast.expr]:
    """The condition of a statement with a block, or those that stand in a short one."""
    match clause:
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
            yield test
        case ast.match_case(guard=ast.expr() as guard):
            yield guard
        case ast.stmt() if not hasattr(clause, "body"):
            for node in ast.walk(clause):
                if isinstance(node, ast.IfExp):
                    yield node.test
                elif isinstance(node, ast.comprehension):
                    yield from node.ifs
        case _:
            pass


@dataclass(frozen=True)
class Value:
    """Another value where the marked statement returns or sets one; of an argument or an entry."""

    code: str

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        return place.with_(place.span(self._of(place)), self.code)

    def _of(self, place: Place) -> ast.expr:
        if place.clause is not None:
            value = getattr(place.clause, "value", None)
            if isinstance(value, ast.expr):
                return value
        for part in () if place.clause is not None else place.parts():
            if isinstance(part, ast.keyword):
                return part.value
        raise NotHere("nothing is returned or set there")


@dataclass(frozen=True)
class Without:
    """One of the marked operands, entries or arguments less.

    By its number, from 0, in the outermost ``and``, ``or``, tuple, list or set that has so many;
    by its name if it is a named argument.
    """

    part: int | str

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        if place.clause is None:
            raise NotHere("no statement begins there")
        for node in own_nodes(place.clause):
            if isinstance(self.part, str):
                if isinstance(node, ast.Call):
                    for keyword in node.keywords:
                        if keyword.arg == self.part:
                            return place.with_(self._with_comma(place, keyword), "")
            elif isinstance(node, ast.BoolOp) and self.part < len(node.values):
                return place.with_(place.span(node), self._joined(place, node))
            elif isinstance(node, ast.Tuple | ast.List | ast.Set) and self.part < len(node.elts):
                return place.with_(self._with_comma(place, node.elts[self.part]), "")
        raise NotHere(f"there is no part {self.part}")

    def _joined(self, place: Place, node: ast.BoolOp) -> str:
        """The other operands, in brackets, because they may be over several lines."""
        kept = [each for number, each in enumerate(node.values) if number != self.part]
        word = " and " if isinstance(node.op, ast.And) else " or "
        return f"({word.join(place.code(each) for each in kept)})"

    def _with_comma(self, place: Place, node: ast.expr | ast.keyword) -> Span:
        start, end = place.span(node)
        after = re.compile(r"\s*,").match(place.text, end)
        return start, after.end() if after else end


@dataclass(frozen=True)
class Swap:
    """Other words in the marked lines: the last resort, for it quotes the code."""

    old: str
    new: str

    def out_of(self, place: Place) -> str:
        """Return the file without the layer."""
        start, end = place.lines()
        if (count := place.text.count(self.old, start, end)) != 1:
            raise NotHere(f"{self.old!r} is found {count} times in the marked lines")
        at = place.text.index(self.old, start, end)
        return place.with_((at, at + len(self.old)), self.new)


def own_nodes(clause: Clause) -> Iterator[ast.AST]:
    """The expressions of a statement from the outermost on, without those of its block."""
    level: list[ast.AST] = [clause]
    while level:
        yield from level
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]


@dataclass(frozen=True)
class Mutant:
    """A layer, its mark, the way in which it is taken out, and the tests that must notice."""

    layer: str
    mark: str
    way: Way
    tests: tuple[str, ...]


def marks(root: Path = ROOT) -> dict[str, list[tuple[Path, int]]]:
    """Every mark in the code, and the lines that it marks: there has to be one."""
    found: dict[str, list[tuple[Path, int]]] = {}
    for path in sorted(path for pattern in PLACES for path in root.glob(pattern)):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if mark := MARK.search(line):
                found.setdefault(mark[1], []).append((path, marked_by(lines, number)))
    return found


def marked_by(lines: Sequence[str], number: int) -> int:
    """The line that a mark is about: its own, or the next one where code stands."""
    while NOTHING.match(lines[number - 1]):
        number += 1
    return number


def place_of(path: Path, line: int) -> Place:
    """Read what is marked."""
    return Place(path.read_text(encoding="utf-8"), line, sql=path.suffix == ".sql")
