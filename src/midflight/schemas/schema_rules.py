"""The rules for what a schema may contain: it can come from an MCP server, a model or a caller.

A schema is refused when it names itself (``$id`` and the like), refers to anything but a part of
itself, or is too large, too deep or too fine. What is evaluated later is a copy that holds only
keywords of JSON Schema 2020-12, so nothing below an unknown keyword is ever reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

SIZE_MAX: Final = 64 * 1024
DEPTH_MAX: Final = 64
PARTS_MAX: Final = 1_000  # schemas in a schema; each takes about 0.3 ms to check
PATTERN_MAX: Final = 1_000  # characters
PATTERNS_MAX: Final = 10_000  # characters of all patterns: compiling them takes 0.2 s at most
RANGE_COST: Final = 300  # characters that take as long to compile as a range of many characters

NAMING: Final = frozenset(
    {
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "$vocabulary",
    }
)
"""Keywords that give a part a name of its own, or refer to one by such a name."""

DIALECTS: Final = frozenset(
    {
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)
"""Values of ``$schema`` that are taken; all are read as 2020-12."""

DATA: Final = frozenset({"const", "enum", "default", "examples", "required", "type"})
"""Keywords whose values are data. So are those that begin with ``x-``."""

NAMED: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
"""Keywords whose keys are names of schemas: a property may be called ``$id``."""

LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE: Final = frozenset(
    {
        "additionalProperties",
        "propertyNames",
        "items",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
VALUES: Final = frozenset(
    {
        "$ref",
        "const",
        "dependentRequired",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
        "type",
        "uniqueItems",
    }
)
WORDED: Final = frozenset(
    {"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords for which the library has words of its own where their schema is ``false``."""

NOTHING: Final[dict[str, Any]] = {"not": {}}
"""A schema that nothing fits."""

LAST: Final = ("unevaluatedItems", "unevaluatedProperties")
"""Evaluated after the others, which count the work that these do again without being counted."""

Path = tuple[str, ...]


class BadSchema(Exception):
    """Raised for a schema that does not keep the rules; its text goes on from "the schema"."""


def check_rules(schema: Any) -> None:
    """Raise BadSchema, before anything is evaluated, unless the schema keeps the rules."""
    try:
        size = len(msgspec.json.encode(schema))
    except RecursionError:
        raise BadSchema(f"is more than {DEPTH_MAX} deep") from None
    if size > SIZE_MAX:
        raise BadSchema(f"has {size:,} bytes, and {SIZE_MAX:,} are allowed")
    _check_parts(schema)
    places = set(_places(schema))
    if len(places) > PARTS_MAX:
        raise BadSchema(f"has {len(places):,} parts, and {PARTS_MAX:,} are allowed")
    for ref in _refs(schema):
        if _pointed_at(ref) not in places:
            raise BadSchema(f"refers to {ref[:200]!r}, which it does not have")


def _check_parts(schema: Any) -> None:
    """Look at everything that is not data, also below keywords that mean nothing."""
    waiting: list[tuple[Any, int, bool]] = [(schema, 0, False)]
    compiled = 0
    while waiting:
        part, depth, named = waiting.pop()
        if depth > DEPTH_MAX:
            raise BadSchema(f"is more than {DEPTH_MAX} deep")
        if isinstance(part, list):
            waiting += [(each, depth + 1, False) for each in part]
        elif isinstance(part, dict):
            for key, value in part.items():
                if named:
                    waiting.append((value, depth + 1, False))
                elif key not in DATA and not key.startswith("x-"):
                    _check_keyword(key, value, root=depth == 0)
                    for pattern in _patterns(key, value):
                        compiled += _cost_of(pattern)
                        if compiled > PATTERNS_MAX:
                            raise BadSchema("has patterns that take too long to compile")
                        _check_pattern(pattern)
                    waiting.append((value, depth + 1, key in NAMED))


