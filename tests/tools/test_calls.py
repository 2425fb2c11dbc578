"""Python functions in processes of their own."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from midflight.errors import CallFailed, CallRefused, InvalidRequest
from midflight.tools.processes.process import call_in_process, call_with_output
from tools import functions
from tools.functions import Point
from tools.processes import alive, cancelled, driver_environment

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the proof needs Linux"),
]


async def test_arguments_and_result_cross_as_they_are() -> None:
    assert await call_in_process(functions.mirrored, Point(3, 4), about=5) == Point(7, 4)
    assert await call_in_process(functions.process_number) != os.getpid()
    assert await call_in_process(functions.Counter.one_more, 1) == 2
    assert await call_in_process(functions.decorated, "ann") == "Hello, Ann"
    assert await call_in_process(max, 3, 4) == 4


async def test_an_async_function_is_run_to_its_end() -> None:
    value: Any = await call_in_process(functions.waits_a_little, 7)

    assert value == 7


async def test_large_arguments_and_results_cross_too() -> None:
    data = os.urandom(5_000_000)

    assert await call_in_process(functions.echoes, data) == data


async def test_a_function_is_found_behind_what_declared_it() -> None:
    assert await call_in_process(functions.declared.function, 1) == 2


async def test_prints_are_output_and_not_the_result() -> None:
    value, ended = await call_with_output(functions.talks, ["words\n"])

    assert value == "quiet result"
    assert (ended.stdout, ended.stderr) == (b"words\nfrom a child\n", b"to err")
    assert await call_in_process(functions.reads_stdin) == ""


async def test_an_exception_comes_back_as_itself_with_the_traceback_from_there() -> None:
    with pytest.raises(InvalidRequest, match="not like this") as raised:
        await call_in_process(functions.fails)

    cause = raised.value.__cause__
    assert isinstance(cause, CallFailed)
    assert (cause.function, cause.kind) == ("tools.functions.fails", "InvalidRequest")
    assert "in fails\n" in cause.traceback


async def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    with pytest.raises(CallFailed, match=r"functions.fails_with.*Picky: one and two") as raised:
        await call_in_process(functions.fails_with_what_cannot_be_sent)
    assert "in fails_with_what_cannot_be_sent\n" in raised.value.traceback

    with pytest.raises(CallFailed, match=r"functions.leaves failed in its process: SystemExit: 3"):
        await call_in_process(functions.leaves)


async def test_a_process_that_ends_before_the_function_returns_is_an_error() -> None:
    with pytest.raises(CallFailed, match="ended with exit code 3 before it returned"):
        await call_in_process(functions.vanishes)


@pytest.mark.parametrize("function", [functions.makes_a_lock, functions.makes_a_local_class])
async def test_a_result_that_cannot_be_pickled_names_the_function(function: Any) -> None:
    with pytest.raises(CallFailed, match=rf"{function.__name__} .*result cannot be sent back"):
        await call_in_process(function)


async def test_what_has_no_place_in_a_module_is_refused() -> None:
    def local() -> None:
        pass

    @functools.wraps(functions.fails)
    def impostor() -> None:
        pass

    for function, why in (
        (lambda: None, "lambda or a local function"),
        (local, "lambda or a local function"),
        (functools.partial(max, 1), "no name to import it by"),
        (functions.Counter().method, "something else under this name"),
        (impostor, "something else under this name"),
    ):
        with pytest.raises(CallRefused, match=f"{why}.*Nothing was run"):
            await call_in_process(function)


async def test_arguments_that_cannot_be_pickled_are_refused() -> None:
    with pytest.raises(CallRefused, match=r"functions.echoes .*arguments cannot be pickled"):
        await call_in_process(functions.echoes, threading.Lock())


async def test_a_cancel_ends_a_function_that_sleeps_in_c_and_what_it_started(token: str) -> None:
    up = anyio.Event()

    ended = await cancelled(
        call_with_output(functions.sleeps_in_c, [token], on_output=lambda *_: up.set()), up
    )

    assert (ended.proven_dead, ended.stdout, alive(token)) == (True, b"up\n", [])


async def test_a_cancel_ends_a_function_that_never_comes_back_from_c() -> None:
    up = anyio.Event()

    began = time.monotonic()
    ended = await cancelled(
        call_with_output(functions.computes_in_c, on_output=lambda *_: up.set()), up
    )

    assert (ended.proven_dead, ended.signal) == (True, 9)
    assert time.monotonic() - began < 10


async def test_a_timeout_of_asyncio_ends_a_call(token: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await call_in_process(functions.sleeps_in_c, token)

    assert alive(token) == []


SCRIPT = """
import asyncio, dataclasses
from midflight.tools.processes.process import call_in_process
from tools.functions import echoes

@dataclasses.dataclass
class Mine:
    value: int

def doubled(mine):
    return Mine(mine.value * 2)

async def main():
    print(await call_in_process(doubled, Mine(21)) == Mine(42))
    print(await call_in_process(echoes, Mine(1)) == Mine(1))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["file", "module"])
def test_functions_and_classes_of_the_main_program_are_found(tmp_path: Path, way: str) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT, encoding="utf-8")
    how = [str(tmp_path / "mine.py")] if way == "file" else ["-m", "mine"]

    done = subprocess.run(
        [sys.executable, *how],
        cwd=tmp_path,
        env=driver_environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_a_main_program_that_is_no_file_is_refused() -> None:
    program = (
        "import asyncio; from midflight.tools.processes.process import call_in_process\n"
        "def mine(): pass\n"
        "asyncio.run(call_in_process(mine))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=driver_environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "CallRefused: __main__.mine cannot be called" in done.stderr
