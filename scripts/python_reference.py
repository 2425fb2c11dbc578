"""The page about Python: every public name, with its signature and the words of its docstring."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import midflight

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Writing an agent": (
        "agent",
        "Agent",
        "Run",
        "Step",
        "Limits",
        "Answer",
        "ApprovalAnswer",
        "Child",
    ),
    "What an agent may be told": ("Redirected", "StepFailed"),
    "Tools": (
        "tool",
        "Approval",
        "Retry",
        "EffectRecord",
        "Done",
        "NotDone",
        "Unclear",
        "ChangedSince",
    ),
    "What a tool tells of itself": ("emit", "spend", "Usage"),
    "Secrets": ("Secret",),
    "Guards": ("Guard", "FileContent", "SqlRow", "Fingerprint", "Age"),
    "Controlling runs": (
        "open",
        "connect",
        "Client",
        "RunHandle",
        "QuestionHandle",
        "ThreadHandle",
        "Ack",
        "Actor",
        "Role",
        "Phase",
    ),
    "Conversation": ("Message", "Spoken", "TriageView", "Choice", "rule_triage"),
    "Stores": ("open_store", "Store"),
    "Errors": ("MidflightError", "Refused", "NoResult", "NeedsPerson", "StoreError"),
}
"""The names of ``midflight`` in the order in which a reader needs them; a test sees to the rest."""

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "midflight.assistant": (),
    "midflight.models.model": ("Model", "Prompt", "Turn", "Reply", "Spent", "complete"),
    "midflight.models": ("open_model",),
    "midflight.models.scripted": ("ScriptedModel", "say", "call"),
    "midflight.tools.specs": ("ToolSpec", "spec", "parse", "named"),
    "midflight.tools.files": ("Workspace",),
    "midflight.tools.shell": ("shell_tool",),
    "midflight.tools.http": ("Http",),
    "midflight.tools.sql": ("SqlReader",),
    "midflight.tools.mcp": ("McpServer",),
    "midflight.control.remote": (),
    "midflight.telemetry": (),
    "midflight.interfaces.app": ("create_app",),
    "midflight.interfaces.http.access.access": ("Access",),
    "midflight.interfaces.http.access.keyring": ("Keyring",),
    "midflight.interfaces.http.access.quotas": ("Quotas",),
    "midflight.interfaces.agui.agui_router": ("router",),
}
"""Modules that are imported by their own name, and what is public there; nothing: ``__all__``."""

WIDTH: Final = 88  # of a signature on one line
PLAIN: Final = (int, str, float, bool, tuple)


def page() -> str:
    """The whole page."""
    lines = ["# Python reference", "", "Made from the docstrings of this version.", ""]
    lines += ["These are imported from `midflight`, until a heading names another module.", ""]
    for heading, names in GROUPS.items():
        lines += [f"## {heading}", ""]
        for name in names:
            lines += [*_entry(name, getattr(midflight, name), midflight.__name__), ""]
        if heading == "Errors":
            lines += ["```text", _tree(), "```", ""]
    for name, public in MODULES.items():
        module = importlib.import_module(name)
        lines += [f"## `{name}`", "", _words(inspect.getdoc(module) or ""), ""]
        for each in public or tuple(module.__all__):
            lines += [*_entry(each, getattr(module, each), name), ""]
    return "\n".join(lines)


def _tree() -> str:
    """All errors, each beside the first sentence about it."""
    drawn = list(_branches(midflight.MidflightError))
    width = max(len(branch) for branch, _ in drawn) + 2
    return "\n".join(f"{branch:{width}}{about}".rstrip() for branch, about in drawn)


def _branches(kind: type[Exception], first: str = "", below: str = "") -> Iterator[tuple[str, str]]:
    """An error and those that are a kind of it, as ``midflight.errors`` lists them."""
    about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    yield f"{first}{kind.__name__}", about.partition(". ")[0].rstrip(".")
    below_it: list[type[Exception]] = kind.__subclasses__()
    kinds = [each for each in below_it if each.__module__ == kind.__module__]
    for each in kinds:
        to_it, past_it = ("└── ", "    ") if each is kinds[-1] else ("├── ", "│   ")
        yield from _branches(each, below + to_it, below + past_it)


def _entry(name: str, value: Any, module: str) -> Iterator[str]:
    yield f"### {name} {{#{module}.{name}}}"
    yield ""
    yield "```text"
    yield (
        f"{_awaited(value)}{name}{_signature(value)}" if callable(value) else f"{name} = {value!r}"
    )
    yield "```"
    yield ""
    if callable(value):
        yield _words(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        yield ""
        yield from _members(value)


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield "One of " + ", ".join(f"`{member.value}`" for member in kind) + "."
        return
    for name, member in _public(kind):
        called = "" if isinstance(member, property) else " ".join(_signature(member).split())
        yield f"`{_awaited(member)}{name}{called}`"
        yield f":   {_words(inspect.getdoc(member) or '', indent=4)}"
        yield ""


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class offers and says in words, its own and its bases' of ours, as it is written."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("midflight"):
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            known = isinstance(member, property) or inspect.isfunction(function)
            says = (inspect.getdoc(function) or "See ") if known else "See "
            if name.startswith("_") or name in seen or says.startswith("See "):
                continue  # what it says of itself is said of the protocol that it keeps
            seen.add(name)
            yield name, function


def _signature(value: Any) -> str:
    """As it is written in the source, but for where types come from."""
    if getattr(value, "_is_protocol", False):
        return ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown: list[str] = []
    before: int = inspect.Parameter.POSITIONAL_ONLY
    for name, given in found.parameters.items():
        if before == given.POSITIONAL_ONLY != given.kind and shown:
            shown.append("/")
        listed = str(given.annotation).startswith("Unpack[")
        if (listed or given.kind == given.KEYWORD_ONLY) and before < given.VAR_POSITIONAL:
            shown.append("*")
        before = given.kind
        if listed:
            shown += _options(value, str(given.annotation))
        elif name not in {"self", "cls"}:
            shown.append(_parameter(given))
    returned = "" if inspect.isclass(value) else _type(found.return_annotation)
    arrow = f" -> {returned}" if returned else ""
    line = f"({', '.join(shown)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return "(\n" + "".join(f"    {each},\n" for each in shown) + f"){arrow}"


def _options(function: Any, annotation: str) -> list[str]:
    """Keywords that are listed apart from the function; each may be left out."""
    listed = inspect.unwrap(function).__globals__[annotation.removeprefix("Unpack[").rstrip("]")]
    kinds = ((name, kind.__forward_arg__) for name, kind in listed.__annotations__.items())
    return [f"{name}: {_type(kind)} = …" for name, kind in kinds]


def _awaited(function: Any) -> str:
    return "await " if inspect.iscoroutinefunction(function) else ""


def _parameter(given: inspect.Parameter) -> str:
    stars = "*" * (given.kind == given.VAR_POSITIONAL) + "**" * (given.kind == given.VAR_KEYWORD)
    kind = _type(given.annotation)
    named = f"{stars}{given.name}" + (f": {kind}" if kind else "")
    if given.default is given.empty:
        return named
    return f"{named}{' = ' if kind else '='}{_default(given.default)}"


def _type(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(
        r"\b(typing|collections\.abc|midflight(\.\w+)*|pathlib|msgspec)\.(?=\w)", "", text
    )


def _default(value: Any) -> str:
    """One that is no plain value would be shown as an address in memory."""
    if value is None or isinstance(value, PLAIN):
        return f'"{value}"' if isinstance(value, str) else repr(value)
    return str(getattr(value, "__name__", f"{type(value).__name__}()"))


def _words(text: str, *, indent: int = 0) -> str:
    """A docstring as Markdown: its double backticks are single ones here."""
    return text.replace("``", "`").replace("\n", "\n" + " " * indent)
