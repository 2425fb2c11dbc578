"""Turns presses into verbs: asks first where a verb needs it, and says what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from textual.widgets import Input

from midflight.errors import IllegalSignal, MidflightError, Outdated
from midflight.inputs import new_id
from midflight.interfaces.tui.bar_widget import Card, Done
from midflight.interfaces.tui.run_screen import RunScreen, Session
from midflight.interfaces.tui.slash_commands import SLASH, Order, Slash, limits_of, listed
from midflight.journal.phases import ENDS, Phase
from midflight.journal.record import Actor
from midflight.view import RunSheet
from midflight.view.data import Slot
from midflight.view.shown_values import raised, typed

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl

Call = Callable[[], Awaitable[Any]]
AWAY_S: Final = 3600.0


ALREADY: Final = {"Resume": Phase.RUNNING, "Cancel": Phase.CANCELLING}
"""A press -> the phase that it leads to; a second press in that phase has nothing left to do."""


class Pressing:
    """Translates presses into verbs. It decides nothing: a refusal says why."""

    def __init__(self, app: RunScreen, named: dict[str, Actor]) -> None:
        self._app = app
        self._named = named
        self._waiting: tuple[Slot, int] | None = None  # pressed while the server was away

    @property
    def _session(self) -> Session:
        assert self._app.session is not None
        return self._app.session

    @property
    def _sheet(self) -> RunSheet:
        return self._session.sheet

    # ── the three places ─────────────────────────────────────────────────────────────────────

    def press(self, slot: Slot, number: int) -> None:
        """Do what stands on a slot, or say why it cannot be done.

        A layer opens at once, because the next key belongs to it. Only calls to the server run
        beside the drawing.
        """
        if self._app.layer.is_open and self._app.layer.kind == slot.verb:
            return  # it is open already; Enter does it
        if not slot.enabled:
            self._say(f"{slot.label}: {slot.consequence}")
        elif not self._app.there and number > 1:
            self._waiting = (slot, number)
            self._say(f"{slot.label} will be asked again when the server is back.")
        elif slot.confirm:
            hint = f"Enter {slot.label.lower()}s, Esc keeps going"
            self._confirm(slot, slot.confirm, hint)
        else:
            self._verb(slot)

    def _confirm(self, slot: Slot, question: str, hint: str) -> None:
        async def confirmed(_: str) -> bool:
            self._verb(slot)
            return True

        self._app.layer.open(slot.verb, question, hint, confirmed)

    def look(self, there: bool) -> None:
        """Ask again about a slot that was pressed while the server was away."""
        if not there or self._waiting is None:
            return
        (slot, number), self._waiting = self._waiting, None
        now = self._app.slots[number - 1]
        if now.verb == slot.verb and now.enabled:
            title = f"{slot.label} was pressed while the server was away. {now.consequence}"
            hint = f"Enter {slot.label.lower()}s now, Esc drops it"
            self._confirm(now, title, hint)

    def drop(self) -> None:
        """Forget the press that waits for the server."""
        self._waiting = None

    def _verb(self, slot: Slot) -> None:
        match slot.verb:
            case "answer":
                self._app.query_one(Card).take_focus()
            case "redirect":
                self._redirect()
            case "raise limits":
                self._raise()
            case "hand back":
                self._ask("hand back", "Hand it back", "Enter hands it back", self._hand_back)
            case "start":
                self._ask(
                    "start", f"What should {self._sheet.agent} do?", "Enter starts it", self._start
                )
            case "fork":
                self._app.beside(self._fork())
            case verb:
                self._app.beside(self._do(slot.label, getattr(self._app.control, verb)))

    async def _do(self, label: str, verb: Callable[..., Awaitable[Any]]) -> None:
        """Send a verb, once the server is back if it is away; under one key, so only once."""
        run, key = self._session.run, new_id()
        with anyio.move_on_after(AWAY_S):
            while not self._app.there:
                self._say(f"{label} will be sent when the server is back.")
                await anyio.sleep(0.2)
        await self._try(label, lambda: verb(run, key=key))

    async def _try(self, label: str, call: Call) -> Any:
        """Make a call and say what came of it; return its result, or None if it failed."""
        try:
            with anyio.fail_after(60):
                done = await call()
        except TimeoutError:
            self._say(f"{label}: no answer within a minute; it is not known whether it was taken.")
        except (IllegalSignal, Outdated) as error:
            self._say(self._refused(label, error))
        except MidflightError as error:
            self._say(str(error))
        else:
            flying = getattr(done, "in_flight", ())
            what = f", in flight: {', '.join(flying)}" if flying else ""
            more = getattr(done, "status", "")
            self._say(f"{label}: on record{what}" + (f". {more}" if more else ""))
            return done
        return None

    def _refused(self, label: str, error: IllegalSignal | Outdated) -> str:
        """Return why a press was refused, in a few words if it only came twice or too late."""
        phase = getattr(error, "phase", "")
        if self._sheet.phase in ENDS or phase in ENDS:
            return "It had already finished."
        return f"It is {phase} already." if phase == ALREADY.get(label) else str(error)

    # ── what needs a line ────────────────────────────────────────────────────────────────────

    def _ask(
        self,
        kind: str,
        title: str,
        hint: str,
        done: Done,
        text: str = "",
    ) -> None:
        about = self._session.run
        shown = f"{hint}, Esc keeps it as it is"
        self._app.layer.open(kind, title, shown, done, prefill=text, about=about)

    def _redirect(self) -> None:
        sheet = self._sheet
        held = sheet.phase in {Phase.PAUSED, Phase.PAUSING}
        now = f"Enter redirects: {sheet.preview['redirect'].consequence}"
        hint = "Enter redirects and resumes" if held else now
        run, seen = sheet.run, [sheet.position]

        async def done(text: str) -> bool:
            if not text.strip() or text == sheet.brief:
                return True  # there is nothing to do
            control, expect = self._app.control, seen[-1]
            taken = await self._try(
                "Redirect", lambda: control.redirect(run, text, resume=held, expect=expect)
            )
            if self._session.run == run:
                seen.append(self._sheet.position)  # the person was told to look again
            return taken is not None

        self._ask("redirect", "Rewrite the brief", hint, done, sheet.brief)

    def _raise(self) -> None:
        reached = [f"{name}={typed(cap)}" for name, cap in raised(self._sheet).items()]

        async def done(text: str) -> bool:
            control, run = self._app.control, self._session.run
            call = partial(_raised, control, run, text)
            return await self._try("Raise cap", call) is not None

        self._ask("raise limits", "Raise the cap", "Enter raises it", done, " ".join(reached))

    async def _hand_back(self, note: str) -> bool:
        control, run = self._app.control, self._session.run
        return await self._try("Hand back", lambda: control.hand_back(run, note)) is not None

    async def _start(self, brief: str) -> bool:
        if not brief.strip():
            return True
        run = await self._try("Start", lambda: self._app.control.start(self._sheet.agent, brief))
        if run is not None:
            self._app.open_run(run)
        return run is not None

    async def _fork(self) -> None:
        step, run, control = self._sheet.fork_from, self._session.run, self._app.control
        if step is None:
            return
        new = await self._try("Try again", lambda: control.fork(run, step.position))
        if new is not None:
            self._app.open_run(new)

    async def answer(self, question: int, payload: Any) -> None:
        """Answer a question; the server says why an answer does not fit, and the card stays."""
        run = self._session.run
        await self._try("Answer", lambda: self._app.control.answer(run, question, payload))
        if not self._app.closing:
            self._app.query_one("#composer", Input).focus()

    # ── what is written ──────────────────────────────────────────────────────────────────────

    async def say(self, line: Input, *, switch: bool) -> None:
        """Send the text of the composer, which is cleared only once the text is stored."""
        text = line.value.strip()
        if not text or self._app.session is None:
            return
        if text.startswith("/"):
            done = await self._command(text)
        else:
            done = await self._send(text, switch=switch)
        if done is not None and line.value.strip() == text:
            line.value = ""

    async def _send(self, text: str, *, switch: bool) -> Any:
        control, run = self._app.control, self._session.run
        sent = await self._try("Message", lambda: control.send(run, text))
        if sent is None:
            return None
        self._say(sent.status or "Message: stored")
        if switch and not sent.did:
            talk = self._sheet.thread
            await self._try("Switch", lambda: control.overrule(talk, sent.position, "switch"))
        if sent.did == "started":
            self._app.open_run(sent.target)
        return sent

    async def _command(self, text: str) -> Any:
        word, _, rest = text[1:].partition(" ")
        slash = SLASH.get(word)
        if slash is None:
            self._say(f"There is no command /{word}. There are: {listed()}")
            return None
        order = Order(self._app.control, self._sheet, self._named, word, rest.strip())
        if slash.asks:
            self._ask_first(slash, order, text)
            return None  # it stays in its line until it is done
        return await self._try(f"/{word}", lambda: slash.do(order))

    def _ask_first(self, slash: Slash, order: Order, text: str) -> None:
        async def confirmed(_: str) -> bool:
            done = await self._try(f"/{order.word}", lambda: slash.do(order))
            line = self._app.query_one("#composer", Input)
            if done is not None and line.value.strip() == text:
                line.value = ""
            return done is not None

        question = slash.asks.format(order.rest or "nothing")
        self._app.layer.open(order.word, question, "Enter does it, Esc does not", confirmed)

    def _say(self, words: str) -> None:
        self._app.say(words)


async def _raised(control: AnyControl, run: str, text: str) -> Any:
    """Raise the caps that were typed; other text is refused as the server would refuse it."""
    return await control.raise_limits(run, limits_of(text))
