"""The input of an AG-UI client, read leniently: strange parts are left out and named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midflight.interfaces.agui.agui_state import snapshot
from midflight.interfaces.http.problems import Problem
from midflight.journal.state import RunState
from midflight.journal.threads.thread import ThreadState
from midflight.stores.protocol import THREAD_PREFIX

OURS: Final = frozenset(snapshot(RunState("r-"), ThreadState("t-"), {}))
"""The keys of our own snapshots of the state, which a client sends back each time."""

NAMES_MAX: Final = 5
NAME_WIDTH: Final = 50


def unused_input(tools: Any, context: Any, state: Any) -> list[str]:
    """Return a warning about what was sent and is not used, or nothing."""
    found = []
    if isinstance(tools, list) and tools:
        names = [one.get("name") if isinstance(one, dict) else None for one in tools]
        found.append(f"tools ({_listed(names)})")
    if isinstance(context, list) and context:
        what = [one.get("description") if isinstance(one, dict) else None for one in context]
        found.append(f"context ({_listed(what)})")
    if isinstance(state, dict) and (members := [name for name in state if name not in OURS]):
        found.append(f"state ({_listed(members)})")
    elif state and not isinstance(state, dict):
        found.append("state")
    if not found:
        return []
    return [f"the agent is not given what your client sent as {', '.join(found)}"]


def _listed(names: Sequence[Any]) -> str:
    shown = [
        " ".join(name.split())[:NAME_WIDTH] if isinstance(name, str) else "without a name"
        for name in names[:NAMES_MAX]
    ]
    more = len(names) - len(shown)
    return ", ".join([*shown, f"{more} more"] if more else shown)


ID_MAX: Final = 200
MAJOR: Final = 1
INTERRUPT_ID_MAX: Final = 1_000  # they are made of our own ids
RESUME_MAX: Final = 256  # more questions than a person could have been asked


OnDisconnect: TypeAlias = Literal["continue", "pause", "cancel"]
"""The choices for a run when the client that reads it leaves."""

SPOKEN: Final = frozenset({"user", "assistant", "tool"})
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": ID_MAX}
DESCRIBED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["threadId", "runId", "messages"],
    "properties": {
        "threadId": _NAME,
        "runId": _NAME,
        "messages": {"type": "array", "items": {"type": "object"}},
        "resume": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["interruptId", "status"],
                "properties": {
                    "interruptId": {"type": "string"},
                    "status": {"enum": ["resolved", "cancelled"]},
                    "payload": {},
                },
            },
        },
        "forwardedProps": {
            "type": "object",
            "properties": {
                "midflight": {
                    "type": "object",
                    "properties": {
                        "follow": {"type": "boolean"},
                        "onDisconnect": {"enum": ["continue", "pause", "cancel"]},
                    },
                }
            },
        },
    },
    "examples": [
        {
            "threadId": "thread-1",
            "runId": "run-1",
            "messages": [{"id": "m-1", "role": "user", "content": "Order tea"}],
        }
    ],
}
"""The part of ``RunAgentInput`` that is read here; whatever else it has is left alone."""


class Options(Struct, frozen=True, rename="camel"):
    """The options that a client may give in ``forwardedProps.midflight``."""

    follow: bool = False
    on_disconnect: OnDisconnect | None = None


OPTIONS: Final = frozenset(Options.__struct_encode_fields__)


class Resume(Struct, frozen=True, rename="camel"):
    """An answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = UNSET


class Said(Struct, frozen=True):
    """A message of the user, under the id that their client gave it."""

    id: str
    text: str


class Misread(Struct, frozen=True):
    """An entry of ``resume`` that is no answer; its id is empty where it has none."""

    interrupt_id: str
    why: str


class Input(Struct, frozen=True, kw_only=True):
    """A client's request as far as it was understood; ``warnings`` and ``misread`` name the rest.

    ``seen`` is up to where the client has been shown its thread, as far as it says so.
    """

    thread: str
    run: str
    messages: tuple[Said, ...] = ()
    ends_with_user: bool = False
    fresh: bool = False  # the client has no message of the thread yet
    seen: int | None = None
    resume: tuple[Resume, ...] = ()
    misread: tuple[Misread, ...] = ()
    follow: bool = False
    on_disconnect: OnDisconnect | None = None
    warnings: tuple[str, ...] = ()
    old: bool = False  # a client of version 0, which sends no ``protocolVersion``

    @property
    def journal(self) -> str:
        """The journal of the client's thread; one of ours may be named as it is."""
        return journal_of(self.thread)


