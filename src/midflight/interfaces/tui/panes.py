"""The drawing of the app: the run in front, its thread, the card and the list of runs."""

from __future__ import annotations

from typing import Final

import anyio
from rich.text import Text
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from midflight.interfaces.terminal import looks
from midflight.interfaces.tui import pane_text
from midflight.interfaces.tui.question_card import Card
from midflight.interfaces.tui.run_screen import RunScreen
from midflight.interfaces.tui.shown_run import Session
from midflight.view import control_bar

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
        picture = pane_text.steps(sheet, session.texts, now, max(24, room - 1), tones)
        self._show("#steps", picture.text, picture.current)
        read = control_bar.read_when(sheet, converses=session.book.state.converses)
        if session.thread is not None:
            width = app.query_one("#talk").scrollable_content_region.width - 1
            told = pane_text.talk(session.thread, max(20, width), tones, read)
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
        live, _ = pane_text.runs_of(self._app.rows)
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
        live, earlier = pane_text.runs_of(app.rows)
        rail = app.query_one("#rail", OptionList)
        chosen = rail.highlighted_option
        rail.clear_options()
        for name, rows in (("Now", live), ("Earlier", earlier)):
            if rows:
                rail.add_option(Option(Text(name, app.tones["quiet"]), disabled=True))
            for row in rows:
                rail.add_option(Option(pane_text.run_entry(row, app.tones), id=row.journal))
        if chosen is not None and any(chosen.id == row.journal for row in (*live, *earlier)):
            rail.highlighted = rail.get_option_index(str(chosen.id))
