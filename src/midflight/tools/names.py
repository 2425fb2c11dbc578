"""The name of a function in journals: its module and its own, however its module was loaded.

A file that is run as a program is loaded as ``__main__``, and under its own name by every other
command. Its tools have one name all the same, or no other command would find their undos.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Final

MAIN: Final = "__main__"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a function is known."""
    inner = unwrapped(function)
    module = getattr(inner, "__module__", "")
    qualname = getattr(inner, "__qualname__", repr(inner))
    return f"{_main_of(inner) if module == MAIN else module}.{qualname}"


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a ``functools.partial``; any other as it is."""
    return function.func if isinstance(function, functools.partial) else function


def alike(name: str, others: Iterable[str]) -> str:
    """Return the one of the other names that means the same function, or nothing.

    A file has a longer name where it is loaded as part of a package (``shop.agent`` for a program
    ``agent``). Journals of older versions have ``__main__``, which any module may have been. Where
    several would fit none is meant: the undo of another tool would do harm.
    """
    if name.startswith(f"{MAIN}."):
        same = name.removeprefix(f"{MAIN}.")
        fitting = [other for other in others if other.endswith(f".{same}")]
    else:
        fitting = [other for other in others if _is_tail(name, other) or _is_tail(other, name)]
    return fitting[0] if len(fitting) == 1 else ""


def _is_tail(name: str, longer: str) -> bool:
    return "." in name and longer.endswith(f".{name}")


def _main_of(inner: Callable[..., Any]) -> str:
    """Return the name that the main program has when it is imported.

    By the function's own globals: a profiler or debugger may be what was started.
    """
    program = getattr(inner, "__globals__", None) or vars(sys.modules[MAIN])
    spec = program.get("__spec__")
    if spec is not None and spec.name != MAIN:
        return str(spec.name)
    file = program.get("__file__")
    return PurePath(file).stem if file else MAIN
