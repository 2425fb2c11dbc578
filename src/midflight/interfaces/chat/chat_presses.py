"""The desk carries out presses and forms of a chat as verbs of ``Control``, and answers each.

The answer to a refused press says why, how the run really stands, and that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from midflight.control import Ack, Control
from midflight.errors import InvalidRequest, MidflightError, Outdated
from midflight.interfaces.chat.channel import Action, Button, Field, Form, Post
from midflight.interfaces.chat.chat_memory import Finder, Memory
from midflight.interfaces.chat.chat_questions import ways
from midflight.interfaces.chat.incoming import unstorable
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import limits_from
from midflight.journal.phases import Phase
from midflight.journal.preview import Offer
from midflight.journal.record import Actor, taken_under
from midflight.journal.state import RunState
from midflight.view.amounts import raised_of, typed
from midflight.view.exact_text import short

AT_ONCE: Final = ("pause", "cancel")  # never refused for what has changed since
DRAFTS_KEPT: Final = 256

Give = Callable[..., Awaitable[Post]]


class Desk:
    """Serves the buttons, forms and commands of one channel's chats."""

    def __init__(self, control: Control, find: Finder) -> None:
        self.control, self.find = control, find
        self._drafts: dict[tuple[str, str], str] = {}

    async def form(self, memory: Memory, action: Action, who: Actor) -> Form | Post:
        """Return the form that a press opens, or a post that says why it opens none."""
        try:
            run = await self.find.run(memory, action.run)
            state = await self.control.state(run)
            match action.verb:
                case "redirect":
                    return self._redirecting(state, action, who)
                case "fill":
                    return await self._filling(run, action)
                case "caps":
                    return _capping(raised_of(state, await self.control.store.now()), action)
                case _:
                    note = Field("note", "What it is told", long=True, required=False)
                    return Form("Hand back", action, (note,))
        except MidflightError as error:
            return Post(str(error))

    def _redirecting(self, state: RunState, action: Action, who: Actor) -> Form:
        draft = self._drafts.get((who.by, state.journal)) or state.brief
        fields = [Field("text", "The brief: what it is to do from here on", value=draft, long=True)]
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
        who: Actor,
        *,
        key: str,
        fields: Mapping[str, str] | None = None,
        late: bool = False,
    ) -> Post:
        """Carry out a press, once under its key, and return its answer.

        If a form is refused, the answer quotes what was typed: Discord has closed the form.
        """
        try:
            do = _PRESSES.get(action.verb)
            if do is None:
                return Post("This button is not known any more. Nothing was changed.")
            asks = action.verb in {"cancel", "redirect"} and action.choice != "sure"
            if late and asks and not await self._is_done(memory, action, who, key):
                return await self._asks_again(memory, action, dict(fields or {}), who)
            return await do(self, memory, action, who, key, dict(fields or {}))
        except Outdated as error:
            return _with_typed(await self._outdated(memory, action, str(error)), fields)
        except MidflightError as error:
            return _with_typed(await self._refused(memory, action, str(error)), fields)

    async def _is_done(self, memory: Memory, action: Action, who: Actor, key: str) -> bool:
        """Return whether a press was carried out before, and only its answer was not given."""
        state = await self.control.state(await self.find.run(memory, action.run))
        return taken_under(state.keys, who.by, key) is not None

    async def _asks_again(
        self, memory: Memory, action: Action, fields: dict[str, str], who: Actor
    ) -> Post:
        """Ask whether a press is still meant, because it has waited for longer than people do."""
        text = fields.get("text", "").strip()
        words = f": “{short(text, 200)}”" if text else ""
        again = Button(f"{action.verb.capitalize()} now", _sure(action), "bad")
        if action.verb == "redirect":
            self._keep_draft(who, await self.find.run(memory, action.run), text)
            again = Button("Redirect", msgspec.structs.replace(action, at=0), "good")
        pressed = f"You pressed {action.verb.capitalize()}{words} while I was away."
        return Post(f"{pressed} Nothing was changed. Do it now?", buttons=(again,))

    def _keep_draft(self, who: Actor, run: str, text: str) -> None:
        """Keep typed words that were not applied; the form shows them when it is opened again."""
        self._drafts[who.by, run] = text
        while len(self._drafts) > DRAFTS_KEPT:
            del self._drafts[next(iter(self._drafts))]

    async def _outdated(self, memory: Memory, action: Action, why: str) -> Post:
        stands = await self.find.stands(memory, action.run)
        fresh = Button(action.verb.capitalize(), msgspec.structs.replace(action, at=0))
        return Post(f"It has changed since you saw that. {stands}\n-# {why}", buttons=(fresh,))

    async def _refused(self, memory: Memory, action: Action, why: str) -> Post:
        stands = await self.find.stands(memory, action.run)
        return Post(f"{why}\n{stands}".rstrip())

    async def _verb(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
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
        return Post(f"**{wanted}** is on record. {_acknowledged(accepted)}{since}")

    async def _redirect(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        run, text = await self.find.run(memory, action.run), fields.get("text", "").strip()
        self._keep_draft(who, run, text)
        why_not = unstorable(text)
        if why_not or not text:
            raise InvalidRequest(f"{why_not or 'A redirect needs words.'} Nothing was changed.")
        resume = fields.get("then") == "Redirect and resume"
        accepted = await self.control.redirect(
            run, text, resume=resume, who=who, key=key, expect=action.at or None
        )
        self._drafts.pop((who.by, run), None)
        return Post(f"**Redirect** is on record. {_acknowledged(accepted)}")

    async def _answer(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        way = _way(await self.find.question(run, action.at), action.choice)
        await self.control.answer(run, action.at, way.answer(fields), who=who, key=key)
        return Post(f"Your answer is on record: **{way.label}**.")

    async def _caps(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        await self.control.raise_limits(run, limits_from(fields), who=who, key=key)
        return Post("**Raise cap** is on record.")

    async def _hand_back(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        run = await self.find.run(memory, action.run)
        await self.control.hand_back(run, fields.get("note", ""), who=who, key=key)
        return Post("**Hand back** is on record.")

    async def _overrule(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        thread, message = memory.thread, action.at
        talk = await self.find.talk(thread)
        if action.choice == "undo" and talk is not None and message in talk.unread:
            await self.control.withdraw_message(thread, message, who=who, key=key)
            return Post("**Withdrawn**, nobody had read it.")
        done = await self.control.overrule(thread, message, action.choice, who=who, key=key)
        return Post(f"On record: {done.status}.")

    async def _todo(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
    ) -> Post:
        verb = self.control.do_now if action.verb == "do_now" else self.control.remove_todo
        done = await verb(memory.thread, action.at, who=who, key=key)
        return Post(f"On record: {done.status or done.did or 'taken off the list'}.")

    async def _nothing(
        self, memory: Memory, action: Action, who: Actor, key: str, fields: dict[str, str]
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


def _with_typed(post: Post, fields: Mapping[str, str] | None) -> Post:
    """Add what somebody has typed into the fields of a form, as a quotation."""
    typed = {name: text for name, text in (fields or {}).items() if name != "then" and text}
    if not typed:
        return post
    named = len(typed) > 1
    lines = [f"{name}: {text}" if named else text for name, text in typed.items()]
    quoted = "\n".join(f"> {line}" for text in lines for line in text.splitlines())
    return msgspec.structs.replace(post, text=f"{post.text}\nYou had written:\n{quoted}")


def _wanted(action: Action, offer: Offer) -> str:
    """Return the name of the button that was pressed; the bar may offer another one by now."""
    if action.verb != "cancel":
        return offer.label
    return "Stop now" if action.choice == "now" else "Cancel"


def _sure(action: Action) -> Action:
    return msgspec.structs.replace(action, choice="sure")


def _way(asked: QuestionOpened, choice: str) -> Any:
    found = ways(msgspec.json.decode(asked.schema))
    if not (choice.isascii() and choice.isdigit()) or int(choice) >= len(found):
        raise InvalidRequest(
            "that is not one of the answers to this question. The question is still open."
        )
    return found[int(choice)]


def _capping(caps: Mapping[str, float], action: Action) -> Form:
    if not caps:
        raise InvalidRequest("the run is not held at a cap any more. Nothing was changed.")
    fields = [Field(name, name.replace("_", " "), typed(cap)) for name, cap in caps.items()]
    return Form("Raise cap", action, tuple(fields))


def _acknowledged(accepted: Ack) -> str:
    """Return the words of an acknowledgement: what is in flight, and its status if it has one."""
    flying = ", ".join(accepted.in_flight)
    now = f"In flight: {flying}." if flying else "Nothing is in flight."
    said = "Changed meanwhile: " * (accepted.verb == "resume") + accepted.status
    return f"{now} {said}." if accepted.status else now
