"""Arguments that somebody has written, as a tool's function takes them."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from midflight.errors import InvalidTool
from midflight.tools.declaration import Tool
from midflight.tools.specs import parse, spec


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
