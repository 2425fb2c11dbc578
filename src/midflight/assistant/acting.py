"""One batch of tool calls: looks at once, effects one after the other, a result for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import anyio
from msgspec import Struct
from msgspec.structs import replace

from midflight.assistant.context import SKIPPED
from midflight.assistant.profile import Profile
from midflight.assistant.recovery import Skip, retry_step
from midflight.assistant.words import as_text, short
from midflight.errors import InvalidRequest, StepFailed
from midflight.models.base import ToolCall
from midflight.run import Redirected, Run
from midflight.tools.base import Tool, tool
from midflight.tools.specs import parse

ARGUMENTS_MAX = 250_000  # characters; a journal takes no more than 1 MB at once
UNTRUSTED = "It was planned after reading somebody who may not direct this work."


class Acted(Struct):
    """The results, in the order of the calls; and the new course, if it has changed meanwhile."""

    results: list[str]
    redirected: Redirected | None = None


async def act(
    run: Run, profile: Profile, calls: Sequence[ToolCall], *, untrusted: bool = False
) -> Acted:
    """Make the calls that a model wants. Each gets a result, whatever becomes of it."""
    acted = Acted([SKIPPED] * len(calls))

    async def one(number: int) -> None:
        try:
            text = await perform(run, profile, calls[number], untrusted=untrusted)
            acted.results[number] = text
        except Redirected as redirected:  # what has not ended by then has not begun, or is a look
            acted.redirected = redirected

    for batch in _batches(profile, calls):
        if acted.redirected is not None:
            break
        async with anyio.create_task_group() as together:
            for number in batch:
                together.start_soon(one, number)
    return acted


def _batches(profile: Profile, calls: Sequence[ToolCall]) -> Iterator[list[int]]:
    """Looks in a row go together; everything else goes alone."""
    batch: list[int] = []
    for number, call in enumerate(calls):
        called = profile.tools.get(call.name)
        if called is not None and called.effect == "read":
            batch.append(number)
            continue
        if batch:
            yield batch
            batch = []
        yield [number]
    if batch:
        yield batch


async def perform(run: Run, profile: Profile, call: ToolCall, *, untrusted: bool = False) -> str:
    """One call, to its result in words."""
    called, action = profile.tools.get(call.name), profile.actions.get(call.name)
    if called is None and action is None:
        there = ", ".join([*profile.tools, *profile.actions]) or "none"
        return await _refused(run, call, f"there is no tool {call.name!r}; there are: {there}")
    if len(call.arguments) > ARGUMENTS_MAX:
        size = f"its arguments have {len(call.arguments):,} characters, more than {ARGUMENTS_MAX:,}"
        return await _refused(run, call, f"{size}. Do it in parts. Nothing was done.")
    try:
        arguments = parse(called or action.tool, call.arguments)  # type: ignore[union-attr]
    except InvalidRequest as error:
        return await _refused(run, call, str(error))
    if called is None:
        assert action is not None
        return await action.handle(run, **arguments)
    verdict = profile.policy.before(called, arguments)
    if verdict.action == "stop":
        return await _refused(run, call, f"not done: {verdict.why}")
    reasons = [verdict.why] if verdict.action == "ask" else []
    if untrusted and called.effect in {"write", "once"}:
        reasons.append(UNTRUSTED)
    if reasons:
        own = [called.approval] if isinstance(called.approval, str) else []
        called = replace(called, approval=" ".join([*own, *reasons]))
    return await _step(run, profile, called, arguments)


async def _step(run: Run, profile: Profile, called: Tool, arguments: dict[str, Any]) -> str:
    while True:
        try:
            return as_text(await run.step(title(called, arguments), called, **arguments))
        except StepFailed as failed:
            if profile.on_error == "model":
                return f"Error: {failed}"
            now = await retry_step(run, called, arguments, str(failed))
            if isinstance(now, Skip):
                return f"Skipped by {now.by or 'nobody in time'}, after: {failed}"
            arguments = now


def title(called: Tool, arguments: dict[str, Any]) -> str:
    """What people see: ``read_file: notes.md``."""
    name = called.noun or called.name.rpartition(".")[2]
    texts = [value for value in arguments.values() if isinstance(value, str)]
    first = next(filter(None, texts), "")
    return f"{name}: {short(first)}" if first else name


@tool(effect="read", name="midflight.assistant.refuse")
async def refuse(why: str) -> NoReturn:
    """A call that cannot be made fails as a step, where people see it."""
    raise InvalidRequest(why)


async def _refused(run: Run, call: ToolCall, why: str) -> str:
    try:
        await run.step(call.name or "a call without a name", refuse, why)
    except StepFailed as failed:
        return f"Error: {failed}"
    raise AssertionError("it always fails")
