"""The whole agent: think, act, listen, repeat. Copy this file and make it your own.

It uses nothing but the public API. Each ``await run.…`` is where people can pause, redirect, cancel
or talk to it, and where it goes on after a crash.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from midflight.assistant.dialogue import Conversation, sum_up
from midflight.assistant.profile import Profile, Profiles
from midflight.assistant.thinking import Thought, asked, consent_to_words, retry_thinking
from midflight.assistant.tool_batch import act
from midflight.run import Redirected, Run

USELESS_MAX = 3  # answers in a row that are of no use; then a person is asked

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
            if listens:
                await _tell_if_missing(run, profiles, talk)
            await _take_notice(run, talk)
            thought = await _think(run, profile, talk)
            if thought.words and listens and not thought.reply.calls:
                await run.say(thought.words)  # first: a redirect may come before it is said
            calls = talk.replied(thought.reply)
            if calls:
                acted = await act(run, profile, calls, untrusted=talk.untrusted)
                talk.results(calls, acted.results, acted.strangers)
                if acted.redirected is not None:
                    raise acted.redirected
            heard = listens and talk.hear(await run.inbox())
            if _is_over(thought) and not heard:
                return thought.words
            useless = 0 if calls or heard else useless + 1
            if useless:
                await _nudge(run, talk, thought, useless)
            if thought.reply.spent.input_tokens > profile.context_tokens:
                talk = await sum_up(run, profile, talk)
        except Redirected as redirected:
            talk.redirected(redirected.brief)


async def _begin(run: Run, listens: bool) -> Conversation:
    if run.restored is not None:
        restored = msgspec.convert(run.restored, Conversation)
        return replace(restored, key=restored.key or run.id)
    handed_on = isinstance(run.input, dict) and run.input.get("untrusted")
    untrusted = "the run that began this one" if handed_on else ""
    earlier = await run.earlier() if listens else ()
    return Conversation.opened(run.brief, earlier, untrusted=untrusted, key=run.id)


async def _tell_if_missing(run: Run, profiles: Profiles, talk: Conversation) -> None:
    """Tell people, once, that a redirect has named a profile that does not exist."""
    missing = profiles.missing(run.profile)
    if missing and talk.no_profile != run.profile:
        await run.say(missing)
        talk.no_profile = run.profile


async def _take_notice(run: Run, talk: Conversation) -> None:
    """Put on record that strangers were read, and pass on to the model what the run was told."""
    if talk.untrusted:
        await run.distrust(talk.stranger or "what was read before")
    talk.note(run.notices())


async def _think(run: Run, profile: Profile, talk: Conversation) -> Thought:
    """Ask the model, and where the policy wants it so, a person whether its words may be said."""
    while True:
        thought = await asked(run, "Think", profile, talk.prompt(profile))
        if thought.verdict.action != "ask":
            return thought
        said = await consent_to_words(run, thought)
        if isinstance(said, Thought):
            return said
        talk.replied(replace(thought.reply, calls=()))
        talk.nudge(f"That was not said. {said.by}: {said.respond}")


def _is_over(thought: Thought) -> bool:
    """Return whether the model is done: its reply has whole words and calls no tool."""
    whole = thought.reply.stop != "length" or thought.verdict.action != "allow"
    return not thought.reply.calls and bool(thought.words) and whole


async def _nudge(run: Run, talk: Conversation, thought: Thought, useless: int) -> None:
    """Tell the model that its answer was empty or cut off; after some times ask a person."""
    if useless % USELESS_MAX == 0:
        last = "cut off at the limit of its length" if thought.reply.text else "empty"
        why = f"The model gave no whole answer {useless} times in a row; the last one was {last}."
        await retry_thinking(run, why)
    talk.nudge(CUT_OFF if thought.reply.text else EMPTY)
