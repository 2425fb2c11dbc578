"""The panes of the app: steps, conversation, card and list of runs, as text and on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Final, NamedTuple

import anyio
from rich.text import Text
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from midflight.control.transcript import Line
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.safe_text import visible
from midflight.interfaces.tui.bar_widget import Card
from midflight.interfaces.tui.run_screen import RunScreen, Session
from midflight.interfaces.tui.theme import Tones
from midflight.journal.phases import ENDS
from midflight.journal.requests import ASIDE
from midflight.journal.status import INHERITED, SAVED, word_diff
from midflight.stores.protocol import Row
from midflight.view import RunSheet, StepSheet, ThreadSheet, control_bar
from midflight.view.shown_values import money

STEPS_MAX: Final = 400  # of a longer run those around the current step; midflight show has all
BEFORE: Final = 300  # of these, at most so many come before the current one
LINES_MAX: Final = 200
SAID_LINES: Final = 3


class Pane(NamedTuple):
    """The text of a pane, and the place in it at which the run's current step begins, if any."""

    text: Text
    current: int | None = None


def steps(sheet: RunSheet, texts: Mapping[str, str], now: float, width: int, tones: Tones) -> Pane:
    """Draw every step with its sign, word, time and words, and the receipt after the end."""
    out, current = Text(), None
    for change in sheet.changes[-1:]:
        _changed(out, change.was, change.now, change.applied, tones)
    at = looks.current_step(sheet)
    first, last = _window(len(sheet.steps), at)
    if first:
        out.append(f"  … {first:,} earlier steps\n", tones["quiet"])
    said = looks.spoken(sheet, texts)
    for number in range(first, last):
        step = sheet.steps[number]
        if number == at:
            current = len(out)
        _step(out, step, now, width, tones)
        _said(out, said.pop(step.id, ""), width, tones)
    if last < len(sheet.steps):
        out.append(f"  … {len(sheet.steps) - last:,} more steps\n", tones["quiet"])
    for text in said.values():
        _said(out, text, width, tones)
    for child in sheet.background:
        sign, word, tone = looks.phase_of(child)
        right = f"{word}, beside"
        name = looks.one_line(child.title, max(8, width - len(right) - 4))
        out.append(f" {sign} ", tones[tone])
        out.append(name + " " * max(1, width - len(name) - len(right) - 3))
        out.append(f"{right}\n", tones[tone])
    if sheet.phase in ENDS:
        _receipt(out, sheet, width, tones)
    return Pane(out, current)


def _window(count: int, at: int | None) -> tuple[int, int]:
    """Return the range of the steps that are shown: all, those around the current, or the last."""
    if count <= STEPS_MAX:
        return 0, count
    first = count - STEPS_MAX if at is None else min(max(0, at - BEFORE), count - STEPS_MAX)
    return first, first + STEPS_MAX


def _changed(out: Text, was: str, now: str, applied: bool, tones: Tones) -> None:
    out.append("Changed  " if applied else "Will change  ", f"bold {tones['soft']}")
    marks = {"same": tones["soft"], "removed": f"strike {tones['quiet']}", "added": "bold"}
    for piece in word_diff(was, now):
        out.append(f"{visible(piece.text)} ", marks[piece.kind])
    out.append("\n\n")


def _step(out: Text, step: StepSheet, now: float, width: int, tones: Tones) -> None:
    tone = tones[looks.TONES[step.status]]
    took = looks.step_seconds(step, now)
    right = f"{step.word}  {took}".rstrip()
    name = looks.one_line(step.name, max(8, width - len(right) - 4))
    gap = " " * max(1, width - len(name) - len(right) - 3)
    style = f"strike {tones['quiet']}" if step.status == "cancelled" else ""
    style = tones["quiet"] if step.status in {"queued", "skipped"} else style
    out.append(f" {looks.SIGNS[step.status]} ", tone)
    out.append(name, style)
    out.append(f"{gap}{right}\n", tone)
    when = looks.step_when(step, now)
    about = "; ".join(filter(None, [step.error or step.summary, when]))
    if about and (step.status != "queued" or when):
        style = tones["bad"] if step.error else tones["quiet"]
        out.append(f"   {looks.one_line(about, width - 4)}\n", style)
    if step.rewritten:
        out.append("   Rewritten by you\n", tones["soft"])


def _said(out: Text, text: str, width: int, tones: Tones) -> None:
    """Append the last lines of what a step has said so far."""
    room = max(10, width - 4)
    for line in wrap(visible(text)[-room * SAID_LINES * 2 :], room)[-SAID_LINES:]:
        out.append(f"   {line}\n", tones["soft"])


