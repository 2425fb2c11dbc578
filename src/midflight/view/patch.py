"""The way from one sheet to the next as a JSON Patch (RFC 6902).

Sheets share the parts that have not changed, and the comparison skips a part that is the same
object. In a list only the stretch that differs is touched, so one step more in a thousand is one
operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from msgspec import Struct

Op = dict[str, Any]


def patch(before: Any, after: Any) -> list[Op]:
    """The operations that make ``after`` out of ``before``."""
    found: list[Op] = []
    _differ(before, after, "", found)
    return found


def _differ(before: Any, after: Any, path: str, found: list[Op]) -> None:
    if before is after or (before == after and type(before) is type(after)):
        return
    old, new = _members(before), _members(after)
    if old is not None and new is not None:
        _differ_by_name(old, new, path, found)
    elif _is_list(before) and _is_list(after):
        _differ_by_place(before, after, path, found)
    else:
        found.append({"op": "replace", "path": path, "value": after})


def _members(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Struct) and not value.__struct_config__.omit_defaults:
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None  # one that leaves out what is as usual is replaced whole


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _differ_by_name(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, found: list[Op]
) -> None:
    found += [{"op": "remove", "path": f"{path}/{_part(name)}"} for name in old if name not in new]
    for name, value in new.items():
        place = f"{path}/{_part(name)}"
        if name in old:
            _differ(old[name], value, place, found)
        else:
            found.append({"op": "add", "path": place, "value": value})


def _differ_by_place(old: Sequence[Any], new: Sequence[Any], path: str, found: list[Op]) -> None:
    """Compare two lists place by place: their common beginning and end stay.

    Between these, places are changed, removed or added.
    """
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter and (old[first] is new[first] or old[first] == new[first]):
        first += 1
    last = 0
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    was, now = old[first : len(old) - last], new[first : len(new) - last]
    both = min(len(was), len(now))
    for place in range(both):
        _differ(was[place], now[place], f"{path}/{first + place}", found)
    gone = range(len(was) - 1, both - 1, -1)
    found += [{"op": "remove", "path": f"{path}/{first + place}"} for place in gone]
    found += [
        {"op": "add", "path": f"{path}/{first + place}", "value": now[place]}
        for place in range(both, len(now))
    ]


def _part(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
