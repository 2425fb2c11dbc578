"""Which lists of messages are the thread's, and which were cut or changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from midflight.control import Control
from midflight.interfaces.agui.agui_input import Input, read_input
from midflight.interfaces.agui.agui_turn import asks_again, messages_of, notices, objection
from midflight.journal.record import Actor
from midflight.stores.memory import MemoryStore
from stores.runs import open_thread

pytestmark = pytest.mark.anyio

ANN, BOB = Actor("ann", channel="agui"), Actor("bob", channel="agui")
THREAD = "t-T"


async def thread() -> Control:
    """Ann says a, Bob says b, Ann says c: positions 2, 3 and 4, after the thread's beginning."""
    control = Control(MemoryStore())
    await open_thread(control.store, THREAD)
    for who, text in ((ANN, "a"), (BOB, "b"), (ANN, "c")):
        await control.send(THREAD, text, who=who, key=f"agui:{text}")
    return control


def sent(*messages: tuple[str, str], seen: int | None = None, **more: Any) -> Input:
    listed = [{"id": name, "role": "user", "content": text} for name, text in messages]
    state = {} if seen is None else {"thread": THREAD, "threadPosition": seen}
    body = {"threadId": "T", "runId": "X", "messages": listed, "state": state, **more}
    return read_input(msgspec.json.encode(body))


A, B, C, NEW = ("a", "a"), (f"{THREAD}:3", "b"), ("c", "c"), ("n", "new")


@pytest.mark.parametrize(
    "given",
    [
        sent(A, B, C, NEW, seen=4),
        sent(A, B, C, NEW),
        sent(A, B, C),
        sent(A),
        sent(),
        sent(NEW),
        sent(C, NEW, seen=4),
        sent(A, C, NEW, seen=4),
        sent(A, NEW, seen=3),
        sent(C, B, A, NEW, seen=4),
        sent(NEW, state={"thread": "t-other", "threadPosition": 4}),
        sent(NEW, state={"thread": THREAD, "threadPosition": "4"}),
    ],
    ids=[
        "whole", "whole, without a state", "nothing new", "a part, to look", "nothing",
        "no history", "begins late", "without what another has said", "behind", "in another order",
        "of another thread", "strange state",
    ],
)  # fmt: skip
async def test_a_list_is_taken(given: Input) -> None:
    known = await messages_of(await thread(), THREAD, "ann")

    assert objection(given, known) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (sent(("a", "x"), B, C), "Message a was changed"),
        (sent(A, (B[0], "x"), C, NEW), "Message t-T:3 was changed"),
        (sent(A, B, NEW, seen=4), "one message of yours"),
        (sent(A, NEW), "one message of yours"),
        (sent(NEW, seen=4), "2 messages of yours"),
        (sent(NEW, seen=10**15), "2 messages of yours"),
    ],
)
async def test_a_list_that_was_cut_or_changed_is_refused(given: Input, words: str) -> None:
    known = await messages_of(await thread(), THREAD, "ann")

    said = objection(given, known)

    assert words in said
    assert said.endswith("Nothing was changed.")


async def test_a_message_that_was_edited_or_withdrawn_elsewhere_is_no_change_of_the_clients() -> (
    None
):
    control = await thread()
    await control.edit_message(THREAD, 2, "A", who=ANN)
    await control.withdraw_message(THREAD, 4, who=ANN)
    known = await messages_of(control, THREAD, "ann")

    assert objection(sent(A, NEW, seen=9), known) == ""
    assert objection(sent(("a", "A"), B, C, NEW, seen=9), known) == ""


async def test_what_differs_without_harm_is_named() -> None:
    known = await messages_of(await thread(), THREAD, "ann")

    assert notices(sent(A, B, C, NEW), known) == []
    assert "another order" in notices(sent(C, B, A), known)[0]
    assert "3 messages that your client did not send" in notices(sent(NEW), known)[0]


async def test_a_list_that_ends_with_a_known_message_asks_for_another_answer() -> None:
    known = await messages_of(await thread(), THREAD, "ann")
    system = [{"id": "s", "role": "system", "content": "be brief"}]
    answered = [{"id": "c", "role": "user", "content": "c"}, {"id": "x", "role": "assistant"}]

    assert asks_again(sent(A), known)
    assert asks_again(sent(A, B, C), known)
    assert not asks_again(sent(NEW), known)
    assert not asks_again(sent(messages=system), known)
    assert not asks_again(sent(messages=answered), known)
