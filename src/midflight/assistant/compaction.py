"""A conversation that has grown long goes on from a summary of it, also after a crash."""

from __future__ import annotations

from midflight.assistant.context import Conversation
from midflight.assistant.profile import Profile
from midflight.assistant.recovery import asked
from midflight.run import Run

TRIES = 2


async def sum_up(run: Run, profile: Profile, talk: Conversation) -> Conversation:
    """Return the shorter conversation; or the same one, if the model has not summed it up."""
    if not talk.can_be_summed_up(profile):
        return talk
    for _ in range(TRIES):
        thought = await asked(run, "Sum up", profile, talk.to_sum_up(profile), aloud=False)
        reply, allowed = thought.reply, thought.verdict.action == "allow"
        if allowed and reply.text.strip() and not reply.calls:
            shorter = talk.summed_up(profile, reply.text)
            await run.snapshot(shorter)
            return shorter
    talk.leave_unsummed(profile)
    return talk
