"""The table of verbs: all that can be asked of runs and threads, and what each verb takes.

Every front door offers these verbs and no others. ``AnyControl`` has a typed method for each, a
server a route, and both look into this table for what they send and take. One suite of tests
(tests/doors) holds all other doors against it. A new verb is one entry here, one method there and
one handler in ``local_control``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypedDict

from msgspec import Struct

from midflight.journal.phases import Role
from midflight.journal.record import Actor, Limits
from midflight.schemas import check_switch

Target = Literal["agent", "run", "thread", "run or thread", "scope"]
"""The thing that a verb is done to, which is its first argument."""


class By(TypedDict, total=False):
    """Options of every verb: the caller, and a key under which the verb can be repeated."""

    who: Actor | None
    key: str


class RunBy(By, total=False):
    """Options of a verb over a run; ``expect`` is the position that the caller decided on.

    The verb is refused as outdated if that position does not hold any more.
    """

    expect: int | None


class Argument(Struct, frozen=True):
    """One argument of a verb, by its name; it must be given if it has no default."""

    name: str
    type: Any
    needed: bool = False


class Verb(Struct, frozen=True):
    """One verb, by the name of its method.

    ``role`` is the least role that may ask for it. ``key``: repeated under the same key it is done
    once. ``expect``: it is refused if the run has changed since that position; a pause and a cancel
    take it and are never refused for it. ``again``: done again without a key it changes nothing.
    """

    name: str
    on: Target
    help: str
    takes: tuple[Argument, ...] = ()
    record: str = ""
    role: Role = Role.CONTROLLER
    key: bool = True
    expect: bool = False
    again: bool = False
    answers: Literal["ack", "run", "turn", "killing", "released"] = "ack"
    place: str = ""

    @property
    def said(self) -> str:
        """Its name in acknowledgements and in the audit."""
        return self.record or self.name.replace("_", " ")

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the arguments that it takes besides its own."""
        return ("who", *(["key"] if self.key else []), *(["expect"] if self.expect else []))

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of a server at which it is asked for."""
        match self.on:
            case "agent":
                return ("/v1/runs",)
            case "scope":
                return (f"/v1/operator/{self.name}",)
            case _:
                return tuple(
                    f"/v1/{kind}s/{{{kind}}}/{self.place or self.name}"
                    for kind in self.on.split(" or ")
                )

    def checked(self, given: Mapping[str, Any], by: Iterable[str]) -> dict[str, Any]:
        """Return its arguments as they are recorded.

        A switch that is neither on nor off is refused, and so is a slip of the pen in the options,
        in words that name nothing private.
        """
        for name in by:
            if name not in self.options:
                takes = (*(argument.name for argument in self.takes), *self.options)
                raise TypeError(
                    f"{self.name}() has no argument {name}=. Besides the {self.on} it takes "
                    f"{', '.join(f'{one}=' for one in takes)}. Nothing was changed."
                )
        taken = dict(given)
        for argument in self.takes:
            if argument.type is bool and type(taken[argument.name]) is not bool:
                check_switch(argument.name, taken[argument.name])
            elif argument.type == list[int]:
                taken[argument.name] = tuple(taken[argument.name])
        return taken


def _on_run(name: str, help: str, *takes: Argument, **more: Any) -> Verb:  # noqa: A002
    return Verb(name, "run", help, takes, expect=True, **more)


def _on_thread(name: str, help: str, *takes: Argument, **more: Any) -> Verb:  # noqa: A002
    return Verb(name, "thread", help, takes, **more)


_TEXT: Final = Argument("text", str, needed=True)
_BRIEF: Final = Argument("brief", str)
_REACH: Final = Argument("scope", Literal["tree", "this"])
_QUESTION: Final = Argument("question", int, needed=True)
_MESSAGE: Final = Argument("message", int, needed=True)
_TODO: Final = Argument("todo", int, needed=True)

_TABLE: Final = (
    Verb(
        "start",
        "agent",
        "Start a run",
        (
            Argument("brief", str, needed=True),
            Argument("thread", str),
            Argument("input", Any),
            Argument("limits", Limits | None),
            Argument("title", str),
        ),
        answers="run",
    ),
    _on_thread(
        "converse",
        "Say something in a conversation, which begins a run where none is in front",
        Argument("agent", str, needed=True),
        Argument("messages", list[tuple[str, str]], needed=True),
        answers="turn",
    ),
    Verb(
        "send",
        "run or thread",
        "Write a message; it is stored before this is answered",
        (_TEXT,),
        role=Role.VIEWER,
        place="messages",
    ),
    Verb(
        "ask_aside",
        "run or thread",
        "Ask something without touching the work",
        (_TEXT,),
        role=Role.VIEWER,
    ),
    _on_run("pause", "Nothing further starts; resume keeps the context", _REACH, again=True),
    _on_run("resume", "Go on where it was", _REACH),
    _on_run(
        "redirect",
        "Wrong path: another brief, finished work is kept",
        _TEXT,
        Argument("profile", str),
        Argument("resume", bool),
    ),
    _on_run(
        "cancel",
        "Stop entirely: abort, undo what can be undone, save the rest",
        Argument("now", bool),
        _REACH,
        again=True,
    ),
    _on_run("answer", "Answer a question", _QUESTION, Argument("payload", Any, needed=True)),
    _on_run("decline", "Leave a question unanswered for good", _QUESTION),
    _on_run(
        "raise_limits",
        "Set new caps; a run that is held at one goes on",
        Argument("limits", Limits),
        Argument("no_caps", bool),
    ),
    _on_run("take_over", "Do it yourself: the run holds until it is handed back"),
    _on_run("hand_back", "Give a run back to its agent", Argument("note", str)),
    _on_run(
        "stop_effect",
        "Abort an effect in flight; its outcome becomes unknown",
        Argument("attempt", int, needed=True),
    ),
    _on_run("undo", "Undo effects of a run that has ended", Argument("effects", list[int])),
    _on_run("recover", "Bring a killed run back, paused", role=Role.OPERATOR),
    Verb(
        "fork",
        "run",
        "Try again from a step of a run that has ended",
        (Argument("at", int | str, needed=True), _BRIEF),
        answers="run",
    ),
    _on_thread(
        "edit_message",
        "Give a message that nobody has read yet another text",
        _MESSAGE,
        _TEXT,
        record="edit",
        role=Role.VIEWER,
    ),
    _on_thread(
        "withdraw_message",
        "Take a message back that nobody has read yet",
        _MESSAGE,
        record="withdraw",
        role=Role.VIEWER,
    ),
    _on_thread(
        "overrule",
        "Want something else done about a message",
        _MESSAGE,
        Argument("choice", str, needed=True),
    ),
    _on_thread(
        "heard",
        "Note how much of its spoken words a listener heard",
        _TEXT,
        Argument("run", str, needed=True),
        Argument("of", int),
        Argument("how", str),
    ),
    _on_thread("do_now", "Do a todo now", _TODO),
    _on_thread(
        "reorder", "Put the todos in order", Argument("order", list[int], needed=True), again=True
    ),
    _on_thread("remove_todo", "Remove a todo", _TODO),
    Verb(
        "kill",
        "scope",
        "Operators only: halt at once, without undoing anything",
        (Argument("reason", str),),
        role=Role.OPERATOR,
        key=False,
        again=True,
        answers="killing",
    ),
    Verb(
        "release",
        "scope",
        "Operators only: let what was stopped move again",
        role=Role.OPERATOR,
        key=False,
        again=True,
        answers="released",
    ),
)

VERBS: Final[dict[str, Verb]] = {verb.name: verb for verb in _TABLE}
"""Every verb, by the name of its method."""
