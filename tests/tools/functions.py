"""Functions that tests call in another process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from midflight.errors import InvalidRequest


class Point(NamedTuple):
    x: int
    y: int


def mirrored(point: Point, *, about: int = 0) -> Point:
    return Point(2 * about - point.x, point.y)


def process_number() -> int:
    return os.getpid()


def talks(words: str) -> str:
    sys.stdout.write(words)
    sys.stderr.write("to err")
    subprocess.run(["echo", "from a child"], check=True)
    return "quiet result"


def reads_stdin() -> str:
    return sys.stdin.read()


def big(size: int) -> bytes:
    return b"x" * size


def echoes(value: Any) -> Any:
    return value


def fails() -> NoReturn:
    raise InvalidRequest("not like this")


class Picky(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def fails_with_what_cannot_be_sent() -> NoReturn:
    raise Picky("one", "two")


def leaves() -> NoReturn:
    sys.exit(3)


def vanishes() -> NoReturn:
    os._exit(3)


def makes_a_lock() -> Any:
    return threading.Lock()


def makes_a_local_class() -> Any:
    class Local:
        pass

    return Local()


async def waits_a_little(value: int) -> int:
    import asyncio

    await asyncio.sleep(0.001)
    return value


def sleeps_in_c(token: str) -> None:
    subprocess.Popen(["sh", "-c", f"sleep 1000; : {token}"])
    sys.stdout.write("up\n")
    time.sleep(1000)


def computes_in_c() -> int:
    """One call into C that holds the interpreter's lock for minutes: no signal handler runs."""
    sys.stdout.write("up\n")
    power: int = 7 ** (10**8)
    return power.bit_length()


def with_a_greeting(function: Callable[[str], str]) -> Callable[[str], str]:
    @functools.wraps(function)
    def greeting(name: str) -> str:
        return f"Hello, {function(name)}"

    return greeting


@with_a_greeting
def decorated(name: str) -> str:
    return name.title()


class Declared:
    """Looks like what ``@tool`` leaves under a function's name."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function


@Declared
def declared(number: int) -> int:
    return number + 1


class Counter:
    @staticmethod
    def one_more(number: int) -> int:
        return number + 1

    def method(self) -> None:
        pass
