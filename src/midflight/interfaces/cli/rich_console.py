"""Runs as Rich draws them, on a console on which nothing but our own styles steers the terminal."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal.looks import SHOWN
from midflight.interfaces.terminal.safe_text import visible
from midflight.journal.phases import ENDS
from midflight.journal.state import RunState
from midflight.stores.protocol import Row
from midflight.view import RunSheet, StepSheet
from midflight.view.control_bar import RECONNECTING
from midflight.view.shown_values import count, money

STYLES: Final = {
    "quiet": "dim",
    "soft": "default",
    "accent": "blue",
    "warn": "yellow",
    "ok": "green",
    "bad": "red",
}
"""Tones in the colours that a terminal's owner has chosen."""
TITLE_WIDTH: Final = 44


class Screen(Console):
    """Rich's, for text of others: no markup and no names of emoji unless asked for.

    Whatever is printed, be it a string, a table or a live picture, is rendered here: no call can
    forget it. Segments with ``control`` are Rich's own, such as moving the cursor.
    """

    def __init__(self, answering: Callable[[], AbstractContextManager[None]]) -> None:
        terminal = sys.stdout.isatty()
        self._answering = answering  # tells trouble with the answer from trouble with the work
        # layer no-text-of-others-markup
        super().__init__(highlight=False, soft_wrap=not terminal, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = 1000  # the program that reads it may cut lines

    @override
    def print(self, *objects: Any, **how: Any) -> None:
        """See Rich, which drops some control characters of a string before it is rendered."""
        shown = (visible(each) if isinstance(each, str) else each for each in objects)
        with self._answering():
            super().print(*shown, **how)

    def pieces(self, *parts: str | tuple[str, str]) -> None:
        """Print a line of parts, each with a tone or style of its own where it has one."""
        toned = [(p[0], STYLES.get(p[1], p[1])) if isinstance(p, tuple) else p for p in parts]
        self.print(Text.assemble(*toned))

    @override
    def on_broken_pipe(self) -> None:
        """See Rich: the reader has left, which is no failure of the command."""
        raise BrokenPipeError(errno.EPIPE, "the program that reads this output has closed it")

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See Rich."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _shown(segment)  # layer printed-in-colour


def _shown(segment: Segment) -> Any:
    text = visible(segment.text)
    return segment if text == segment.text else Segment(text, segment.style)


def table_of(rows: Sequence[Row], now: float) -> Table:
    """Draw a list of runs."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("run", "state", "agent", "title", "steps", "spent", "changed"):
        table.add_column(name, no_wrap=True, justify="right" if name == "steps" else "left")
    for row in rows:
        sign, word, tone = looks.stands(row.phase, undriven=row.undriven)
        spent = money(row.usd) if row.usd else ""
        spent = spent or (f"{count(row.tokens)} tokens" if row.tokens else "")
        table.add_row(
            row.journal[:SHOWN],
            Text(f"{sign} {word}", style=STYLES[tone]),
            row.agent,
            Text(looks.one_line(row.title, TITLE_WIDTH)),
            str(row.steps),
            spent,
            looks.ago(now - row.updated_at),
        )
    return table


def step_line(step: StepSheet, now: float) -> Text:
    """Return the line of a step: sign, word and name, how long, and its result."""
    style = STYLES[looks.TONES[step.status]]
    about = "; ".join(filter(None, [step.error or step.summary, looks.step_when(step, now)]))
    took = looks.step_seconds(step, now)
    columns = f"{step.word:<14}", f"{took:>6}  "
    word, seconds = columns if len(step.word) <= 14 else (f"{step.word:<22}", "")
    return Text.assemble(
        (f"  {looks.SIGNS[step.status]} ", style),
        f"{looks.one_line(step.name, looks.NAME_WIDTH):<32} ",
        (word, style),
        (seconds, "dim"),
        (looks.one_line(about, 100), "red" if step.error else "dim"),
        (" (rewritten)" if step.rewritten else "", "dim"),
    )


AWAY: Final = "The agent keeps running"
ABOVE: Final = "the question stands above"
AT_WORK: Final = frozenset({"running", "retrying", "waiting", "undoing", "lost"})


def picture_of(
    sheet: RunSheet,
    state: RunState,
    texts: Mapping[str, str],
    now: float,
    width: int,
    leaves: str,
    *,
    there: bool,
) -> RenderableType:
    """Return the picture; ``there``: the server answers; ``leaves`` says what Ctrl-C does."""
    rows = _pictured_steps(sheet, texts, now, width)
    rows.append(_bar(sheet, state, now, width, there=there))
    if sheet.phase not in ENDS:
        rows.append(Text(f"  {leaves}", style="dim"))
    return Group(*rows)


def _pictured_steps(
    sheet: RunSheet, texts: Mapping[str, str], now: float, width: int
) -> list[Text]:
    rows: list[Text] = []
    said = looks.spoken(sheet, texts)
    for step in sheet.steps:
        if step.status in AT_WORK:
            rows.append(step_line(step, now))
            if text := said.get(step.id, "").strip():
                rows.append(Text(f"    {_tail(text, width - 6)}", style="dim"))
    return rows


def _bar(sheet: RunSheet, state: RunState, now: float, width: int, *, there: bool) -> Text:
    sign, _, tone = looks.of_sheet(sheet)
    word, rest = looks.headline(sheet) if there else (RECONNECTING, AWAY)
    if sheet.questions and rest == sheet.questions[0].message:
        rest = ABOVE  # whole, with what may be answered; here it would be cut
    meter = looks.meter(sheet, state, now)
    near = "yellow" if looks.is_near_cap(sheet, now) else "dim"
    room = max(10, width - len(word) - len(meter) - 10)
    return Text.assemble(
        (f"{sign} {word}", f"bold {STYLES[tone]}"),
        f"  {looks.one_line(rest, room)}  ",
        (meter, near),
        no_wrap=True,
    )


def _tail(text: str, width: int) -> str:
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= width else f"…{flat[-(width - 1) :]}"
