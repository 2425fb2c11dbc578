"""Reads the pages of the docs, and plays one from its top to its end as a reader would.

* Python is run, block after block, in one namespace; ``await`` may stand at the top.
* Python with a title is a file of that name. A page that has files is a story, and its commands are
  run too: ``midflight serve`` until the page ends, on a free port.
* Text right after either is what was printed, where ``…`` stands for anything.

``python handbook.py PAGE`` plays a page in the folder that it is started in.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PLAYED: Final = ("python", "curl", "midflight", "sleep")
COMMAND_S: Final = 60.0
PORT: Final = "8321"

_FENCE: Final = re.compile(
    r"^( *)```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """A piece of code or of output."""

    line: int
    kind: str
    title: str
    text: str


def pages() -> list[Path]:
    """Every page that people read."""
    kept = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    kept += [ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", ROOT / "examples/README.md"]
    return [*kept, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """What stands between fences, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start()) + 2, found[2], found[3] or "", _dedented(found))
        for found in _FENCE.finditer(text)
    ]


def _dedented(found: re.Match[str]) -> str:
    return "".join(line.removeprefix(found[1]) for line in found[4].splitlines(keepends=True))


def commands(block: Block) -> list[str]:
    """The lines of a shell block, without comments; what goes on in the next line is one."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


class Story:
    """A page that is being played."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.blocks = blocks(page)
        self.has_files = any(block.title for block in self.blocks)
        self._scope: dict[str, Any] = {"__name__": "__main__"}
        self._port = PORT

    def play(self) -> None:
        """From the top to the end."""
        with asyncio.Runner() as loop, ExitStack() as running:
            for block, said in self._with_output():
                printed = self._run(block, loop, running)
                if said is not None and not _fits(said.text, printed):
                    raise SystemExit(f"{self.page.name}:{said.line}: it printed\n{printed}")

    def _with_output(self) -> Iterator[tuple[Block, Block | None]]:
        for block, following in zip(self.blocks, [*self.blocks[1:], None], strict=True):
            says = following is not None and following.kind == "text" and block.kind != "text"
            yield block, following if says else None

    def _run(self, block: Block, loop: asyncio.Runner, running: ExitStack) -> str:
        if block.kind == "python" and block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            return self._python(block, loop)
        elif block.kind == "sh" and self.has_files:
            return "".join(self._command(line, running) for line in commands(block))
        return ""

    def _python(self, block: Block, loop: asyncio.Runner) -> str:
        where = f"{self.page.relative_to(ROOT)} (line 1 is {block.line})"
        code = compile(block.text, where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            awaited = eval(code, self._scope)
            if inspect.iscoroutine(awaited):
                loop.run(awaited)
        return printed.getvalue()

    def _command(self, line: str, running: ExitStack) -> str:
        line = line.replace(f":{PORT}", f":{self._port}")
        if line.startswith("midflight serve"):
            return self._serve(line, running)
        if named := re.match(r"export (\w+)=(.+)", line):
            os.environ[named[1]] = _shell(f"printf %s {named[2]}")
            return ""
        return _shell(line) if line.split()[0] in PLAYED else ""

    def _serve(self, line: str, running: ExitStack) -> str:
        server = running.enter_context(
            subprocess.Popen([*shlex.split(line), "--port", "0"], stdout=subprocess.PIPE, text=True)
        )
        running.callback(server.terminate)
        assert server.stdout is not None
        greeting = server.stdout.readline() + server.stdout.readline()
        found = re.search(r"://[\w.]+:(\d+)", greeting)
        if found is None:
            raise SystemExit(f"{self.page.name}: `{line}` has not begun to serve: {greeting}")
        self._port = found[1]
        return greeting.replace(f":{self._port}", f":{PORT}")


def _shell(line: str) -> str:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=COMMAND_S
    )
    if done.returncode:
        raise SystemExit(f"`{line}` has failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _fits(expected: str, printed: str) -> bool:
    wanted = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(wanted, printed.strip(), re.DOTALL) is not None


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    sys.path.insert(0, "")
    Story(Path(sys.argv[1])).play()
