"""The shell as a tool."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from midflight.errors import InvalidTool, ProcessNotStarted
from midflight.journal.phases import Effect
from midflight.journal.record import Usage
from midflight.tools.declaration import NotDone
from midflight.tools.options import Approval
from midflight.tools.progress import listener
from midflight.tools.shell import ShellResult, shell, shell_tool
from midflight.tools.specs import spec
from tools.processes import alive, cancelled

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the proof needs Linux"),
]


async def test_a_command_runs_in_its_folder(tmp_path: Path) -> None:
    result = await shell("echo one > file; pwd; echo two >&2", cwd=tmp_path)

    assert result == ShellResult(exit_code=0, stdout=f"{tmp_path}\n", stderr="two\n")
    assert result.ok
    assert (tmp_path / "file").read_text(encoding="utf-8") == "one\n"


async def test_another_exit_code_is_a_result(tmp_path: Path) -> None:
    failed = await shell("exit 7", cwd=tmp_path)
    absent = await shell("no-such-program", cwd=tmp_path)
    killed = await shell("kill -KILL $$", cwd=tmp_path)

    assert (failed.exit_code, failed.ok) == (7, False)
    assert absent.exit_code == 127
    assert "not found" in absent.stderr
    assert (killed.exit_code, killed.note) == (None, "It was ended by SIGKILL.")


async def test_no_secret_of_ours_is_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    monkeypatch.setenv("LANG", "C.UTF-8")

    plain = await shell("env", cwd=tmp_path)
    more = await shell("env", cwd=tmp_path, env={"MODE": "test"}, pass_on=["PATH", "SOME_API_KEY"])

    assert "hush" not in plain.stdout
    assert "LANG=C.UTF-8" in plain.stdout
    assert {"MODE=test", "SOME_API_KEY=hush-hush"} < set(more.stdout.splitlines())
    assert "LANG" not in more.stdout


async def test_a_timeout_keeps_the_output_and_says_so(tmp_path: Path, token: str) -> None:
    result = await shell(f"echo begun; sleep 1000; : {token}", cwd=tmp_path, timeout_s=2)

    assert (result.exit_code, result.stdout) == (None, "begun\n")
    assert result.note == "It took longer than 2 s and was ended."
    assert alive(token) == []


async def test_what_runs_in_the_background_ends_with_the_command(
    tmp_path: Path, token: str
) -> None:
    result = await shell(f"setsid sh -c 'sleep 1000; : {token}' & echo started", cwd=tmp_path)

    assert (result.stdout, result.ok, alive(token)) == ("started\n", True, [])


async def test_a_cancel_ends_it_and_its_output_so_far_is_kept(tmp_path: Path, token: str) -> None:
    up = anyio.Event()

    ended = await cancelled(
        shell(f"echo half; sleep 1000; : {token}", cwd=tmp_path, on_output=lambda *_: up.set()), up
    )

    assert (ended.stdout, ended.proven_dead, alive(token)) == (b"half\n", True, [])


async def test_output_is_cut_and_need_not_be_text(tmp_path: Path) -> None:
    result = await shell("printf 'a\\377b'; head -c 1000000 /dev/zero", cwd=tmp_path)

    assert result.stdout.startswith("a�b")
    assert "bytes cut" in result.stdout
    assert len(result.stdout) < 200_000


async def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessNotStarted, match="absent"):
        await shell("true", cwd=tmp_path / "absent")


async def test_a_tool_that_loses_its_supervisor_says_that_processes_may_remain(
    tmp_path: Path,
) -> None:
    result = await shell("kill -KILL $PPID; sleep 1000", cwd=tmp_path)

    assert result.exit_code is None
    assert "may still run" in result.note


# ── for a model ──────────────────────────────────────────────────────────────────────────────


async def test_a_model_runs_commands_in_the_folder_once_and_approved(tmp_path: Path) -> None:
    declared = shell_tool(tmp_path, name="shell-in-folder")

    result = await declared("pwd; read line; echo [$line]")

    assert result.stdout == f"{tmp_path}\n[]\n"
    assert (declared.effect, declared.approval) == (Effect.ONCE, Approval())
    assert set(spec(declared).schema["properties"]) == {"command", "timeout_s"}


async def test_a_model_sees_no_secret_and_gets_no_more_time_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    declared = shell_tool(tmp_path, name="shell-in-time", timeout_s=0.3)

    result = await declared("env; sleep 1000", timeout_s=10_000.0)

    assert "hush" not in result.stdout
    assert result.note == "It took longer than 0.3 s and was ended."


class Heard:
    """Listens as a step does."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def hear(self, text: str) -> None:
        self.said.append(text)

    def pay(self, usage: Usage) -> None:
        raise AssertionError(f"a command costs nothing, and not {usage}")


async def test_what_a_command_prints_is_said_while_it_runs(tmp_path: Path) -> None:
    heard = Heard()
    listens = listener.set(heard)
    try:
        await shell_tool(tmp_path, name="shell-said")("echo one; echo two >&2")
    finally:
        listener.reset(listens)

    assert sorted("".join(heard.said).split()) == ["one", "two"]


async def test_a_command_that_cannot_be_started_is_proven_not_done(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    declared = shell_tool(folder, name="shell-gone")
    folder.rmdir()

    with pytest.raises(NotDone, match="could not be started"):
        await declared("true")
    with pytest.raises(NotDone, match="null byte"):
        await shell_tool(tmp_path, name="shell-zero")("echo \0")


def test_two_shells_do_not_share_a_name(tmp_path: Path) -> None:
    shell_tool(tmp_path, name="shell-twice")
    with pytest.raises(InvalidTool, match="another tool has this name"):
        shell_tool("/", name="shell-twice")
