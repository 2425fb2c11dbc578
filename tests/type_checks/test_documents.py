"""Type checkers accept the code in the README, the tutorial, the how-tos and the examples."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import Final

import pytest

from handbook import Block, blocks
from type_checks.checkers import CHECKERS, ROOT, Checker, by_mypy, by_pyright

PAGES: Final = [
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
FREE: Final = ("--allow-redefinition-new", "--local-partial-types")
"""A page is one program: a name such as ``run`` may mean another run further down."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Program:
    """The blocks of a page as one module: declarations first, and what awaits in one function."""

    def __init__(self) -> None:
        self._top: list[tuple[int, str]] = []
        self._awaiting: list[tuple[int, str]] = []
        self._set_there: set[str] = set()

    def add(self, block: Block) -> None:
        lines = block.text.splitlines()
        for part in _parsed(block.text).body:
            marked = [node.lineno for node in getattr(part, "decorator_list", [])]
            first = min([part.lineno, *marked])
            assert part.end_lineno is not None
            numbered = [
                (block.line + at, lines[at - 1]) for at in range(first, part.end_lineno + 1)
            ]
            if _awaits(part) or self._set_there & _names(part, ast.Load):
                self._set_there |= _names(part, ast.Store)
                self._awaiting += [(at, f"    {line}") for at, line in numbered]
            else:
                self._top += numbered

    @property
    def lines(self) -> list[tuple[int, str]]:
        """The lines of the module, each with its line on the page."""
        if not self._awaiting:
            return self._top
        return [*self._top, (0, "async def page() -> None:"), *self._awaiting]


def _parsed(text: str) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    module = compile(text, "page", "exec", flags)
    assert isinstance(module, ast.Module)
    return module


def _declares(part: ast.stmt) -> bool:
    return isinstance(
        part,
        ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom,
    )


def _names(part: ast.stmt, use: type[ast.expr_context]) -> set[str]:
    if _declares(part):
        return set()
    names = (node for node in ast.walk(part) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, use)}


def _awaits(part: ast.stmt) -> bool:
    if _declares(part):
        return False
    awaiting = ast.Await | ast.AsyncWith | ast.AsyncFor
    return any(isinstance(node, awaiting) for node in ast.walk(part))


def folders(page: Path, into: Path) -> dict[Path, list[int]]:
    """Write the programs of a page into folders; return the line on the page of each of theirs.

    A file that the page shows again, changed, begins a new folder with the files so far.
    """
    there: dict[Path, list[int]] = {}
    folder, program = into / "0", Program()
    folder.mkdir(parents=True)
    for block in blocks(page):
        if block.kind != "python":
            continue
        if not block.title:
            program.add(block)
            continue
        if (folder / block.title).exists():
            folder = shutil.copytree(folder, into / str(len(there)))
        (folder / block.title).write_text(block.text, encoding="utf-8")
        there[folder / block.title] = [*range(block.line, block.line + block.text.count("\n") + 1)]
    if program.lines:
        file = folder / f"{page.stem.lower().replace('-', '_')}_page.py"
        file.write_text("".join(f"{line}\n" for _, line in program.lines), encoding="utf-8")
        there[file] = [at - 1 for at, _ in program.lines]
    return there


def together(folders_of_pages: list[dict[Path, list[str]]]) -> list[dict[Path, list[str]]]:
    """Put pages together as long as no two of their files have the same name."""
    rounds: list[dict[Path, list[str]]] = []
    for there in folders_of_pages:
        names = {file.name for file in there}
        for known in rounds:
            if not names & {file.name for file in known}:
                known |= there
                break
        else:
            rounds.append(dict(there))
    return rounds


def places(page: Path, into: Path) -> dict[Path, list[str]]:
    """The programs of a page, and where each of their lines stands on the page."""
    there = folders(page, into / page.stem)
    return {file: [f"{page.name}:{line}" for line in at] for file, at in there.items()}


def of_one_folder(there: dict[Path, list[str]]) -> list[dict[Path, list[str]]]:
    return [
        {file: at for file, at in there.items() if file.parent == folder}
        for folder in sorted({file.parent for file in there})
    ]


def test_mypy_accepts_the_code_of_every_page(tmp_path: Path) -> None:
    """As many pages at once as can be, because most of its work is to read what they import."""
    each = [part for page in PAGES for part in of_one_folder(places(page, tmp_path))]
    rounds = together(each)

    assert len(each) > len(PAGES) / 2
    for lines in rounds:
        found = by_mypy(tmp_path, [*lines], *FREE)
        assert not [f"{lines[each.file][each.line - 1]}: {each.text}" for each in found]


@pytest.mark.node
def test_pyright_accepts_the_code_of_every_page(tmp_path: Path) -> None:
    """All at once, because it keeps nothing of what it has read: each page would take seconds."""
    lines = {file: at for page in PAGES for file, at in places(page, tmp_path).items()}
    found = by_pyright(tmp_path, [*lines])

    assert len(lines) > len(PAGES) / 2
    assert not [f"{lines[each.file][each.line - 1]}: {each.text}" for each in found]


@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checkers_accept_the_examples(checker: Checker) -> None:
    assert not checker(ROOT, sorted((ROOT / "examples").glob("*.py")))


def test_no_page_or_example_casts() -> None:
    texts = [*PAGES, *(ROOT / "examples").glob("*.py")]
    words = ("cast(", "type: ignore", "pyright: ignore", ": Any")
    found = [
        (file.name, word) for file in texts for word in words if word in file.read_text("utf-8")
    ]
    assert not found
