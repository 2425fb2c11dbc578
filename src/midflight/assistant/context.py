"""What the model sees: one conversation, in which every tool call has exactly one result.

Plain data, so that a snapshot can hold it. It is built only from what the run was given (steps,
messages, redirects), so it is the same after a crash as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from midflight.assistant.profile import Profile
from midflight.assistant.words import TRUSTED, by_role, cut
from midflight.conversation import BACKGROUND, Message, Spoken
from midflight.models.base import Prompt, Reply, ToolCall, Turn

RESULT_MAX = 16_000  # characters of one tool result that a model is shown
KEPT = 2  # characters for each token of the context that a summary leaves as they were: a half
WORTH = 1  # and those that it must replace: a quarter

SKIPPED = "Skipped: the person has changed the course before this was done."
IN_DOUBT = "It had begun when the person changed the course; whether it happened is not known."
BEFORE = "[This conversation began earlier.]"


class Conversation(Struct):
    """The turns so far, and whether somebody was read who may look but not direct."""

    turns: list[Turn] = field(default_factory=list)
    brief: str = ""
    untrusted: bool = False
    unsummed: int = 0  # characters that the model could not sum up
    no_profile: str = ""  # a name that a redirect has given, and people were told is none
    notices: int = 0  # of the run's, that were passed on
    renamed: int = 0  # calls whose id the model had used before

    @classmethod
    def opened(
        cls, brief: str, earlier: Iterable[Spoken] = (), *, untrusted: bool = False
    ) -> Conversation:
        """The beginning: what was said before, and what is wanted now."""
        talk = cls(brief=brief, untrusted=untrusted)
        for spoken in earlier:
            if spoken.run:
                talk._add(Turn("assistant", spoken.text))
            else:
                talk._hear(spoken.by, spoken.role, spoken.text)
        talk._say(brief)
        return talk

    # ── what is added ────────────────────────────────────────────────────────────────────────

    def replied(self, reply: Reply) -> tuple[ToolCall, ...]:
        """The model has answered; its calls, each under an id of its own, wait for results."""
        used = {call.id for turn in self.turns for call in turn.calls}
        calls: list[ToolCall] = []
        for call in reply.calls:
            own = call.id
            while not own or own in used:
                self.renamed += 1
                own = f"call-{self.renamed}"
            used.add(own)
            calls.append(call if own == call.id else replace(call, id=own))
        if reply.text or calls:
            self._add(replace(reply.as_turn(), calls=tuple(calls)))
        return tuple(calls)

    def results(self, calls: Sequence[ToolCall], results: Sequence[str]) -> None:
        """One result for each call, in their order."""
        for call, result in zip(calls, results, strict=True):
            text = cut(result, RESULT_MAX) or "(nothing)"
            self.turns.append(Turn("tool", text, call_id=call.id))

    def hear(self, messages: Iterable[Message]) -> bool:
        """People have written; whether anybody has."""
        heard = False
        for message in messages:
            self._hear(message.by, message.role, message.text)
            heard = True
        return heard

    def redirected(self, brief: str) -> None:
        """The person has changed the course."""
        self.brief = brief
        self._say(f"Change of course. What is wanted now:\n{brief}")

    def note(self, notices: Sequence[str]) -> None:
        """What the run was told: a cap is near, it goes in circles."""
        for notice in notices[self.notices :]:
            self._say(f"[Notice] {notice}")
        self.notices = len(notices)

    def nudge(self, text: str) -> None:
        """The last answer was of no use; say why."""
        self._say(text)

    def _hear(self, by: str, role: str, text: str) -> None:
        if role == BACKGROUND:
            self._say(f"[Report of the background run {by}]\n{text}")
        else:
            self.untrusted |= role not in TRUSTED
            self._say(by_role(by, role, text))

    def _say(self, text: str) -> None:
        self._add(Turn("user", text))

    def _add(self, turn: Turn) -> None:
        """Turns take turns: what one side says in a row is one turn, and people begin."""
        if not self.turns and turn.role != "user":
            self.turns.append(Turn("user", BEFORE))
        last = self.turns[-1] if self.turns else None
        plain = last is not None and not (last.calls or turn.calls or last.raw or turn.raw)
        if last is not None and plain and last.role == turn.role != "tool":
            self.turns[-1] = replace(last, text=f"{last.text}\n\n{turn.text}")
        else:
            self.turns.append(turn)

    # ── what is asked ────────────────────────────────────────────────────────────────────────

    def prompt(self, profile: Profile) -> Prompt:
        """The whole of it, for the model."""
        return Prompt(
            system=profile.system,
            turns=tuple(self.turns),
            tools=profile.specs,
            max_tokens=profile.max_tokens,
        )

    def to_sum_up(self, profile: Profile) -> Prompt:
        """What is to be summed up: all but the last of it, and never half of a call."""
        text = "Sum up the work so far for yourself: what is wanted, what is done, what was found, "
        text += "what is left. Names, numbers and paths exactly. This replaces the conversation. "
        text += "Answer in words; call no tool."
        head = list(self.turns[: self._cut(profile)])
        if head and head[-1].role == "user":
            head.append(Turn("assistant", "Go on."))
        return Prompt(
            system=profile.system,
            turns=(*head, Turn("user", text)),
            tools=profile.specs,  # a provider that finds calls in the turns wants to know of them
            max_tokens=profile.max_tokens,
        )

    def summed_up(self, profile: Profile, summary: str) -> Conversation:
        """The brief as it was given, and the summary in place of what it sums up."""
        rest = self.turns[self._cut(profile) :]
        shorter = replace(self, turns=[], unsummed=0)
        shorter._say(self.brief)
        shorter._say(f"[What happened so far, as you have summed it up]\n{summary}")
        for turn in rest:
            shorter._add(turn)
        return shorter

    def can_be_summed_up(self, profile: Profile) -> bool:
        """Whether enough would be replaced: what it begins with stays, and what is new."""
        return self._cuttable(profile) - self.unsummed > WORTH * profile.context_tokens

    def leave_unsummed(self, profile: Profile) -> None:
        """The model could not: it is asked again when there is more of it."""
        self.unsummed = self._cuttable(profile)

    def _cuttable(self, profile: Profile) -> int:
        return sum(map(_size, self.turns[1 : self._cut(profile)]))

    def _cut(self, profile: Profile) -> int:
        """Where the last turns begin: at something said, never between a call and its result."""
        place, room = len(self.turns), KEPT * profile.context_tokens
        while place and (room := room - _size(self.turns[place - 1])) >= 0:
            place -= 1
        while place < len(self.turns) and self.turns[place].role == "tool":
            place += 1
        return place


def _size(turn: Turn) -> int:
    return len(turn.text) + sum(len(call.arguments) for call in turn.calls)
