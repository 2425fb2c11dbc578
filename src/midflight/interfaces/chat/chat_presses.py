"""The desk carries out presses, forms and commands of a chat as verbs of ``Control``.

The answer to a refused press says why, how the run really stands, and that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midflight.control import Ack, Control
from midflight.errors import InvalidRequest, MidflightError, Outdated
from midflight.interfaces.chat.channel import Action, Button, Field, Form, Post
from midflight.interfaces.chat.chat_memory import NOT_KNOWN, Finder, Memory
from midflight.interfaces.chat.incoming import unstorable
from midflight.interfaces.chat.run_posts import TODOS_SHOWN, card, fields_of, payload_of
from midflight.journal.events import QuestionOpened
from midflight.journal.limits import limits_from
from midflight.journal.phases import Phase
from midflight.journal.preview import Offer
from midflight.journal.record import NULL, Actor, taken_under
from midflight.journal.state import RunState
from midflight.view.data import Way
from midflight.view.run_book import asked
from midflight.view.shown_values import raised_of, short, typed

AT_ONCE: Final = ("pause", "cancel")  # never refused for what has changed since
DRAFTS_KEPT: Final = 256


class Press(Struct, frozen=True):
    """A press as somebody made it, with what was typed into its form."""

    memory: Memory
    action: Action
    who: Actor
    key: str
    fields: dict[str, str]


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
        found = await self.find.question(run, action.at)
        way = _way(found, action)
        return Form(short(found.message, 45), action, fields_of(_schema(found), way))

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
        """Carry out a press, once under its key. If a form is refused, the answer quotes it."""
        try:
            do = _PRESSES.get(action.verb)
            if do is None:
                return Post(NOT_KNOWN)
            asks = action.verb in {"cancel", "redirect"} and action.choice != "sure"
            # layer cancel-pressed-long-ago-asked
            if late and asks and not await self._is_done(memory, action, who, key):
                return await self._asks_again(memory, action, dict(fields or {}), who)
            return await do(self, Press(memory, action, who, key, dict(fields or {})))
        except MidflightError as error:
            return _with_typed(await self._refused(memory, action, error), fields)

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
        again = Button(f"{action.verb.capitalize()} now", replace(action, choice="sure"), "bad")
        if action.verb == "redirect":
            self._keep_draft(who, await self.find.run(memory, action.run), text)
            again = Button("Redirect", replace(action, at=0), "good")
        pressed = f"You pressed {action.verb.capitalize()}{words} while I was away."
        return Post(f"{pressed} Nothing was changed. Do it now?", buttons=(again,))

    def _keep_draft(self, who: Actor, run: str, text: str) -> None:
        """Keep typed words that were not applied; the form shows them when it is opened again."""
        self._drafts[who.by, run] = text
        while len(self._drafts) > DRAFTS_KEPT:
            del self._drafts[next(iter(self._drafts))]

    async def _refused(self, memory: Memory, action: Action, error: MidflightError) -> Post:
        """Say why, and how the run stands; what is only outdated can be pressed anew."""
        stands = await self.find.stands(memory, action.run)
        if not isinstance(error, Outdated):
            return Post(f"{error}\n{stands}".rstrip())
        fresh = Button(action.verb.capitalize(), replace(action, at=0))
        return Post(f"It has changed since you saw that. {stands}\n-# {error}", buttons=(fresh,))

    async def _verb(self, press: Press) -> Post:
        run = await self.find.run(press.memory, press.action.run)
        offer = (await self.control.preview(run))[press.action.verb]
        # layer cannot-stopped-asked-about
        if press.action.verb == "cancel" and offer.confirm and not press.action.choice:
            sure = Button("Cancel anyway", replace(press.action, choice="sure"), "bad")
            keep = Button("Keep going", Action("nothing"))
            return Post(f"{offer.confirm} Nothing was changed yet.", buttons=(sure, keep))
        changed = (
            bool(press.action.at) and (await self.control.state(run)).relevant > press.action.at
        )
        how: dict[str, Any] = {"expect": press.action.at or None}
        if press.action.verb in AT_ONCE:
            how = {"now": True} if press.action.choice == "now" else {}
        accepted = await getattr(self.control, press.action.verb)(
            run, who=press.who, key=press.key, **how
        )
        wanted = _wanted(press.action, offer)
        met = f"\nIt had changed since you saw that; it meant: {offer.consequence}."
        since = met if changed and wanted == offer.label else ""
        return Post(f"**{wanted}** is on record. {_acknowledged(accepted)}{since}")

    async def _redirect(self, press: Press) -> Post:
        run, text = (
            await self.find.run(press.memory, press.action.run),
            press.fields.get("text", "").strip(),
        )
        self._keep_draft(press.who, run, text)
        why_not = unstorable(text)
        if why_not or not text:
            raise InvalidRequest(f"{why_not or 'A redirect needs words.'} Nothing was changed.")
        resume = press.fields.get("then") == "Redirect and resume"
        accepted = await self.control.redirect(
            run, text, resume=resume, who=press.who, key=press.key, expect=press.action.at or None
        )
        self._drafts.pop((press.who.by, run), None)
        return Post(f"**Redirect** is on record. {_acknowledged(accepted)}")

    async def _answer(self, press: Press) -> Post:
        run = await self.find.run(press.memory, press.action.run)
        found = await self.find.question(run, press.action.at)
        way = _way(found, press.action)
        payload = payload_of(_schema(found), way, press.fields)
        await self.control.answer(run, press.action.at, payload, who=press.who, key=press.key)
        return Post(f"Your answer is on record: **{way.label}**.")

    async def _review(self, press: Press) -> Post:
        """Show the question again that is open for the shortest time from now on."""
        run = await self.find.run(press.memory, press.action.run)
        still = (await self.control.state(run)).questions.values()
        first = min(still, key=lambda one: (one.expires_at or inf, one.position), default=None)
        if first is None:
            return Post("No question is open any more. Nothing was changed.")
        return card(run, asked(first.position, await self.find.question(run, first.position)))

    async def _caps(self, press: Press) -> Post:
        run = await self.find.run(press.memory, press.action.run)
        await self.control.raise_limits(
            run, limits_from(press.fields), who=press.who, key=press.key
        )
        return Post("**Raise cap** is on record.")

    async def _hand_back(self, press: Press) -> Post:
        run = await self.find.run(press.memory, press.action.run)
        await self.control.hand_back(
            run, press.fields.get("note", ""), who=press.who, key=press.key
        )
        return Post("**Hand back** is on record.")

    async def _overrule(self, press: Press) -> Post:
        thread, message = press.memory.thread, press.action.at
        talk = await self.find.talk(thread)
        # layer undo-of-what-nobody-has-read
        if press.action.choice == "undo" and talk is not None and message in talk.unread:
            await self.control.withdraw_message(thread, message, who=press.who, key=press.key)
            return Post("**Withdrawn**, nobody had read it.")
        done = await self.control.overrule(
            thread, message, press.action.choice, who=press.who, key=press.key
        )
        return Post(f"On record: {done.status}.")

    async def _todo(self, press: Press) -> Post:
        verb = self.control.do_now if press.action.verb == "do_now" else self.control.remove_todo
        done = await verb(press.memory.thread, press.action.at, who=press.who, key=press.key)
        return Post(f"On record: {done.status or done.did or 'taken off the list'}.")

    async def _nothing(self, press: Press) -> Post:
        return Post("Nothing was changed.")


_PRESSES: Final[dict[str, Callable[[Desk, Press], Awaitable[Post]]]] = {
    "pause": Desk._verb,
    "resume": Desk._verb,
    "cancel": Desk._verb,
    "redirect": Desk._redirect,
    "review": Desk._review,
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
    return replace(post, text=f"{post.text}\nYou had written:\n{quoted}")


def _wanted(action: Action, offer: Offer) -> str:
    """Return the name of the button that was pressed; the bar may offer another one by now."""
    if action.verb != "cancel":
        return offer.label
    return "Stop now" if action.choice == "now" else "Cancel"


def _schema(found: QuestionOpened) -> Any:
    return msgspec.json.decode(found.schema or NULL)


def _way(found: QuestionOpened, action: Action) -> Way:
    """Return the way to answer that a button means; a pick is no form, and a form is no pick."""
    ways, choice = asked(action.at, found).ways, action.choice
    number = int(choice) if choice.isascii() and choice.isdigit() else len(ways)
    if number >= len(ways) or bool(ways[number].form) != (action.verb == "fill"):
        raise InvalidRequest(
            "this question takes no such answer. Nothing was answered: the question is still "
            "open, and the buttons of its newest message answer it."
        )
    return ways[number]


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


OPERATING: Final = ("kill", "release")


class Given(Struct, frozen=True):
    """A command as somebody gave it. ``late`` is one that waited for longer than a person does."""

    text: str
    who: Actor
    key: str
    late: bool = False


async def command(desk: Desk, memory: Memory, name: str, given: Given) -> Post:
    """Carry out a command and return its answer; errors become words of the answer."""
    do = COMMANDS.get(name)
    if do is None:
        return Post(f"There is no command /{short(name, 40)}. Nothing was changed.")
    try:
        return await do(desk, memory, given)
    except MidflightError as error:
        return Post(str(error))


async def _status(desk: Desk, memory: Memory, given: Given) -> Post:
    return Post(await desk.find.stands(memory) or "Nothing was ever started here.")


async def _todos(desk: Desk, memory: Memory, given: Given) -> Post:
    todos = await desk.control.preview_todos(memory.thread)
    if not todos:
        return Post("Nothing is left to do.")
    lines, buttons = [], []
    for number, todo in enumerate(todos, 1):
        lines.append(f"{number}. {short(todo.text)}\n-# Do now: {todo.now}. Remove: {todo.remove}.")
        if number <= TODOS_SHOWN:
            buttons.append(Button(f"Do {number} now", Action("do_now", "", todo.todo), "good"))
            buttons.append(Button(f"Remove {number}", Action("remove", "", todo.todo), "bad"))
    return Post("\n".join(lines), buttons=tuple(buttons))


async def _aside(desk: Desk, memory: Memory, given: Given) -> Post:
    asked = await desk.control.ask_aside(memory.thread, given.text, who=given.who, key=given.key)
    follows = "The answer follows here." if asked.did == "started" else ""
    return Post(" ".join(filter(None, [f"{asked.status}.", follows])))


async def operate(control: Control, name: str, given: Given, here: str = "") -> Post:
    """Stop or release a scope; ``here`` is the one meant if none is named, and may be empty."""
    scope, _, reason = given.text.strip().partition(" ")
    scope = here if scope in {"", "-"} else scope
    try:
        if not scope:
            raise InvalidRequest(
                "no run was ever started in this chat, so name the scope that is meant: all, or "
                "agent:NAME. Nothing was changed."
            )
        do = _kill if name == "kill" else _release
        return await do(control, scope, reason, given)
    except MidflightError as error:
        return Post(str(error))


async def _kill(control: Control, scope: str, reason: str, given: Given) -> Post:
    """Set a kill switch. It has no key: a late one may have been released since, so ask again."""
    if given.late and all(switch.scope != scope for switch in await control.switches()):
        return Post(
            f"You gave /kill {scope} while I was away, and {scope} is not stopped: it was not "
            "done, or was released since. Nothing was changed. If it is still meant, give it "
            "again."
        )
    done = await control.kill(scope, who=given.who, reason=reason)
    count = len(done.killed)
    return Post(
        f"⛔ **{done.switch.scope} is stopped**: {count} run{'s' * (count != 1)}. Nothing was "
        f"undone, and nothing moves there until an operator gives /release {done.switch.scope}."
    )


async def _release(control: Control, scope: str, _reason: str, given: Given) -> Post:
    if given.late:  # the scope may have been stopped anew since
        return Post(
            f"You gave /release {scope} while I was away. Nothing was changed. If it is still "
            "meant, give it again."
        )
    if not await control.release(scope, who=given.who):
        return Post(f"No kill switch is on for {scope}. Nothing was changed.")
    return Post(
        f"**{scope} is released**: new runs may start there, and what was held may go on. "
        "Killed runs stay as they are until an operator recovers them."
    )


def _operating(name: str) -> Callable[[Desk, Memory, Given], Awaitable[Post]]:
    async def do(desk: Desk, memory: Memory, given: Given) -> Post:
        return await operate(desk.control, name, given, f"thread:{memory.thread}")

    return do


COMMANDS: Final[dict[str, Callable[[Desk, Memory, Given], Awaitable[Post]]]] = {
    "status": _status,
    "todos": _todos,
    "aside": _aside,
    **{name: _operating(name) for name in OPERATING},
}
