"""Prompts for language models and their replies, as plain data that a journal can hold.

Names of tools and ids of calls are written as providers take them: letters, digits, ``_``, ``-``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Struct

from midflight.errors import ModelBroken, UnpairedCall
from midflight.schemas import ToolSpec as ToolSpec

Role: TypeAlias = Literal["user", "assistant", "tool"]
Stop: TypeAlias = Literal["end", "tools", "length", "refusal"]

Count: TypeAlias = Annotated[int, Meta(ge=0)]  # of tokens, as a provider gives it

CHARACTERS_PER_TOKEN: Final = 4  # a rule of thumb, where nobody gives figures
INVALID = "INVALID_JSON"  # the one key under which arguments go back that are no JSON object


class ToolCall(Struct, frozen=True):
    """A tool that the model wants called. ``arguments`` is the JSON it wrote, valid or not."""

    id: str
    name: str
    arguments: str

    def as_object(self) -> dict[str, Any]:
        """The arguments as a provider takes them back: an object, whatever the model wrote."""
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            return {INVALID: self.arguments}


class Turn(Struct, frozen=True):
    """One turn of a conversation. A ``tool`` turn is the result of the call ``call_id``.

    ``raw`` is what a provider wants back as it was (thinking, with its signature). Nobody else
    reads it; it comes from ``Reply.as_turn``.
    """

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    raw: str = ""


class Prompt(Struct, frozen=True):
    """All that a model is asked with. ``choice`` names a tool that must be called."""

    system: str
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 4096
    choice: str = ""


class Spent(Struct, frozen=True):
    """The usage of a call. ``input_tokens`` counts all of the input, also what was cached.

    ``usd`` is None where nobody knows the price. ``estimated``: the provider gave no figures, and
    these are guessed from the length of the text.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usd: float | None
    model: str
    cache_write_tokens: int = 0
    estimated: bool = False


class Reply(Struct, frozen=True):
    """A whole answer. ``stop`` says why it ended: ``end``, ``tools``, ``length``, ``refusal``."""

    text: str
    calls: tuple[ToolCall, ...]
    spent: Spent
    stop: Stop
    raw: str = ""

    def as_turn(self) -> Turn:
        """The answer as the next turn of the conversation."""
        return Turn("assistant", self.text, self.calls, raw=self.raw)


class TextDelta(Struct, frozen=True):
    """A piece of the text."""

    text: str


class CallDelta(Struct, frozen=True):
    """A piece of a call's arguments; the first of a call may be empty."""

    id: str
    name: str
    arguments: str


Piece: TypeAlias = TextDelta | CallDelta | Reply


class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """The name that people use for it, as in ``open_model``."""

    def stream(self, prompt: Prompt) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        """Ask. Pieces come as they are made; the ``Reply`` is the last. Leaving the block aborts.

        Raises a ``ModelError``, from the iterator, unless the whole answer came.
        """


async def complete(
    model: Model, prompt: Prompt, on_text: Callable[[str], None] | None = None
) -> Reply:
    """Ask and wait for the whole answer; ``on_text`` gets its text as it comes."""
    said: list[str] = []
    async with model.stream(prompt) as pieces:
        async for piece in pieces:
            if isinstance(piece, Reply):
                return piece
            if isinstance(piece, TextDelta):
                said.append(piece.text)
                if on_text is not None:
                    on_text(piece.text)
    raise ModelBroken(model.name, "its stream ended without a reply", "".join(said))


def check_pairing(turns: Sequence[Turn]) -> None:
    """Every call has exactly one result, among the tool turns right after it; else UnpairedCall."""
    seen: set[str] = set()
    open_calls: set[str] = set()
    for turn in turns:
        if turn.role == "tool":
            if turn.call_id not in open_calls:
                unknown = "was never made, yet a result names it"
                why = "has a second result" if turn.call_id in seen else unknown
                raise UnpairedCall(turn.call_id or "without an id", why)
            open_calls.remove(turn.call_id)
            continue
        if open_calls:
            raise UnpairedCall(min(open_calls), f"has no result before the next {turn.role} turn")
        for call in turn.calls:
            if turn.role != "assistant":
                raise UnpairedCall(call.id, f"is in a {turn.role} turn; only the assistant calls")
            if not call.id or call.id in seen:
                raise UnpairedCall(
                    call.id or "without an id",
                    "has no id of its own, by which its result could be found",
                )
            seen.add(call.id)
            open_calls.add(call.id)
    if open_calls:
        raise UnpairedCall(min(open_calls), "has no result at the end of the conversation")


NAME_MAX: Final = 64
ID_MAX: Final = 40
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


class WireNames:
    """The names in one prompt, there and back: ``crm.search`` is ``crm_search`` on the way."""

    def __init__(self, tools: Iterable[ToolSpec] = (), *, longest: int = NAME_MAX) -> None:
        self._longest = longest
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for tool in sorted(tools, key=lambda tool: fits(tool.name), reverse=True):
            self.there(tool.name)  # those that fit keep their names

    def there(self, name: str) -> str:
        """As it is sent; no two names become one."""
        if name not in self._there:
            fit = taken = _UNFIT.sub("_", name)[: self._longest] or "_"
            count = 1
            while taken in self._back:  # layer no-two-tool-names-become
                count += 1
                taken = f"{fit[: self._longest - 4]}_{count}"
            self._there[name], self._back[taken] = taken, name
        return self._there[name]

    def back(self, name: str) -> str:
        """As we know it; a name that the model has made up stays as it is."""
        return self._back.get(name, name)


def fits(name: str) -> bool:
    """Return whether a name can be sent as it is."""
    return 0 < len(name) <= NAME_MAX and not _UNFIT.search(name)
