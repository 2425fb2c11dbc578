"""The handbook can be followed: its code runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import inspect
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import midflight
from handbook import ROOT, Block, blocks, commands, pages
from midflight import errors
from midflight.control import Control
from midflight.interfaces.cli.main import main
from midflight.interfaces.http.access.quotas import Meter, Metrics, Quotas
from midflight.stores.memory import MemoryStore

BIN = Path(sys.executable).parent

NEEDED = {"docs/tools.md": ("reports",), "docs/assistant.md": ("reports",)}
"""Folders that a page takes for granted."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def played() -> Iterator[Any]:
    """The pages that have code, and what of outside each of them needs."""
    for page in pages():
        if any(block.kind == "python" for block in blocks(page)):
            lines = [line for block in blocks(page) for line in commands(block)]
            calls = any(line.startswith("curl ") for line in lines)
            yield pytest.param(page, marks=[pytest.mark.curl] if calls else [])


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", list(played()), ids=name_of)
def test_the_code_of_a_page_runs_from_top_to_end_and_prints_what_it_says(
    page: Path, tmp_path: Path
) -> None:
    for folder in NEEDED.get(name_of(page), ()):
        (tmp_path / folder).mkdir()

    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/handbook.py"), str(page)],
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},  # a page may save a token
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )

    assert done.returncode == 0, done.stderr


@cache
def help_of(command: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        status = main([*command.split(), "--help"])
    return printed.getvalue() if status == 0 else ""


def told_of() -> Iterator[tuple[str, str]]:
    """Every command of ours that a page shows: in a shell block, or in the text."""
    for page in pages():
        for block in blocks(page):
            for line in commands(block) if block.kind == "sh" else ():
                found = re.search(r"midflight [a-z].*", line.partition("  #")[0].rstrip(") "))
                if found:
                    yield f"{name_of(page)}:{block.line}", found[0]
        if page.name != "CHANGELOG.md":  # it also tells of what was once
            for found in re.finditer(r"`(midflight [a-z]+[^`\n]*)`", page.read_text("utf-8")):
                yield name_of(page), found[1]


def test_every_command_of_ours_is_there_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = list(told_of())

    assert len(shown) > 5
    for where, line in shown:
        _, command, *given = line.split()
        if command in {"audit", "kit", "voice"} and given:  # a group of commands
            command = f"{command} {given.pop(0)}"
        about = help_of(command)
        assert about, f"{where}: there is no `midflight {command}`"
        for option in (word.partition("=")[0] for word in given if word.startswith("--")):
            assert option in about, f"{where}: `midflight {command}` has no {option}"


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in pages():
        for shown in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE):
            assert shown in targets, f"{name_of(page)}: there is no `make {shown}`"


def test_every_extra_that_is_named_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for page in pages():
        for named in re.findall(r"midflight\[([a-z,]+)\]", page.read_text("utf-8")):
            unknown = set(named.split(",")) - project["optional-dependencies"].keys()
            assert not unknown, f"{name_of(page)}: {unknown}"


