"""The allow-list of a chat: people and the chat's own roles, each with a role of ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midflight.errors import InvalidRequest
from midflight.journal.phases import Role
from midflight.journal.record import Actor

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
            each["id"]: Person(_role(each["role"]), each["name"] or "") for each in _read(users)
        }
        ranks = {each["id"]: _role(each["role"]) for each in _read(roles)}
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
        return Actor(by=called, role=role, channel=door(channel, chat))

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
    return _ODD.sub("_", given)[:NAME_MAX] or "somebody"


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


def _read(rules: Iterable[str]) -> list[re.Match[str]]:
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
