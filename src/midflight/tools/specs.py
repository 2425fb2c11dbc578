"""Descriptions of tools for a language model, and checks of the arguments that it sends."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import anyio.to_thread
import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest, InvalidTool
from midflight.schemas import WORK_ASIDE_MAX, WORK_MAX, ToolSpec, TooMuchWork, misfit
from midflight.tools.declaration import Tool
from midflight.tools.secret import refuse_forged

if TYPE_CHECKING:
    from jsonschema import ValidationError


NAME_MAX: Final = 64  # what the providers take
UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_-]")
SHOWN_MAX: Final = 80  # characters of a value that an error repeats


def spec(declared: Tool) -> ToolSpec:
    """Return the description of a tool for a model."""
    doc = declared.description or inspect.getdoc(_inner(declared.function)) or declared.label
    schema = declared.schema
    if schema is None:
        schema = _schema(_arguments(declared.name, declared.function))
    return ToolSpec(model_name(declared.name), doc or declared.name, schema)


def model_name(name: str) -> str:
    """A tool's name in the letters that providers take: ``crm.search`` is ``crm_search``."""
    plain = UNNAMEABLE.sub("_", name)
    if len(plain) <= NAME_MAX:
        return plain
    return f"{plain[: NAME_MAX - 9]}_{blake2b(name.encode(), digest_size=4).hexdigest()}"


def named(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by the names that a model calls them; no two may look the same to it."""
    found: dict[str, Tool] = {}
    for declared in tools:
        other = found.setdefault(model_name(declared.name), declared)
        if other is not declared:
            raise InvalidTool(
                declared.name,
                f"a model would see the same name for it and for {other.name}; rename one of them",
            )
    return found


async def parsed(declared: Tool, arguments: str) -> dict[str, Any]:
    """Do as ``parse``, but in a thread where it takes long, so that other tasks go on."""
    try:
        return parse(declared, arguments)
    except TooMuchWork:
        return await anyio.to_thread.run_sync(_parsed_aside, declared, arguments)


def _parsed_aside(declared: Tool, arguments: str) -> dict[str, Any]:
    try:
        return parse(declared, arguments, work=WORK_ASIDE_MAX)
    except TooMuchWork:
        raise InvalidRequest(
            f"{model_name(declared.name)}: checking its arguments by its schema takes too much "
            "work. Nothing was done."
        ) from None


def parse(declared: Tool, arguments: str, *, work: int = WORK_MAX) -> dict[str, Any]:
    """The arguments of a call as the function takes them; or an error that a model can act on.

    Raises TooMuchWork if checking them takes more than ``work``.
    """
    called = model_name(declared.name)
    given = _decoded(called, arguments)
    schema = spec(declared).schema
    try:
        wrong = misfit(given, schema, work=work)
    except RecursionError:
        raise InvalidRequest(
            f"{called}: its arguments are nested too deeply. Nothing was done."
        ) from None
    if wrong is not None:
        raise InvalidRequest(f"{called}: {_advice(wrong, schema)}. Nothing was done.")
    refuse_forged(given, f"{called}: its arguments")
    if declared.schema is not None:
        return given
    kind = _arguments(declared.name, declared.function)
    try:
        taken = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{called}: {error}. Nothing was done.") from None
    return {name: getattr(taken, name) for name in kind.__struct_fields__ if name in given}


def _decoded(called: str, arguments: str) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequest(
            f"{called}: the arguments are not JSON ({error}). Send one JSON object. "
            "Nothing was done."
        ) from None
    if not isinstance(given, dict):
        raise InvalidRequest(
            f"{called}: the arguments are {_shown(given)}; send one JSON object. Nothing was done."
        )
    return given


def _advice(error: ValidationError, schema: dict[str, Any]) -> str:
    """Say what to change, as in ``argument path: expected string, got 3``."""
    where = ".".join(map(str, error.absolute_path))
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            expected = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"argument {where}: expected {expected}, got {_shown(error.instance)}"
        case "required" if isinstance(error.instance, dict):
            absent = [name for name in wanted if name not in error.instance]
            return f"argument {'.'.join([*filter(None, [where]), absent[0]])} is missing"
        case "additionalProperties" if not where and isinstance(error.instance, dict):
            takes = schema.get("properties", {})
            unknown = next((name for name in error.instance if name not in takes), "")
            known = ", ".join(takes) or "none"
            return f"argument {_shown(unknown)} is unknown; the tool takes {known}"
        case _:
            return f"argument {where}: {error.message[: 4 * SHOWN_MAX]}"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


# ── from a signature ─────────────────────────────────────────────────────────────────────────


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.func if isinstance(function, partial) else function


@lru_cache(maxsize=1024)
def _arguments(name: str, function: Callable[..., Any]) -> type[Struct]:
    """The parameters of a function as the fields of a type, which gives schema and conversion."""
    hints = get_type_hints(inspect.unwrap(_inner(function)), include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
            why = f"a model passes arguments by name, and {parameter} takes them by position only"
            raise InvalidTool(name, f"{why}: replace it by parameters that have names")
        if parameter.name == "idempotency_key" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(kind: type[Struct]) -> dict[str, Any]:
    (_, components) = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    schema = {key: part for key, part in components.pop("Arguments").items() if key != "title"}
    return schema | ({"$defs": components} if components else {})


def fitting(tool: Tool, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as the function takes them, checked by its types where it has some.

    Raises ``TypeError`` or ``InvalidRequest`` for arguments that the function does not take.
    """
    args, kwargs = tuple(given["args"]), given["kwargs"]
    key = {"idempotency_key": ""} if tool.wants_key else {}
    signature = inspect.signature(tool.function)
    bound = signature.bind(*args, **kwargs | key).arguments
    named = {name: bound[name] for name in bound if name not in key} if args else kwargs
    any_name = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    try:
        spec(tool)
        encoded = msgspec.json.encode(named).decode()
    except (InvalidTool, TypeError, NameError, msgspec.MsgspecError):
        return args, kwargs  # of a kind that no schema describes
    if any_name and (args or tool.schema is None):
        return args, kwargs
    return (args, kwargs) if args else ((), parse(tool, encoded))
