"""What keeps the code readable and the project free of what does not belong in it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_MAX = 400
EVENTS = "journal/events.py"  # all of them are told in one place
PACKAGE_MODULES_MAX = 16
FUNCTION_LINES_MAX = 60
HEADLESS = re.compile(r"(?:What|Who|Whose|Whom|How|Whether|Which)\b")
HEADLESS_SHARE_MAX = 0.02


def tracked() -> list[Path]:
    """Every file that is in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_and_its_functions_can_be_read_in_one_sitting(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    if path.relative_to(ROOT / "src/midflight").as_posix() != EVENTS:
        assert text.count("\n") <= MODULE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, node.name


def test_modules_are_named_for_what_they_are() -> None:
    assert not {path.stem for path in SOURCES} & {"utils", "helpers", "misc", "common", "manager"}


def test_a_package_can_be_taken_in_at_a_glance() -> None:
    modules = Counter(path.parent for path in SOURCES if path.stem != "__init__")

    assert not {str(folder): n for folder, n in modules.items() if n > PACKAGE_MODULES_MAX}


def test_a_name_of_a_module_means_one_thing() -> None:
    names = Counter(path.stem for path in SOURCES if not path.stem.startswith("__"))

    assert not {name: n for name, n in names.items() if n > 1}


def test_no_file_names_a_machine_or_a_registry() -> None:
    registry = r"""(?:index-url|registry|resolved)["= :]+"?https?://"""
    home = r"(?:^|[^A-Za-z0-9_.])/(?:root|home/[a-z]+|work)/"
    told = re.compile(f"{registry}|{home}", re.MULTILINE)
    for path in tracked():
        if path.name != "test_tidy.py":
            text = path.read_text(encoding="utf-8", errors="replace")
            found = told.search(text)
            assert found is None, f"{path.relative_to(ROOT)}: {text[found.start() :][:80]}"


def docstrings(path: Path) -> list[tuple[int, str]]:
    """All docstrings of a module, with the lines on which they begin."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                found.append((node.body[0].lineno, text))
    return found


def test_docstrings_begin_with_a_verb_or_a_noun_and_not_with_a_question_word() -> None:
    all_of_them = [(path, *each) for path in SOURCES for each in docstrings(path)]
    headless = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path, line, text in all_of_them
        if HEADLESS.match(text)
    ]

    share = len(headless) / len(all_of_them)
    assert share <= HEADLESS_SHARE_MAX, f"{share:.1%} of docstrings:\n" + "\n".join(headless)


def test_cancelled_is_spelled_in_one_way() -> None:
    american = re.compile(r"\bcancel(ed|ing)\b")  # "cancelled", "cancelling"
    for path in SOURCES:
        assert not american.search(path.read_text(encoding="utf-8")), path


def test_no_browser_test_waits_with_what_a_page_like_ours_forbids() -> None:
    """Playwright's wait evaluates a string when it looks again, and our pages allow no eval.

    Such a test passes as long as its first look is late enough.
    """
    forbidden = "wait_for_" + "function"
    for path in tracked():
        if path.suffix == ".py":
            assert forbidden not in path.read_text(encoding="utf-8"), path