class _Envelope(Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[Any]
    resume: list[Any] | None = None
    state: Any = None
    forwarded_props: Any = None
    protocol_version: Any = UNSET
    tools: Any = None
    context: Any = None


def read_input(body: bytes) -> Input:
    """Read the body of a run. Raises ``Problem`` for what cannot be understood at all."""
    try:
        given = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _not_agui(f"this is not the input of an AG-UI 1.0 run: {error}.") from None
    old = _is_old(given.protocol_version)
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        _check_id(name, value)
    if len(given.resume or ()) > RESUME_MAX:
        raise _not_agui(f"resume has more than {RESUME_MAX} entries.")
    warnings = unused_input(given.tools, given.context, given.state)
    said: dict[str, Said] = {}
    for message in given.messages:
        taken = _user_message(message, warnings)
        if taken is not None:
            said.setdefault(taken.id, taken)
    resume, misread = _resume(given.resume or [])
    options = _options(given.forwarded_props, warnings)
    return Input(
        thread=given.thread_id,
        run=given.run_id,
        messages=tuple(said.values()),
        ends_with_user=_ends_with_user(given.messages),
        fresh=not (given.messages or given.resume),
        seen=_seen(given.state, journal_of(given.thread_id)),
        resume=resume,
        misread=misread,
        follow=options.follow,
        on_disconnect=options.on_disconnect,
        warnings=tuple(warnings),
        old=old,
    )


def journal_of(thread: str) -> str:
    """Return the journal of a client's thread; one of ours may be named as it is."""
    return thread if thread.startswith(THREAD_PREFIX) else THREAD_PREFIX + thread


def _options(props: Any, warnings: list[str]) -> Options:
    """Read what ``forwardedProps.midflight`` asks for; props of others are left alone."""
    given = props.get("midflight") if isinstance(props, dict) else None
    if given is None:
        return Options()
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise _not_agui(f"forwardedProps.midflight is not understood: {error}.") from None
    if unknown := sorted(given.keys() - OPTIONS):
        names = ", ".join(unknown)[:ID_MAX]
        warnings.append(f"forwardedProps.midflight has no option {names}")
    return options


def _seen(state: Any, journal: str) -> int | None:
    """Return up to where a client has been shown this thread: the state that it sends back says so.

    It decides only what is refused as cut; a client that sends a wrong one misleads only itself.
    """
    match state:
        case {"thread": str(thread), "threadPosition": int(position)} if thread == journal:
            return position
        case _:
            return None


def _ends_with_user(messages: list[Any]) -> bool:
    spoken = (m.get("role") for m in reversed(messages) if isinstance(m, dict))
    return next((role for role in spoken if role in SPOKEN), "") == "user"


def _resume(entries: list[Any]) -> tuple[tuple[Resume, ...], tuple[Misread, ...]]:
    """Read answers one by one: what is wrong with one of them is said where it was asked."""
    read: list[Resume] = []
    misread: list[Misread] = []
    for entry in entries:
        try:
            one = msgspec.convert(entry, Resume)
        except msgspec.ValidationError as error:
            known = entry.get("interruptId") if isinstance(entry, dict) else None
            named = known if isinstance(known, str) and len(known) <= INTERRUPT_ID_MAX else ""
            misread.append(Misread(named, f"this is no answer to an interrupt: {error}."))
        else:
            if len(one.interrupt_id) > INTERRUPT_ID_MAX:
                misread.append(Misread("", "there is no such interrupt in this thread"))
            else:
                read.append(one)
    return tuple(read), tuple(misread)


def _not_agui(message: str) -> Problem:
    return Problem(400, "not_agui", message)


def _is_old(version: Any | UnsetType) -> bool:
    """Return whether the client is older than 1.0, and refuse one of a later major version."""
    major = version.partition(".")[0] if isinstance(version, str) else ""
    if major.isdecimal() and int(major) > MAJOR:
        raise _not_agui(f"this server speaks AG-UI {MAJOR}.x, and not version {version}.")
    return not major.isdecimal() or int(major) < MAJOR


def _check_id(name: str, value: str) -> None:
    if not 0 < len(value) <= ID_MAX or not value.isprintable():
        raise _not_agui(f"{name} must have 1 to {ID_MAX} printable characters.")


def _user_message(message: Any, warnings: list[str]) -> Said | None:
    if not isinstance(message, dict) or message.get("role") != "user":
        return None  # of the agent, a tool or the system: not the client's to say
    known = message.get("id")
    if not isinstance(known, str) or not 0 < len(known) <= ID_MAX or not known.isprintable():
        warnings.append("a message of the user has no usable id and was left out")
        return None
    text = _text(known, message.get("content"), warnings)
    return Said(known, text) if text.strip() else None


def _text(known: str, content: Any, warnings: list[str]) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if _is_text(part)]
    if len(texts) < len(parts) or not isinstance(content, list):
        warnings.append(f"message {known}: only its text was taken")
    return "\n".join(texts)


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )
