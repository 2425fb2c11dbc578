"""The same small scene behind every door, and how each door presses each verb there.

The scene is a run that nobody drives, in a thread with one unread message. A door that has no such
verb says why; the others must bring about what the verb brings about when it is called directly.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from midflight.agents import agent
from midflight.client import Client
from midflight.control import Control
from midflight.control.any_control import AnyControl
from midflight.control.verbs import VERBS
from midflight.engines.local_engine import LocalEngine
from midflight.inputs import Ids
from midflight.interfaces.chat.channel import Action, mark
from midflight.interfaces.chat.chat_memory import Finder, Memory
from midflight.interfaces.chat.chat_presses import COMMANDS, Desk, Given
from midflight.interfaces.tui.slash_commands import SLASH, Order
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from midflight.stores.protocol import Store
from midflight.view import RunBook

THREAD: Final = "t-work"
KEY: Final = "press-1"


@agent("worker")
async def worker(run: Run) -> str:
    return "made tea"


class Scene(Struct):
    """A run, its thread, and the position of an unread message there."""

    run: str
    thread: str
    message: int


def numbered(first: int = 1000) -> Ids:
    """Ids that are the same in each scene."""
    numbers = itertools.count(first)
    return lambda: f"{next(numbers):028x}"


async def scene(store: Store, who: Actor, *, ended: bool = False) -> Scene:
    """Begin the run, and send the message in the name of the person who will press."""
    control = Control(store, ids=numbered(1))
    run = await control.start(worker, "tea", thread=THREAD, key="begun")
    sent = await control.send(run, "also a cake", who=who)
    if ended:
        with TemporaryDirectory() as workdir:
            async with LocalEngine.open(store, [worker], workdir=workdir):
                await control.ended(run)
    return Scene(run, THREAD, sent.position)


def given(verb: str, at: Scene) -> tuple[Any, dict[str, Any]]:
    """Return the target of a verb in the scene, and its arguments by the names in the table."""
    arguments: dict[str, dict[str, Any]] = {
        "start": {"brief": "coffee"},
        "converse": {"agent": worker, "messages": [("m-1", "and milk")]},
        "send": {"text": "and milk"},
        "ask_aside": {"text": "and milk"},
        "redirect": {"text": "coffee", "resume": True},
        "answer": {"question": 3, "payload": "yes"},
        "decline": {"question": 3},
        "raise_limits": {"limits": Limits(steps=90)},
        "stop_effect": {"attempt": 3},
        "fork": {"at": 2, "brief": "coffee"},
        "edit_message": {"message": at.message, "text": "a large cake"},
        "withdraw_message": {"message": at.message},
        "overrule": {"message": at.message, "choice": "defer"},
        "heard": {"text": "I have", "run": at.run},
        "do_now": {"todo": 9},
        "remove_todo": {"todo": 9},
        "reorder": {"order": [9]},
    }
    if verb == "converse":
        return "t-another", arguments[verb]
    targets = {"agent": worker, "thread": at.thread, "scope": "agent:worker"}
    return targets.get(VERBS[verb].on, at.run), arguments.get(verb, {})


async def pressed(control: AnyControl, verb: str, at: Scene, **by: Any) -> Any:
    """Press a verb on a control of either kind."""
    target, arguments = given(verb, at)
    if verb == "converse":
        told = arguments.pop("agent")
        return await control.converse(told, target, **arguments, **by)
    return await getattr(control, verb)(target, **arguments, **by)


# ── handles ──────────────────────────────────────────────────────────────────────────────────

Handled = Callable[[Client, Scene, dict[str, Any]], Awaitable[Any]]
ON_CLIENT: Final[dict[str, Handled]] = {
    "start": lambda c, at, a: c.start(worker, key=KEY, **a),
    "kill": lambda c, at, a: c.kill(agent=worker),
    "release": lambda c, at, a: c.release(agent=worker),
}
ON_THREAD: Final = ("edit_message", "withdraw_message", "overrule", "do_now", "reorder")
ON_THREADS: Final = (*ON_THREAD, "remove_todo")
NO_HANDLE: Final = {
    "converse": "for those who write a front door: only a control has it",
    "heard": "for those who write a front door: only a control has it",
}


async def handled(client: Client, verb: str, at: Scene) -> Any:
    """Press a verb on a handle; a handle that is returned stands for its id."""
    _, arguments = given(verb, at)
    if verb in ON_CLIENT:
        done = await ON_CLIENT[verb](client, at, arguments)
    elif verb in {"answer", "decline"}:  # a question's handle is made of an open question
        done = await client.run(at.run).press(verb, *arguments.values(), key=KEY)
    else:
        handle: Any = client.thread(at.thread) if verb in ON_THREADS else client.run(at.run)
        done = await getattr(handle, verb)(**arguments, key=KEY)
    return getattr(done, "id", done)


# ── commands ─────────────────────────────────────────────────────────────────────────────────

NO_COMMAND: Final = {
    "start": "`run` also drives the run and watches it: tests/cli has its own tests of it",
    "converse": "`run` begins a conversation, `send` goes on",
    "heard": "spoken words only",
}


def command(verb: str, at: Scene) -> list[str]:
    """Return a verb as it is typed in a shell."""
    run, thread, message = at.run, at.thread, str(at.message)
    typed = {
        "pause": ["pause", run, "--wait", "0"],
        "resume": ["resume", run, "--wait", "0"],
        "redirect": ["redirect", run, "coffee", "--resume", "--wait", "0"],
        "cancel": ["cancel", run, "--yes", "--wait", "0"],
        "raise_limits": ["raise", run, "--steps", "90", "--wait", "0"],
        "take_over": ["take-over", run, "--wait", "0"],
        "hand_back": ["hand-back", run, "--wait", "0"],
        "stop_effect": ["stop-effect", run, "3", "--wait", "0"],
        "undo": ["undo", run, "--wait", "0"],
        "recover": ["recover", run],
        "fork": ["fork", run, "2", "--brief", "coffee"],
        "send": ["send", run, "and milk"],
        "ask_aside": ["aside", run, "and milk", "--no-wait"],
        "edit_message": ["edit", thread, message, "a large cake"],
        "withdraw_message": ["withdraw", thread, message],
        "overrule": ["overrule", thread, message, "defer"],
        "do_now": ["todos", thread, "--now", "9"],
        "remove_todo": ["todos", thread, "--remove", "9"],
        "reorder": ["todos", thread, "--order", "9"],
        "kill": ["kill", "agent:worker", "--yes"],
        "release": ["release", "agent:worker"],
    }
    return typed.get(verb, [])


# ── terminal app ─────────────────────────────────────────────────────────────────────────────

TYPED: Final = {
    "aside": "and milk",
    "now": "9",
    "remove": "9",
    "order": "9",
    "edit": "{message} a large cake",
    "withdraw": "{message}",
    "overrule": "{message} defer",
    "decline": "3",
    "raise": "steps=90",
    "take-over": "",
    "hand-back": "",
    "stop-effect": "3",
    "undo": "",
    "kill": "agent:worker",
    "release": "agent:worker",
}
"""A word behind a slash -> what is typed after it."""
WORDS: Final = {slash.verb: word for word, slash in SLASH.items()}
NO_SLASH: Final = {
    "start": "New run, on the bar",
    "converse": "Enter",
    "send": "Enter",
    "pause": "Esc",
    "resume": "Esc",
    "redirect": "Ctrl+R",
    "cancel": "Ctrl+X",
    "answer": "the card",
    "fork": "Try again, on the bar",
    "recover": "Recover, on the bar",
    "heard": "spoken words only",
}


async def slashed(control: Control, verb: str, at: Scene, who: Actor) -> Any:
    """Press a verb by the word that the terminal app takes for it."""
    book = RunBook(at.run)
    for record in await control.store.read(at.run):
        book.take(record)
    word = WORDS[verb]
    rest = TYPED[word].format(message=at.message)
    return await SLASH[word].do(Order(control, book.sheet(), {"who": who}, word, rest))


# ── chat ─────────────────────────────────────────────────────────────────────────────────────

NO_CHAT: Final = {
    "start": "a message where nothing runs",
    "converse": "a message",
    "send": "a message",
    "answer": "a button of the question, which is open then",
    "decline": "it waits, or runs out",
    "take_over": "/pause holds it as well",
    "stop_effect": "needs a look at what is in flight",
    "undo": "needs the receipt's list",
    "fork": "a message starts anew",
    "recover": "for operators at a desk",
    "edit_message": "edit the message in the chat",
    "withdraw_message": "remove the message in the chat",
    "reorder": "do one now instead",
    "heard": "spoken words only",
}
PRESSES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "pause": ("pause", {}),
    "resume": ("resume", {}),
    "cancel": ("cancel", {}),
    "redirect": ("redirect", {"text": "coffee", "then": "Redirect and resume"}),
    "raise_limits": ("caps", {"steps": "90"}),
    "hand_back": ("hand_back", {}),
    "overrule": ("overrule", {}),
    "do_now": ("do_now", {}),
    "remove_todo": ("remove", {}),
}
"""A verb -> the button's name of it, and what is typed into its form."""
TOLD: Final = {
    "ask_aside": ("aside", "and milk"),
    "kill": ("kill", "agent:worker"),
    "release": ("release", "agent:worker"),
}


async def chatted(control: Control, verb: str, at: Scene, who: Actor) -> Any:
    """Press a verb by its button in a chat, or by the command there."""
    desk, memory = Desk(control, Finder(control)), Memory("chat", at.thread)
    if verb in TOLD:
        name, text = TOLD[verb]
        return await COMMANDS[name](desk, memory, Given(text, who, KEY))
    name, fields = PRESSES[verb]
    places = {"overrule": at.message, "do_now": 9, "remove": 9}
    choice = "defer" if verb == "overrule" else ""
    action = Action(name, mark(at.run), places.get(name, 0), choice)
    return await desk.press(memory, action, who, key=KEY, fields=fields)


# ── what was recorded ────────────────────────────────────────────────────────────────────────


async def recorded(store: Store, after: int = 0) -> list[tuple[str, str, str]]:
    """Return what the audit says was asked for after a record: the verb, the outcome and why."""
    found = [json.loads(link.record) for link in await store.audit_page(after)]
    return [(one["action"], one["outcome"], one.get("why", "")) for one in found]
