"""Calls of tools as an AG-UI client is shown them, approves them and edits them. Pure.

Secrets are dots, as in the journal. Arguments that would be very long are shortened, and say so;
where a person is asked about a call they are whole.

About approvals the AG-UI guide asks for ``{"approved": …}``, with ``reason`` or ``editedArgs``
beside it. User interfaces draw their own buttons only for a schema that says nothing else, so what
our schema says beside that goes into the metadata of the interrupt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from midflight.errors import DOTS
from midflight.tools.declaration import REGISTRY
from midflight.tools.labels import named
from midflight.tools.secret import MARK, hide

ARGUMENTS_MAX: Final = 64 * 1024  # characters of one call
TEXT_MAX: Final = 1_000  # characters of one text, where all of it is more than that
OURS: Final = "midflight.assistant."
"""Names of tools of our own begin so; these only make a model's call fail, and are shown as it."""

NOT_KEPT: Final = "the arguments are too long to be kept"

APPROVAL: Final = "approval"
TAKES: Final = (
    'an approval takes {"approved": true} or {"approved": false}; beside it "reason" in words, or '
    '"editedArgs" with all arguments by name'
)
_BESIDE: Final = frozenset({"approved", "reason", "editedArgs"})
_OLDER: Final = frozenset({"args", "kwargs"})


def described(stored: Any) -> dict[str, Any]:
    """Return what an approval is answered with, as the guide describes it."""
    return {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean", "description": "Whether it may be done."},
            "reason": {"type": "string", "description": "Why not, in words."},
            "editedArgs": _edited(stored),
        },
        "required": ["approved"],
    }


def shown(stored: Any) -> dict[str, Any]:
    """Return what is approved, for the metadata of the interrupt: details, tool."""
    if not isinstance(stored, dict):
        return {}
    names = {"x-details": "details", "x-tool": "tool"}
    return {name: stored[key] for key, name in names.items() if key in stored}


def _edited(stored: Any) -> Any:
    names = _names(stored)
    if names is None:
        return _stored_edit(stored)
    return {
        "type": "object",
        "description": "All arguments by name, in place of those shown. They are not merged.",
        "properties": {name: {} for name in names},
    }


def _stored_edit(stored: Any) -> Any:
    ways = stored.get("oneOf", ()) if isinstance(stored, dict) else ()
    for way in ways if isinstance(ways, list) else ():
        match way:
            case {"properties": {"edit": dict(edit)}}:
                return edit
            case _:
                pass
    return {}


def _names(stored: Any) -> list[str] | None:
    """Return the arguments of the call by name; None where not every one has a name."""
    match stored:
        case {"x-tool": str(), "x-details": {"args": list(args), "kwargs": dict(kwargs)}}:
            by_place = stored.get("x-names", [])
            return [*by_place, *kwargs] if len(by_place) == len(args) else None
        case _:
            return None


def in_our_words(payload: Any, stored: Any) -> Any:
    """Return the answer as the question's own schema has it; what is not understood stays as it is.

    The result still has to be checked against that schema.
    """
    if isinstance(payload, bool):
        return "approve" if payload else "reject"
    if not isinstance(payload, dict) or not isinstance(payload.get("approved"), bool):
        return payload
    given = {name: value for name, value in payload.items() if value is not None}
    reason = given.get("reason", "")
    if not isinstance(reason, str):
        return payload
    if not payload["approved"]:
        return {"respond": reason} if reason.strip() else "reject"
    if given.keys() - _BESIDE:  # layer yes-with-condition-no-approval
        return payload  # perhaps a condition: nobody may take it for a plain yes
    return {"edit": _arguments(given["editedArgs"], stored)} if "editedArgs" in given else "approve"


def is_reason_lost(payload: Any) -> bool:
    """Return whether a client gave a reason with a yes: an approval has no place for it."""
    match payload:
        case {"approved": True, "reason": str(reason)}:
            return bool(reason.strip())
        case _:
            return False


