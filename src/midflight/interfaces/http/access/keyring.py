"""The keys of callers: tokens of programs, one-time codes and sessions, which codes are traded for.

Secrets are shown once, when they are made, and kept only as digests. They are long and random, so
a plain SHA-256 tells nothing about them; they are compared in constant time.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import re
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct

from midflight.audit import DONE, NOTHING, Deed, deed
from midflight.errors import InvalidRequest, StoreBusy
from midflight.inputs import Clock, new_id, wall_clock
from midflight.journal.phases import Role
from midflight.journal.record import Actor

CODE_S: Final = 600.0  # a code is for somebody who opens the link now
LOCK_S: Final = 2.0  # what who changes keys waits for others who do
LOOK_S: Final = 0.01  # between two looks whether they are done
SESSION_S: Final = 30 * 24 * 3600.0
SESSIONS_MAX: Final = 256  # a person has few browsers; the oldest is forgotten
CHANGES_MAX: Final = 1_000  # that wait for a store to record them; the oldest is forgotten
CODES_MAX: Final = 256  # links that nobody has opened; the oldest is forgotten
_NAME: Final = re.compile(r"[A-Za-z0-9_.@+-]{1,64}")


class Key(Struct, frozen=True):
    """A secret, as its digest, and the caller it stands for. ``until`` 0 means for ever.

    ``page`` is the digest of a session's page secret. A session without one, which an older version
    has made, lets nobody in.
    """

    name: str
    role: Role
    digest: str
    until: float = 0.0
    page: str = ""


class Session(Struct, frozen=True):
    """The two secrets of a browser's session; neither is worth anything without the other.

    Browsers send a cookie to every port of a host, so a server of another user on the same machine
    is sent ours. The page secret is in the page's storage, which belongs to one port alone.
    """

    cookie: str
    page_secret: str


class _Kept(Struct):
    tokens: list[Key] = []
    sessions: list[Key] = []
    codes: list[Key] = []
    changes: list[Deed] = []
    """Changes that are not in the audit of a store yet; each is written with the change itself."""


class Keyring:
    """Tokens, codes and sessions. With a ``path`` they outlive the process.

    Several processes may share the file: what one of them changes the others see at once, and a
    code that one of them has made is taken by any of them, by one alone. A change may have to wait
    for other processes, so where others wait for us it is made in a thread.
    """

    def __init__(self, path: str | Path | None = None, *, clock: Clock = wall_clock) -> None:
        self._path = Path(path) if path is not None else None
        self._clock = clock
        self._known = _Kept()
        self._alone = Lock()
        self._seen: tuple[int, int] | None = None  # which version of the file is known
        _ = self._kept  # or a file that cannot be read is found out in the middle of a request

    def prepare(self) -> None:
        """Write it as it is: that this cannot be done is not to be found out in a request."""
        with self._changing():
            pass

    def issue(self, name: str, role: Role | str = Role.CONTROLLER) -> str:
        """Make a token for a program. A token that had this name is not valid any more."""
        secret, key = self._new(name, role)
        with self._changing() as kept:
            others = [token for token in kept.tokens if token.name != name]
            made = "token rotated" if len(others) < len(kept.tokens) else "token created"
            kept.tokens = [*others, key]
            _note(kept, _changed(made, key))
        return secret

    def revoke(self, name: str) -> bool:
        """Make token, sessions and unused codes of that name invalid; False if there were none."""
        with self._changing() as kept:
            before = len(kept.tokens) + len(kept.sessions) + len(kept.codes)
            kept.tokens = [token for token in kept.tokens if token.name != name]
            kept.sessions = [session for session in kept.sessions if session.name != name]
            kept.codes = [code for code in kept.codes if code.name != name]
            gone = before - len(kept.tokens) - len(kept.sessions) - len(kept.codes)
            outcome = DONE if gone else NOTHING
            revoked = deed("token revoked", name, id=new_id(), outcome=outcome)
            _note(kept, msgspec.structs.replace(revoked, about={"keys": gone}))
            return gone > 0

    def code(self, name: str, role: Role | str = Role.CONTROLLER) -> str:
        """Make a one-time code for a browser, valid for ten minutes."""
        secret, key = self._new(name, role, CODE_S)
        now = self._clock()
        with self._changing() as kept:
            still = [code for code in kept.codes if code.until >= now]
            kept.codes = [*still, key][-CODES_MAX:]
            _note(kept, _changed("link created", key))
        return secret

    def has_code(self, code: str) -> bool:
        """Return whether a code could be exchanged now."""
        return self._find(self._kept.codes, code) is not None

    def exchange(self, code: str) -> Session | None:
        """Give a session for a code, once."""
        if self._find(self._kept.codes, code) is None:  # a stranger's guess costs no write
            return None
        with self._changing() as kept:
            key = self._find(kept.codes, code)
            if key is None:  # another server was quicker
                return None
            kept.codes.remove(key)  # layer code-good-once
            cookie, made = self._new(key.name, key.role, SESSION_S)
            page_secret = _new_secret()
            session = msgspec.structs.replace(made, page=_digest(page_secret))
            kept.sessions = [*kept.sessions, session][-SESSIONS_MAX:]
        return Session(cookie, page_secret)

    def of_token(self, token: str) -> Actor | None:
        """Return the caller that a token stands for; None if the token is not known."""
        return _who(self._find(self._kept.tokens, token))

    def of_session(self, cookie: str, page_secret: str) -> Actor | None:
        """Return whose session it is; None unless both secrets are of one session."""
        key = self._find(self._kept.sessions, cookie)
        # layer cookie-without-page-secret-lets
        if key is None or not hmac.compare_digest(key.page, _digest(page_secret)):
            return None
        return _who(key)

    def end_session(self, cookie: str) -> None:
        """Log out."""
        with self._changing() as kept:
            key = self._find(kept.sessions, cookie)
            if key is not None:
                kept.sessions.remove(key)

    def changes(self) -> list[Deed]:
        """Return the changes that are not in the audit of a store yet."""
        return list(self._kept.changes)

    def forget_changes(self, ids: Collection[str]) -> None:
        """Forget changes that are in the audit now."""
        with self._changing() as kept:
            kept.changes = [change for change in kept.changes if change.id not in ids]

    def _new(self, name: str, role: Role | str, lasts: float = 0.0) -> tuple[str, Key]:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r} cannot be the name of a key: use up to 64 letters, digits and _.@+-. No "
                "key was made."
            )
        if name.lower() in set(Role):
            raise InvalidRequest(
                f"{name!r} is the name of a role: choose another name for the key. No key was made."
            )
        if role not in set(Role):
            raise InvalidRequest(f"{role!r} is not a role: use {', '.join(Role)}. No key was made.")
        secret = _new_secret()
        return secret, Key(name, Role(role), _digest(secret), self._clock() + lasts if lasts else 0)

    def _find(self, keys: list[Key], secret: str) -> Key | None:
        """Look at all of them, so that the time says nothing about which one it was."""
        digest, now, found = _digest(secret), self._clock(), None
        for key in keys:
            # layer key-ends-when-time-over
            if hmac.compare_digest(key.digest, digest) and not 0 < key.until < now:
                found = key
        return found

    @property
    def _kept(self) -> _Kept:
        """The keys in the file, read again whenever it has changed; in memory without a file."""
        if self._path is None:
            return self._known
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._known, self._seen = _Kept(), None
            return self._known
        if self._seen != (found.st_ino, found.st_mtime_ns):
            self._known, self._seen = self._read(self._path), (found.st_ino, found.st_mtime_ns)
        return self._known

    @contextmanager
    def _changing(self) -> Iterator[_Kept]:
        """Change what is kept, one at a time. What cannot be written has not been changed."""
        if self._path is None:
            with self._alone:
                yield self._known
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self._path.with_suffix(".lock")):
            # a copy of one's own, read for certain: two files of one moment can look alike
            kept = self._read(self._path) if self._path.exists() else _Kept()
            yield kept
            self._write(self._path, kept)
            self._seen = None

    def _read(self, path: Path) -> _Kept:
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Kept)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(
                f"{path} is not a file of keys: {error}. Move it away to begin with a new one. "
                "Nothing was changed."
            ) from None

    def _write(self, path: Path, kept: _Kept) -> None:
        """Replace the file in one move; nobody but its owner may read it."""
        fresh = path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock. Nobody else may open it, or any user of this machine could keep us out."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o600)
        deadline = time.monotonic() + LOCK_S
        while not _taken(handle):
            if time.monotonic() > deadline:
                raise StoreBusy(
                    f"another process has held the lock {path} for more than {LOCK_S:g} s: try "
                    "again, or find that process and end it. Nothing was changed."
                )
            time.sleep(LOOK_S)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # layer two-servers-given-one-code
    except BlockingIOError:
        return False
    return True


def _new_secret() -> str:
    return "mf_" + secrets.token_urlsafe(32)


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()  # layer keys-kept-as-digests


def _note(kept: _Kept, change: Deed) -> None:
    kept.changes = [*kept.changes, change][-CHANGES_MAX:]


def _changed(action: str, key: Key) -> Deed:
    return deed(action, key.name, id=new_id(), about={"role": str(key.role)})


def _who(key: Key | None) -> Actor | None:
    return Actor(by=key.name, role=key.role, channel="http") if key is not None else None
