"""The demo model: rules in place of a language model, offline and free.

Its next move is a pure function of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.inputs import Ids, new_id
from midflight.models.model import (
    CHARACTERS_PER_TOKEN,
    CallDelta,
    Piece,
    Prompt,
    Reply,
    Spent,
    TextDelta,
    ToolCall,
    ToolSpec,
    Turn,
    check_pairing,
)

FILE: Final = re.compile(r"[\w][\w./-]*\.(?:md|txt|csv|py|json|toml|ya?ml)\b")
COMMAND: Final = re.compile(r"`([^`]+)`")
READ_MAX: Final = 3  # files in a report
QUOTED: Final = 160

LATER: Final = re.compile(
    r"\b(later|afterwards|when you(?: a|')re (?:done|finished)|after (?:that|this)|tomorrow"
    r"|no hurry|remind me|next time|eventually)\b"
)
INSTEAD: Final = re.compile(
    r"\b(instead|first do|do this first|drop (?:that|this|it)|right now|urgent(?:ly)?"
    r"|before you (?:go on|continue)|switch to|forget (?:that|this|it)|leave (?:that|this))\b"
)
INTENTS: Final = {
    "report": re.compile(r"\b(report|summar(?:y|ise|ize)|overview)\b"),
    "run": re.compile(r"\b(run|execute)\b[^`]*`[^`]+`"),
    "note": re.compile(r"\b(note|write|jot|remember)\b"),
    "list": re.compile(r"\b(list|show|which|what)\b.*\b(files?|folder|directory)\b"),
}


class Move(Struct, frozen=True):
    """The words and the tool calls of one reply; the ids of the calls come later."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Work(Struct, frozen=True):
    """A wish, and what was done about it since: calls with their results, in order."""

    wish: str
    done: tuple[tuple[ToolCall, str], ...]
    prompt: Prompt

    def results(self, *words: str) -> list[tuple[ToolCall, str]]:
        """Those of a kind of tool."""
        return [pair for pair in self.done if any(word in pair[0].name for word in words)]

    def use(self, *words: str, **hints: Any) -> tuple[ToolCall, ...]:
        """A call of the first tool whose name has one of the words in it, if there is one."""
        for word in words:
            for tool in self.prompt.tools:
                if word in tool.name:
                    return (_call(tool, hints),)
        return ()


# ── the work itself ──────────────────────────────────────────────────────────────────────────


def next_move(prompt: Prompt) -> Move:
    """Go on with the last wish that is understood, and answer what was asked meanwhile."""
    turns = prompt.turns
    last = max((n for n, turn in enumerate(turns) if turn.role == "assistant"), default=-1)
    asked = [turn.text for turn in turns[last + 1 :] if turn.role == "user"]
    place, intent = _understood(turns)
    work = Work(turns[place].text if intent else "", _done(turns[place:]), prompt)
    answer = _status(work) if asked and asked[-1].rstrip().endswith("?") else ""
    if not prompt.tools and asked:
        return Move(answer or f"I have heard: {_short(asked[-1])}. {_status(work)}")
    if not intent:
        return Move(answer or _cannot(asked[-1] if asked else ""))
    answer = "" if intent == "list" else answer  # then the list is the answer
    move = WORK[intent](work)
    return Move(f"{answer} {move.text}".strip(), move.calls)


def _understood(turns: tuple[Turn, ...]) -> tuple[int, str]:
    for place in reversed(range(len(turns))):
        if turns[place].role == "user":
            for intent, words in INTENTS.items():
                if words.search(turns[place].text.lower()):
                    return place, intent
    return 0, ""


def _done(turns: tuple[Turn, ...]) -> tuple[tuple[ToolCall, str], ...]:
    results = {turn.call_id: turn.text for turn in turns if turn.role == "tool"}
    return tuple((call, results.get(call.id, "")) for turn in turns for call in turn.calls)


def _report(work: Work) -> Move:
    listed = work.results("list")
    if not listed:
        look = work.use("list_files", "list", "shell", path=".", command="ls")
        return Move("I look at what is there.", look) if look else Move(_cannot(work.wish))
    found = [f for f in dict.fromkeys(FILE.findall(listed[0][1])) if not f.startswith("report")]
    read = work.results("read")
    if len(read) < min(len(found), READ_MAX):
        name = found[len(read)]
        look = work.use("read_file", "read", "shell", path=name, command=f"cat {name}")
        if look:
            return Move(f"I read {name} ({len(read) + 1} of {min(len(found), READ_MAX)}).", look)
    written = work.results("write")
    if not written:
        name = _free("report", listed[0][1])
        text = "\n".join(
            ["# Report", "", "Made by the demo model, by rules.", "", *_findings(read)]
        )
        write = work.use("write_file", "write", path=name, content=text)
        return Move(f"I write {name}.", write) if write else Move("\n".join(_findings(read)))
    return Move(f"The report was written. The tool says: {_short(written[-1][1])}")


def _findings(read: list[tuple[ToolCall, str]]) -> list[str]:
    told = [f"* {call.as_object().get('path', 'output')}: {_short(text)}" for call, text in read]
    return told or ["* There was nothing to read."]


def _list(work: Work) -> Move:
    if not work.done:
        look = work.use("list_files", "list", "shell", path=".", command="ls")
        return Move("I look at what is there.", look) if look else Move(_cannot(work.wish))
    found = FILE.findall(work.done[-1][1])
    return Move(
        f"I found {len(found)} files that I know the kind of: {', '.join(found) or 'none'}."
    )


