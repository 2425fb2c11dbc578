"""A call of a Python function and its answer as bytes, for ``callee.py`` at the other end."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from midflight.errors import CallFailed, CallRefused
from midflight.tools.processes.callee import MAIN

CALLEE: Final = str(Path(__file__).with_name("callee.py"))
WRAPPERS: Final = ("function", "__wrapped__")
"""Where a decorated function is kept: by ``@tool``, by ``functools.wraps``."""


def command() -> list[str]:
    """Return the command that makes the call; the number of the result's pipe is to follow.

    ``-P``: the folder of the program holds modules named like those of the standard library.
    ``-u``: the function's output is not buffered there, so a kill loses none of it.
    """
    return [sys.executable, "-P", "-u", CALLEE]


def packed(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, bytes]:
    """The function's name for people, and the call as bytes."""
    module, name = _place(function)
    title = f"{module}.{name}"
    try:
        arguments = pickle.dumps((tuple(args), dict(kwargs)))
    except Exception as error:
        raise CallRefused(title, f"its arguments cannot be pickled ({error})") from error
    needs_main = module == "__main__" or b"__main__" in arguments
    where = {
        "path": sys.path,
        "main": _main(title) if needs_main else {},
        "module": module,
        "name": name,
    }
    return title, pickle.dumps(where) + arguments


def unpacked(title: str, answer: bytes) -> Any:
    """Return or raise what the function did.

    An ordinary exception comes back as itself, with a ``CallFailed`` that holds the traceback as
    its cause. One that cannot be sent, or that means something to this process (``SystemExit``),
    comes back as that ``CallFailed``.
    """
    reader = io.BytesIO(answer)
    about = pickle.load(reader)
    outcome = about["outcome"]
    sys.modules.setdefault(MAIN, sys.modules["__main__"])  # what it is called over there
    try:
        value = pickle.load(reader)
    except Exception as error:
        if outcome == "returned":
            raise CallFailed(title, f"its result cannot be unpickled here ({error})") from error
        value = None
    if outcome == "returned":
        return value
    kind, message = about["kind"], about["message"]
    why = {
        "not loaded": f"it could not be loaded there: {kind}: {message}",
        "raised": f"{kind}: {message}",
        "not sendable": f"its result cannot be pickled ({kind}: {message})",
    }[outcome]
    failed = CallFailed(title, why, kind=kind, traceback=about["traceback"])
    if outcome == "raised" and isinstance(value, Exception):
        raise value from failed
    raise failed


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    """Where a new interpreter finds this very function: a module, and a path in it."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    title = f"{module}.{name}" if name else repr(function)
    if not isinstance(module, str) or not isinstance(name, str):
        raise CallRefused(title, "it has no name to import it by; define it with def in a module")
    if "<" in name:
        raise CallRefused(title, "it is a lambda or a local function; move it to its module")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    while found is not None and found != function:
        inner = next((inner for inner in WRAPPERS if hasattr(found, inner)), None)
        found = getattr(found, inner) if inner else None
        name = f"{name}.{inner}"
    if found is None:
        raise CallRefused(title, "its module has something else under this name")
    return module, name


def _main(title: str) -> dict[str, str]:
    """Return the main program by its name after ``python -m``, or else by its file."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return {"name": spec.name}
    path = getattr(main, "__file__", None)
    if path is None:
        raise CallRefused(title, "the main program is not a file that could be loaded again")
    return {"path": str(Path(path).resolve())}
