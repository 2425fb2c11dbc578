"""Asks a SQLite file through ``sql_child.py``, a process that is ended when time is up."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from midflight import store_files
from midflight.errors import ProcessNotStarted
from midflight.tools import sql_child
from midflight.tools.declaration import ToolFailed, ToolRefused
from midflight.tools.process import run_process
from midflight.tools.shell import PASSED_ON
from midflight.tools.sql_child import Found

if TYPE_CHECKING:
    from midflight.tools.sql import SqlReader

CHILD: Final = str(Path(sql_child.__file__))
AT_ONCE: Final = 4  # queries of this process; each takes up to its bound of memory
ANSWER_BESIDES: Final = 16_000_000  # bytes of an answer beside its values: names, signs, brackets

_turns: RunVar[anyio.Semaphore] = RunVar("midflight_sqlite_queries")


async def ask(reader: SqlReader, sql: str, params: list[Any]) -> Found:
    """Run one statement, and return its columns, its rows and a note."""
    asked = {
        "path": await anyio.to_thread.run_sync(_path, reader.source),
        "sql": sql,
        "params": params,
        "rows_max": reader.rows_max,
        "bytes_max": reader.bytes_max,
        "memory_bytes_max": reader.memory_bytes_max,
    }
    async with _turn():
        answer = await _answer(reader, json.dumps(asked).encode())
    if (why := answer.get("error")) is not None:
        if "memory" in why:
            most = f"{reader.memory_bytes_max // 1_000_000:,} MB"
            why = f"the query needs more than {most} of memory. Sort or group less"
        raise ToolFailed(f"the database says: {why}. It was not changed.")
    return answer["columns"], answer["rows"], answer["note"]


def _path(source: str) -> str:
    path = Path(source.removeprefix("sqlite:")).absolute()
    if not path.is_file():
        raise ToolRefused(f"there is no database {path.name} at that place.")
    if store_files.is_open_at(path):
        raise ToolRefused(f"{path.name} {store_files.WHY}. Nothing was read.")
    return str(path)


async def _answer(reader: SqlReader, asked: bytes) -> dict[str, Any]:
    try:
        ended = await run_process(
            [sys.executable, "-I", "-S", "-X", "utf8", CHILD],
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            stdin=asked,
            on_output=lambda _stream, _data: None,
            output_max=8 * reader.bytes_max + ANSWER_BESIDES,
            timeout_s=reader.timeout_s,
        )
    except ProcessNotStarted as error:
        raise ToolRefused(f"{error} Nothing was read.") from error
    if ended.timed_out:
        raise ToolFailed(f"the query took longer than {reader.timeout_s:g} s. It was ended.")
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise ToolFailed(
            f"the process that asks the database {ended.how()} without an answer, perhaps for want "
            "of memory. The database was not changed."
        ) from None
    return answer


def _turn() -> anyio.Semaphore:
    try:
        return _turns.get()
    except LookupError:
        _turns.set(anyio.Semaphore(AT_ONCE))
        return _turns.get()
