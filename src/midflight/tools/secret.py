"""Arguments that must not be read in a journal: only their name is stored."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from midflight.errors import DOTS, InvalidRequest
from midflight.overriding import override

MARK: Final = "$secret"

_values: Final[set[str]] = set()  # of every secret that was used in this process


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise InvalidRequest(f"the secret {name} is not set; export {name} and try again.")
    return value


class Secret:
    """A reference to a value that stays outside: ``Secret("CRM_TOKEN")``, ``secret.reveal()``.

    A journal holds the name, a screen shows dots. The value is looked up where it is used, by
    default in the environment, so an undo after a restart finds it again.
    """

    find: Callable[[str], str] = staticmethod(_from_environment)

    def __init__(self, name: str) -> None:
        self.name = name

    def reveal(self) -> str:
        """The value itself."""
        value = type(self).find(self.name)
        if value:
            _values.add(value)
        return value

    @override
    def __repr__(self) -> str:
        """Never the value."""
        return f"Secret({self.name!r})"


def to_stored(value: Any) -> Any:
    """How an encoder writes it; raises TypeError for anything else, as encoders want."""
    if isinstance(value, Secret):
        with contextlib.suppress(Exception):  # it may be set only where the tool runs
            value.reveal()
        return {MARK: value.name}
    raise TypeError


def from_stored(value: Any) -> Any:
    """Plain data with references in it, as tools get it."""
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return Secret(value[MARK])
        return {key: from_stored(part) for key, part in value.items()}
    return [from_stored(part) for part in value] if isinstance(value, list) else value


# ── what a tool says, returns and complains of ───────────────────────────────────────────────


def known() -> Iterable[str]:
    """The values that must not be written down, longest first: one may hold another."""
    return sorted(_values, key=len, reverse=True)


def hide(text: str) -> str:
    """The text with dots where a secret was."""
    for value in known() if _values else ():
        text = text.replace(value, DOTS)
    return text


def hide_within(value: Any) -> Any:
    """Plain data with dots in every text that held a secret."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide_within(key): hide_within(part) for key, part in value.items()}
    return [hide_within(part) for part in value] if isinstance(value, list) else value


def beginning_of_one(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a secret."""
    if not _values:  # asked for every word that a step says
        return 0
    return max(
        (n for value in _values for n in range(1, len(value)) if text.endswith(value[:n])),
        default=0,
    )
