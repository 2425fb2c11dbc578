"""Who may come in: tokens of programs, one-time codes and the sessions they are exchanged for.

Secrets are shown once, when they are made, and kept only as digests. They are long and random, so
a plain SHA-256 tells nothing about them; they are compared in constant time.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock
from midflight.kernel.phases import Role
from midflight.kernel.record import Who

CODE_S: Final = 600.0  # a code is for the person who has just started the server
SESSION_S: Final = 30 * 24 * 3600.0
SESSIONS_MAX: Final = 256  # a person has few browsers; the oldest is forgotten
_NAME: Final = re.compile(r"[A-Za-z0-9_.@+-]{1,64}")


class Key(Struct, frozen=True):
    """A secret, as its digest, and who it stands for. ``until`` 0 means for ever."""

    name: str
    role: Role
    digest: str
    until: float = 0.0


class _Kept(Struct):
    tokens: list[Key] = []
    sessions: list[Key] = []


class Keyring:
    """Tokens, codes and sessions. With a ``path`` all but the codes outlive the process."""

    def __init__(self, path: str | Path | None = None, *, clock: Clock = wall_clock) -> None:
        self._path = Path(path) if path is not None else None
        self._clock = clock
        self._codes: list[Key] = []
        there = self._path is not None and self._path.exists()
        self._kept = self._read() if there else _Kept()

    def issue(self, name: str, role: Role | str = Role.CONTROLLER) -> str:
        """Make a token for a program. A token that had this name is not valid any more."""
        secret, key = self._new(name, role)
        self._kept.tokens = [token for token in self._kept.tokens if token.name != name]
        self._kept.tokens.append(key)
        self._write()
        return secret

    def revoke(self, name: str) -> bool:
        """Make a token and the sessions of that name invalid; False if there were none."""
        kept = self._kept
        before = len(kept.tokens) + len(kept.sessions)
        kept.tokens = [token for token in kept.tokens if token.name != name]
        kept.sessions = [session for session in kept.sessions if session.name != name]
        self._write()
        return len(kept.tokens) + len(kept.sessions) < before

    def code(self, name: str, role: Role | str = Role.CONTROLLER) -> str:
        """Make a one-time code for a browser, valid for ten minutes."""
        secret, key = self._new(name, role, CODE_S)
        self._codes.append(key)
        return secret

    def exchange(self, code: str) -> str | None:
        """Give a session for a code, once."""
        key = self._find(self._codes, code)
        if key is None:
            return None
        self._codes.remove(key)
        secret, session = self._new(key.name, key.role, SESSION_S)
        self._kept.sessions = [*self._kept.sessions, session][-SESSIONS_MAX:]
        self._write()
        return secret

    def of_token(self, token: str) -> Who | None:
        """Whose token it is."""
        return _who(self._find(self._kept.tokens, token))

    def of_session(self, session: str) -> Who | None:
        """Whose session it is."""
        return _who(self._find(self._kept.sessions, session))

    def end_session(self, session: str) -> None:
        """Log out."""
        key = self._find(self._kept.sessions, session)
        if key is not None:
            self._kept.sessions.remove(key)
            self._write()

    def _new(self, name: str, role: Role | str, lasts: float = 0.0) -> tuple[str, Key]:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r} is not a name: use up to 64 letters, digits and _.@+-. No key was made."
            )
        if role not in set(Role):
            raise InvalidRequest(f"{role!r} is not a role: use {', '.join(Role)}. No key was made.")
        secret = "mf_" + secrets.token_urlsafe(32)
        return secret, Key(name, Role(role), _digest(secret), self._clock() + lasts if lasts else 0)

    def _find(self, keys: list[Key], secret: str) -> Key | None:
        """Look at all of them, so that the time says nothing about which one it was."""
        digest, now, found = _digest(secret), self._clock(), None
        for key in keys:
            if hmac.compare_digest(key.digest, digest) and not 0 < key.until < now:
                found = key
        return found

    def _read(self) -> _Kept:
        assert self._path is not None
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(
                f"{self._path} does not hold keys: {error}. Move it away to begin anew; nothing "
                "was changed."
            ) from None

    def _write(self) -> None:
        """Replace the file in one move; nobody but its owner may read it."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._kept)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _who(key: Key | None) -> Who | None:
    return Who(by=key.name, role=key.role, channel="http") if key is not None else None
