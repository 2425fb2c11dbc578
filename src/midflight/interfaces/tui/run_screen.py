"""The run in front: its books, kept up to date by the connection, and the screen that shows it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from textual.app import App
from textual.worker import Worker

from midflight.control.todos import TodoOffer
from midflight.errors import MidflightError
from midflight.interfaces.tui.bar_widget import Bar, Layer
from midflight.interfaces.tui.theme import DARK, LIGHT, Tones, tones
from midflight.journal.events import StepSettled
from midflight.journal.record import Recorded
from midflight.stores.hints import Delta
from midflight.stores.protocol import PAGE, Query, Row
from midflight.tasks import owned_tasks
from midflight.view import RunBook, RunSheet, ThreadBook, ThreadSheet
from midflight.view.data import Slot

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl

AGAIN_S: Final = 2.0  # after trouble
BACKGROUND_S: Final = 2.0  # how often runs that were begun by this one are looked at
SHOWER_S: Final = 0.1  # news come in showers; one look is enough for each


class Session:
    """One run and its thread, as the store tells them."""

    def __init__(self, control: AnyControl, run: str) -> None:
        self.control = control
        self.run = run
        self.book = RunBook(run)
        self.talk: ThreadBook | None = None
        self.todos: list[TodoOffer] = []
        self.children: dict[str, Row] = {}
        self.texts: dict[str, str] = {}
        self.trouble = ""
        self.version = 0
        self._sheet: tuple[int, RunSheet] | None = None
        self._told = anyio.Event()  # set by news since the background was last looked at

    @property
    def loaded(self) -> bool:
        """True once there is something to show."""
        return self.book.state.head > 0

    @property
    def sheet(self) -> RunSheet:
        """The run as it stands; made once for every change."""
        if self._sheet is None or self._sheet[0] != self.version:
            self._sheet = (self.version, self.book.sheet(self.children))
        return self._sheet[1]

    @property
    def thread(self) -> ThreadSheet | None:
        """The conversation as it stands."""
        return self.talk.sheet(todos=self.todos) if self.talk is not None else None

    async def follow(self) -> None:
        """Keep up until cancelled; after an error, note it as ``trouble`` and try again."""
        while True:
            try:
                await self._read(self.book)
                if self.talk is None:
                    self.talk = ThreadBook(self.book.state.thread)
                await self._read(self.talk)
                await self._look_at_todos()
                self._changed(trouble="")
                await self._watch(self.talk)
            except MidflightError as error:
                self._changed(trouble=str(error))
                await anyio.sleep(AGAIN_S)

    async def _read(self, book: RunBook | ThreadBook) -> None:
        journal = book.state.journal
        while page := await self.control.store.read(journal, after=book.state.head):
            for record in page:
                book.take(record)
            if len(page) < PAGE:
                return

    async def _watch(self, talk: ThreadBook) -> None:
        cursors = {self.run: self.book.state.head, talk.state.journal: talk.state.head}
        async with (
            self.control.watch_live(cursors) as news,
            owned_tasks(self._look_at_background),
        ):
            async for item in news:
                if isinstance(item, Delta):
                    before = self.texts.get(item.step, "")
                    self.texts[item.step] = before[: item.offset] + item.text
                elif item.journal == self.run:
                    self._take(item)
                else:
                    talk.take(item)
                    await self._look_at_todos()
                if not isinstance(item, Delta):
                    self._told.set()
                self._changed()

    def _take(self, record: Recorded) -> None:
        self.book.take(record)
        if isinstance(record.event, StepSettled):
            self.texts.pop(record.event.step, None)
        if not self.book.state.open:  # nothing is in flight that could still be speaking
            self.texts = {step: text for step, text in self.texts.items() if self._reads(step)}

    def _reads(self, step: str) -> bool:
        """Return whether a step may be a plain read, which is on record with its result only."""
        return self.book.state.alive and not self.book.knows(step)

    async def _look_at_todos(self) -> None:
        assert self.talk is not None
        known = {todo.todo for todo in self.todos}
        if set(self.talk.state.todos) != known or known:
            self.todos = await self.control.preview_todos(self.talk.state.journal)

    async def _look_at_background(self) -> None:
        """Look at the driver and at the children every few seconds, and after any news."""
        while True:
            self._told = anyio.Event()
            with suppress(MidflightError):  # the watch has said so, or is about to
                await self._look_at_driver()
                await self._look_at_children()
            with anyio.move_on_after(BACKGROUND_S):
                await self._told.wait()
            await anyio.sleep(SHOWER_S)

    async def _look_at_driver(self) -> None:
        if self.book.undriven(await self.control.undriven_since(self.book.state)):
            self._changed()

    async def _look_at_children(self) -> None:
        if not self.book.children:
            return
        rows = await self.control.runs(Query(parent=self.run, limit=100))
        found = {row.journal: row for row in rows}
        if found and found != self.children:
            self.children = found
            self._changed()

    def _changed(self, trouble: str | None = None) -> None:
        self.version += 1
        if trouble is not None:
            self.trouble = trouble


class RunScreen(App[None]):
    """An app with one run in front. Drawing and pressing know it as this."""

    def __init__(self, control: AnyControl) -> None:
        super().__init__()
        self.control = control
        self.there = True
        self.session: Session | None = None
        self.slots: tuple[Slot, ...] = ()
        self.rows: list[Row] = []
        self.looked = False  # whether the list of runs was ever read
        self.redraw: Callable[[], None] = lambda: None  # called when another run is in front
        self.ahead = 0.0  # seconds by which the store's clock is before ours
        self.moved = anyio.Event()  # set when the run in front changes its phase
        self._following: Worker[None] | None = None
        self._stood: tuple[str, str] = ("", "")

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self.there = there

    @property
    def run_shown(self) -> str:
        """The id of the run in front, or an empty text."""
        return self.session.run if self.session is not None else ""

    def open_run(self, run: str) -> None:
        """Bring a run to the front of the screen."""
        if self._following is not None:
            self._following.cancel()
        self.session = Session(self.control, run)
        self.redraw()
        self._following = self.run_worker(self.session.follow(), exclusive=False)

    @property
    def now(self) -> float:
        """The store's time."""
        return anyio.current_time() + self.ahead

    @property
    def closing(self) -> bool:
        """True before the screen is there and after it has gone: there is nothing to draw on."""
        return not (self.is_running and self.screen_stack and self.query(Bar))

    @property
    def bar(self) -> Bar:
        """The bar."""
        return self.query_one(Bar)

    def say(self, words: str, style: str = "") -> None:
        """Show one line about what has just happened, unless the app is closing."""
        if not self.closing:
            self.bar.notice(words, style)

    @property
    def layer(self) -> Layer:
        """The layer above the composer, whether it is open or not."""
        return self.query_one(Layer)

    @property
    def tones(self) -> Tones:
        """The colours of the present theme."""
        return tones(DARK if self.theme == DARK.name else LIGHT)

    def stands(self, run: str, phase: str) -> None:
        """Note the phase of the run in front; where it is new, have the list of runs read again."""
        before, self._stood = self._stood, (run, phase)
        if before != self._stood:
            self.moved.set()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run some work beside the drawing: a server that is away must not hold the screen up."""
        self.run_worker(self._guarded(work), exclusive=False)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Await the work of a press; if it fails, say so and keep the screen."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - an edge: a press is a request
            told = (
                f"This is a fault of Midflight itself: {type(error).__name__}: {error}. It is not "
                "known whether it was done: look before you repeat it."
            )
            self.say(told, self.tones["bad"])