def _receipt(out: Text, sheet: RunSheet, width: int, tones: Tones) -> None:
    if not (sheet.receipt.lines or sheet.receipt.saved or sheet.receipt.inherited):
        return
    can_undo = sheet.preview["undo"].enabled
    out.append("\nReceipt\n", f"bold {tones['soft']}")
    for line in sheet.receipt.lines:
        style = tones["bad"] if line.word in looks.DOUBTFUL else tones["ink"]
        number = f"{line.position:>3} " if can_undo else "   "
        out.append(number, tones["quiet"])
        out.append(f"{looks.one_line(line.text, width - 5)}\n", style)
    if can_undo:
        out.append("   /undo N  undoes one\n", tones["quiet"])
    for heading, things in ((SAVED, sheet.receipt.saved), (INHERITED, sheet.receipt.inherited)):
        if things:
            out.append(f"   {heading}\n", tones["soft"])
        for what in things:
            out.append(f"     {looks.one_line(what, width - 7)}\n", tones["quiet"])


def talk(sheet: ThreadSheet, width: int, tones: Tones, read: str = "") -> Text:
    """Draw the conversation, each message with its outcome, and then the todos.

    ``read`` says when a message that is written now is read.
    """
    out = Text()
    for line in sheet.lines[-LINES_MAX:]:
        _line(out, line, tones)
    if sheet.todos:
        out.append("\nTo do\n", f"bold {tones['soft']}")
        for todo in sheet.todos:
            out.append(f" {todo.todo:>3} ", tones["quiet"])
            out.append(looks.one_line(todo.text, max(8, width - 16)))
            out.append(f"  {todo.kind}\n", tones["quiet"])
        out.append("   /now N  does one now, /remove N drops it\n", tones["quiet"])
    if not out:
        out.append(f"What you write to it is\n{read}.", tones["quiet"])
    return out


def _line(out: Text, line: Line, tones: Tones) -> None:
    told = looks.told(line)
    if told is None:
        return  # choices stand under their messages, todos have a list of their own
    out.append(f"{told.who}  ", f"bold {tones[told.tone]}")
    quiet = tones["quiet"] if told.tone == "soft" else ""
    out.append(f"{looks.one_line(told.text, looks.SAID_MAX)}\n", quiet)
    if line.kind == "message":
        out.append(f"   {_outcome(line)}\n", tones["quiet"])


def _outcome(line: Line) -> str:
    """Return the outcome of a message, with the command that a person can write to change it."""
    words = looks.outcome(line)
    if line.choice in looks.BACK:
        return f"{words}  (/overrule {line.position} {looks.BACK[line.choice]})"
    unread = line.status == "stored" and not line.choice
    return f"{words}  (/edit or /withdraw {line.position})" if unread else words


