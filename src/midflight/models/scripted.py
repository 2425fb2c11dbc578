"""A model that says what it was told to say: for tests and examples, the same every time.

::

    model = ScriptedModel([call("read_file", path="a.txt"), say("It says hello.")])
    model = ScriptedModel(lambda prompt: say("later") if prompt.choice else say("done"))

It keeps what it was asked and how each call ended, and refuses a conversation in which a tool call
has not its one result, as providers do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from midflight.errors import ModelRefused
from midflight.inputs import counted_ids
from midflight.models.model import (
    CHARACTERS_PER_TOKEN,
    CallDelta,
    Piece,
    Prompt,
    Reply,
    Spent,
    Stop,
    TextDelta,
    ToolCall,
    check_pairing,
)

PIECE: Final = 8  # characters
WAIT_S: Final = 60.0  # for an event that a script waits for


class Line(Struct, frozen=True):
    """One answer, and how it comes.

    ``first`` seconds pass before its first piece and ``pause`` before each one; ``until`` is waited
    for after ``pieces`` of them (or at the start), and then ``error`` is raised, if there is one.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: Stop | None = None
    first: float = 0.0
    pause: float = 0.0
    pieces: int = 0
    until: anyio.Event | None = None
    error: Exception | None = None
    usd: float | None = None
    piece: int = PIECE


Script = Iterable[Line] | Callable[[Prompt], Line]


def say(text: str, **how: Any) -> Line:
    """A text."""
    return Line(text=text, **how)


def call(name: str, /, **arguments: Any) -> Line:
    """One tool call. The model gives it an id of its own."""
    return call_all((name, arguments))


def call_all(*wanted: tuple[str, Any], text: str = "", **how: Any) -> Line:
    """Several at once; arguments that are a text are sent as they are, JSON or not."""
    calls = tuple(
        ToolCall("", name, given if isinstance(given, str) else msgspec.json.encode(given).decode())
        for name, given in wanted
    )
    return Line(text=text, calls=calls, **how)


def fail(error: Exception, **how: Any) -> Line:
    """An error, after ``pieces`` of the text if there is any."""
    return Line(error=error, **how)


class Asked:
    """One call of the model: its prompt, how many pieces came, and how it ended."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.pieces = 0
        self.ended = ""  # "" while it runs | "whole" | "closed" | the name of an error


class ScriptedModel:
    """See the module. ``script`` is a list of lines, or gives a line for each prompt."""

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[Asked] = []
        self._line = script if callable(script) else _in_order(name, iter(script))
        self._ids = counted_ids(f"{name}-call-")

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts that it was asked, in order."""
        return [asked.prompt for asked in self.asked]

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[AsyncIterator[Piece]]:
        """Ask; see ``Model``."""
        asked = Asked(prompt)
        self.asked.append(asked)
        try:
            async with aclosing(self._pieces(asked)) as pieces:
                yield pieces
        finally:
            asked.ended = asked.ended or "closed"

    async def _pieces(self, asked: Asked) -> AsyncGenerator[Piece, None]:
        try:
            check_pairing(asked.prompt.turns)  # layer scripted-model-as-strict
            line = self._line(asked.prompt)
            reply = self._reply(asked.prompt, line)
            await anyio.sleep(line.first)
            for piece in _cut(reply, line.piece):
                if asked.pieces == line.pieces:
                    await _turn(line)
                await anyio.sleep(line.pause)
                asked.pieces += 1
                yield piece
            if asked.pieces <= line.pieces:
                await _turn(line)
        except Exception as error:
            asked.ended = type(error).__name__
            raise
        asked.ended = "whole"
        yield reply

    def _reply(self, prompt: Prompt, line: Line) -> Reply:
        calls = tuple(ToolCall(c.id or self._ids(), c.name, c.arguments) for c in line.calls)
        made = line.text + "".join(call.arguments for call in calls)
        spent = Spent(
            input_tokens=_tokens(prompt.system + "".join(turn.text for turn in prompt.turns)),
            output_tokens=_tokens(made),
            cached_tokens=0,
            usd=line.usd,
            model=self.name,
        )
        return Reply(line.text, calls, spent, line.stop or ("tools" if calls else "end"))


def _in_order(name: str, lines: Iterator[Line]) -> Callable[[Prompt], Line]:
    def following(prompt: Prompt) -> Line:
        line = next(lines, None)
        if line is None:
            last = prompt.turns[-1].text if prompt.turns else ""
            raise ModelRefused(
                name,
                f"its script has no line left to answer {last!r} with",
                "Add a line to the script.",
            )
        return line

    return following


async def _turn(line: Line) -> None:
    """Wait for ``until``, then raise ``error``, as far as the line has them."""
    if line.until is not None:
        with anyio.fail_after(WAIT_S):
            await line.until.wait()
    if line.error is not None:
        raise line.error


def _cut(reply: Reply, size: int) -> Iterator[Piece]:
    for at in range(0, len(reply.text), size):
        yield TextDelta(reply.text[at : at + size])
    for made in reply.calls:
        yield CallDelta(made.id, made.name, made.arguments)


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)
