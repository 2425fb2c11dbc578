"""What the app draws: the run in front, what is said about it, the card, the list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from midflight.terminal import looks
from midflight.tui import pictures
from midflight.tui.card import Card
from midflight.tui.session import Session

if TYPE_CHECKING:
    from midflight.tui.app import MidflightApp

WRITE: Final = "Write to the agent"


class Drawing:
    """Draws what has changed since it was drawn last."""

    def __init__(self, app: MidflightApp) -> None:
        self._app = app
        self._drawn: tuple[int, int, bool, int] | None = None

    def anew(self) -> None:
        """Whatever is drawn is drawn again."""
        self._drawn = None

    async def draw(self) -> None:
        """The run in front, if anything of it has changed."""
        app = self._app
        if app.closing:
            return
        session = app.session
        if session is None or not session.loaded:
            self._draw_nothing(session)
            return
        room = app.query_one("#steps").scrollable_content_region.width
        state = (session.version, int(app.now), app.there, room)
        if state == self._drawn:
            return
        self._drawn = state
        sheet, tones, now = session.sheet, app.tones, app.now
        app.stands(sheet.run, sheet.phase)
        self._draw_head(session)
        picture = pictures.steps(sheet, session.texts, now, max(24, room - 1), tones)
        self._show("#steps", picture)
        if session.thread is not None:
            width = app.query_one("#talk").scrollable_content_region.width - 1
            told = pictures.talk(session.thread, max(20, width), tones)
            self._show("#talk", told)
        converses = session.book.state.converses
        composer = app.query_one("#composer", Input)
        composer.placeholder = f"{WRITE}; {looks.read_when(sheet, converses=converses)}"
        app.slots = app.bar.show(sheet, session.book.state, now, tones, there=app.there)
        asked = next(filter(looks.is_answered, sheet.questions), None)
        await app.query_one(Card).show(asked, now, tones["quiet"])
        if session.trouble:
            app.say(session.trouble, tones["bad"])
        app.pressing.look(app.there)

    def _show(self, pane: str, picture: Text) -> None:
        """Who reads at the end stays at the end; who has scrolled back is left there."""
        scroll = self._app.query_one(pane, VerticalScroll)
        at_end = scroll.scroll_y >= scroll.max_scroll_y - 1
        self._app.query_one(f"{pane}-text", Static).update(picture)
        if at_end:
            self._app.call_after_refresh(scroll.scroll_end, animate=False)

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
        live, _ = pictures.runs_of(self._app.rows)
        return len([row for row in live if row.journal != self._app.run_shown])

    def _draw_nothing(self, session: Session | None) -> None:
        words = session.trouble if session is not None else ""
        if session is None and self._app.looked:
            words = "Nothing has run yet. Start one with: midflight run MODULE:AGENT BRIEF"
        words = words or "Reading …"
        self._app.query_one("#head", Static).update(Text(words, self._app.tones["quiet"]))

    def draw_rail(self) -> None:
        """The list of runs; the run that was chosen in it stays chosen, wherever it is now."""
        app = self._app
        if app.closing:
            return
        live, earlier = pictures.runs_of(app.rows)
        rail = app.query_one("#rail", OptionList)
        chosen = rail.highlighted_option
        rail.clear_options()
        for name, rows in (("Now", live), ("Earlier", earlier)):
            if rows:
                rail.add_option(Option(Text(name, app.tones["quiet"]), disabled=True))
            for row in rows:
                rail.add_option(Option(pictures.run_entry(row, app.tones), id=row.journal))
        if chosen is not None and any(chosen.id == row.journal for row in (*live, *earlier)):
            rail.highlighted = rail.get_option_index(str(chosen.id))
