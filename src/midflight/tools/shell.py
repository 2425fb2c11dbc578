"""A shell command as a tool: bounded in time and output, and with no secrets in its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from midflight.errors import ProcessNotStarted
from midflight.tools.declaration import Tool, ToolRefused, tool
from midflight.tools.processes.process import END_GRACE_S, OnOutput, run_process

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""The variables of our environment that a command sees by default: none of them holds a secret."""

TIMEOUT_S: Final = 120.0
OUTPUT_MAX: Final = 1 << 17  # bytes of each stream; far more than a model reads


class ShellResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output and the end of a command. An exit code other than 0 is a result too."""

    exit_code: int | None
    """None if it was ended by a signal."""
    stdout: str
    stderr: str
    note: str = ""
    """What the numbers do not say: the timeout, the signal, processes that may remain."""

    @property
    def ok(self) -> bool:
        """True if the exit code is 0, by which the command says that it succeeded."""
        return self.exit_code == 0


async def shell(
    command: str,
    *,
    cwd: str | os.PathLike[str],
    timeout_s: float = TIMEOUT_S,
    env: Mapping[str, str] | None = None,
    pass_on: Sequence[str] = PASSED_ON,
    on_output: OnOutput | None = None,
) -> ShellResult:
    """Run a command with ``/bin/sh`` in the folder ``cwd``.

    Its environment is what ``pass_on`` names of ours, and ``env`` on top. When the command ends,
    when time is up or when the caller is cancelled, all processes that it started are ended too:
    ``server &`` does not outlive it.
    """
    passed = {name: os.environ[name] for name in pass_on if name in os.environ}
    ended = await run_process(
        ["/bin/sh", "-c", command],
        cwd=cwd,
        env={**passed, **(env or {})},
        on_output=on_output,
        output_max=OUTPUT_MAX,
        timeout_s=timeout_s,
    )
    notes = []
    if ended.timed_out:
        notes.append(f"It took longer than {timeout_s:g} s and was ended.")
    elif ended.returncode is None:
        notes.append(f"It {ended.how()}.")
    if ended.survivors:
        notes.append(f"These processes could not be ended: {', '.join(map(str, ended.survivors))}.")
    elif not ended.proven_dead:
        notes.append("Processes that it started may still run.")
    return ShellResult(
        exit_code=ended.returncode,
        stdout=ended.stdout.decode(errors="replace"),
        stderr=ended.stderr.decode(errors="replace"),
        note=" ".join(notes),
    )


class Shell(msgspec.Struct, frozen=True):
    """The commands that a model runs in one folder."""

    folder: str
    timeout_s: float

    async def run(self, command: str, timeout_s: float = TIMEOUT_S) -> ShellResult:
        """Run a command with /bin/sh in the workspace, and give what it printed and its exit code.

        After timeout_s seconds it is ended. Nothing that it starts outlives it, and it is asked
        nothing: its standard input is empty.
        """
        limit = min(max(timeout_s, 0.1), self.timeout_s)
        try:
            return await shell(command, cwd=self.folder, timeout_s=limit)
        except (ProcessNotStarted, ValueError) as error:  # a command with a zero byte in it
            raise ToolRefused(str(error)) from error


def shell_tool(
    folder: str | os.PathLike[str],
    *,
    name: str = "shell",
    approval: bool | str = True,
    timeout_s: float = TIMEOUT_S,
    untrusted: bool = True,
) -> Tool:
    """A shell for a model, in a folder; each command is approved unless ``approval=False``.

    The folder is where commands begin, not where they end: a shell goes wherever the user of this
    process may. ``timeout_s`` is the most that a model may ask for. What commands print is taken
    for words of strangers; ``untrusted=False`` says that it is not.
    """
    commands = Shell(os.path.realpath(folder), timeout_s)
    declare = tool(
        effect="once",
        name=name,
        label="command",
        approval=approval,
        timeout=timeout_s + END_GRACE_S + 10.0,  # the command's own limit comes first
        outside=True,
        untrusted=untrusted,
    )
    return declare(commands.run)
