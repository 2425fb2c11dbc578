"""The whole agent: think, act, listen, repeat. Copy this file and make it your own.

It uses nothing but the public API. Each ``await run.…`` is where people can pause, redirect, cancel
or talk to it, and where it goes on after a crash.
"""

from __future__ import annotations

import msgspec

from midflight.assistant.acting import act
from midflight.assistant.context import Conversation
from midflight.assistant.policy import Policy
from midflight.assistant.profile import Profile, Profiles
from midflight.assistant.recovery import retry_thinking
from midflight.assistant.thinking import Thought, thinking
from midflight.errors import StepFailed
from midflight.run import Redirected, Run

USELESS_MAX = 3  # answers in a row that say nothing; then a person is asked

EMPTY = "Your answer was empty. Call a tool, or say in words what you did and found."
CUT_OFF = "Your answer was cut off at the limit of its length. Go on from there, more briefly."


async def work(run: Run, profiles: Profiles, *, listens: bool = True) -> str:
    """Work on the brief until the model has nothing more to do, and give its last words.

    A helper in the background does not listen: the messages in the thread are not for it.
    """
    talk = await _begin(run, listens)
    useless = 0
    while True:
        try:
            profile = profiles.get(run.profile)
            talk.note(run.notices())
            thought = await _think(run, profile, talk)
            calls = talk.replied(thought.reply)
            if calls:
                acted = await act(run, profile, calls, untrusted=talk.untrusted)
                talk.results(calls, acted.results)
                if acted.redirected is not None:
                    raise acted.redirected
            elif thought.words and listens:
                await run.say(thought.words)
            heard = listens and talk.hear(await run.inbox())
            if _is_over(thought) and not heard:
                return thought.words
            useless = 0 if calls or heard else useless + 1
            if useless:
                await _nudge(run, talk, thought, useless)
            if thought.reply.spent.input_tokens > profile.context_tokens:
                talk = await _sum_up(run, profile, talk)
        except Redirected as redirected:
            talk.redirected(redirected.brief)


async def _begin(run: Run, listens: bool) -> Conversation:
    if run.restored is not None:
        return msgspec.convert(run.restored, Conversation)
    return Conversation.opened(run.brief, await run.earlier() if listens else ())


async def _think(run: Run, profile: Profile, talk: Conversation) -> Thought:
    """Ask the model. If it cannot be had, a person says what to do about that."""
    policy: Policy | None = profile.policy
    while True:
        try:
            thought: Thought = await run.step(
                "Think", thinking(profile.model, talk.prompt(profile), policy)
            )
        except StepFailed as failed:
            await retry_thinking(run, str(failed))
            continue
        if thought.verdict.action == "ask":
            said = await run.approve(f"May this be said? {thought.verdict.why}")
            if said.approved:
                policy = None
                continue
        return thought


def _is_over(thought: Thought) -> bool:
    """Whether the model has said its last word: there is one, and it is whole."""
    whole = thought.reply.stop != "length" or thought.verdict.action != "allow"
    return not thought.reply.calls and bool(thought.words) and whole


async def _nudge(run: Run, talk: Conversation, thought: Thought, useless: int) -> None:
    """The model has said nothing, or not all of it. It is told so; in the end, a person is."""
    if useless % USELESS_MAX == 0:
        await retry_thinking(run, f"The model has said nothing of use {useless} times.")
    talk.nudge(CUT_OFF if thought.reply.text else EMPTY)


async def _sum_up(run: Run, profile: Profile, talk: Conversation) -> Conversation:
    """The conversation is long: go on from a summary of it, also after a crash."""
    prompt = talk.to_sum_up(profile)
    thought: Thought = await run.step("Sum up", thinking(profile.model, prompt))
    shorter = talk.summed_up(thought.reply.text)
    await run.snapshot(shorter)
    return shorter
