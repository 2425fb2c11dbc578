"""Arguments that must not be read in a journal: only their name is stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from midflight.errors import InvalidRequest

MARK: Final = "$secret"


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
        return type(self).find(self.name)

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # typing.override is newer
        """Never the value."""
        return f"Secret({self.name!r})"


def to_stored(value: Any) -> Any:
    """How an encoder writes it; raises TypeError for anything else, as encoders want."""
    if isinstance(value, Secret):
        return {MARK: value.name}
    raise TypeError


def from_stored(value: Any) -> Any:
    """Plain data with references in it, as tools get it."""
    if isinstance(value, dict):
        if set(value) == {MARK}:
            return Secret(value[MARK])
        return {key: from_stored(part) for key, part in value.items()}
    return [from_stored(part) for part in value] if isinstance(value, list) else value
