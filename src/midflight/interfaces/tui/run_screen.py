"""The state of the app that its parts share: the run in front, the list of runs, and the bar."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import anyio
from textual.app import App
from textual.worker import Worker

from midflight.interfaces.tui.bar_widget import Bar, Layer
from midflight.interfaces.tui.shown_run import Session
from midflight.interfaces.tui.theme import DARK, LIGHT, tones
from midflight.stores.protocol import Row
from midflight.view.data import Slot

if TYPE_CHECKING:
    from midflight.control.any_control import AnyControl


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
    def tones(self) -> dict[str, str]:
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
            told = f"something went wrong here: {type(error).__name__}: {error}"
            self.say(told, self.tones["bad"])