def _arguments(edited: Any, stored: Any) -> Any:
    """Return arguments by name as the call has them: by place first, as far as it gave them so."""
    names = _names(stored)
    if names is None or not isinstance(edited, dict) or _is_older(edited, names):
        return edited
    args: list[Any] = []
    rest = dict(edited)
    for name in _by_place(stored):
        if name not in rest:
            break
        args.append(rest.pop(name))
    return _with_secrets({"args": args, "kwargs": rest}, stored["x-details"])


def _with_secrets(edited: Any, given: Any) -> Any:
    """Put a secret back where a client, which was shown dots for it, has left them in its place."""
    match given:
        case {"$secret": str()} if edited == DOTS and len(given) == 1:
            return given
        case dict() if isinstance(edited, dict):
            return {name: _with_secrets(part, given.get(name)) for name, part in edited.items()}
        case list() if isinstance(edited, list):
            places = [*given, *[None] * (len(edited) - len(given))]
            return [_with_secrets(part, old) for part, old in zip(edited, places, strict=False)]
        case _:
            return edited


def _by_place(stored: Mapping[str, Any]) -> list[str]:
    return list(stored.get("x-names", []))


def _is_older(edited: Mapping[str, Any], names: list[str]) -> bool:
    """Return whether arguments came as ``args`` and ``kwargs``, and no argument has such a name."""
    if not edited or edited.keys() - _OLDER or _OLDER & set(names):
        return False
    return isinstance(edited.get("args", []), list) and isinstance(edited.get("kwargs", {}), dict)


def holds_dots(answer: Any) -> bool:
    """Return whether edited arguments hold dots that stood for a secret: nobody means those."""
    return isinstance(answer, dict) and _has_dots(answer.get("edit"))


def _has_dots(value: Any) -> bool:
    if isinstance(value, str):
        return DOTS in value
    if isinstance(value, dict):
        return any(_has_dots(part) for pair in value.items() for part in pair)
    return isinstance(value, list) and any(_has_dots(part) for part in value)


# ── a call as it is shown ────────────────────────────────────────────────────────────────────


def shown_name(tool: str, step: str) -> str:
    """Return the name of the tool; of a step that has none of its own, the step's."""
    return step if not tool or tool.startswith(OURS) else tool


def shown_arguments(
    tool: str, given: Raw, names: Sequence[str] = (), *, whole: bool = False
) -> str:
    """Return the arguments of a call as a JSON object; ``given`` is what the journal has.

    ``names`` are those of arguments that were given by their place, where the question has them.
    """
    plain = msgspec.json.decode(given)
    if plain is None:
        return msgspec.json.encode({"…": NOT_KEPT}).decode() if tool else "{}"
    shown = _cleaned(_by_name(tool, plain, names))
    text = msgspec.json.encode(shown).decode()
    if whole or len(text) <= ARGUMENTS_MAX:
        return text
    text = msgspec.json.encode(_shortened(shown)).decode()
    return text if len(text) <= ARGUMENTS_MAX else '{"…":"the arguments are too long to be shown"}'


def _by_name(tool: str, plain: Any, names: Sequence[str]) -> dict[str, Any]:
    match plain:
        case {"args": list(args), "kwargs": dict(kwargs)} if len(plain) == 2:
            if len(names) == len(args):
                return {**dict(zip(names, args, strict=True)), **kwargs}
            known = REGISTRY.get(tool)
            return named(known.function if known is not None else None, args, kwargs)
        case dict():
            return plain
        case _:
            return {"value": plain}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        if set(value) == {MARK}:  # layer arguments-of-call-secret-dots
            return DOTS
        return {hide(key): _cleaned(part) for key, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list) else value


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return f"{value[:TEXT_MAX]}… ({len(value) - TEXT_MAX:,} more characters)"
    if isinstance(value, dict):
        return {key: _shortened(part) for key, part in value.items()}
    return [_shortened(part) for part in value] if isinstance(value, list) else value
