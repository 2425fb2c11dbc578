"""The help says all that was written for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.scene import Scene
from midflight.interfaces.cli.main import COMMANDS, imported

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def commands(name: str, found: Any) -> Iterator[tuple[list[str], Any]]:
    """A command with its words, and those below it."""
    yield [name], found
    for below, one in getattr(found, "commands", {}).items():
        for words, command in commands(below, one):
            yield [name, *words], command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_every_word_of_its_source(name: str, tmp_path: Path) -> None:
    for words, command in commands(name, imported(name)):
        told = Scene(tmp_path).said(*words, "--help", COLUMNS="400").replace("│", " ").split()
        parts = [command.help, *(getattr(p, "help", "") for p in command.params)]
        written = filter(None, [*parts, *(p.metavar for p in command.params)])
        wanted = {word for text in written for word in text.replace("\\[", "[").split()}
        assert wanted <= set(told), (words, wanted - set(told))


@pytest.mark.parametrize("how", [(), ("--save",), ("--link", "http://localhost"), ("--revoke",)])
def test_the_page_on_commands_knows_what_a_token_can_be_made_for(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    (row,) = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `token NAME`")
    ]
    scene = Scene(tmp_path)
    scene.said("token", "ann")

    answer = scene.json("token", "ann", *how)

    assert [option for option in how[:1] if f"`{option}" not in row] == []
    assert [key for key in answer if f"`{key}`" not in row and f'"{key}"' not in row] == []
