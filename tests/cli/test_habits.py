"""How commands behave: alone with a store, in a terminal, without extras, and given nonsense."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli.scene import Scene, Server, is_root
from cli.terminal import Terminal
from midflight.errors import to_install
from midflight.interfaces.cli.commands.doctor_command import EXTRAS as EXTRAS_KNOWN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ROOT = Path(__file__).resolve().parent.parent.parent
MARGIN = 1.5  # machines are noisy, also in what they count as time of the processor
HELP_S = 0.4
IMPORT_S = 0.25


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


# ── alone with a store ───────────────────────────────────────────────────────────────────────


def test_what_nobody_drives_is_recorded_and_says_so(scene: Scene) -> None:
    recorded = "ecorded. Nobody drives it now; it goes on with: midflight serve MODULE:porter"
    begun = scene.said("run", "cli.staff:porter", "tea", "--detach")
    assert recorded.replace("MODULE", "cli.staff") in begun
    assert recorded in scene.said("show", "last")
    assert recorded in scene.said("redirect", "last", "coffee", "--wait", "0")
    assert not scene.json("redirect", "last", "milk", "--wait", "0")["driven"]


def test_a_run_whose_agent_nobody_serves_is_named_while_another_is_served(scene: Scene) -> None:
    server = Server(scene.folder, "cli.staff:host")
    try:
        told = scene.said("run", "cli.staff:porter", "tea", "--detach")
        redirected = scene.said("redirect", "last", "coffee", "--wait", "0")
        checks = scene.json("doctor")["checks"]
    finally:
        server.leave()

    assert "Nobody drives it now; it goes on with: midflight serve cli.staff:porter" in told
    assert "Nobody drives it now; it goes on with: midflight serve MODULE:porter" in redirected
    (store,) = (check for check in checks if check["name"] == "store")
    assert store["ok"] is None
    assert "1 of them waits for `midflight serve` with agent porter" in store["says"]


def test_a_run_is_driven_by_the_command_itself_and_told_as_it_goes(scene: Scene) -> None:
    told = scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0.2}')
    assert "✓ File" in told
    assert "Done  closed tea" in told
    lines = scene.lines("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0.2}')
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "sheet"
    assert kinds[-1] == "ended"
    assert {"record", "delta"} <= set(kinds)
    assert scene.said("run", "cli.staff:broken", status=10).count("the roof is off") >= 1


def test_what_is_old_is_purged_when_that_is_meant(scene: Scene) -> None:
    scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0}')
    assert "--yes" in scene.said("purge", "--older-than", "0s", status=1)
    assert "is not an age" in scene.said("purge", "--older-than", "soon", "--yes", status=1)
    assert scene.json("purge", "--older-than", "0s", "--yes")["runs"] == 1
    assert "Nothing has run yet" in scene.said("runs")


def test_looking_at_a_store_that_is_not_there_makes_none(scene: Scene) -> None:
    assert "there is no store midflight.db here" in scene.said("runs", status=3)
    assert list(scene.folder.iterdir()) == []


def test_the_doctor_finds_nothing_wrong_where_nothing_has_begun(scene: Scene) -> None:
    assert "there is no store midflight.db here yet" in scene.said("doctor")
    assert scene.json("doctor")["ok"]
    assert list(scene.folder.iterdir()) == []
    assert "there is no store mine.db" in scene.said("doctor", "--store", "mine.db", status=1)


def test_the_doctor_knows_every_extra_that_people_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert EXTRAS_KNOWN.keys() == project["optional-dependencies"].keys() - {"dev", "docs"}
    assert all(find_spec(package) for package in EXTRAS_KNOWN.values())


# ── in a terminal ────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_leaves_a_run_where_the_next_start_takes_it_up(
    scene: Scene, terminals: list[Terminal]
) -> None:
    given = ("run", "cli.staff:porter", "tea", "--input", '{"seconds": 4}')
    terminals.append(shell := Terminal(scene.folder, scene.env, *given))
    shown = shell.until("step 2 of 3")
    assert "Running" in shown
    assert "Ctrl-C leaves; the run is held where it is" in shown
    shell.until("tea tea tea")  # what the step says meanwhile
    shell.press("\x03")
    assert shell.ended() == 130
    assert "it continues when `midflight serve` runs" in shell.shown
    back = shell.shown.split("or with: midflight ")[1].split("\n")[0].split()
    assert "Done  closed tea" in scene.said(*back)
    assert [step["attempt"] for step in scene.json("show", "last")["steps"]] == [1, 1, 1]


def test_ctrl_c_in_watch_detaches_and_says_how_to_come_back(
    scene: Scene, terminals: list[Terminal]
) -> None:
    server = Server(scene.folder, "cli.staff")
    try:
        scene.said("run", "cli.staff:porter", "tea", "--detach")
        terminals.append(shell := Terminal(scene.folder, scene.env, "watch", "last"))
        shell.until("step 2 of 3")
        shell.press("\x03")
        assert shell.ended() == 130
        assert "Detached. The run goes on without you; come back with: midflight watch r-" in (
            shell.shown
        )
        assert scene.json("show", "last")["phase"] == "running"
    finally:
        server.leave()


def test_a_watch_outlasts_a_restart_of_the_server(scene: Scene, terminals: list[Terminal]) -> None:
    server = Server(scene.folder, "cli.staff")
    scene.said("token", "ann", "--save")
    try:
        remote = scene.elsewhere("--server", server.url)
        remote.said("run", "porter", "tea", "--detach", "--input", '{"seconds": 4}')
        watching = ("watch", "last", "--server", server.url)
        terminals.append(shell := Terminal(scene.folder, scene.env, *watching))
        shell.until("step 2 of 3")
        server.leave(signal.SIGKILL)
        shell.until("Reconnecting  The agent keeps running")
        server = Server(scene.folder, "cli.staff", port=server.port)
        shell.until("Done  closed tea")
        assert shell.ended() == 0
    finally:
        server.leave()


# ── nonsense ─────────────────────────────────────────────────────────────────────────────────


def no_traceback(done: subprocess.CompletedProcess[str], status: int, words: str) -> None:
    assert (done.returncode, done.stdout) == (status, ""), done
    assert words in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["rnus"], 2, "Did you mean 'runs'"),
        (["show"], 2, "Missing argument"),
        (["runs", "--limit", "many"], 2, "should be a valid integer"),
        (["run", "nowhere:agent"], 4, "No module named 'nowhere'"),
        (["run", "cli.staff:nobody"], 4, "has no attribute 'nobody'"),
        (["run", "cli.staff"], 4, "has several agents"),
        (["run", "cli.staff:porter", "x", "--input", "{"], 1, "--input is not JSON"),
        (["runs", "--store", "a.db", "--server", "http://127.0.0.1:1"], 1, "not both"),
        (["runs", "--store", "mysql://x"], 3, "not a kind of store"),
        (["runs", "--server", "http://127.0.0.1:1"], 3, "cannot reach the agent server"),
        (["runs", "--server", "127.0.0.1"], 1, "is not the address of a server"),
        (["runs", "--server", "http://example.com"], 3, "another machine"),
        (
            ["purge", "--older-than", "1d", "--store", ":memory:"],
            1,
            "another process cannot see it",
        ),
    ],
)
def test_nonsense_is_answered_in_one_line(
    scene: Scene, arguments: list[str], status: int, words: str
) -> None:
    no_traceback(scene.call(*arguments), status, words)


def test_a_store_of_a_newer_version_is_left_alone(scene: Scene) -> None:
    scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0}')
    with sqlite3.connect(scene.folder / "midflight.db") as store:
        (found,) = store.execute("PRAGMA user_version").fetchone()
        store.execute(f"PRAGMA user_version = {found + 100}")
    no_traceback(scene.call("runs"), 3, "upgrade Midflight")
    assert not scene.json_of(scene.call("doctor", "--json"))["ok"]


def test_a_store_that_is_none_and_one_that_may_not_be_read(scene: Scene) -> None:
    (scene.folder / "midflight.db").write_text("Dear diary", encoding="utf-8")
    done = scene.call("runs")
    assert done.returncode in {1, 3}
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    if not is_root():
        (scene.folder / "midflight.db").chmod(0)
        assert scene.call("runs").returncode == 3
    (scene.folder / "midflight.db").unlink()
    (scene.folder / "midflight.db").mkdir()
    no_traceback(scene.call("runs"), 3, "midflight.db")


def test_a_port_in_use_and_a_wrong_token_are_said(scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        no_traceback(scene.call("serve", "cli.staff", "--port", port), 1, "cannot listen")
    server = Server(scene.folder, "cli.staff")
    try:
        remote = scene.elsewhere("--server", server.url)
        no_traceback(remote.call("runs"), 3, "send a token")
        wrong = remote.call("runs", MIDFLIGHT_TOKEN="mf_wrong")
        no_traceback(wrong, 3, "token is not valid")
        loose = scene.folder / "token"
        loose.write_text("mf_x", encoding="utf-8")
        loose.chmod(0o644)
        no_traceback(remote.call("runs", "--token-file", str(loose)), 3, "chmod 600")
    finally:
        server.leave()


def test_the_terminal_app_opens_only_where_it_is_let_in(
    scene: Scene, terminals: list[Terminal]
) -> None:
    def told(*where: str, **env: str) -> str:
        shell = Terminal(scene.folder, {**scene.env, **env}, "tui", "--server", *where)
        terminals.append(shell)
        assert shell.ended() == 3
        assert "Nothing has run yet" not in shell.shown
        return shell.shown

    assert "cannot reach the agent server" in told("http://127.0.0.1:1")
    server = Server(scene.folder, "cli.staff")
    try:
        assert "send a token" in told(server.url)
        assert "token is not valid" in told(server.url, MIDFLIGHT_TOKEN="mf_wrong")
    finally:
        server.leave()


def test_the_terminal_app_without_a_terminal_says_what_to_do_instead(scene: Scene) -> None:
    scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0}')
    no_traceback(scene.call("tui"), 2, "needs a terminal; use --plain")
    assert "Done  closed tea" in scene.said("tui", "--plain")


def test_an_agent_whose_module_breaks_is_said_by_what_broke(scene: Scene) -> None:
    (scene.folder / "mine.py").write_text("1 / 0\n", encoding="utf-8")
    no_traceback(scene.call("run", "mine:agent"), 4, "ZeroDivisionError: division by zero")


# ── the shell around it ──────────────────────────────────────────────────────────────────────


def test_the_shell_completes_commands_and_their_options(scene: Scene) -> None:
    def completed(line: str) -> list[str]:
        asked = {"_MIDFLIGHT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "1"}
        if " --" in line:
            asked["COMP_CWORD"] = "2"
        return scene.fresh(**asked).stdout.split()

    assert completed("midflight re") == ["resume", "redirect", "release", "recover"]
    assert "--older-than" in completed("midflight purge --o")


def test_who_reads_us_may_leave_early(scene: Scene) -> None:
    scene.said("run", "cli.staff:porter", "tea", "--input", '{"seconds": 0}')
    done = subprocess.run(
        f"{sys.executable} -m midflight runs --json --limit 1 | head -c 1",
        shell=True,
        cwd=scene.folder,
        env=scene.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
    )
    assert done.stderr == ""


def test_the_version_is_said_alone(scene: Scene) -> None:
    assert scene.said("--version") == f"midflight {version('midflight')}\n"
    assert scene.said("--version", "runs") == f"midflight {version('midflight')}\n"


@pytest.mark.parametrize("command", [[], ["runs"], ["serve"], ["tui"]])
def test_h_is_short_for_help(scene: Scene, command: list[str]) -> None:
    assert scene.said(*command, "-h") == scene.said(*command, "--help")


BLOCKER = """
import sys
from importlib.machinery import PathFinder

