"""Further conditions of a step: guards that still hold, approval, and the undo window.

A question for approval is about these arguments, this rule and this look of what the tool relies
on. When any of them has changed since, an approval that was given does not count any more, and the
person is asked again.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, Final

import anyio

from midflight.errors import InvalidRequest
from midflight.journal import events as e
from midflight.journal.record import NULL, Event
from midflight.journal.state import APPROVE, RunState
from midflight.runtime import foreign, values
from midflight.runtime.replay import cursor
from midflight.runtime.replay.step_records import Answered
from midflight.runtime.steps.step import Step
from midflight.runtime.steps.step_end import record
from midflight.tools.options import Approval
from midflight.tools.secret import edited_beside, hide
from midflight.tools.specs import fitting

DECISIONS: Final = {"approve": "Do it", "reject": "Do not do it"}
SHORT: Final = 6  # bytes of the digest in the names of questions of earlier releases
SHOWN_MAX: Final = 4_000  # characters of edited arguments that the function is told
ARGUMENTS: Final = {
    "type": "object",
    "properties": {"args": {"type": "array"}, "kwargs": {"type": "object"}},
    "additionalProperties": False,
}


async def permitted(step: Step) -> bool:
    """Return whether the world is as it was and a person agrees, also after waiting for that."""
    if not await _can_rely(step):
        return False
    if step.tool.approval:
        await approved(step)
    if step.tool.undo_window:
        await _held_back(step)
    waited = step.tool.approval or step.tool.undo_window
    return not waited or await _can_rely(step)


async def _can_rely(step: Step) -> bool:
    """Return whether what the step relies on is as noted; otherwise hold the run, which asks."""
    if step.told:  # its own changes are not changes of others, and nobody need agree to them
        return False
    guards, relies_on = step.guards, step.tool.relies_on
    unset = [name for name in relies_on if name not in step.host.journal.state.guards]
    if unset:
        never = f"relies on {', '.join(unset)}, never guarded: call run.guard before this step"
        await record(step, NULL, never)
    if not guards.any:
        return True
    intact = await guards.intact()
    step.rely_on(intact)
    return await guards.hold_unless(relies_on, intact)


async def _held_back(step: Step) -> None:
    """The window in which a cancel still wins; starts again in full after a pause."""
    host = step.host
    while True:
        opened = await host.journal.decide(partial(_window, step))
        if opened:
            with anyio.move_on_after(step.tool.undo_window):  # in full, however long the store took
                await host.journal.until(lambda: step.told or not step.starts())
        if step.told or (opened and step.starts()):
            return
        await step.may_start()


def _window(step: Step, state: RunState) -> list[Event]:
    """The window counts from when people can see it: its end is chosen anew at each try."""
    if step.told or not step.starts():
        return []
    until = step.host.journal.clock.now() + step.tool.undo_window
    opened = e.WindowOpened(
        epoch=step.host.journal.epoch, step=step.identity, noun=step.label, until=until
    )
    return [*step.host.journal.wait_over(state), opened]


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
    asked = step.tool.approval or Approval()
    within, rule = asked.within, asked.rule
    message = f"May this be done: {step.label}?" + (f" {rule}" if rule else "")
    name = _name(step, about, message)
    answer = await step.ask(  # layer nobody-approves-in-time
        name,
        "approval",
        message,
        schema(values.decode(step.given)) | {"x-tool": step.tool.name, "x-names": _names(step)},
        replaces=about,
        expires_at=None if within is None else step.host.journal.clock.now() + within,
    )
    decision = values.decode(answer.payload) if answer.by else None
    if decision is not None and not _is_about(step, name):
        await record(step, NULL, "not done: what was approved are other arguments")
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
    """Return the function's names for the arguments given by position, as far as it has any."""
    try:
        parameters = inspect.signature(step.tool.function).parameters.values()
    except (TypeError, ValueError):  # of a kind that cannot be asked
        return []
    by_place = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [one.name for one in parameters if one.kind in by_place][: len(step.args)]


async def _edit(step: Step, edited: dict[str, Any], by: str) -> None:
    """The person's arguments replace those given, wholly. Nothing begins with ones that misfit."""
    given = {"args": list(step.args), "kwargs": dict(step.kwargs)}
    plain, args, kwargs = given | edited, step.args, step.kwargs
    try:
        plain = edited_beside(plain, given)  # layer people-edit-refers-to-none
        args, kwargs = fitting(step.tool, plain)
    except (TypeError, InvalidRequest) as error:
        await record(
            step,
            NULL,
            f"not done; the arguments given by {by} do not fit: {foreign.words_of(error)}",
        )
    step.edit(args, kwargs, values.encode(step.name, "its arguments", plain))
    shown = hide(bytes(step.given).decode())
    shown = shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}…"
    await step.host.journal.give_notice(
        f"edited:{step.identity}",
        f"{step.label}: {by} has edited the arguments and approved these: {shown}",
    )


def _name(step: Step, about: str, message: str) -> str:
    """Return the name of the question: the one on record, if that shows these very arguments.

    The name holds a digest of the arguments as the function gave them, the rule and the world.
    Names of questions that an earlier release has asked hold a short one, which anybody can match:
    such a question counts if it has the same words too. A question that shows other arguments than
    those that would be used now is not this one, so the last name also holds those arguments.
    """
    tool, history = step.tool, step.host.history
    rule = tool.approval is not None and (tool.approval.rule or True)
    policy = [rule, tool.irreversible, tool.effect, tool.undo_window, tool.undo is not None]
    world = [step.host.journal.state.guards.get(name) for name in tool.relies_on]

    def digest(*bound: object, size: int = values.DIGEST_BYTES) -> str:
        return values.digest(bytes(values.encode(step.name, "its approval", bound)), size)

    short = about + digest(values.digest(bytes(step.wanted), SHORT), policy, world, size=SHORT)
    asked = history.asked.get(history.questions.get(short, 0))
    # layer those-of-earlier-releases-count
    if asked is not None and asked.message == message and _is_about(step, short):
        return short
    wanted, given = bytes(step.wanted).decode(), bytes(step.given).decode()
    full = about + digest(wanted, policy, world)
    if full not in history.questions or _is_about(step, full):
        return full
    return about + digest(wanted, policy, world, given)


def _is_about(step: Step, name: str) -> bool:
    """Return whether a question on record shows the arguments of this step, byte for byte.

    The function's own arguments count, too, where a person has edited them in answer to this
    question: those are replaced.
    """
    history = step.host.history
    question = history.questions.get(name)
    if question is None:
        return False
    shown = cursor.arguments_shown(history.asked[question])
    if shown is None or bytes(shown) == bytes(step.given):
        return shown is not None
    match history.answers.get(question):
        case Answered(by=str(by), payload=payload) if by:
            edited = isinstance(said := values.decode(payload), dict) and "edit" in said
            return edited and bytes(shown) == bytes(step.wanted)
        case _:
            return False
