"""The app under test: its keys, and its screen as text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from textual.pilot import Pilot
from textual.widgets import Input

from midflight.interfaces.tui.tui_app import MidflightApp
from midflight.journal.phases import Role
from midflight.journal.record import Actor

SAME_S = 20.0
SNAPSHOTS = Path(__file__).parent / "snapshots"
VARIABLE = (
    (re.compile(r"r-[0-9a-f]{28}"), "r-" + "0" * 28),
    (re.compile(r"\b\d\d:\d\d\b"), "00:00"),
)


class Screen:
    """What is seen, and what is pressed."""

    def __init__(self, app: MidflightApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def text(self) -> str:
        """All that is shown, line by line."""
        width = self.app.size.width
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in lines)

    async def until(self, *words: str, seconds: float = 40.0) -> str:
        """Wait until all of these are shown."""
        try:
            with anyio.fail_after(seconds):
                while not all(word in self.text for word in words):
                    await self.pilot.pause(0.05)
        except TimeoutError:
            missing = [word for word in words if word not in self.text]
            raise AssertionError(f"{missing} are not shown:\n{self.text}") from None
        return self.text

    async def until_true(self, ready: Callable[[], Any], seconds: float = 40.0) -> None:
        with anyio.fail_after(seconds):
            while not ready():
                await self.pilot.pause(0.05)

    async def until_same(self, name: str) -> None:
        """Wait until the whole screen is as somebody has looked at it and kept it."""
        with anyio.move_on_after(SAME_S):
            while not is_same(name, self.text):  # some of it is drawn later than the rest
                await self.pilot.pause(0.05)
        same_as_before(name, self.text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def write(self, text: str) -> None:
        """Put text into the composer, which keeps the focus."""
        line = self.app.query_one("#composer", Input)
        line.focus()
        line.value = text
        await self.pilot.pause()

    @property
    def composer(self) -> str:
        return self.app.query_one("#composer", Input).value


@asynccontextmanager
async def looking(
    control: Any, run: str = "", *, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[Screen]:
    """The app in front of some runs, for as long as the block runs."""
    who = Actor(by="ann", role=Role.OPERATOR)
    app = MidflightApp(control, run=run, named={"who": who})
    async with app.run_test(size=size) as pilot:
        yield Screen(app, pilot)


def as_kept(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, instead in VARIABLE:
        text = pattern.sub(instead, text)
    return text + "\n"


def is_same(name: str, text: str) -> bool:
    """Whether a picture in text is the one that somebody has looked at and kept."""
    kept = SNAPSHOTS / f"{name}.txt"
    return kept.exists() and as_kept(text) == kept.read_text(encoding="utf-8")


def same_as_before(name: str, text: str, *, renew: bool = False) -> None:
    """A picture in text, compared with the one that somebody has looked at and kept."""
    kept = SNAPSHOTS / f"{name}.txt"
    if renew or not kept.exists():
        SNAPSHOTS.mkdir(exist_ok=True)
        kept.write_text(as_kept(text), encoding="utf-8")
        raise AssertionError(f"{kept.name} was written: look at it, and run this again")
    assert as_kept(text) == kept.read_text(encoding="utf-8")
