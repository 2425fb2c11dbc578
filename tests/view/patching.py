"""Applies a JSON Patch as a page does, for comparison."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def patched(document: Any, operations: list[Any]) -> Any:
    """The document after all operations."""
    whole = {"": deepcopy(document)}
    for operation in operations:
        *way, last = ["", *_parts(operation["path"])]
        there: Any = whole
        for part in way:
            there = there[int(part)] if isinstance(there, list) else there[part]
        _do(there, last, operation)
    return whole[""]


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _do(there: Any, last: str, operation: dict[str, Any]) -> None:
    place: Any = int(last) if isinstance(there, list) else last
    match operation["op"]:
        case "remove":
            del there[place]
        case "add" if isinstance(there, list):
            there.insert(place, deepcopy(operation["value"]))
        case _:
            assert operation["op"] == "add" or isinstance(there, list) or place in there
            there[place] = deepcopy(operation["value"])
