"""What an AG-UI client sends, read leniently: strange parts are left out and named.

Only two things are taken from it: words of the user that the thread does not have yet, and answers
to interrupts. What a client says that the agent, a tool or the system has said is not believed.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midflight.server.problems import Problem

ID_MAX: Final = 200
MAJOR: Final = 1
RESUME_MAX: Final = 256  # more questions than a person could have been asked


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


class Resume(Struct, frozen=True, rename="camel"):
    """An answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = UNSET


class Said(Struct, frozen=True):
    """A message of the user, under the id that their client gave it."""

    id: str
    text: str


class Input(Struct, frozen=True):
    """What was understood, and what was not."""

    thread: str
    run: str
    messages: tuple[Said, ...]
    resume: tuple[Resume, ...]
    warnings: tuple[str, ...] = ()


class _Envelope(Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[Any]
    resume: list[Resume] | None = None
    protocol_version: Any = UNSET


def read_input(body: bytes) -> Input:
    """Read the body of a run. Raises ``Problem`` for what cannot be understood at all."""
    try:
        given = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _not_agui(f"this is not the input of an AG-UI 1.0 run: {error}.") from None
    _check_version(given.protocol_version)
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        _check_id(name, value)
    if len(given.resume or ()) > RESUME_MAX:
        raise _not_agui(f"resume has more than {RESUME_MAX} entries.")
    warnings: list[str] = []
    said: dict[str, Said] = {}
    for message in given.messages:
        taken = _user_message(message, warnings)
        if taken is not None:
            said.setdefault(taken.id, taken)
    messages, resume = tuple(said.values()), tuple(given.resume or ())
    return Input(given.thread_id, given.run_id, messages, resume, tuple(warnings))


def _not_agui(message: str) -> Problem:
    return Problem(400, "not_agui", message)


def _check_version(version: Any | UnsetType) -> None:
    """A newer minor version is served; another major one is another protocol."""
    major = version.partition(".")[0] if isinstance(version, str) else ""
    if major.isdecimal() and int(major) > MAJOR:
        raise _not_agui(f"protocol version {version} is not spoken here, but {MAJOR}.x.")


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
