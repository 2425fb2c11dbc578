"""Three ways to show a run as it goes: a live picture, plain lines, or lines of JSON."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import anyio

from midflight.cli.lifting import Command, way_out
from midflight.cli.look import step_line
from midflight.cli.picture import draw
from midflight.cli.printing import console, print_json
from midflight.cli.talking import Talking
from midflight.kernel.diff import one_line
from midflight.kernel.events import ResumeRequested, StepSettled
from midflight.kernel.record import Recorded
from midflight.sheets import RunBook, RunSheet, StepSheet, ThreadBook
from midflight.sheets.caps import CAP
from midflight.sheets.shapes import Mark
from midflight.stores.base import Delta
from midflight.terminal import looks

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

SETTLED: Final = frozenset(looks.SIGNS) - {"queued", "running", "retrying", "waiting", "paused"}
TICK_S: Final = 0.2
SYNC_S: Final = 5.0
TOLD: Final = frozenset(
    {
        "pause",
        "resume",
        "cancel",
        "cap",
        "limits",
        "answer",
        "closed",
        "notice",
        "recovered",
        "kill",
        "take over",
        "hand back",
    }
)
"""Marks that are worth a line; the rest is seen in the steps."""


class Follower(Protocol):
    """Shows one run."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """What there is already."""

    def take(self, item: Recorded | Delta) -> None:
        """One thing more."""

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""

    async def tick(self, store: Any) -> None:
        """Let the time go on, until it is cancelled."""

    def end(self, result: Any) -> None:
        """It has ended."""


def follower(command: Command, *, as_json: bool, plain: bool, driving: bool = False) -> Follower:
    """The one that fits: a picture needs a terminal. ``driving``: the run is ours to hold."""
    if as_json:
        return JsonLines(command)
    lines = plain or not sys.stdout.isatty()
    return Lines(command) if lines else Picture(command, driving)


class Lines:
    """A line for everything that has come to an end, or that somebody has done."""

    def __init__(self, command: Command) -> None:
        self.book: RunBook
        self.talk: Talking
        self._command = command
        self._told: dict[str, str] = {}
        self._changes = 0
        self._marks = 0
        self._questions: set[int] = set()
        self._out = console()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """What there is already."""
        self.book = book
        self.talk = Talking(talk, self.print, book.state.journal)
        self.print(f"{book.state.journal}  {looks.one_line(book.state.brief, 100)}")
        self._news(now)
        self.talk.so_far(since=book.state.created_at)

    def take(self, item: Recorded | Delta) -> None:
        """One thing more."""
        if isinstance(item, Delta):
            return
        if item.journal != self.book.state.journal:
            self.talk.take(item)
            return
        self.book.take(item)
        if isinstance(item.event, ResumeRequested) and item.event.diff:
            self.print(f"  Changed meanwhile  {item.event.diff}")
        self._news(item.at)

    def _news(self, now: float) -> None:
        sheet = self.book.sheet()
        for step in sheet.steps:
            if step.status in SETTLED and self._told.get(step.id) != step.status and step.position:
                self._told[step.id] = step.status
                self.step(step, now)
        for mark in sheet.marks[self._marks :]:
            if mark.kind in TOLD and not _is_told_otherwise(mark, sheet):
                words = f"Handed back: {mark.text}" if mark.kind == "hand back" else mark.text
                self.print(f"  {words}" + (f"  ({mark.by})" if mark.by else ""))
        self._marks = len(sheet.marks)
        redirects = [change for change in sheet.changes if change.applied]
        for change in redirects[self._changes :]:
            self.print(f"  Redirected  {one_line(change.was, change.now)}  ({change.by})")
        self._changes = len(redirects)
        for asked in sheet.questions:
            if asked.question not in self._questions:
                self._questions.add(asked.question)
                self.print(f"  ? {asked.message}   ({way_out(self._command, sheet, asked)})")

    def step(self, step: StepSheet, now: float) -> None:
        """A step has come to its end."""
        self._out.print(step_line(step, now))

    def print(self, line: str) -> None:
        """One thing, as it is; what others have written begins no line as ours do."""
        self._out.print(looks.indented(line), markup=False)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self.print("  The server is back." if there else "  Reconnecting. The agent keeps running.")

    async def tick(self, store: Any) -> None:
        """Lines need no clock."""

    def end(self, result: Any) -> None:
        """How it has ended, what came of it, and the receipt."""
        sheet = self.book.sheet()
        word, rest = looks.headline(sheet)
        self.print(f"{word}  {looks.one_line(rest, 400)}".rstrip())
        self.print(looks.meter(sheet, self.book.state, sheet.updated_at))
        for line in sheet.receipt.lines:
            self.print(f"  {line.text}")
        for saved in sheet.receipt.saved:
            self.print(f"  saved: {saved}")


class JsonLines(Lines):
    """Every record as it is in the journal, and what steps say in between."""

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """What there is already, as one sheet."""
        self.book = book
        self.talk = Talking(talk, self.print, book.state.journal)
        self.line("sheet", sheet=book.sheet())

    def take(self, item: Recorded | Delta) -> None:
        """One thing more."""
        if isinstance(item, Delta):
            self.line("delta", delta=item)
            return
        ours = item.journal == self.book.state.journal
        (self.book if ours else self.talk.book).take(item)
        self.line("record", record=item)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self.line("connection", connected=there)

    def end(self, result: Any) -> None:
        """How it has ended."""
        state = self.book.state
        ended = {"run": state.journal, "phase": state.phase, "error": state.error}
        self.line("ended", **ended, result=result, receipt=self.book.sheet().receipt)

    def line(self, kind: str, **what: Any) -> None:
        """One line of JSON; ``type`` says what it is."""
        print_json({"type": kind, **what})


class Picture(Lines):
    """Finished steps scroll away above; below them stands what is being done, and what it costs."""

    def __init__(self, command: Command, driving: bool) -> None:
        super().__init__(command)
        self._after = "the run is held where it is" if driving else "the run goes on"
        self._texts: dict[str, str] = {}
        self._offset = 0.0  # of the store's clock from ours
        self._there = True
        self._live: Live | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, book: RunBook, talk: ThreadBook, now: float) -> None:
        """What there is already."""
        self._offset = now - anyio.current_time()
        super().begin(book, talk, now)
        from rich.live import Live

        self._live = Live(
            console=self._out, auto_refresh=False, transient=True, get_renderable=self._picture
        )
        self._live.start(refresh=True)

    def take(self, item: Recorded | Delta) -> None:
        """One thing more."""
        if isinstance(item, Delta):
            before = self._texts.get(item.step, "")
            self._texts[item.step] = before[: item.offset] + item.text
        elif isinstance(item.event, StepSettled):
            self._texts.pop(item.event.step, None)
        super().take(item)

    def connected(self, there: bool) -> None:
        """The server has gone, or is back."""
        self._there = there

    async def tick(self, store: Any) -> None:
        """Draw anew, with our clock kept to the store's."""
        while True:
            self._offset = await store.now() - anyio.current_time()
            for _ in range(int(SYNC_S / TICK_S)):
                if self._live is not None:
                    self._live.refresh()
                await anyio.sleep(TICK_S)

    def end(self, result: Any) -> None:
        """How it has ended."""
        self._stop()
        super().end(result)

    def _picture(self) -> RenderableType:
        now = anyio.current_time() + self._offset
        leaves = f"Ctrl-C leaves; {self._after}"
        return draw(self.book, self._texts, now, self._out.width, leaves, there=self._there)


def _is_told_otherwise(mark: Mark, sheet: RunSheet) -> bool:
    """A cap that holds stands there as a question; that it was raised is a mark of its own."""
    asked = any(one.kind == CAP for one in sheet.questions)
    return (mark.kind == "cap" and asked) or (mark.kind == "closed" and mark.text == "raised")
