"""May this be done? Asked before an effect that needs it, and bound to what it would do.

A question is about these arguments, this rule and this look of what the tool relies on. When any of
them has changed since, an approval that was given says nothing any more, and it is asked again.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec

from midflight.errors import InvalidRequest, InvalidTool
from midflight.executor import values
from midflight.executor.caps import give_notice
from midflight.executor.recording import record
from midflight.kernel.identities import APPROVE
from midflight.kernel.record import NULL
from midflight.tools.base import Tool
from midflight.tools.secret import from_stored, hide
from midflight.tools.specs import parse, spec

if TYPE_CHECKING:
    from midflight.executor.steps import Step

DECISIONS: Final = {"approve": "Do it", "reject": "Do not do it"}
SHOWN_MAX: Final = 4_000  # characters of edited arguments that the function is told
ARGUMENTS: Final = {
    "type": "object",
    "properties": {"args": {"type": "array"}, "kwargs": {"type": "object"}},
    "additionalProperties": False,
}


def schema(details: Any, edited: dict[str, Any] = ARGUMENTS) -> dict[str, Any]:
    """Approve, reject, approve something ``edited``, or answer in words instead."""
    return {
        "oneOf": [
            {"enum": list(DECISIONS)},
            _object("edit", edited),
            _object("respond", {"type": "string"}),
        ],
        "x-labels": DECISIONS,
        "x-details": details,
    }


def _object(name: str, inner: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: inner},
        "required": [name],
        "additionalProperties": False,
    }


async def approved(step: Step) -> None:
    """Wait for a person's approval. Raises ``StepFailed`` if it is not given."""
    about = f"{APPROVE}{step.identity}:"
    within = step.tool.approve_within
    rule = step.tool.approval if isinstance(step.tool.approval, str) else ""
    message = f"May this be done: {step.noun}?" + (f" {rule}" if rule else "")
    answer = await step.ask(
        about + _digest(step),
        "approval",
        message,
        schema(values.decode(step.given)) | {"x-tool": step.tool.name, "x-names": _names(step)},
        replaces=about,
        expires_at=None if within is None else step.driver.clock() + within,
    )
    decision = values.decode(answer.payload) if answer.by else None
    match decision:
        case "approve":
            pass
        case {"edit": dict(edited)}:
            await _edit(step, edited, answer.by)
        case {"respond": str(text)}:
            await record(step, NULL, f"not done; {answer.by} says: {text}")
        case _:
            why = f"rejected by {answer.by}" if answer.by else f"not approved: {answer.closed}"
            await record(step, NULL, why)
    await step.may_start()


def _names(step: Step) -> list[str]:
    """What the function calls the arguments that were given without a name, as far as it does."""
    try:
        parameters = inspect.signature(step.tool.function).parameters.values()
    except (TypeError, ValueError):  # of a kind that cannot be asked
        return []
    by_place = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [one.name for one in parameters if one.kind in by_place][: len(step.args)]


async def _edit(step: Step, edited: dict[str, Any], by: str) -> None:
    """The person's arguments replace those given, wholly. Nothing begins with ones that misfit."""
    plain = {"args": list(step.args), "kwargs": dict(step.kwargs)} | edited
    try:
        step.args, step.kwargs = _fitting(step.tool, plain)
    except (TypeError, InvalidRequest) as error:
        await record(step, NULL, f"not done; the arguments given by {by} do not fit: {error}")
    step.given = values.encode(step.name, "its arguments", plain)
    shown = hide(bytes(step.given).decode())
    shown = shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"
    await give_notice(
        step.driver,
        f"edited:{step.identity}",
        f"{step.noun}: {by} has edited the arguments and approved these: {shown}",
    )


def _fitting(tool: Tool, plain: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as the function takes them, checked by its types where those can be told."""
    given = from_stored(plain)
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
    fitting = parse(tool, encoded)
    return (args, kwargs) if args else ((), fitting)


def _digest(step: Step) -> str:
    """What is approved: the arguments as the function gave them, the rule, the world."""
    tool, state = step.tool, step.driver.log.state
    policy = [tool.approval, tool.irreversible, tool.effect, tool.hold, tool.undo is not None]
    world = [state.guards.get(name) for name in tool.relies_on]
    asked = values.encode(step.name, "its approval", [step.asked, policy, world])
    return values.digest(bytes(asked))
