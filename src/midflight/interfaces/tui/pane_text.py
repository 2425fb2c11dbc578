"""The panes as text: steps, conversation, list of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Final, NamedTuple

from rich.text import Text

from midflight.control.transcript import Line
from midflight.interfaces.terminal import looks
from midflight.interfaces.terminal import thread_text as talking
from midflight.interfaces.terminal.safe_text import visible
from midflight.journal.phases import ENDS
from midflight.journal.requests import ASIDE
from midflight.journal.status import word_diff
from midflight.stores.protocol import Row
from midflight.view import RunSheet, StepSheet, ThreadSheet
from midflight.view.amounts import money

Tones = Mapping[str, str]
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
        bad = line.word in {"unknown", "could not be undone"}
        style = tones["bad"] if bad else tones["ink"]
        number = f"{line.position:>3} " if can_undo else "   "
        out.append(number, tones["quiet"])
        out.append(f"{looks.one_line(line.text, width - 5)}\n", style)
    if can_undo:
        out.append("   /undo N  undoes one\n", tones["quiet"])
    for what in sheet.receipt.saved:
        out.append(f"   saved: {looks.one_line(what, width - 12)}\n", tones["quiet"])
    for what in sheet.receipt.inherited:
        out.append(f"   taken over: {looks.one_line(what, width - 16)}\n", tones["quiet"])


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
    told = talking.told(line)
    if told is None:
        return  # choices stand under their messages, todos have a list of their own
    out.append(f"{told.who}  ", f"bold {tones[told.tone]}")
    quiet = tones["quiet"] if told.tone == "soft" else ""
    out.append(f"{looks.one_line(told.text, talking.SAID_MAX)}\n", quiet)
    if line.kind == "message":
        out.append(f"   {_outcome(line)}\n", tones["quiet"])


def _outcome(line: Line) -> str:
    """Return the outcome of a message, with the command that a person can write to change it."""
    words = talking.outcome(line)
    if line.choice in talking.BACK:
        return f"{words}  (/overrule {line.position} {talking.BACK[line.choice]})"
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
