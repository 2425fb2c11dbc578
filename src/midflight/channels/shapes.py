"""Posts, presses and forms: plain data between a channel and its switchboard."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from msgspec import Struct

PREFIX: Final = "mf"
DIGITS_MAX: Final = 19  # of a position
FORMS: Final = frozenset({"redirect", "fill", "caps", "hand_back"})
MARK_BYTES: Final = 8  # of a run's id on a button: ids may be long, and chats take few characters


def mark(journal: str) -> str:
    """Return a short name of a run for buttons; it is looked up in the chat's own thread only."""
    return blake2b(journal.encode(), digest_size=MARK_BYTES).hexdigest() if journal else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


class Action(Struct, frozen=True):
    """The meaning of a press. ``at`` is a position: the one seen, or that of the thing meant."""

    verb: str
    run: str = ""
    at: int = 0
    choice: str = ""

    @property
    def code(self) -> str:
        """The text that stands for it on a button: at most 100 characters, and never a secret."""
        return f"{PREFIX}:{self.verb}:{self.run}:{self.at}:{self.choice}"

    @property
    def wants_form(self) -> bool:
        """True if the press opens a form first."""
        return self.verb in FORMS

    @classmethod
    def read(cls, code: str) -> Action | None:
        """Return the action in a button's code; None if it is not one of ours."""
        parts = code.split(":", 4)
        if len(parts) != 5 or parts[0] != PREFIX or not _is_number(parts[3]):
            return None
        return cls(parts[1], parts[2], int(parts[3]), parts[4])


class Button(Struct, frozen=True):
    """One press. ``label`` names the consequence; a button that is not enabled says why."""

    label: str
    action: Action
    style: str = "plain"  # or "good", "bad"
    enabled: bool = True


class Menu(Struct, frozen=True):
    """A choice of one: pairs of a shown label and the value that ``action.choice`` becomes."""

    hint: str
    action: Action
    options: tuple[tuple[str, str], ...]


class Post(Struct, frozen=True):
    """Something to show. Under one ``key`` it is shown once, however often it is posted.

    ``files`` are paths. ``answers`` is the chat's own id of the message that it is about.
    """

    text: str
    key: str = ""
    buttons: tuple[Button, ...] = ()
    menu: Menu | None = None
    files: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()  # files that are made of words: name and text
    answers: str = ""


class Field(Struct, frozen=True):
    """One line of a form. With ``options`` it is one of those."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    long: bool = False
    required: bool = True
    options: tuple[str, ...] = ()


class Form(Struct, frozen=True):
    """A form that a press opens; it comes back filled in, with the same action."""

    title: str
    action: Action
    fields: tuple[Field, ...]


class Heard(Struct, frozen=True):
    """A text from a person, with the chat's own id for it; the same id is the same text."""

    id: str
    text: str
    notes: tuple[str, ...] = ()  # sentences about parts that could not be taken
