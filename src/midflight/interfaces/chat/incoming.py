"""Messages of a chat: stored in its thread, answered together; and commands, bound to its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midflight.agents import Agent
from midflight.control import Ack, Control
from midflight.control.messages import REDIRECTED
from midflight.conversation import TEXT_MAX, is_storable
from midflight.errors import InvalidRequest, MidflightError, Refused
from midflight.interfaces.chat.channel import Action, Heard, Post, door, mark, shown
from midflight.interfaces.chat.chat_memory import Finder, Memory
from midflight.journal.phases import Phase
from midflight.journal.record import Actor
from midflight.journal.threads.thread import ThreadState
from midflight.view.shown_values import short

TOGETHER_MAX: Final = 1_800  # characters of what is put together; longer ones stand alone
BUTTONS_MAX: Final = 5
STANDS_MAX: Final = 4
BARE: Final = "-# This chat does not take what belongs to this: buttons, files or what it answers."
UNSHOWN: Final = "Something could not be shown: this chat does not take it. It is in the thread."


class Reply(Struct, frozen=True):
    """The answer to one message that was heard: how things stand, or why it was not stored."""

    message: str
    by: str
    text: str
    notes: tuple[str, ...] = ()  # for example files that were not read
    stored: bool = True

    @property
    def words(self) -> str:
        """The whole answer; empty where the thread itself answers."""
        return "\n".join(filter(None, [self.text, *self.notes]))


def together(posts: Sequence[Post]) -> list[Post]:
    """Join neighbouring posts, in their order; the key is that of the first of them."""
    found: list[Post] = []
    for post in posts:
        if found and _fit(found[-1], post):
            found[-1] = _joined(found[-1], post)
        else:
            found.append(post)
    return found


def _fit(first: Post, second: Post) -> bool:
    apart = any(post.menu or post.files or post.texts for post in (first, second))
    few = len(first.buttons) + len(second.buttons) <= BUTTONS_MAX
    return not apart and few and len(first.text) + len(second.text) < TOGETHER_MAX


def _joined(first: Post, second: Post) -> Post:
    same = not first.answers or not second.answers or first.answers == second.answers
    return replace(
        first,
        text=f"{first.text}\n{second.text}",
        buttons=first.buttons + second.buttons,
        answers=(first.answers or second.answers) if same else "",
    )


def plainer(post: Post) -> list[Post]:
    """Return substitutes for a post that a chat does not take: its words alone, then a note."""
    bare = Post(f"{post.text}\n{BARE}", post.key)
    is_bare = not (post.buttons or post.menu or post.files or post.texts or post.answers)
    return [*([] if is_bare else [bare]), Post(UNSHOWN, post.key)]


def answer(acks: Sequence[Reply]) -> Post:
    """Return one answer to all messages that were heard meanwhile; each of them is counted.

    Only the latest lines about how things stand are kept. Messages that were not stored, and
    files that were not read, are always named.
    """
    first, key = acks[0], f"ack:{acks[0].message}"
    if len(acks) == 1:
        return Post(first.words, key, answers=first.message)
    stored = [ack for ack in acks if ack.stored]
    counts = Counter(ack.by for ack in stored).items()
    said = ", ".join(f"{shown(by)} {count}" for by, count in counts)
    stands = dict.fromkeys(line for ack in stored for line in ack.text.splitlines())
    heard = [f"Heard {len(stored)} message{'s' * (len(stored) != 1)} ({said})."] if stored else []
    notes = dict.fromkeys(note for ack in stored for note in ack.notes)
    refused = [f"{shown(ack.by)}: {ack.words}" for ack in acks if not ack.stored]
    return Post("\n".join([*heard, *list(stands)[-STANDS_MAX:], *notes, *refused]), key)


LOOKS_ON: Final = "You may look here and not direct: the agent reads this as information."


class Inbox:
    """The inbox of one channel's chats. ``agent`` answers in threads that have no agent yet."""

    def __init__(self, control: Control, find: Finder, channel: str, agent: Agent) -> None:
        self._control, self._find = control, find
        self._channel, self._agent = channel, agent

    async def hear(self, memory: Memory, heard: Heard, who: Actor) -> Reply:
        """Store a message; when this returns it is on record, or the answer says why not.

        The answer is empty where the thread itself says everything.
        """
        ack = Reply(heard.id, who.by, "", heard.notes, stored=False)
        why_not = unstorable(heard.text) or _empty(heard.text)
        if why_not:
            return replace(ack, text=f"{why_not} Nothing was stored.")
        try:
            stands = await self._store(memory, heard, who)
        except MidflightError as error:
            return replace(ack, text=str(error))
        looks_on = () if who.role.steers else (LOOKS_ON,)
        return replace(ack, text=stands, notes=(*looks_on, *heard.notes), stored=True)

    async def _store(self, memory: Memory, heard: Heard, who: Actor) -> str:
        talk, key = await self._find.talk(memory.thread), message_key(heard.id)
        if talk is None or (talk.host is None and not talk.front):
            said = [(key, heard.text)]
            await self._control.converse(self._agent, memory.thread, said, key=key, who=who)
            return ""
        known = self._written(memory, talk).get(heard.id)
        if known is not None:  # also of somebody who is called otherwise by now
            who = (talk.unread.get(known) or talk.read[known]).who
        accepted = await self._control.send(memory.thread, heard.text, who=who, key=key)
        loud = accepted.did == "started" or bool(accepted.asks) or _is_turning(accepted)
        return "" if loud else await self._find.named(memory, accepted) or "Stored."

    async def own_thread(self, thread: str) -> str:
        """Return the thread for a new chat; another one if a different agent answers there."""
        talk = await self._find.talk(thread)
        others = talk is not None and talk.host is not None and talk.host.agent != self._agent.name
        return f"{thread}-{self._agent.name}" if others else thread  # layer another-agent-chat-has

    async def correct(self, memory: Memory, message: str, text: str, by: str = "") -> str:
        """Change a message that was changed in the chat, if it was not read; return what to say."""
        found = await self._message(memory, message)
        if found is None or found[2] == text:
            return ""
        position, who, _, unread = found
        _check_author(who, by)
        if not unread:
            return f"“{short(text, 60)}”: the earlier words were read already. Write it anew."
        why_not = unstorable(text)
        if why_not:
            return f"{why_not} The earlier words stand."
        try:
            await self._control.edit_message(memory.thread, position, text, who=who)
        except Refused as error:
            return str(error)
        return ""

    async def withdraw(self, memory: Memory, message: str, by: str = "") -> str:
        """Withdraw a message that was removed, if it was not read; return what to say."""
        found = await self._message(memory, message)
        if found is None:
            return ""
        position, who, text, unread = found
        _check_author(who, by)
        if not unread:
            return f"“{short(text, 60)}” was read before it was removed; it still counts."
        try:
            await self._control.withdraw_message(memory.thread, position, who=who)
        except Refused as error:
            return str(error)
        return f"**Withdrawn**, nobody had read it: a message of {shown(who.by)}"

    async def waiting(self, memory: Memory) -> set[str]:
        """Return the chat's own ids of its messages that nobody has read yet."""
        talk = await self._find.talk(memory.thread)
        unread = talk.unread if talk is not None else {}
        return {message for message, at in self._written(memory, talk).items() if at in unread}

    async def _message(self, memory: Memory, message: str) -> tuple[int, Actor, str, bool] | None:
        talk = await self._find.talk(memory.thread)
        position = self._written(memory, talk).get(message)
        if talk is None or position is None:
            return None
        found = talk.unread.get(position) or talk.read[position]
        return position, found.who, found.text, position in talk.unread

    def _written(self, memory: Memory, talk: ThreadState | None) -> dict[str, int]:
        """Return the positions of this chat's messages by its ids, which others may use too."""
        if talk is None:
            return {}
        here = door(self._channel, memory.chat)
        known = {**talk.read, **talk.unread}
        return {  # layer chat-ids-own
            message_id(key): position
            for (_, _, key), (position, _) in talk.keys.items()
            if position in known and known[position].who.channel == here
        }


