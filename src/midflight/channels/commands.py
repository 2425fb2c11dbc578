"""The words that a chat takes as commands: one line each in, one post out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from midflight.channels.desk import Desk
from midflight.channels.ledger import Memory
from midflight.channels.shapes import Action, Button, Post, mark
from midflight.errors import MidflightError
from midflight.kernel.record import Who
from midflight.sheets.words import short

SHOWN_MAX: Final = 5


async def command(desk: Desk, memory: Memory, name: str, text: str, who: Who, key: str) -> Post:
    """Do one and say what came of it; whatever is wrong is said, not raised."""
    try:
        return await COMMANDS[name](desk, memory, text, who, key)
    except MidflightError as error:
        return Post(str(error))


async def _status(desk: Desk, memory: Memory, text: str, who: Who, key: str) -> Post:
    return Post(await desk.find.stands(memory) or "Nothing was ever started here.")


def _verb(verb: str) -> Callable[[Desk, Memory, str, Who, str], Awaitable[Post]]:
    async def press(desk: Desk, memory: Memory, text: str, who: Who, key: str) -> Post:
        action = Action(verb, mark(await desk.find.front(memory)))
        return await desk.press(memory, action, who, key=key, fields={"text": text})

    return press


async def _todos(desk: Desk, memory: Memory, text: str, who: Who, key: str) -> Post:
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


async def _aside(desk: Desk, memory: Memory, text: str, who: Who, key: str) -> Post:
    asked = await desk.control.ask_aside(memory.thread, text, who=who, key=key)
    follows = "The answer follows here." if asked.did == "started" else ""
    return Post(" ".join(filter(None, [f"{asked.status}.", follows])))


async def _kill(desk: Desk, memory: Memory, text: str, who: Who, key: str) -> Post:
    scope, _, reason = text.strip().partition(" ")
    scope = f"thread:{memory.thread}" if scope in {"", "-"} else scope
    done = await desk.control.kill(scope, who=who, reason=reason)
    count = len(done.killed)
    return Post(
        f"⛔ **{done.switch.scope} is stopped**: {count} run{'s' * (count != 1)}. Nothing was "
        "undone, and nothing moves there until an operator releases it."
    )


COMMANDS: Final[dict[str, Callable[[Desk, Memory, str, Who, str], Awaitable[Post]]]] = {
    "status": _status,
    "pause": _verb("pause"),
    "resume": _verb("resume"),
    "redirect": _verb("redirect"),
    "cancel": _verb("cancel"),
    "todos": _todos,
    "aside": _aside,
    "kill": _kill,
}
