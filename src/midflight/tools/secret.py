"""Arguments that must not be read in a journal: only their name is stored."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from typing_extensions import override

from midflight.errors import DOTS, InvalidRequest

MARK: Final = "$secret"

revealed: Final[set[str]] = set()  # the values of all secrets that were used in this process


def _from_environment(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise InvalidRequest(
            f"the secret {name} is not in the environment of this process. Export {name} and start "
            "the program again."
        )
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
            revealed.add(value)
        return value

    @override
    def __repr__(self) -> str:
        """Never the value."""
        return f"Secret({self.name!r})"


def to_stored(value: Any) -> Any:
    """Return a secret as it is stored, by its name; raise TypeError for anything else."""
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


# ── what people and models write ─────────────────────────────────────────────────────────────


def refuse_forged(value: Any, where: str) -> None:
    """Refuse data of a person or a model that would be read from a journal as a secret."""
    if isinstance(value, dict):
        if set(value) == {MARK}:
            raise InvalidRequest(
                f"{where} contain {{{MARK!r}: …}}, the form in which a secret is stored. Only a "
                "program can pass a secret, with Secret(…). Nothing was done."
            )
        for part in value.values():
            refuse_forged(part, where)
    elif isinstance(value, list | tuple):
        for part in value:
            refuse_forged(part, where)


def edited_beside(edited: Any, given: Any) -> Any:
    """Return what a person has edited, with secrets only where the code had put the same ones."""
    if isinstance(given, Secret) and (edited is given or edited == {MARK: given.name}):
        return given
    if isinstance(edited, dict):
        refuse_forged({MARK: ""} if set(edited) == {MARK} else {}, "the edited arguments")
        old = given if isinstance(given, dict) else {}
        return {key: edited_beside(part, old.get(key)) for key, part in edited.items()}
    if isinstance(edited, list | tuple):
        places = list(given) if isinstance(given, list | tuple) else []
        places += [None] * (len(edited) - len(places))
        return [edited_beside(part, old) for part, old in zip(edited, places, strict=False)]
    return edited


# ── what a tool says, returns and complains of ───────────────────────────────────────────────


def known() -> Iterable[str]:
    """The values that must not be written down, longest first: one may hold another."""
    return sorted(revealed, key=len, reverse=True)


def hide(text: str) -> str:
    """The text with dots where a secret was."""
    for value in known() if revealed else ():
        text = text.replace(value, DOTS)
    return text


def hide_within(value: Any) -> Any:
    """Plain data with dots in every text that held a secret."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {hide_within(key): hide_within(part) for key, part in value.items()}
    return [hide_within(part) for part in value] if isinstance(value, list) else value


class _Clean(logging.Filter):
    """Puts dots where a record holds a secret, before any handler sees it."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if not revealed:
            return True
        said = record.getMessage()
        if (clean := hide(said)) != said:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[1] is not None:
            told = logging.Formatter().formatException(record.exc_info)
            if (clean := hide(told)) != told:
                record.exc_info, record.exc_text = None, clean  # layer log-records-cleaned
        for name, value in vars(record).items():
            if isinstance(value, str) and name not in {"msg", "exc_text"}:
                setattr(record, name, hide(value))
        return True


def clean_logger(name: str) -> logging.Logger:
    """Return a logger whose messages and tracebacks hold no secret, whoever handles them."""
    log = logging.getLogger(name)
    if not any(isinstance(each, _Clean) for each in log.filters):
        log.addFilter(_Clean())
    return log


def beginning_of_one(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a secret."""
    if not revealed:  # asked for every word that a step says
        return 0
    return max(
        (n for value in known() for n in range(1, len(value)) if text.endswith(value[:n])),
        default=0,
    )
