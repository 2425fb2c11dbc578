"""The agent of the browser tests: the real assistant with a scripted model and a few tools.

The first word of a person's message names what the model does; see ``SCRIPTS``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from midflight import tool
from midflight.assistant import Profile, assistant
from midflight.models.model import Prompt, Turn
from midflight.models.scripted import Line, ScriptedModel, call, call_all, say
from midflight.tools.progress import emit

CUES = Path(os.environ.get("MIDFLIGHT_CUES", "cues"))
HELD_S = 60.0
STORY = "The tea is in the blue tin on the second shelf, behind the sugar, and it is still fresh."


@tool(effect="read", name="look_up_price")
async def look_up_price(product: str) -> dict[str, Any]:
    """Return the price of a product."""
    return {"product": product, "euros": 4}


@tool(effect="once", name="send_invoice", label="invoice", approval="Invoices are final.")
async def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    return f"Invoice over {euros} euros sent to {customer}."


@tool(effect="read", name="wait_for_delivery")
async def wait_for_delivery(cue: str) -> str:
    """Wait until a test lets it go on."""
    emit("Waiting at the door. ")
    with anyio.fail_after(HELD_S):
        while not (CUES / cue).exists():  # noqa: ASYNC110 - a file of a test is waited for
            await anyio.sleep(0.02)
    return "The parcel is here."


def tell(_words: str, _results: list[str]) -> Line:
    """Stream a text, word by word."""
    return say(STORY, pause=0.03, piece=4)


def price(_words: str, results: list[str]) -> Line:
    """Say a sentence, call a tool that reads, and say what it found."""
    if not results:
        return call_all(("look_up_price", {"product": "tea"}), text="I look that up.")
    return say("Tea costs 4 euros.")


def invoice(_words: str, results: list[str]) -> Line:
    """Call a tool that needs approval, and say how that went."""
    if not results:
        wanted = ("send_invoice", {"customer": "Ann", "euros": 40})
        return call_all(wanted, text="I prepare the invoice.")
    return say(f"The tool said: {results[-1]}")


def question(_words: str, results: list[str]) -> Line:
    """Ask the person for one of two sizes."""
    if not results:
        return call("ask_person", question="Which size?", choices=["small", "large"])
    return say(f"I take it: {results[-1]}")


def wait(words: str, results: list[str]) -> Line:
    """Call a tool that goes on when a test says so: the second word is its cue."""
    if not results:
        cue = words.split()[1]
        return call_all(("wait_for_delivery", {"cue": cue}), text="I wait for the parcel.")
    return say("The parcel has come.")


SCRIPTS: dict[str, Callable[[str, list[str]], Line]] = {
    "tell": tell,
    "price": price,
    "invoice": invoice,
    "question": question,
    "wait": wait,
}


def script(prompt: Prompt) -> Line:
    """Give the next line: by the last message of a person that names a script."""
    if prompt.choice:
        return say("incorporate")
    words, results = "", list[str]()
    heard: list[str] = []
    for turn in prompt.turns:
        if turn.role == "user":
            named = _named(turn)
            if named:
                words, results, heard = named, [], []
            else:
                heard.append(turn.text)
        elif turn.role == "tool":
            results.append(turn.text)
    if not words:
        return say("Hello.")
    line = SCRIPTS[words.split()[0]](words, results)
    return line if not (heard and results) else say(f"{line.text} I also read: {heard[-1]}")


def _named(turn: Turn) -> str:
    """Return the line of a turn that begins with the name of a script, else nothing."""
    lines = [line.strip() for line in turn.text.splitlines()]
    return next((line for line in lines if line.split(" ")[0] in SCRIPTS), "")


clerk = assistant(
    "clerk",
    Profile(ScriptedModel(script), [look_up_price, send_invoice, wait_for_delivery]),
    delegates=False,
)
