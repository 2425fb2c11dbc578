"""What is written is still true: the diagram, the code in the README, the public names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from httpx import ASGITransport, AsyncClient

import midflight
from midflight.assistant import Profile, assistant
from midflight.interfaces.chat import People, Switchboard
from midflight.models.scripted import ScriptedModel, say
from midflight.stores import open_store
from midflight.stores.memory import MemoryStore
from midflight.tools.declaration import Tool
from midflight.tools.options import Options
from stores.runs import running

ROOT = Path(__file__).resolve().parent.parent
MEASURED = {
    "assistant": "talking",
    "interrupt": "interrupt",
    "journal": "journal_rates",
    "page": "browser",
    "scale": "scale",
    "server": "http_server",
    "steps": "steps",
    "voice": "speaking",
}  # by the module of the benchmarks that measures it


def test_the_state_diagram_is_drawn_from_the_table() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from diagram import PAGE, redrawn
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    page = PAGE.read_text(encoding="utf-8")

    assert "cancelling --> cancelled" in page
    assert redrawn(page) == page, "run `make diagram`"


def test_the_pictures_of_the_page_were_taken_of_the_page_as_it_is() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from page_pictures import TAKEN_OF, shown
    finally:
        sys.path.remove(str(ROOT / "scripts"))

    assert TAKEN_OF.read_text(encoding="utf-8") == shown(), "run `make pictures`, and look at them"


def test_every_package_has_its_line_among_the_layers() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    layers = page.split("```text\n")[1].split("```")[0]
    packages = [found.parent.name for found in (ROOT / "src/midflight").glob("*/__init__.py")]

    assert len(packages) > 10
    missing = [name for name in packages if not re.search(rf"^{name} ", layers, re.MULTILINE)]
    assert not [name for name in missing if not name.startswith("_")]


@pytest.mark.parametrize("name", MEASURED)
def test_the_figures_in_the_docs_are_those_that_were_measured(name: str) -> None:
    bench = benchmark(MEASURED[name])
    results = benchmark("figures").load(name)
    told = "scale" if name == "scale" else f"benchmarks-{name}"
    page = (ROOT / f"docs/{told}.md").read_text(encoding="utf-8")

    again = "make bench-voice VOICE=--page" if name == "voice" else f"make bench-{name}"
    assert bench.report(results) == page, f"run `{again}`"
    for told in bench.TOLD_ON if name == "interrupt" else ():
        start = (ROOT / told).read_text(encoding="utf-8")
        assert bench.reaction(results) in start
        assert bench.with_reaction(start, results) == start


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_wanted_of_figures_is_met_or_the_page_says_in_words_that_it_is_not(
    name: str,
) -> None:
    figures, rows = benchmark("figures"), benchmark(MEASURED[name]).ROWS
    told = "scale" if name == "scale" else f"benchmarks-{name}"
    page = (ROOT / f"docs/{told}.md").read_text(encoding="utf-8")

    assert figures.not_owned_up_to(figures.load(name), rows, page) == set()


def test_a_figure_that_is_missed_is_owned_up_to_by_its_name_and_not_in_a_table_alone() -> None:
    figures = benchmark("figures")
    rows = {"late_ms": ("how late, ms", "≤ 5"), "gaps": ("gaps", "0"), "more": ("more", "")}
    late = {"late_ms": 6.0, "gaps": 0, "more": 9}

    def unsaid(results: dict[str, Any], page: str) -> set[str]:
        found: set[str] = figures.not_owned_up_to(results, rows, page)
        return found

    assert unsaid(late, f"# It\n\n{figures.table(late, rows)}\n") == {"late_ms"}
    assert unsaid(late, "The gaps are missed.\nIt is `late_ms`.") == {"late_ms"}
    assert unsaid(late, "What is missed is\n`late_ms`, on a busy machine.") == set()
    assert unsaid({"late_ms": 5.0, "gaps": 0}, "") == set()
    assert unsaid({"late_ms": 5.0}, "") == {"gaps"}  # nobody knows
    with pytest.raises(ValueError, match="is no goal"):
        figures.met(1.0, "<= 5")


def test_the_page_of_the_kit_and_its_plot_are_those_of_its_figures() -> None:
    page = benchmark("interruptibility")
    results = page.read(page.KEPT)

    assert page.report(results) == page.PAGE_AT.read_text(encoding="utf-8"), "run `make kit`"
    plotted = page.PLOT_AT.read_text(encoding="utf-8")
    assert page.kit_report.plot(results) == plotted, "run `make kit KIT=--page`"


def benchmark(name: str) -> Any:
    """A module of the benchmarks, which are programs and no package."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "bench"))