CORE = {core!r}

class Core:
    find_distributions = PathFinder.find_distributions  # what is installed is still known by name

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in CORE:
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path = [Core if finder is PathFinder else finder for finder in sys.meta_path]
"""
EXTRAS = ("typer", "rich", "httpx", "textual", "fastapi", "uvicorn", "pydantic", "starlette")


def without(scene: Scene, *packages: str) -> dict[str, str]:
    """An environment in which these packages are not installed."""
    (scene.folder / "sitecustomize.py").write_text(BLOCKER.format(core=packages), encoding="utf-8")
    path = os.pathsep.join([str(scene.folder), scene.env["PYTHONPATH"]])
    return {"PYTHONPATH": path}


def test_with_the_core_alone_help_works_and_what_is_missing_is_named(scene: Scene) -> None:
    env = without(scene, *EXTRAS)
    done = scene.fresh("--help", **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pause       Hold a run" in done.stdout
    assert "pip install './midflight[cli]'" in done.stdout
    done = scene.fresh("--version", **env)
    assert (done.returncode, done.stdout) == (0, f"midflight {version('midflight')}\n")
    done = scene.fresh("runs", **env)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == f"midflight: commands need an extra: {to_install('cli')}\n"


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("httpx", ["runs", "--server", "http://127.0.0.1:1"], "http"),
        ("textual", ["tui", "--server", "http://127.0.0.1:1"], "tui"),
        ("fastapi", ["serve", "cli.staff"], "server"),
        ("fastapi", ["token", "ann"], "server"),
        ("asyncpg", ["runs", "--store", "postgresql://x/y"], "postgres"),
        (
            "restate",
            ["worker", "cli.staff", "--engine", "restate", "--store", "postgresql://x/y"],
            "restate",
        ),
        ("anthropic", ["demo", "--model", "anthropic:some"], "anthropic"),
        ("openai", ["demo", "--model", "openai:some"], "openai"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    scene: Scene, missing: str, arguments: list[str], extra: str
) -> None:
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    done = scene.fresh(*arguments, **without(scene, missing), **keys)
    assert (done.returncode, done.stdout) == (5, ""), done
    assert f"pip install './midflight[{extra}]'" in done.stderr.replace('"', "'")
    assert done.stderr.count("\n") == 1


def processor_s(*arguments: str) -> float:
    """The least of three: what else the machine does only adds to it."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_help_and_import_take_little_of_the_processor() -> None:
    assert processor_s("-m", "midflight", "--help") <= HELP_S * MARGIN
    assert processor_s("-c", "import midflight") <= IMPORT_S * MARGIN
    assert processor_s("-c", "from midflight import agent, open") <= HELP_S * MARGIN


def test_help_imports_neither_the_runtime_nor_a_server() -> None:
    code = (
        "import sys; from midflight.interfaces.cli.main import main; main(['--help']); "
        "print(sorted(m for m in sys.modules if m in {'midflight.control', 'fastapi', 'httpx', "
        "'textual', 'asyncio'}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stderr.replace("'", '"')) == []
