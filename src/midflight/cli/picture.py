"""A run as a picture in a terminal: its steps, their words, and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from midflight.cli.look import step_line
from midflight.cli.printing import STYLES
from midflight.kernel.phases import ENDS
from midflight.kernel.state import RunState
from midflight.terminal import looks
from midflight.terminal.visible import visible
from midflight.view import RunSheet

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

RECONNECTING: Final = ("Reconnecting", "The agent keeps running")
ABOVE: Final = "the question stands above"
AT_WORK: Final = frozenset({"running", "retrying", "waiting", "undoing", "lost"})


def draw(
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
    from rich.console import Group
    from rich.text import Text

    rows = _steps(sheet, texts, now, width)
    rows.append(_bar(sheet, state, now, width, there=there))
    if sheet.phase not in ENDS:
        rows.append(Text(f"  {leaves}", style="dim"))
    return Group(*rows)


def _steps(sheet: RunSheet, texts: Mapping[str, str], now: float, width: int) -> list[Text]:
    from rich.text import Text

    rows: list[Text] = []
    said = looks.spoken(sheet, texts)
    for step in sheet.steps:
        if step.status in AT_WORK:
            rows.append(step_line(step, now))
            if text := said.get(step.id, "").strip():
                rows.append(Text(f"    {_tail(text, width - 6)}", style="dim"))
    return rows


def _bar(sheet: RunSheet, state: RunState, now: float, width: int, *, there: bool) -> Text:
    from rich.text import Text

    sign, _, tone = looks.of_sheet(sheet)
    word, rest = looks.headline(sheet) if there else RECONNECTING
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
