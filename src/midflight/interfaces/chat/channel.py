"""The Protocol of a channel, and the plain data that passes between it and its switchboard.

Long texts are split into pieces that a chat takes, or go as files. The allow-list of a chat names
people and the chat's own roles, each with a role of ours.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from midflight import store_files
from midflight.errors import InvalidRequest, MidflightError
from midflight.journal.phases import Role
from midflight.journal.record import Actor

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


class ChatGone(MidflightError):
    """The chat is not there any more, or we may not write in it. Nothing more is posted there."""


class NotNow(MidflightError):
    """The chat cannot be reached at the moment. The post is tried again later."""


class PostGone(MidflightError):
    """Somebody has removed the message that was to be edited."""


class NotTaken(MidflightError):
    """The chat does not take this post, or this edit, as it is. It is shown more plainly."""


class Channel(Protocol):
    """A kind of chat. Its ``name`` is part of its people's names and of its threads' ids."""

    name: str

    async def post(self, chat: str, post: Post) -> str:
        """Show it and give the chat's own id for it. Repeated under its key it shows nothing new.

        Raises ``NotNow`` where trying again may help, ``ChatGone`` where nothing is taken any more,
        and ``NotTaken`` where another post may be.
        """

    async def edit(self, chat: str, message: str, post: Post) -> None:
        """Show this instead of what was posted; ``PostGone`` if that is not there any more."""


FILE_BYTES_MAX: Final = 8_000_000


def attached(post: Post) -> list[tuple[str, bytes]]:
    """Return names and contents; a file that cannot be read is replaced by a text that says why."""
    return [*((name, text.encode()) for name, text in post.texts), *map(_read, post.files)]


def _read(path: str) -> tuple[str, bytes]:
    name = Path(path).name
    try:
        return name, _content(Path(path))
    except OSError as error:
        return f"{name}.txt", f"{name} cannot be read here: {error.strerror}.".encode()


def _content(path: Path) -> bytes:
    """Read a plain file of that very folder; a run may have put a link or a device there since."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if store_files.is_open(os.stat(path.name, dir_fd=folder, follow_symlinks=False)):
            raise OSError(0, f"it {store_files.WHY}")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(path.name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a file")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(0, f"it has more than {FILE_BYTES_MAX:,} bytes")
    return data


FENCE: Final = re.compile(r"`{3,16}|^ {0,3}~{3,16}")  # chats take ticks in the middle of a line too
LANGUAGE: Final = re.compile(r"[\w+#.-]{1,24}")
SPARE: Final = 64  # what opening a block again and closing it take, and a little more


def split(text: str, limit: int) -> list[str]:
    """Return pieces of at most ``limit`` characters, cut at lines where that is possible.

    A code block that goes over a cut is closed before it and opened again behind it, with its
    language, so that each piece reads as what it is.
    """
    if len(text) <= limit:
        return [text] if text else []
    assert limit > 2 * SPARE
    pieces: list[str] = []
    held: list[str] = []
    size, fence, opening = 0, "", ""
    for line in _lines(text, limit - SPARE):
        then, reopening = _fenced(line, fence, opening)
        room = limit - len(then) - 1  # or there would be none left to close it
        if held and size + len(line) > room:
            pieces.append("\n".join([*held, fence] if fence else held))  # layer code-block-cut
            held = [opening] if fence else []
            size = len(opening) + 1 if fence else 0
        held.append(line)
        size += len(line) + 1
        fence, opening = then, reopening
    pieces.append("\n".join(held))
    return [piece for piece in pieces if piece.strip()]


def _lines(text: str, longest: int) -> list[str]:
    """Return lines; one that is longer than a piece is cut at a space, or anywhere."""
    found = []
    for line in text.split("\n"):
        while len(line) > longest:
            cut = line.rfind(" ", longest // 2, longest)
            cut = cut if cut > 0 else longest
            while cut > longest // 2 and line[cut - 1 : cut + 1] == "``":
                cut -= 1  # or half a fence would stand on each side
            found.append(line[:cut])
            line = line[cut:].removeprefix(" ")
        found.append(line)
    return found


def _fenced(line: str, fence: str, opening: str) -> tuple[str, str]:
    """Return the code block that is open behind this line: its end and its beginning."""
    for found in FENCE.finditer(line):
        ticks = found[0].strip()
        if not fence:
            behind = line[found.end() :].strip()
            fence, opening = ticks, ticks + (behind if LANGUAGE.fullmatch(behind) else "")
        elif ticks.startswith(fence):
            fence, opening = "", ""
    return fence, opening


_RULE: Final = re.compile(
    r"(?P<id>[A-Za-z0-9_.@+-]{1,64})=((?P<name>[\w.@+-]{1,64}):)?(?P<role>\w+)"
)
_ODD: Final = re.compile(r"[^\w.+-]+")
NAME_MAX: Final = 64
RANKS: Final = tuple(Role)
STRANGER: Final = (
    "You are not on the list of people who may use this here. Ask whoever runs it. Nothing was "
    "stored or changed."
)


class Person(Struct, frozen=True):
    """Somebody on the list: their role, and the name they are called by."""

    role: Role
    name: str = ""


class People:
    """Maps people of a chat to roles. Those not on the list get the role ``others``, or none."""

    def __init__(
        self,
        users: Mapping[str, Person] | None = None,
        roles: Mapping[str, Role] | None = None,
        *,
        others: Role | None = None,
    ) -> None:
        self._users = dict(users or {})
        self._roles = dict(roles or {})
        self._others = others

    @classmethod
    def listed(cls, users: Iterable[str], roles: Iterable[str] = (), others: str = "") -> People:
        """Read ``ID=ROLE`` and ``ID=NAME:ROLE``, as they are given to a command."""
        people = {
            each["id"]: Person(_role(each["role"]), each["name"] or "") for each in _parsed(users)
        }
        ranks = {each["id"]: _role(each["role"]) for each in _parsed(roles)}
        return cls(people, ranks, others=_role(others) if others else None)

    def who(
        self, user: str, name: str, *, channel: str, chat: str, roles: Collection[str] = ()
    ) -> Actor | None:
        """Return the person behind a user of a chat; None if they may do nothing here.

        Their id is part of their name, unless the list names them: in a chat people can take
        the name of somebody else.
        """
        listed = self._users.get(user)
        ranks = [self._roles[role] for role in roles if role in self._roles]
        ranks += [listed.role] if listed else []
        if not ranks and self._others is None:
            return None
        role = max(ranks, key=RANKS.index) if ranks else self._others
        assert role is not None
        called = listed.name if listed and listed.name else f"{_name(name)}@{channel}:{_id(user)}"
        return Actor(by=called, role=role, channel=door(channel, chat))  # layer may-only-look

    def still(self, who: Actor) -> Actor | None:
        """Return a person of an earlier process with their role of now, never a higher one.

        The chat's own roles of a person who is not on the list are not known any more: the highest
        role that the list gives for any of them is taken. None if they may do nothing any more.
        """
        channel = who.channel.partition(":")[0]
        listed = next((p for user, p in self._users.items() if _is(who.by, user, p, channel)), None)
        ranks = [listed.role] if listed else [*self._roles.values()]
        ranks += [self._others] if self._others is not None else []
        if not ranks:
            return None
        return replace(who, role=min(max(ranks, key=RANKS.index), who.role, key=RANKS.index))


def _is(by: str, user: str, person: Person, channel: str) -> bool:
    return by == person.name or by.endswith(f"@{channel}:{_id(user)}")


def _name(given: str) -> str:
    """Return a chosen name without characters that a model could read as something else."""
    return _ODD.sub("_", given)[:NAME_MAX] or "somebody"  # layer name-says-nothing-but-name


def _id(given: str) -> str:
    """Return an id as it is, or a digest of it, so that different ids stay different."""
    plain = len(given) <= NAME_MAX and not _ODD.search(given)
    return given if plain else blake2b(given.encode(), digest_size=12).hexdigest()


def door(channel: str, chat: str) -> str:
    """Return the name of one chat among all the doors to a thread."""
    return f"{channel}:{chat}"


def shown(by: str) -> str:
    """Return a name as it is shown, without the id that keeps it apart from others."""
    name, at, rest = by.rpartition("@")
    return f"{name}@{rest.partition(':')[0]}" if at and ":" in rest else by


def _parsed(rules: Iterable[str]) -> list[re.Match[str]]:
    found = []
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None:
            raise InvalidRequest(
                f"{rule!r} is not a rule: write ID=ROLE or ID=NAME:ROLE. Nothing was started."
            )
        found.append(match)
    return found


def _role(word: str) -> Role:
    if word not in set(Role):
        raise InvalidRequest(f"{word!r} is not a role: use {', '.join(Role)}. Nothing was started.")
    return Role(word)