def test_a_page_that_begins_with_an_installation_installs_all_that_its_commands_need() -> None:
    needed = {"midflight serve": "server", "midflight tui": "tui", "MIDFLIGHT_SERVER=": "http"}
    found = 0
    for page in pages():
        shell = "\n".join(block.text for block in blocks(page) if block.kind == "sh")
        for named in re.findall(r"^pip install .*midflight\[([a-z,]+)\]", shell, re.MULTILINE):
            found += 1
            wanted = {extra for told, extra in needed.items() if told in shell}
            assert wanted <= set(named.split(",")), name_of(page)
    assert found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_to_something_in_the_repository(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", text):
        made = {ROOT / f"docs/reference/{name}.md" for name in ("http", "python")}
        there = (page.parent / link).resolve()
        assert there.exists() or there in made, link


def test_a_block_of_code_says_what_it_is() -> None:
    known = {"python", "sh", "text", "json", "mermaid", "sql", "yaml", "nginx", "javascript"}
    for page in pages():
        text = page.read_text("utf-8")
        assert text.count("```") % 2 == 0, page
        assert len(blocks(page)) * 2 == len(re.findall(r"^ *```", text, re.MULTILINE)), page
        assert {block.kind for block in blocks(page)} <= known, page


def test_british_spelling_also_in_the_handbook() -> None:
    american = re.compile(r"\b(cancel(ed|ing)|color|behavior|honor(s|ed)?|center)\b", re.IGNORECASE)
    for page in pages():
        assert not american.search(page.read_text("utf-8")), page


def test_the_keys_of_the_page_are_those_that_it_has() -> None:
    source = (ROOT / "web/src/ui/keys.ts").read_text("utf-8")
    keys = re.findall(r'^  \["(.+)", "(.+)"\],$', source, re.MULTILINE)
    page = (ROOT / "docs/page.md").read_text("utf-8")
    table = page.partition("## Keys\n")[2].partition("\n## ")[0]

    assert len(keys) > 4
    assert re.findall(r"^\| (.+) \| `(.+)` \|$", table, re.MULTILINE) == keys


@pytest.mark.anyio
async def test_every_figure_for_prometheus_is_explained() -> None:
    told = await Metrics().text(Control(MemoryStore()), Meter(Quotas(), lambda: 0.0))
    there = set(re.findall(r"^# TYPE (\w+)", told, re.MULTILINE))
    page = (ROOT / "docs/operations.md").read_text("utf-8")

    assert set(re.findall(r"`(midflight_\w+)", page)) == there


def reference(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def test_the_reference_has_every_public_name_once() -> None:
    shown = [name for names in reference("python_reference").GROUPS.values() for name in names]

    assert sorted(shown) == sorted(midflight.__all__)


def test_the_reference_draws_every_error_once_below_the_one_that_it_is_a_kind_of() -> None:
    page = reference("python_reference").page()
    tree = page[page.index("\nMidflightError  ") :].partition("```")[0].strip().splitlines()
    above: list[str] = []
    for line in tree:
        branch = re.match(r"([│├└─ ]*)(\w+)  +\w", line)
        assert branch, line
        depth = len(branch[1]) // 4
        del above[depth:]
        kind = getattr(errors, branch[2])
        assert [each.__name__ for each in kind.__bases__] == (above[-1:] or ["Exception"])
        above.append(branch[2])
    listed = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    assert len(tree) == len(listed)


def test_the_reference_shows_signatures_that_are_python() -> None:
    page = reference("python_reference").page()
    listed = re.findall(r"^`(?:await )?(\w+\(.*)`$", page, re.MULTILINE)
    headed = re.findall(r"^```text\n(\w+\(.*?)\n```$", page, re.MULTILINE | re.DOTALL)

    assert len(listed) > 50
    assert len(headed) > 20
    for shown in [*listed, *headed]:
        compile(f"def {shown.replace('…', '...')}: ...", shown, "exec", dont_inherit=True)


def test_the_reference_has_every_route() -> None:
    http = reference("http_reference")
    found = http.document()
    page = http.page(found)

    for path, methods in found["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page


def test_every_address_of_the_api_is_one() -> None:
    known = set(reference("http_reference").document()["paths"])
    for page in pages():
        text = re.sub(r"/r-[\w…-]+", "/{run}", page.read_text("utf-8")).replace("/{verb}", "/")
        for found in re.findall(r"/v1/[a-z_{}/]+", text):
            shown = found.rstrip("/")
            there = shown in known or any(path.startswith(f"{shown}/") for path in known)
            assert there, f"{name_of(page)}: {found}"


def test_every_example_is_in_their_list() -> None:
    listed = set(re.findall(r"\]\((\w+\.py)\)", (ROOT / "examples/README.md").read_text("utf-8")))

    assert listed == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_every_verb_that_a_page_names_is_one_of_control() -> None:
    for page in pages():
        for name in re.findall(r"(?<!midflight\.)\bcontrol\.([a-z_]+)", page.read_text("utf-8")):
            assert hasattr(Control(MemoryStore()), name), f"{name_of(page)}: {name}"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [str(BIN / "mkdocs"), "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr

    loads = re.compile(
        r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)"
    )
    for page in tmp_path.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not loads.findall(text), page.name
        assert 'class="mermaid"' not in text, page.name  # its script would be fetched


def test_output_is_compared_and_dots_stand_for_anything() -> None:
    from handbook import _fits

    assert _fits("a … c", "a b c\n")
    assert not _fits("a … c", "a b d\n")


def test_blocks_of_a_page_are_found_with_their_titles(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('# A\n\n```python title="a.py"\nx = 1\n```\n\n```sh\nmake \\\n  test\n```\n')

    code, shell = blocks(page)

    assert code == Block(4, "python", "a.py", "x = 1\n")
    assert commands(shell) == ["make    test"]
