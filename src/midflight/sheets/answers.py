"""A question's JSON Schema: the answers that can be picked, what it is about, values in words.

How that is laid out is the door's: lines in a terminal, buttons in a chat, words by voice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Pick(Struct, frozen=True):
    """An answer that can be picked: what is sent, its name, and what its asker says of it."""

    value: Any
    name: str
    words: str = ""


def picks(schema: Any, labels: Mapping[str, Any] | None = None) -> list[Pick]:
    """The answers that can be picked, if there are only so many, or some of them."""
    named = labels_of(schema) if labels is None else labels
    return [pick for part in alternatives(schema) for pick in _picks(part, named)]


def alternatives(schema: Any) -> list[Any]:
    """The schemas of which an answer fits one, in their order; itself where there is no choice."""
    match schema:
        case {"oneOf": list(several)} | {"anyOf": list(several)}:
            return [part for each in several for part in alternatives(each)]
        case _:
            return [schema]


def labels_of(schema: Any) -> Mapping[str, Any]:
    """What the asker calls its answers."""
    labels = schema.get("x-labels") if isinstance(schema, dict) else None
    return labels if isinstance(labels, dict) else {}


def _picks(schema: Any, labels: Mapping[str, Any]) -> list[Pick]:
    match schema:
        case {"const": value}:
            return [_pick(value, schema.get("title") or labels.get(str(value)))]
        case {"enum": list(values)}:
            return [_pick(value, labels.get(str(value))) for value in values]
        case {"type": "boolean"}:
            return [Pick(True, "Yes"), Pick(False, "No")]
        case _:
            return []


def _pick(value: Any, words: Any) -> Pick:
    name = value.capitalize() if isinstance(value, str) else written(value)
    return Pick(value, name, str(words or ""))


def facts(details: Any) -> list[str]:
    """What a question is about, one fact each; arguments of a call by their names."""
    match details:
        case None:
            return []
        case {"args": list(args), "kwargs": dict(kwargs)} if len(details) == 2:
            return [*map(written, args), *facts(kwargs)]
        case dict():
            return [f"{name}: {written(value)}" for name, value in details.items()]
        case _:
            return [written(details)]


def written(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
