"""One run as the app knows it: its books, kept up to date through every loss of the connection.

Nothing here draws. The drawing looks at ``version``, which grows with every change.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from midflight.control.todos import TodoOffer
from midflight.errors import MidflightError
from midflight.journal.events import StepSettled
from midflight.journal.record import Recorded
from midflight.stores.protocol import PAGE, Query, Row
from midflight.stores.watch.hints import Delta
from midflight.tasks import owned_tasks
from midflight.view import RunBook, RunSheet, ThreadBook, ThreadSheet

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
