"""What people write and press in a chat, as verbs of ``Control``; each is answered in words.

A message's own id is its key, so that one which is delivered twice is stored once. Whatever is
refused is answered with why, how things really stand, and that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from midflight.channels.asking import ways
from midflight.channels.finding import Finder
from midflight.channels.ledger import Memory
from midflight.channels.people import shown
from midflight.channels.shapes import Action, Button, Field, Form, Heard, Post
from midflight.control import Accepted, Control
from midflight.errors import InvalidRequest, MidflightError, Outdated, Refused
from midflight.kernel.events import QuestionOpened
from midflight.kernel.phases import Phase
from midflight.kernel.preview import Offer
from midflight.kernel.record import Limits, Who
from midflight.kernel.state import RunState
from midflight.run import Agent
from midflight.sheets.words import short
from midflight.talks import REDIRECTED

TEXT_MAX: Final = 64 * 1024
AT_ONCE: Final = ("pause", "cancel")  # never refused for what has changed since
DRAFTS_KEPT: Final = 256

Give = Callable[..., Awaitable[Post]]


class Taken(Struct, frozen=True):
    """How a message was taken: the answer to it, empty where the thread says so itself."""

    text: str


class Desk:
    """Serves the chats of one channel. ``agent`` is who answers where nobody does yet."""

    def __init__(self, control: Control, agent: Agent) -> None:
        self.control = control
        self._agent = agent
        self.find = Finder(control)
        self._drafts: dict[tuple[str, str], str] = {}

    # ── texts ────────────────────────────────────────────────────────────────────────────────

    async def hear(self, memory: Memory, heard: Heard, who: Who) -> Taken:
        """Store what somebody has written; when this returns it is on record, or says why not."""
        why_not = _unstorable(heard.text) or _empty(heard.text)
        if why_not:
            return Taken("\n".join([f"{why_not} Nothing was stored.", *heard.notes]))
        try:
            return Taken(await self._store(memory, heard, who))
        except MidflightError as error:
            return Taken(str(error))

    async def _store(self, memory: Memory, heard: Heard, who: Who) -> str:
        talk = await self.find.talk(memory.thread)
        key, notes = message_key(heard.id), "\n".join(heard.notes)
        if talk is None or (talk.host is None and not talk.front):
            said = [(key, heard.text)]
            await self.control.converse(self._agent, memory.thread, said, key=key, who=who)
            return notes
        accepted = await self.control.send(memory.thread, heard.text, who=who, key=key)
        loud = accepted.did == "started" or "Cancel?" in accepted.status or _is_turning(accepted)
        stands = await self.find.named(memory, accepted.status)
        return _acknowledged(stands, who, heard, loud)

    async def correct(self, memory: Memory, message: str, text: str, by: str = "") -> str:
        """Somebody has changed a message in the chat: the same here, if nobody has read it yet."""
        found = await self._message(memory, message)
        if found is None or found[2] == text:
            return ""
        position, who, _, unread = found
        _check_author(who, by)
        if not unread:
            return f"“{short(text, 60)}”: the earlier words were read already. Write it anew."
        why_not = _unstorable(text)
        if why_not:
            return f"{why_not} The earlier words stand."
        try:
            await self.control.edit_message(memory.thread, position, text, who=who)
        except Refused as error:
            return str(error)
        return ""

    async def withdraw(self, memory: Memory, message: str, by: str = "") -> str:
        """Somebody has removed a message from the chat: it is taken back if it was not read."""
        found = await self._message(memory, message)
        if found is None:
            return ""
        position, who, text, unread = found
        _check_author(who, by)
        if not unread:
            return f"“{short(text, 60)}” was read before it was removed; it still counts."
        try:
            await self.control.withdraw_message(memory.thread, position, who=who)
        except Refused as error:
            return str(error)
        return f"**Withdrawn**, nobody had read it: a message of {shown(who.by)}"

    async def waiting(self, memory: Memory, door: str) -> set[str]:
        """The chat's own ids of its messages that nobody has read yet."""
        talk = await self.find.talk(memory.thread)
        if talk is None:
            return set()
        unread = {m.position for m in talk.unread.values() if m.who.channel == door}
        at = {position: key for (_, key), (position, _) in talk.keys.items()}
        return {message_id(at[position]) for position in unread if position in at} - {""}

    async def _message(self, memory: Memory, message: str) -> tuple[int, Who, str, bool] | None:
        talk = await self.find.talk(memory.thread)
        key = message_key(message)
        for (_, known), (position, _) in talk.keys.items() if talk is not None else ():
            if known != key:
                continue
            assert talk is not None
            found = talk.unread.get(position) or talk.read.get(position)
            return (position, found.who, found.text, position in talk.unread) if found else None
        return None

    # ── presses ──────────────────────────────────────────────────────────────────────────────

    async def form(self, memory: Memory, action: Action, who: Who) -> Form | Post:
        """The form that a press opens, or why there is none."""
        try:
            run = await self.find.run(memory, action.run)
            state = await self.control.state(run)
            match action.verb:
                case "redirect":
                    return self._redirecting(state, action, who)
                case "fill":
                    return await self._filling(run, action)
                case "caps":
                    return _capping(state, action)
                case _:
                    note = Field("note", "What it is told", long=True, required=False)
                    return Form("Hand back", action, (note,))
        except MidflightError as error:
            return Post(str(error))

    def _redirecting(self, state: RunState, action: Action, who: Who) -> Form:
        draft = self._drafts.get((who.by, state.journal), state.brief)
        fields = [Field("text", "Rewrite the next step", value=draft, long=True)]
        if state.phase is Phase.PAUSED:
            ways_on = ("Redirect and resume", "Redirect only")
            fields.append(Field("then", "Then", value=ways_on[0], options=ways_on))
        return Form("Redirect", action, tuple(fields))

    async def _filling(self, run: str, action: Action) -> Form:
        asked = await self.find.question(run, action.at)
        way = _way(asked, action.choice)
        return Form(short(asked.message, 45), action, way.fields)

    async def press(
        self,
        memory: Memory,
        action: Action,
        who: Who,
        *,
        key: str,
        fields: Mapping[str, str] | None = None,
        late: bool = False,
    ) -> Post:
        """Do what a press means, once under its key, and say what came of it."""
        try:
            do = _PRESSES.get(action.verb)
            if do is None:
                return Post("This button is not known any more. Nothing was changed.")
            if late and action.verb in {"cancel", "redirect"} and action.choice != "sure":
                return self._asks_again(action, fields, who)
            return await do(self, memory, action, who, key, dict(fields or {}))
        except Outdated as error:
            return await self._outdated(memory, action, str(error))
        except MidflightError as error:
            return await self._refused(memory, action, str(error))

    def _asks_again(self, action: Action, fields: Mapping[str, str] | None, who: Who) -> Post:
        """A press that waited for longer than a person does is shown once more first."""
        words = f": “{short((fields or {}).get('text', ''), 200)}”" if fields else ""
        again = Button(f"{action.verb.capitalize()} now", _sure(action), "bad")
        if action.verb == "redirect":
            again = Button("Redirect", msgspec.structs.replace(action, at=0), "good")
        text = (
            f"You pressed {action.verb.capitalize()}{words} while I was away. Nothing was changed."
        )
        return Post(f"{text} Do it now?", buttons=(again,))

    async def _outdated(self, memory: Memory, action: Action, why: str) -> Post:
        stands = await self.find.stands(memory, action.run)
        fresh = Button(action.verb.capitalize(), msgspec.structs.replace(action, at=0))
        return Post(f"It has changed since you saw that. {stands}\n-# {why}", buttons=(fresh,))

    async def _refused(self, memory: Memory, action: Action, why: str) -> Post:
        stands = await self.find.stands(memory, action.run)
        return Post(f"{why}\n{stands}".rstrip())

    async def _verb(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        offer = (await self.control.preview(run))[action.verb]
        if action.verb == "cancel" and offer.confirm and not action.choice:
            sure = Button("Cancel anyway", _sure(action), "bad")
            keep = Button("Keep going", Action("nothing"))
            return Post(f"{offer.confirm} Nothing was changed yet.", buttons=(sure, keep))
        changed = bool(action.at) and (await self.control.state(run)).relevant > action.at
        how: dict[str, Any] = {"expect": action.at or None}
        if action.verb in AT_ONCE:
            how = {"now": True} if action.choice == "now" else {}
        accepted = await getattr(self.control, action.verb)(run, who=who, key=key, **how)
        wanted = _wanted(action, offer)
        met = f"\nIt had changed since you saw that; it meant: {offer.consequence}."
        since = met if changed and wanted == offer.label else ""
        return Post(f"**{wanted}** is on record. {_in_flight(accepted)}{since}")

    async def _redirect(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        run, text = await self.find.run(memory, action.run), fields.get("text", "").strip()
        why_not = _unstorable(text)
        if why_not or not text:
            return Post(f"{why_not or 'A redirect needs words.'} Nothing was changed.")
        resume = fields.get("then") == "Redirect and resume"
        self._drafts[who.by, run] = text
        while len(self._drafts) > DRAFTS_KEPT:
            del self._drafts[next(iter(self._drafts))]
        accepted = await self.control.redirect(
            run, text, resume=resume, who=who, key=key, expect=action.at or None
        )
        self._drafts.pop((who.by, run), None)
        return Post(f"**Redirect** is on record. {_in_flight(accepted)}")

    async def _answer(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        way = _way(await self.find.question(run, action.at), action.choice)
        await self.control.answer(run, action.at, way.answer(fields), who=who, key=key)
        return Post(f"Your answer is on record: **{way.label}**.")

    async def _caps(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        try:
            given = {name: float(value) for name, value in fields.items()}
            caps = {n: v if n in {"usd", "seconds"} else int(v) for n, v in given.items()}
            limits = Limits(**msgspec.convert(caps, dict[str, Any]))
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"a cap is a number: {error}. Nothing was changed.") from None
        await self.control.raise_limits(run, limits, who=who, key=key)
        return Post("**Raise cap** is on record.")

    async def _hand_back(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        await self.control.hand_back(run, fields.get("note", ""), who=who, key=key)
        return Post("**Hand back** is on record.")

    async def _overrule(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        done = await self.control.overrule(
            memory.thread, action.at, action.choice, who=who, key=key
        )
        return Post(f"On record: {done.status}.")

    async def _todo(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        verb = self.control.do_now if action.verb == "do_now" else self.control.remove_todo
        done = await verb(memory.thread, action.at, who=who, key=key)
        return Post(f"On record: {done.status or done.did or 'taken off the list'}.")

    async def _nothing(
        self, memory: Memory, action: Action, who: Who, key: str, fields: dict[str, str]
    ) -> Post:
        return Post("Nothing was changed.")


_PRESSES: Final[dict[str, Give]] = {
    "pause": Desk._verb,
    "resume": Desk._verb,
    "cancel": Desk._verb,
    "redirect": Desk._redirect,
    "answer": Desk._answer,
    "fill": Desk._answer,
    "caps": Desk._caps,
    "hand_back": Desk._hand_back,
    "overrule": Desk._overrule,
    "do_now": Desk._todo,
    "remove": Desk._todo,
    "nothing": Desk._nothing,
}


def message_key(message: str) -> str:
    """The key under which a chat's message is stored."""
    return f"m{message}"


def message_id(key: str) -> str:
    """And back: the chat's own id, if it was stored under such a key."""
    return key.removeprefix("m") if key.startswith("m") else ""


def _wanted(action: Action, offer: Offer) -> str:
    """What was pressed, by its name; what the same place offers now may be something else."""
    if action.verb != "cancel":
        return offer.label
    return "Stop now" if action.choice == "now" else "Cancel"


def _sure(action: Action) -> Action:
    return msgspec.structs.replace(action, choice="sure")


def _way(asked: QuestionOpened, choice: str) -> Any:
    found = ways(msgspec.json.decode(asked.schema))
    if not choice.isdigit() or int(choice) >= len(found):
        raise InvalidRequest("that is none of its answers. The question is still open.")
    return found[int(choice)]


def _capping(state: RunState, action: Action) -> Form:
    caps = {name: cap for name in Limits.__struct_fields__ if (cap := getattr(state.limits, name))}
    fields = tuple(
        Field(name, name.replace("_", " "), f"{2 * cap:g}") for name, cap in caps.items()
    )
    return Form("Raise cap", action, fields[:5])


def _unstorable(text: str) -> str:
    if len(text) > TEXT_MAX:
        return f"That is {len(text):,} characters, and a message takes {TEXT_MAX:,}."
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        return "That holds characters that cannot be stored."
    return ""


def _empty(text: str) -> str:
    return "" if text.strip() else "There is nothing in it that I can read."


def _in_flight(accepted: Accepted) -> str:
    flying = ", ".join(accepted.in_flight)
    return f"In flight: {flying}." if flying else "Nothing is in flight."


def _check_author(who: Who, by: str) -> None:
    """Where the chat does not vouch for it, nobody changes what somebody else has written."""
    if by and by != who.by:
        raise InvalidRequest(f"that message is {shown(who.by)}'s, not yours. Nothing was changed.")


def _is_turning(accepted: Accepted) -> bool:
    """Whether it is redirected at this moment: nothing has to finish first, and nobody holds it."""
    held = accepted.status.startswith(("paus", "held"))
    return accepted.did == REDIRECTED and not accepted.in_flight and not held


def _acknowledged(stands: str, who: Who, heard: Heard, loud: bool) -> str:
    """The answer to a message in one line; nothing if the thread is about to say it."""
    parts = [] if loud else [stands or "Stored."]
    if not who.role.steers:
        parts.append("You may look here and not direct: the agent reads this as information.")
    return "\n".join([*parts, *heard.notes])
