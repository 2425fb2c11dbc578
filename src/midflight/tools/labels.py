"""Labels of effects and their arguments, in words for people: shortened, with dots for secrets.

A noun names a kind ("mail"), a label one of them ("mail to ada@example.com"). A label is made from
the arguments before the effect begins, and never fails a step (see ``Step.label``): if the tool's
own label cannot be made, the noun and the first text or number among the arguments stand for it.
Where no argument is one, the first texts and numbers inside the arguments do, so that labels of two
effects differ.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from midflight.errors import DOTS
from midflight.tools.declaration import Tool
from midflight.tools.secret import MARK, Secret, hide, revealed

LABEL_WIDTH: Final = 80
VALUE_WIDTH: Final = 200
READ_MAX: Final = 4_000  # characters looked at: more than is shown, so that no secret is cut in two
INSIDE_MAX: Final = 3  # texts and numbers from inside lists and dicts that make a label
LOOKED_AT_MAX: Final = 100  # values inside lists and dicts: a label is made before each effect
END: Final = object()


def label_of(
    tool: Tool,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    declared: bool = True,
) -> str:
    """Return the label of an effect; ``name`` is its step's, for a tool without a label.

    Unless ``declared`` no code of the tool is called for it.
    """
    noun = tool.label or name
    given = named(tool.function, args, kwargs)
    own = _declared(tool, args, kwargs, given) if declared and tool.describe else ""
    made = (own or _default(noun, given))[:READ_MAX]
    return shortened(hide(made) if revealed else made, LABEL_WIDTH) or noun


def _declared(
    tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> str:
    try:
        if callable(tool.describe):
            return str(
                tool.describe(*(map(_dotted, args)), **{k: _dotted(v) for k, v in kwargs.items()})
            )
        shown = {**_defaults(tool.function), **given}
        return tool.describe.format_map({key: _dotted(value) for key, value in shown.items()})
    except Exception:  # noqa: BLE001 - a label that cannot be made must not fail the step
        return ""


def _default(noun: str, given: Mapping[str, Any]) -> str:
    number: int | float | None = None
    for value in given.values():
        if isinstance(value, str):
            if main := value.strip():
                break
        elif number is None and isinstance(value, int | float) and not isinstance(value, bool):
            number = value
    else:
        main = ("" if number is None else str(number)) or _inside(given.values())
    return noun if not main or main in noun else f"{noun} {main}"


def _inside(values: Iterable[Any]) -> str:
    """Return the first short texts and numbers inside lists and dicts; a number with its key."""
    found: list[str] = []
    waiting: list[Iterator[tuple[str, Any]]] = [_members(values)]
    for _ in range(LOOKED_AT_MAX):
        if not waiting or len(found) == INSIDE_MAX:
            break
        key, value = next(waiting[-1], ("", END))
        if value is END:
            waiting.pop()
        elif isinstance(value, str):
            found += [text] if (text := value.strip()) and len(text) <= LABEL_WIDTH else []
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(f"{key} {value}".strip())
        elif isinstance(value, list | tuple) or (isinstance(value, dict) and MARK not in value):
            waiting.append(_members(value))
    return ", ".join(found)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((str(key), part) for key, part in value.items())
    return (("", part) for part in value)


def named(
    function: Callable[..., Any] | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call under the names that its function gives them, where it is at hand."""
    names = parameters(function) if function is not None else ()
    if len(names) < len(args):
        names += tuple(f"argument {number + 1}" for number in range(len(names), len(args)))
    return {**dict(zip(names, args, strict=False)), **kwargs}


@functools.lru_cache(maxsize=1024)
def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments that can be given by their place."""
    by_place = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a kind that cannot be asked
        return ()
    return tuple(one.name for one in found if one.kind in by_place)


@functools.lru_cache(maxsize=1024)
def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    found = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in found if one.default is not one.empty}


# ── arguments in words ───────────────────────────────────────────────────────────────────────


def in_words(given: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a call as a question shows them: all, and whole, with dots for secrets."""
    return {name: hide(_text(value)) for name, value in given.items()}


def written(value: Any) -> str:
    """One argument: text as it is, anything else as JSON, shortened, with dots for secrets."""
    return shortened(hide(_text(value)[:READ_MAX]), VALUE_WIDTH)


def _text(value: Any) -> str:
    plain = _dotted(value)
    return plain if isinstance(plain, str) else _json(plain)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return repr(value)


def _dotted(value: Any) -> Any:
    """The value with dots where it holds a secret, also as a journal stores one."""
    if isinstance(value, Secret):
        return DOTS
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return DOTS
        return {key: _dotted(part) for key, part in value.items()}
    return [_dotted(part) for part in value] if isinstance(value, list | tuple) else value


def shortened(text: str, width: int) -> str:
    """The text on one line, and no longer than that."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
