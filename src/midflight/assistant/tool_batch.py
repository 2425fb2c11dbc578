"""One batch of tool calls: reads at the same time, effects one after the other, a result each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import anyio
from msgspec import Struct
from msgspec.structs import replace

from midflight.assistant.dialogue import IN_DOUBT, SKIPPED, as_text, short, words_in
from midflight.assistant.profile import Action, Profile
from midflight.assistant.thinking import Skip, consent_to_action, retry_step
from midflight.errors import InvalidRequest, NotPlainData, PayloadTooLarge, Refused, StepFailed
from midflight.models.model import ToolCall
from midflight.run import Redirected, Run
from midflight.tools.declaration import Tool, declared
from midflight.tools.options import Approval
from midflight.tools.specs import parsed

ARGUMENTS_MAX = 250_000  # characters; a journal takes no more than 1 MB at once
REFUSED_SHOWN = 200  # characters of the arguments of a call that could not be made
UNTRUSTED = "It was planned after reading words of somebody who may not direct this work."
OUTSIDE = "It leaves this machine."


SoFar = Callable[[str], None]


class Acted(Struct):
    """The results, in the order of the calls; and the new brief, if a redirect came meanwhile."""

    results: list[str]
    strangers: list[str]  # for each: the tool's name, if strangers may have written the result
    redirected: Redirected | None = None


async def act(
    run: Run, profile: Profile, calls: Sequence[ToolCall], *, untrusted: bool = False
) -> Acted:
    """Make the calls that a model wants. Each gets a result, whatever becomes of it."""
    acted = Acted([SKIPPED] * len(calls), [""] * len(calls))

    async def one(number: int) -> None:
        def so_far(text: str) -> None:
            acted.results[number] = text

        called = profile.tools.get(calls[number].name)
        if called is not None and called.untrusted:
            # layer saved-from-cancelled-run
            await run.distrust(called.name)  # before the call: a cancel may come during it
            acted.strangers[number] = called.name
        try:
            so_far(await perform(run, profile, calls[number], so_far, untrusted=untrusted))
        except Redirected as redirected:
            if redirected.in_doubt:
                so_far(redirected.cut or IN_DOUBT)  # layer cut-command-told-as-cut
            acted.redirected = redirected

    for batch in _batches(profile, calls):
        if acted.redirected is not None:
            break
        async with anyio.create_task_group() as together:
            for number in batch:
                together.start_soon(one, number)
    return acted


def _batches(profile: Profile, calls: Sequence[ToolCall]) -> Iterator[list[int]]:
    """Yield the calls in batches: reads in a row go together, everything else goes alone."""
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


async def perform(
    run: Run, profile: Profile, call: ToolCall, so_far: SoFar, *, untrusted: bool = False
) -> str:
    """One call, to its result in words; ``so_far`` hears what is known before people are asked."""
    called, action = profile.tools.get(call.name), profile.actions.get(call.name)
    if called is None and action is None:
        there = ", ".join([*profile.tools, *profile.actions]) or "none"
        return await _refused(
            run, call, f"there is no tool {short(call.name)!r}; there are: {there}"
        )
    if len(call.arguments) > ARGUMENTS_MAX:
        size = f"its arguments have {len(call.arguments):,} characters, more than {ARGUMENTS_MAX:,}"
        return await _refused(run, call, f"{size}. Do it in parts. Nothing was done.")
    try:
        arguments = await parsed(called or action.tool, call.arguments)  # type: ignore[union-attr]
    except InvalidRequest as error:
        return await _refused(run, call, str(error))
    if called is None:
        assert action is not None
        return await _make(run, profile, call, action, arguments, untrusted)
    verdict = profile.policy.before(called, arguments)
    if verdict.action == "stop":
        return await _refused(run, call, f"not done: {verdict.why}")
    reasons = [verdict.why] if verdict.action == "ask" else []
    # layer read-leaves-machine-needs-consent
    if untrusted and (called.outside or called.effect in {"write", "once"}):
        reasons += [OUTSIDE, UNTRUSTED] if called.outside else [UNTRUSTED]
    if reasons:
        asked = called.approval or Approval()
        rule = " ".join(filter(None, [asked.rule, *reasons]))
        called = replace(called, approval=replace(asked, rule=rule))
    return await _step(run, profile, called, arguments, so_far)


async def _make(
    run: Run,
    profile: Profile,
    call: ToolCall,
    action: Action,
    arguments: dict[str, Any],
    untrusted: bool,
) -> str:
    """An action, as the policy has it: people are shown its words, so those are looked at too."""
    rules = profile.policy
    verdicts = [rules.before(action.tool, arguments), rules.on_text(words_in(arguments))]
    why = ". ".join(verdict.why for verdict in verdicts if verdict.action != "allow")
    if any(verdict.action == "stop" for verdict in verdicts):
        return await _refused(run, call, f"not done: {why}")
    try:
        if why:
            made = await consent_to_action(run, action.tool, arguments, why)
            if isinstance(made, str):
                return await _refused(run, call, made)
            arguments = made
        trust = {"untrusted": untrusted} if action.passes_trust else {}
        return await action.handle(run, **arguments, **trust)
    except (Refused, NotPlainData, PayloadTooLarge) as error:
        return await _refused(run, call, str(error))


async def _step(
    run: Run, profile: Profile, called: Tool, arguments: dict[str, Any], so_far: SoFar
) -> str:
    while True:
        try:
            return as_text(await run.step(title(called, arguments), called, **arguments))
        except StepFailed as failed:
            if profile.on_error == "model":
                return f"Error: {failed}"
            so_far(f"Error: {failed}")
            now = await retry_step(run, called, arguments, str(failed))
            if isinstance(now, Skip):
                skipped = f"Skipped by {now.by}" if now.by else "Skipped: nobody answered in time"
                return f"{skipped}, after: {failed}"
            arguments = now


def title(called: Tool, arguments: dict[str, Any]) -> str:
    """Return the title of a call that people see, such as ``read_file: notes.md``."""
    name = called.label or called.name.rpartition(".")[2]
    texts = [value for value in arguments.values() if isinstance(value, str)]
    first = next(filter(None, texts), "")
    return f"{name}: {short(first)}" if first else name


def refusing(why: str) -> Tool:
    """Return a tool that fails with ``why``, so that people see a call that cannot be made.

    ``why`` is no argument of the step: it changes with the tools, and the step stays the same.
    """

    async def refuse(arguments: str) -> NoReturn:
        raise InvalidRequest(why)

    return declared(refuse, name="midflight.assistant.refuse", effect="read")


async def _refused(run: Run, call: ToolCall, why: str) -> str:
    name = short(call.name) or "a call without a name"
    try:
        await run.step(name, refusing(why), short(call.arguments, REFUSED_SHOWN))
    except StepFailed as failed:
        return f"Error: {failed}"
    raise AssertionError("it always fails")