def shown(page: str, name: str) -> Any:
    """What the code of that name on a page does."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"def {name}" in c)
    scope: dict[str, Any] = {}
    exec(compile(code, page, "exec"), scope)
    return scope[name]


@pytest.mark.anyio
async def test_the_code_about_the_journal_cancels_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:midflight.db") as store:
        driving = await running(store)
    cancel = shown("docs/concepts.md", "cancel")

    assert await cancel(driving.run) == driving.state.head + 1


def test_the_program_in_the_readme_prints_what_stands_below_it(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    program, told = shown
    (tmp_path / "follow_up.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "follow_up.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert (done.stdout, done.stderr) == (told, "")


def test_the_code_about_tools_for_models_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reports").mkdir()
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}

    exec(compile(code, "docs/tools.md", "exec"), scope)

    assert scope["given"] == {"path": "a.txt", "text": "hello"}
    assert len(scope["told"]) == 8


@pytest.mark.anyio
async def test_the_code_about_the_server_mounts_it(tmp_path: Path) -> None:
    page = (ROOT / "docs/server.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, "docs/server.md", "exec"), scope)
    client = midflight.Client.over(MemoryStore())

    mine = scope["with_agents"](client, str(tmp_path / "keys.json"))

    async with AsyncClient(transport=ASGITransport(mine), base_url="http://localhost") as http:
        assert (await http.get("/agents/healthz")).json()["ok"]
        assert (await http.get("/agents/v1/runs")).status_code == 401


@pytest.mark.anyio
async def test_the_channel_in_the_docs_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs/channels.md").read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "docs/channels.md", "exec"), scope)
    terminal, people = scope["Terminal"](), People.listed(["ann=controller"])
    works = assistant("documented", Profile(ScriptedModel([say("Hello.")])))

    async with (
        midflight.open("memory:", agents=[works], workdir=tmp_path) as client,
        Switchboard(client, terminal, works, folder=tmp_path / "c", people=people) as board,
    ):
        await scope["typed"](board, 1, "hi")
        with anyio.fail_after(20):
            while "Hello." not in terminal.lines.values():  # noqa: ASYNC110 - a list of lines
                await anyio.sleep(0.01)


SHOWN = {
    "approval.py": (
        "not sent: rejected by",
        "to bob: Dear Bob, hello.",
        "wait until Monday",
        "outbox: ['to ann: Hello.', 'to bob: Dear Bob, hello.']",
    ),
    "assisted.py": ("(demo model)",),
    "background.py": ("1 of 3 are done",),
    "boundary_or_immediate.py": ("at once",),
    "journal_tour.py": ("undone",),
    "own_loop.py": ("undone",),
    "people.py": ("There are 12 customers", "Then 10 % it is.", "A euro is 1.08 dollars."),
    "recovery.py": (
        "9:12 to Paris; booked: ['Room 7']",
        "Skipped by",
        "cancelled: nothing; booked: []",
    ),
    "report.py": ("Edsger: 77%",),
    "traced.py": ("control cancel",),
    "undo.py": ("changed by others since",),
    "workflow.py": (
        "At most 50 without a salesperson",
        "done: 20 seats for Acme",
        "cancel: Undoes account",
        "accounts: ['Acme'] | sent: ['20 seats for Acme']",
    ),
}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
@pytest.mark.slow
def test_every_example_runs(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=50
    )

    assert done.returncode == 0, done.stderr
    assert not [words for words in SHOWN[example.name] if words not in done.stdout], done.stdout


def test_the_table_of_a_tools_options_is_what_the_source_takes_unless_it_is_told() -> None:
    text = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE))
    assert rows.keys() == Options.__annotations__.keys()
    for field in msgspec.structs.fields(Tool):
        default = field.default
        if field.name in rows and (default is None or isinstance(default, bool | int | float)):
            told = f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
            assert told in rows[field.name], field.name


def test_the_public_names_are_these() -> None:
    assert all(hasattr(midflight, name) for name in midflight.__all__)
    assert set(midflight.__all__) == {
        "Ack",
        "Age",
        "Agent",
        "Answer",
        "Approval",
        "ApprovalAnswer",
        "ChangedSince",
        "Child",
        "Choice",
        "Client",
        "Done",
        "EffectRecord",
        "FileContent",
        "Fingerprint",
        "Guard",
        "Limits",
        "Message",
        "MidflightError",
        "NeedsPerson",
        "NoResult",
        "NotDone",
        "Phase",
        "QuestionHandle",
        "Redirected",
        "Refused",
        "Retry",
        "Role",
        "Run",
        "RunHandle",
        "Secret",
        "Spoken",
        "SqlRow",
        "Step",
        "StepFailed",
        "Store",
        "StoreError",
        "ThreadHandle",
        "TriageView",
        "Unclear",
        "Usage",
        "Actor",
        "agent",
        "connect",
        "emit",
        "open",
        "open_store",
        "rule_triage",
        "spend",
        "tool",
    }


def test_the_core_imports_nothing_that_was_not_asked_for() -> None:
    code = "import sys, midflight; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(done.stdout.split()) & {
        "asyncpg",
        "sqlite3",
        "jsonschema",
        "fastapi",
        "textual",
        "rich",
        "httpx",
        "httpcore",
        "mcp",
        "opentelemetry",
    }


def _shown_by() -> list[str]:
    page = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`((?:tests/|[a-z]+\.json:)[^`]+)`", page)))


@pytest.mark.parametrize("proof", _shown_by())
def test_what_shows_a_promise_is_there(proof: str) -> None:
    name, _, part = proof.partition("::" if proof.startswith("tests/") else ":")
    if not proof.startswith("tests/"):
        assert f'"{part}"' in (ROOT / "bench/results" / name).read_text(encoding="utf-8")
        return
    if (ROOT / name).is_dir():
        assert list((ROOT / name).glob("test_*.py"))
        return
    text = (ROOT / name).read_text(encoding="utf-8")
    assert f"def {part}(" in text if part else "def test_" in text or "TestCase" in text


REQUIREMENTS = {
    f"{group}{number}"
    for group, count in {"A": 4, "B": 8, "C": 6, "D": 4, "E": 6, "F": 7, "G": 8}.items()
    for number in range(1, count + 1)
}


def test_every_requirement_is_answered_for_and_none_is_said_to_be_missing() -> None:
    promises = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    how_to = (ROOT / "docs/how-to/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([A-G]\d)[^|]*?([A-G]\d)? \|", how_to, re.MULTILINE)
    told = {f"{first[0]}{n}" for first, last in listed for n in _numbers(first, last)}

    assert set(re.findall(r"^\| ([A-G]\d) \|", promises, re.MULTILINE)) == REQUIREMENTS
    assert told == REQUIREMENTS
    for page in (ROOT / "docs/how-to").glob("*.md"):
        assert "not there yet" not in page.read_text(encoding="utf-8").lower(), page.name


def _numbers(first: str, last: str) -> range:
    return range(int(first[1]), int((last or first)[1]) + 1)


def test_the_code_about_the_assistant_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    page = (ROOT / "docs/assistant.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, "docs/assistant.md", "exec"), scope)

    assert scope["clerk"].converses


def test_the_code_about_telemetry_can_be_run() -> None:
    page = (ROOT / "docs/telemetry.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, "docs/telemetry.md", "exec"), scope)

    assert callable(scope["serve"])