def runs_of(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the runs that live and those that have ended, without children and side answers."""
    shown = [row for row in rows if not row.parent and not row.agent.endswith(ASIDE)]
    live = [row for row in shown if row.phase not in ENDS]
    return live, [row for row in shown if row.phase in ENDS]


def run_entry(row: Row, tones: Tones) -> Text:
    """Draw one run of the list: its title, its state, its cost."""
    sign, word, tone = looks.stands(row.phase, undriven=row.undriven)
    out = Text(looks.one_line(row.title or row.agent, 24) + "\n", no_wrap=True)
    out.append(f"{sign} {word}", tones[tone])
    if row.usd:
        out.append(f"  {money(row.usd)}", tones["quiet"])
    return out


# ── on the screen ────────────────────────────────────────────────────────────────────────────────

WRITE: Final = "Write to the agent"
REST: Final = 4  # times as long as it took to draw: a long run leaves the app time for keys
BELOW: Final = 5  # rows under the name of the current step that are in view with it


class Followed:
    """The row that a pane keeps in view, or the end of the pane if ``row`` is None."""

    def __init__(self) -> None:
        self.follows = True
        self.row: int | None = None
        self.size: Size | None = None

    def is_in_view(self, scroll: VerticalScroll) -> bool:
        """Return whether the row is in view at the place to which a person scrolls the pane."""
        at = min(scroll.scroll_target_y, scroll.max_scroll_y)
        if self.row is None:
            return at >= scroll.max_scroll_y - 1
        return at <= self.row < at + scroll.size.height

    def bring_into_view(self, scroll: VerticalScroll) -> None:
        """Scroll no further than is needed to show the row and a few rows below it."""
        if self.row is None:
            scroll.scroll_end(animate=False)
            return
        height = scroll.size.height
        below = min(BELOW, max(0, height - 1))
        if not scroll.scroll_y <= self.row <= scroll.scroll_y + height - 1 - below:
            scroll.scroll_to(y=max(0, self.row - height // 3), animate=False)


class Drawing:
    """Draws what has changed since it was drawn last."""

    def __init__(self, app: RunScreen) -> None:
        self._app = app
        self._drawn: tuple[int, int, bool, int] | None = None
        self._rests_until = 0.0
        self._run = ""
        self._followed: dict[str, Followed] = {}

    def anew(self) -> None:
        """Draw everything again; for another run, forget where its panes were scrolled to."""
        self._drawn, self._rests_until = None, 0.0
        if self._run != self._app.run_shown:
            self._run = self._app.run_shown
            self._followed = {}

    async def draw(self) -> bool:
        """Draw the run in front, if anything of it has changed. Return whether it was drawn."""
        app = self._app
        if app.closing:
            return False
        session = app.session
        if session is None or not session.loaded:
            self._draw_nothing(session)
            return False
        room = app.query_one("#steps").scrollable_content_region.width
        state = (session.version, int(app.now), app.there, room)
        began = anyio.current_time()
        if state == self._drawn or began < self._rests_until:
            return False
        self._drawn = state
        sheet, tones, now = session.sheet, app.tones, app.now
        app.stands(sheet.run, sheet.phase)
        self._draw_head(session)
        picture = steps(sheet, session.texts, now, max(24, room - 1), tones)
        self._show("#steps", picture.text, picture.current)
        read = control_bar.read_when(sheet, converses=session.book.state.converses)
        if session.thread is not None:
            width = app.query_one("#talk").scrollable_content_region.width - 1
            told = talk(session.thread, max(20, width), tones, read)
            self._show("#talk", told)
        composer = app.query_one("#composer", Input)
        composer.placeholder = f"{WRITE}; {read}"
        app.slots = app.bar.show(sheet, session.book.state, now, tones, there=app.there)
        asked = next(filter(control_bar.is_answered, sheet.questions), None)
        await app.query_one(Card).show(asked, now, tones["quiet"])
        if session.trouble:
            app.say(session.trouble, tones["bad"])
        took = anyio.current_time() - began
        self._rests_until = began + took + REST * took
        return True

    def _show(self, pane: str, picture: Text, current: int | None = None) -> None:
        """Show a pane, and keep in view the step at which the run stands, or else the end.

        A person who has scrolled away from it is left there, until they come back to it.
        """
        scroll = self._app.query_one(pane, VerticalScroll)
        text = self._app.query_one(f"{pane}-text", Static)
        followed = self._followed.get(pane) or Followed()
        if scroll.size == followed.size:  # otherwise the window has moved it, not a person
            followed.follows = followed.is_in_view(scroll)
        text.update(picture)
        followed.size = scroll.size
        followed.row = None if current is None else self._row(picture, current, scroll)
        self._followed[pane] = followed
        if followed.follows:
            self._app.call_after_refresh(followed.bring_into_view, scroll)

    def _row(self, picture: Text, current: int, scroll: VerticalScroll) -> int:
        """Return the row at which a place in the text is drawn."""
        width = max(1, scroll.scrollable_content_region.width)
        return len(picture[:current].wrap(self._app.console, width)) - 1 if current else 0

    def _draw_head(self, session: Session) -> None:
        app, sheet = self._app, session.sheet
        title = Text()
        title.append(looks.one_line(sheet.title or sheet.brief, app.size.width - 4), "bold")
        title.append(f"\n{sheet.agent}  {sheet.run}", app.tones["quiet"])
        if self._others:
            title.append(f"   F2: {self._others} more running", app.tones["quiet"])
        app.query_one("#head", Static).update(title)

    @property
    def _others(self) -> int:
        live, _ = runs_of(self._app.rows)
        return len([row for row in live if row.journal != self._app.run_shown])

    def _draw_nothing(self, session: Session | None) -> None:
        words = session.trouble if session is not None else ""
        if session is None and self._app.looked:
            words = "Nothing has run yet. Start one with: midflight run MODULE:AGENT BRIEF"
        words = words or "Reading …"
        self._app.query_one("#head", Static).update(Text(words, self._app.tones["quiet"]))

    def draw_rail(self) -> None:
        """Draw the list of runs; the run that was chosen in it stays chosen, wherever it is now."""
        app = self._app
        if app.closing:
            return
        live, earlier = runs_of(app.rows)
        rail = app.query_one("#rail", OptionList)
        chosen = rail.highlighted_option
        rail.clear_options()
        for name, rows in (("Now", live), ("Earlier", earlier)):
            if rows:
                rail.add_option(Option(Text(name, app.tones["quiet"]), disabled=True))
            for row in rows:
                rail.add_option(Option(run_entry(row, app.tones), id=row.journal))
        if chosen is not None and any(chosen.id == row.journal for row in (*live, *earlier)):
            rail.highlighted = rail.get_option_index(str(chosen.id))
