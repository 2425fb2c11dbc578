"""The panes as text: steps, conversation, list of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Final

from rich.text import Text

from midflight.kernel.decide import ASIDE
from midflight.kernel.diff import word_diff
from midflight.kernel.phases import ENDS, Phase
from midflight.sheets import RunSheet, StepSheet, ThreadSheet
from midflight.sheets.figures import money
from midflight.stores.base import Row
from midflight.terminal import looks
from midflight.terminal import talk as talking
from midflight.terminal.visible import visible
from midflight.verbs.transcript import Line

Tones = Mapping[str, str]
STEPS_MAX: Final = 400  # of a long run its end is shown; midflight show has them all
LINES_MAX: Final = 200
SAID_LINES: Final = 3


def steps(sheet: RunSheet, texts: Mapping[str, str], now: float, width: int, tones: Tones) -> Text:
    """Every step with its sign, word and time; what it says; then what became of everything."""
    out = Text()
    for change in sheet.changes[-1:]:
        _changed(out, change.was, change.now, change.applied, tones)
    if len(sheet.steps) > STEPS_MAX:
        out.append(f"  … {len(sheet.steps) - STEPS_MAX} earlier steps\n", tones["quiet"])
    said = looks.spoken(sheet, texts)
    for step in sheet.steps[-STEPS_MAX:]:
        _step(out, step, now, width, tones)
        _said(out, said.pop(step.id, ""), width, tones)
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
    return out


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
    about = step.error or step.summary
    if about and step.status != "queued":
        style = tones["bad"] if step.error else tones["quiet"]
        out.append(f"   {looks.one_line(about, width - 4)}\n", style)
    if step.rewritten:
        out.append("   Rewritten by you\n", tones["soft"])


def _said(out: Text, text: str, width: int, tones: Tones) -> None:
    """The end of what a step has said so far."""
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


def talk(sheet: ThreadSheet, width: int, tones: Tones) -> Text:
    """The conversation, each message with what became of it; then what is left to do."""
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
        out.append("Write to it while it works;\nit reads at the next safe point.", tones["quiet"])
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
    """With what a person can write to have it otherwise."""
    words = talking.outcome(line)
    if line.choice in talking.BACK:
        return f"{words}  (/overrule {line.position} {talking.BACK[line.choice]})"
    unread = line.status == "stored" and not line.choice
    return f"{words}  (/edit or /withdraw {line.position})" if unread else words


def runs_of(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Now, and earlier."""
    shown = [row for row in rows if not row.parent and not row.agent.endswith(ASIDE)]
    live = [row for row in shown if row.phase not in ENDS]
    return live, [row for row in shown if row.phase in ENDS]


def run_entry(row: Row, tones: Tones) -> Text:
    """One run of the list: title, state, what it has cost."""
    sign, word, tone = looks.PHASES[Phase(row.phase)]
    out = Text(looks.one_line(row.title or row.agent, 24) + "\n", no_wrap=True)
    out.append(f"{sign} {word}", tones[tone])
    if row.usd:
        out.append(f"  {money(row.usd)}", tones["quiet"])
    return out