def message_key(message: str) -> str:
    """Return the key under which a chat's message is stored."""
    return f"m{message}"


def message_id(key: str) -> str:
    """Return the chat's own id of a message from its key; empty for a key of another kind."""
    return key.removeprefix("m") if key.startswith("m") else ""


def unstorable(text: str) -> str:
    """Return why a text cannot be stored; empty if it can."""
    if len(text) > TEXT_MAX:
        return f"That is {len(text):,} characters, and a message takes {TEXT_MAX:,}."
    if not is_storable(text):
        return "That holds a character that cannot be stored: NUL, or half of a surrogate pair."
    return ""


def _empty(text: str) -> str:
    return "" if text.strip() else "There is nothing in it that I can read."


def _check_author(who: Actor, by: str) -> None:
    """Refuse a change of somebody else's message, where the chat itself does not prevent it."""
    if by and by != who.by:  # layer nobody-changes-words-of-others
        raise InvalidRequest(
            f"that message is by {shown(who.by)}, and only its author can change or withdraw it. "
            "Nothing was changed."
        )


def _is_turning(accepted: Ack) -> bool:
    """Return whether a redirect takes effect now: nothing is in flight, and nothing holds it."""
    held = accepted.phase in {Phase.PAUSING, Phase.PAUSED}
    return accepted.did == REDIRECTED and not accepted.in_flight and not held


# ── commands ─────────────────────────────────────────────────────────────────────────────────────

STEERING: Final = frozenset({"pause", "resume", "redirect", "cancel"})


def parts(code: str) -> tuple[str, str]:
    """Return the name of a command and the text behind it; an empty name if it is no command."""
    name, _, text = code[1:].partition(" ")
    return (name, text) if code.startswith("/") else ("", "")


def steers(code: str) -> bool:
    """Return whether this is a command for the run in front, whichever run that is."""
    return parts(code)[0] in STEERING


async def meant(
    find: Finder, memory: Memory, code: str, fields: Mapping[str, str] | None
) -> tuple[str, dict[str, str]]:
    """Return a press as it is carried out: a command is bound to the run in front now."""
    name, text = parts(code)
    if name not in STEERING:
        return code, dict(fields or {})
    try:
        run = mark(await find.front(memory))
    except InvalidRequest:
        run = ""  # and not one that comes later
    return Action(name, run).code, {"text": text} if name == "redirect" else {}