def _note(work: Work) -> Move:
    listed = work.results("list")
    if not work.done and (look := work.use("list_files", path=".")):
        return Move("I look for a free name.", look)
    written = work.results("write")
    if written:
        return Move(f"The note was written. The tool says: {_short(written[-1][1])}")
    named = FILE.search(work.wish)
    name = named.group() if named else _free("note", listed[0][1] if listed else "")
    write = work.use("write_file", "write", path=name, content=f"{work.wish.strip()}\n")
    return Move(f"I write it to {name}.", write) if write else Move(_cannot(work.wish))


def _run(work: Work) -> Move:
    if work.done:
        return Move(f"It ran. It printed: {_short(work.done[-1][1])}")
    command = COMMAND.search(work.wish)
    run = work.use("shell", "run", "exec", command=command.group(1) if command else "true")
    return Move("I run that.", run) if run else Move(_cannot(work.wish))


WORK: Final[dict[str, Callable[[Work], Move]]] = {
    "report": _report,
    "list": _list,
    "note": _note,
    "run": _run,
}


def _status(work: Work) -> str:
    if not work.wish:
        return "I am doing nothing at the moment."
    done = ", ".join(call.name for call, _ in work.done) or "nothing yet"
    return f"I am working on “{_short(work.wish)}”. So far: {done}."


def _cannot(wish: str) -> str:
    return (
        f"I do not understand “{_short(wish)}”: I am rules, not a language model. I can list "
        "files, make a report of them, write a note, and run a command in backticks, if I am given "
        "the tools."
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def _free(name: str, listed: str) -> str:
    """A name for a new file that is not in the list."""
    names = (f"{name}{count}.md" for count in ("", *(f"-{n}" for n in range(2, 100))))
    return next((name for name in names if name not in listed), f"{name}-new.md")


# ── messages ─────────────────────────────────────────────────────────────────────────────────


def triage(prompt: Prompt) -> Move:
    """The one call that was asked for, with its choice made by simple words of the last turn."""
    tool = next((tool for tool in prompt.tools if tool.name == prompt.choice), None)
    if tool is None:
        return Move(_cannot(f"a choice of {prompt.choice}"))
    said = prompt.turns[-1].text.lower() if prompt.turns else ""
    action, why = "incorporate", "it belongs to the work at hand"
    if LATER.search(said):
        action, why = "defer", "it can wait"
    elif INSTEAD.search(said):
        action, why = "switch", "it comes first"
    return Move(calls=(_call(tool, {"choice": action, "text": f"(demo model) {why}"}),))


def _call(tool: ToolSpec, hints: dict[str, Any]) -> ToolCall:
    arguments = _fill(tool.schema, tool.name, hints)
    return ToolCall("", tool.name, msgspec.json.encode(arguments).decode())


def _fill(schema: dict[str, Any], name: str, hints: dict[str, Any]) -> Any:
    """A value that fits a schema: by the name of the property, else the plainest."""
    if schema.get("enum"):
        wanted = hints.get("choice")
        return wanted if wanted in schema["enum"] else schema["enum"][0]
    match schema.get("type"):
        case "object":
            needed = schema.get("required", ())
            parts = schema.get("properties", {}).items()
            return {key: _fill(part, key, hints) for key, part in parts if key in needed}
        case "array":
            return [_fill(schema.get("items", {}), name, hints)]
        case "integer" | "number":
            return max(schema.get("minimum", 0), 0)
        case "boolean":
            return False
        case _:
            return _text(name, hints)


def _text(name: str, hints: dict[str, Any]) -> str:
    if "version" in name:  # of a file that is not there yet
        return ""
    for word, known in {"path": "path", "file": "path", "command": "command"}.items():
        if word in name:
            return str(hints.get(known, ""))
    return str(hints.get("content", hints.get("text", "")))


NAME: Final = "demo model"
WORD: Final = re.compile(r"\S+\s*")
PACE_S: Final = 0.04  # a word: as fast as people read
THINK_S: Final = 0.4


class DemoModel:
    """See the module. ``pace`` is the seconds a word takes; 0 for tests."""

    def __init__(self, *, pace: float = PACE_S, think: float = THINK_S, ids: Ids = new_id) -> None:
        self.name = NAME
        self._pace, self._think, self._ids = pace, think, ids

    def stream(self, prompt: Prompt) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        """Ask; see ``Model``."""
        return aclosing(self._pieces(prompt))

    async def _pieces(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        check_pairing(prompt.turns)
        move = triage(prompt) if prompt.choice else next_move(prompt)
        text = f"({NAME}) {move.text}" if move.text else ""
        await anyio.sleep(self._think)
        for word in WORD.findall(text):
            await anyio.sleep(self._pace)
            yield TextDelta(word)
        calls = tuple(ToolCall(f"demo_{self._ids()}", c.name, c.arguments) for c in move.calls)
        for call in calls:
            await anyio.sleep(self._pace)
            yield CallDelta(call.id, call.name, call.arguments)
        said = "".join(turn.text for turn in prompt.turns) + prompt.system
        spent = Spent(
            input_tokens=len(said) // CHARACTERS_PER_TOKEN,
            output_tokens=len(text) // CHARACTERS_PER_TOKEN,
            cached_tokens=0,
            usd=0.0,
            model=NAME,
            estimated=True,
        )
        yield Reply(text, calls, spent, "tools" if calls else "end")
