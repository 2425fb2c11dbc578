"""The environment variables that are read, and the table of them: one and the same."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = re.compile(
    r"(?:MIDFLIGHT|ANTHROPIC|DISCORD|OPENAI(?!_AGENTS))_[A-Z_]*[A-Z]"
)  # theirs is another library
WRITTEN = re.compile(rf'"({NAME.pattern})"')


def test_every_variable_of_the_source_is_in_the_table_and_no_other() -> None:
    source = (ROOT / "src" / "midflight").rglob("*.py")
    read = {name for path in source for name in WRITTEN.findall(path.read_text(encoding="utf-8"))}
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.partition("| variable | |\n")[2].partition("\n\n")[0]
    told = {name for row in table.splitlines() for name in NAME.findall(row)}
    assert read
    assert told == read