def _check_keyword(key: str, value: Any, *, root: bool) -> None:
    if key in NAMING:  # layer parts-with-names-of-own-refused
        raise BadSchema(
            f"contains {key}, which is not supported: refer to a part of it by its path, such as "
            "#/$defs/NAME, and not by a name that the part gives itself"
        )
    if key == "$ref" and not (isinstance(value, str) and value.startswith("#")):
        raise BadSchema(
            f"refers to {str(value)[:200]!r}; only references within it, beginning with #, are "
            "followed"
        )
    if key == "$schema" and not (
        root and isinstance(value, str) and value.removesuffix("#") in DIALECTS
    ):
        raise BadSchema(f"names a dialect that is not supported: {str(value)[:200]!r}")


def _patterns(key: str, value: Any) -> list[str]:
    if key == "pattern" and isinstance(value, str):
        return [value]
    return list(value) if key == "patternProperties" and isinstance(value, dict) else []


def _cost_of(pattern: str) -> int:
    """Return how long a pattern takes to compile, in characters; ``re`` walks through ranges."""
    wide = not pattern.isascii() or re.search(r"\\[uUN]", pattern)
    return len(pattern) + (RANGE_COST * pattern.count("-") if wide else 0)


def _check_pattern(pattern: str) -> None:
    if len(pattern) > PATTERN_MAX:
        raise BadSchema(
            f"has a pattern of {len(pattern):,} characters, and {PATTERN_MAX:,} are allowed"
        )
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadSchema(
            f"has the pattern {pattern[:80]!r}, which is not a regular expression: {error}"
        ) from None


# ── what is evaluated ────────────────────────────────────────────────────────────────────────


def known_part(schema: Any, *, patterns: bool) -> Any:
    """Return a copy with nothing in it but known keywords; ``patterns`` says if those stay.

    Where the library does not say in words of its own what ``false`` forbids, ``NOTHING`` stands
    for it: that is a keyword, and counted.
    """
    if not isinstance(schema, dict):
        return schema
    dropped = set()
    if not patterns:
        dropped = {"pattern", "patternProperties"}
        if "patternProperties" in schema:
            dropped |= {"additionalProperties", "unevaluatedProperties"}  # they count its matches
    kept: dict[str, Any] = {}
    for key in sorted(schema, key=LAST.__contains__):
        value = schema[key]
        if key in dropped:
            continue
        if key in NAMED and isinstance(value, dict):
            kept[key] = {name: _counted(part, patterns=patterns) for name, part in value.items()}
        elif key in LISTED and isinstance(value, list):
            kept[key] = [_counted(part, patterns=patterns) for part in value]
        elif key in SINGLE:
            part = known_part if key in WORDED else _counted
            kept[key] = part(value, patterns=patterns)
        elif key in VALUES:
            kept[key] = value
    return kept


def _counted(schema: Any, *, patterns: bool) -> Any:
    return NOTHING if schema is False else known_part(schema, patterns=patterns)


def has_patterns(schema: Any) -> bool:
    """Return whether checking an answer would match regular expressions with it."""
    return any("pattern" in part or "patternProperties" in part for _, part in _parts(schema))


def _places(schema: Any) -> Iterator[Path]:
    return (path for path, _ in _parts(schema))


def _refs(schema: Any) -> Iterator[str]:
    return (part["$ref"] for _, part in _parts(schema) if "$ref" in part)


def _parts(schema: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every place that evaluation can reach, with what is there; booleans count as empty."""
    if not isinstance(schema, dict):
        yield path, {}
        return
    yield path, schema
    for key, value in schema.items():
        below = (*path, key)
        if key in NAMED and isinstance(value, dict):
            for name, part in value.items():
                yield from _parts(part, (*below, name))
        elif key in LISTED and isinstance(value, list):
            for number, part in enumerate(value):
                yield from _parts(part, (*below, str(number)))
        elif key in SINGLE:
            yield from _parts(value, below)


def _pointed_at(ref: str) -> Path | None:
    """The place that ``#/$defs/name`` means; None if it is no pointer."""
    pointer = unquote(ref.removeprefix("#"))
    if not pointer:
        return ()
    first, *steps = pointer.split("/")
    return None if first else tuple(s.replace("~1", "/").replace("~0", "~") for s in steps)
