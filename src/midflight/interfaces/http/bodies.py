"""The bodies of requests, checked before anything else looks at them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Header, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import override

from midflight.conversation import TEXT_MAX, is_storable
from midflight.journal.record import Limits

POSITION_MAX = 2**53 - 1  # what JavaScript can count to


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("holds characters that cannot be stored")
    return text


Text = Annotated[str, Field(max_length=TEXT_MAX), AfterValidator(_storable)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_storable)]
Position = Annotated[int, Field(ge=0, le=POSITION_MAX)]
Count = Annotated[int, Field(ge=0, le=POSITION_MAX)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Scope = Literal["tree", "this"]

RunId = Annotated[str, Path(pattern=r"^r-[^/\x00-\x1f\x7f]{1,200}$", examples=["r-0192"])]
ThreadId = Annotated[str, Path(pattern=r"^t-[^/\x00-\x1f\x7f]{1,200}$", examples=["t-0192"])]
JournalId = Annotated[str, Field(pattern=r"^[rt]-[^/\x00-\x1f\x7f]{1,200}$")]
Numbered = Annotated[int, Path(ge=0, le=POSITION_MAX)]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9._:@+=-]{0,128}$",
        description="Repeated under the same key a request does nothing and is answered as before.",
    ),
]
PageSize = Annotated[int, Query(ge=1, le=500)]
After = Annotated[int, Query(ge=0, le=POSITION_MAX)]


class Body(BaseModel):
    """A body that is read strictly: a field that is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class Asked(Body):
    """The arguments of a verb of ``Control``, under the same names."""

    def asked(self) -> dict[str, Any]:
        """Return the arguments by name, as the method of ``Control`` takes them."""
        return self.model_dump()


class Verb(Asked):
    """``expect`` is the position on which the person has decided: refused if that is outdated."""

    expect: Position | None = None


class Scoped(Verb):
    """Over the run and its children, or over this one only."""

    scope: Scope = "tree"


class Cancel(Scoped):
    """``now`` skips the undoing, and the receipt says what may remain."""

    now: bool = False
    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"now": True}]})


class Redirect(Verb):
    """A new course; with ``resume`` a held run also goes on."""

    text: Text
    profile: Name = ""
    resume: bool = False
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": "only customers in the EU", "resume": True}]}
    )


class Answer(Verb):
    """Fits the schema of the question, or is refused."""

    question: Position
    payload: Any = None
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": 12, "payload": {"decision": "approve"}}]}
    )


class Decline(Verb):
    """A question that nobody will answer: the run goes on without."""

    question: Position


class Caps(Body):
    """Caps of a run. What is left out has none at a start, and stays as it is afterwards."""

    steps: Count | None = None
    seconds: Amount | None = None
    tokens: Count | None = None
    usd: Amount | None = None
    tool_calls: Count | None = None
    repeats: Count | None = None

    def limits(self) -> Limits:
        """Return the caps as the journal has them."""
        return Limits(**self.model_dump())


class RaiseLimits(Verb):
    """The caps that change, others stay; or ``no_caps``, which takes all of them away."""

    limits: Caps = Caps()
    no_caps: bool = False

    @override
    def asked(self) -> dict[str, Any]:
        """Return the arguments by name, with the caps as the journal has them."""
        limits = self.limits.limits()
        return {"limits": limits, "no_caps": self.no_caps, "expect": self.expect}

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": {"steps": 200}}]})


class StopEffect(Verb):
    """The attempt to be stopped, named by its position."""

    attempt: Position


class HandBack(Verb):
    """A note that the run is told when it is handed back."""

    note: Text = ""


class Undo(Verb):
    """The effects to be undone, by their positions; if none are named, all that can be undone."""

    effects: list[Position] = Field(default=[], max_length=10_000)


class Fork(Body):
    """From which step on it is tried again: its name, or a position."""

    at: Position | Name
    brief: Text = ""
    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "Score churn"}]})


class Start(Body):
    """A new run of an agent, on a thread of its own unless one is named."""

    agent: Name
    brief: Text
    thread: str = Field(default="", pattern=r"^(t-[^/\x00-\x1f\x7f]{1,200})?$")
    title: Name = ""
    input: Any = None
    limits: Caps | None = None
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"agent": "report", "brief": "Churn of June", "limits": {"usd": 2.0}}]
        }
    )


class Say(Asked):
    """A message, or a question aside."""

    text: Text
    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "also look at May"}]})


class Keyed(Body):
    """A message under its own key: what the thread has under it is not said again."""

    key: Annotated[str, Field(min_length=1, max_length=128)]
    text: Text


class Converse(Body):
    """Messages of one turn, and the agent that answers where nothing is in front yet."""

    agent: Name
    messages: list[Keyed] = Field(min_length=1, max_length=100)
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"agent": "report", "messages": [{"key": "m-1", "text": "Churn?"}]}]
        }
    )


class EditMessage(Asked):
    """A message that nobody has read yet, by its position, and its new text."""

    message: Position
    text: Text


class WithdrawMessage(Asked):
    """A message that nobody has read yet, by its position."""

    message: Position


class Overrule(Asked):
    """Another choice for a message, in place of the one that was made."""

    message: Position
    choice: Literal["incorporate", "switch", "defer", "back", "undo"]
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": 7, "choice": "switch"}]})


class HeardOf(Asked):
    """The part of spoken words that a listener heard; ``of`` is the position of those words.

    A listener who hangs up ends nothing: words that are not on record yet still come, and are
    marked then. The listener who has heard the most counts. ``whole`` says that a listener has
    heard the words to their end, where others have not.
    """

    text: Text
    run: JournalId
    of: Position = 0
    how: Literal["", "hung up", "whole"] = ""


class OneTodo(Asked):
    """One todo, named by its position."""

    todo: Position


class Reorder(Asked):
    """Todos in the order that is wanted; what is left out follows in the usual one."""

    order: list[Position] = Field(max_length=10_000)


class Kill(Body):
    """``all``, ``agent:NAME`` or ``thread:ID``."""

    scope: Name
    reason: Name = ""
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"scope": "agent:report", "reason": "wrong prices"}]}
    )


class Release(Body):
    """The scope that was killed."""

    scope: Name


class Code(Body):
    """The one-time code from the fragment of a link."""

    code: Annotated[str, Field(max_length=200)]


BODIES: Final[dict[str, type[Asked]]] = {
    "pause": Scoped,
    "resume": Scoped,
    "redirect": Redirect,
    "cancel": Cancel,
    "answer": Answer,
    "decline": Decline,
    "raise_limits": RaiseLimits,
    "stop_effect": StopEffect,
    "take_over": Verb,
    "hand_back": HandBack,
    "undo": Undo,
    "recover": Verb,
    "ask_aside": Say,
    "send": Say,
    "edit_message": EditMessage,
    "withdraw_message": WithdrawMessage,
    "overrule": Overrule,
    "heard": HeardOf,
    "do_now": OneTodo,
    "reorder": Reorder,
    "remove_todo": OneTodo,
}
"""A verb over the journal in its path -> its body: what the verb takes, by the same names."""
