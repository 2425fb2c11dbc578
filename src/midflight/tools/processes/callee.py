"""A program that calls one function: the far side of ``process.call_in_process``.

    python -P -u callee.py RESULT < CALL

It imports nothing of Midflight, and little else before it must. CALL is two pickles: first plain
data that says where modules are and which function is meant, then its arguments, which may need
those modules. The answer goes to the inherited pipe RESULT in the same way; standard output stays
what the function prints.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

RESULT_BYTES_MAX = 1 << 28  # the driver holds it in memory; larger things belong in a file
MAIN = "__midflight_main__"  # not "__main__": its `if __name__ == …` part must not run again


def main(result: int) -> None:
    """Call and answer."""
    os.set_inheritable(result, False)  # what the function starts has no say in its result
    answer = answered()
    with open(result, "wb") as pipe:
        pipe.write(answer)


def answered() -> bytes:
    """The outcome as two pickles: plain data about it, then the value or the exception."""
    outcome = "not loaded"
    try:
        function, args, kwargs = loaded()
        outcome = "raised"
        value = called(function, args, kwargs)
        outcome = "not sendable"
        pickled = pickle.dumps(value)
        if len(pickled) > RESULT_BYTES_MAX:
            size = f"{len(pickled):,} bytes, and {RESULT_BYTES_MAX:,} are the most"
            raise ValueError(f"it has {size}; write it to a file and return the path")
    except BaseException as error:  # noqa: BLE001 - all of it goes to the caller
        return failure(outcome, error)
    return pickle.dumps({"outcome": "returned"}) + pickled


def loaded() -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Find the function as the caller would, then its arguments; leave an empty standard input."""
    where = pickle.load(sys.stdin.buffer)
    sys.path[:] = where["path"]
    load_main(**where["main"])
    function: Any = importlib.import_module(where["module"])
    for name in where["name"].split("."):
        function = getattr(function, name)
    args, kwargs = pickle.load(sys.stdin.buffer)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return function, args, kwargs


def load_main(*, name: str = "", path: str = "") -> None:
    """Put the caller's main program where pickles look for it, if the call needs it."""
    if name or path:
        import runpy

        contents = (
            runpy.run_module(name, run_name=MAIN, alter_sys=True)
            if name
            else runpy.run_path(path, run_name=MAIN)
        )
        module = type(sys)(MAIN)
        module.__dict__.update(contents)
        sys.modules["__main__"] = sys.modules[MAIN] = module


def called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call it; if it is async, to its end."""
    value = function(*args, **kwargs)
    if isinstance(value, Coroutine):
        import asyncio  # takes longer than all the rest: only for those that need it

        return asyncio.run(value)
    return value


def failure(outcome: str, error: BaseException) -> bytes:
    """Words about the exception, and itself if it can be sent."""
    about = {
        "outcome": outcome,
        "kind": type(error).__qualname__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
    try:
        pickled = pickle.dumps(error)
    except Exception:  # noqa: BLE001 - classes of others decide how they are pickled
        pickled = pickle.dumps(None)
    return pickle.dumps(about) + pickled


if __name__ == "__main__":
    main(int(sys.argv[1]))
