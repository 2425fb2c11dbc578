"""The words that a chat takes as commands: one line each in, one post out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from midflight.control import Control
from midflight.errors import InvalidRequest, MidflightError
from midflight.interfaces.chat.channel import Action, Button, Post, mark
from midflight.interfaces.chat.chat_memory import Finder, Memory
from midflight.interfaces.chat.chat_presses import Desk
from midflight.journal.record import Actor
from midflight.view.exact_text import short

SHOWN_MAX: Final = 5
STEERING: Final = frozenset({"pause", "resume", "redirect", "cancel"})

OPERATING: Final = ("kill", "release")


class Given(Struct, frozen=True):
    """A command as somebody gave it. ``late`` is one that waited for longer than a person does."""

    text: str
    who: Actor
    key: str
    late: bool = False


def parts(code: str) -> tuple[str, str]:
    """Return the name of a command and the text behind it; an empty name if it is no command."""
    name, _, text = code[1:].partition(" ")
    return (name, text) if code.startswith("/") else ("", "")


def steers(code: str) -> bool:
    """Return whether this is a command for the run in front, whichever run that is."""
    return parts(code)[0] in STEERING


async def meant(
    find: Finder, memory: Memory, code: str, fields: Mapping[str, str] | None
) -> tuple[str, dict[str, str]]:
    """Return a press as it is carried out: a command is bound to the run in front now."""
    name, text = parts(code)
    if name not in STEERING:
        return code, dict(fields or {})
    try:
        run = mark(await find.front(memory))
    except InvalidRequest:
        run = ""  # and not one that comes later
    return Action(name, run).code, {"text": text} if name == "redirect" else {}


async def command(desk: Desk, memory: Memory, name: str, given: Given) -> Post:
    """Carry out a command and return its answer; errors become words of the answer."""
    do = COMMANDS.get(name)
    if do is None:
        return Post(f"There is no command /{short(name, 40)}. Nothing was changed.")
    try:
        return await do(desk, memory, given)
    except MidflightError as error:
        return Post(str(error))


async def _status(desk: Desk, memory: Memory, given: Given) -> Post:
    return Post(await desk.find.stands(memory) or "Nothing was ever started here.")


async def _todos(desk: Desk, memory: Memory, given: Given) -> Post:
    todos = await desk.control.preview_todos(memory.thread)
    if not todos:
        return Post("Nothing is left to do.")
    lines, buttons = [], []
    for number, todo in enumerate(todos, 1):
        lines.append(f"{number}. {short(todo.text)}\n-# Do now: {todo.now}. Remove: {todo.remove}.")
        if number <= SHOWN_MAX:
            buttons.append(Button(f"Do {number} now", Action("do_now", "", todo.todo), "good"))
            buttons.append(Button(f"Remove {number}", Action("remove", "", todo.todo), "bad"))
    return Post("\n".join(lines), buttons=tuple(buttons))


async def _aside(desk: Desk, memory: Memory, given: Given) -> Post:
    asked = await desk.control.ask_aside(memory.thread, given.text, who=given.who, key=given.key)
    follows = "The answer follows here." if asked.did == "started" else ""
    return Post(" ".join(filter(None, [f"{asked.status}.", follows])))


async def operate(control: Control, name: str, given: Given, here: str = "") -> Post:
    """Stop or release a scope; ``here`` is the one meant if none is named, and may be empty."""
    scope, _, reason = given.text.strip().partition(" ")
    scope = here if scope in {"", "-"} else scope
    try:
        if not scope:
            raise InvalidRequest("nothing was ever started here. Name a scope: all, agent:NAME.")
        do = _kill if name == "kill" else _release
        return await do(control, scope, reason, given)
    except MidflightError as error:
        return Post(str(error))


async def _kill(control: Control, scope: str, reason: str, given: Given) -> Post:
    """Set a kill switch. It has no key: a late one may have been released since, so ask again."""
    if given.late and all(switch.scope != scope for switch in await control.switches()):
        return Post(
            f"You gave /kill {scope} while I was away, and {scope} is not stopped: it was not "
            "done, or was released since. Nothing was changed. If it is still meant, give it "
            "again."
        )
    done = await control.kill(scope, who=given.who, reason=reason)
    count = len(done.killed)
    return Post(
        f"⛔ **{done.switch.scope} is stopped**: {count} run{'s' * (count != 1)}. Nothing was "
        f"undone, and nothing moves there until an operator gives /release {done.switch.scope}."
    )


async def _release(control: Control, scope: str, _reason: str, given: Given) -> Post:
    if given.late:  # the scope may have been stopped anew since
        return Post(
            f"You gave /release {scope} while I was away. Nothing was changed. If it is still "
            "meant, give it again."
        )
    if not await control.release(scope, who=given.who):
        return Post(f"{scope} was not stopped. Nothing was changed.")
    return Post(
        f"**{scope} is released**: new runs may start there, and what was held may go on. "
        "Killed runs stay as they are until an operator recovers them."
    )


def _operating(name: str) -> Callable[[Desk, Memory, Given], Awaitable[Post]]:
    async def do(desk: Desk, memory: Memory, given: Given) -> Post:
        return await operate(desk.control, name, given, f"thread:{memory.thread}")

    return do


COMMANDS: Final[dict[str, Callable[[Desk, Memory, Given], Awaitable[Post]]]] = {
    "status": _status,
    "todos": _todos,
    "aside": _aside,
    **{name: _operating(name) for name in OPERATING},
}
