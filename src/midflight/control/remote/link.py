"""One server, asked again and again until it answers, within bounds.

A request that changes something carries an idempotency key, so that it can be repeated when its
answer was lost, and is not done twice. A request without a key is repeated only if it surely was
not sent. An error that comes back is the one that was raised there. The token is found in the
environment, or in a file that only its owner can read.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx
import msgspec
from msgspec import Struct

from midflight import errors
from midflight.control.any_control import PATIENCE_S
from midflight.errors import InvalidRequest, MidflightError, NotAdmitted, ServerAway
from midflight.inputs import LOOPBACK, Clock, wall_clock

KINDS: Final[Mapping[str, type[errors.MidflightError]]] = {
    "not_allowed": errors.NotAllowed,
    "illegal_signal": errors.IllegalSignal,
    "outdated": errors.Outdated,
    "key_reused": errors.KeyReused,
    "scope_stopped": errors.ScopeStopped,
    "refused": errors.InvalidRequest,
    "invalid": errors.InvalidRequest,
    "not_json": errors.InvalidRequest,
    "position_ahead": errors.InvalidRequest,
    "unknown_agent": errors.UnknownAgent,
    "not_found": errors.JournalNotFound,
    "too_large": errors.PayloadTooLarge,
    "store_busy": errors.StoreBusy,
    "store_read_only": errors.StoreReadOnly,
    "store_full": errors.StoreFull,
    "store_replaced": errors.StoreReplaced,
    "store_unavailable": errors.StoreUnavailable,
    "not_known": errors.NotAdmitted,
    "wrong_host": errors.NotAdmitted,
    "wrong_origin": errors.NotAdmitted,
}
"""The server's name of an error -> the error. One that is not known here is ``ServerFailed``."""


class Told(Struct):
    """A problem, as the server tells it."""

    error: str
    message: str
    changed: bool | None = None
    state: Any = None
    about: dict[str, Any] | None = None


def told(status: int, body: bytes, url: str) -> Told:
    """Read an answer that is an error; also one that does not come from a Midflight server."""
    try:
        return msgspec.json.decode(body, type=Told)
    except msgspec.MsgspecError:
        return Told(
            "failed",
            f"{url} answers with {status}, and not as a Midflight server does: is the address "
            "right? It is not known whether anything was changed.",
        )


def error_of(problem: Told) -> errors.MidflightError:
    """The error with its words, its fields, and as ``state`` how the run really is."""
    kind = KINDS.get(problem.error, errors.ServerFailed)
    error = kind.__new__(kind)
    Exception.__init__(error, problem.message)
    for name, value in (problem.about or {}).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    if problem.state is not None:
        error.state = problem.state  # type: ignore[attr-defined]  # only who was refused has it
    return error


CALL_S: Final = 30.0  # an answer takes this long at most; a delivery may be waited for 25 s of it
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 2.0
ANSWER_MAX: Final = 64 * 1024 * 1024
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
LATER: Final = frozenset({429, 502, 503, 504})

T = TypeVar("T")
Params = Mapping[str, str | int | float | Sequence[str]]
Connected = Callable[[bool], None]


def checked_url(url: str, *, insecure: bool = False) -> str:
    """The address, if a token may be sent there."""
    try:
        parts = urlsplit(url)
    except ValueError:  # half of an address in brackets
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidRequest(
            f"{url!r} is not the address of a server; write it as http://127.0.0.1:8321. "
            "Nothing was sent."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidRequest(
            "the address of a server must not hold a user name, a password, a query or a "
            f"fragment: write only {parts.scheme}://{parts.hostname} and the port. The token "
            "comes from MIDFLIGHT_TOKEN or a file. Nothing was sent."
        )
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not insecure:
        raise NotAdmitted(
            f"{parts.hostname} is another machine, and over http:// anybody on the network in "
            "between could read your token. Use https://. Nothing was sent."
        )
    return url.rstrip("/")


class Waits:
    """Waits between tries: longer and longer up to a bound, until the patience is at its end."""

    def __init__(self, patience_s: float) -> None:
        self._deadline = anyio.current_time() + patience_s
        self._next = FIRST_WAIT_S

    async def one(self, at_least: float = 0.0) -> bool:
        """Wait a little; False if there is no time for that any more."""
        jitter = random.uniform(0.8, 1.2)
        wait = max(at_least, self._next * jitter)
        if anyio.current_time() + wait > self._deadline:
            return False
        self._next = min(2 * self._next, LONGEST_WAIT_S)
        await anyio.sleep(wait)
        return True


class Link:
    """Requests to one server. ``connected`` hears whether the last one found it."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience_s: float = PATIENCE_S,
        connected: Connected | None = None,
        clock: Clock = wall_clock,
    ) -> None:
        self.url = url
        self.patience_s = patience_s
        self.tell: Connected = connected or (lambda _: None)
        self._clock = clock
        self._ahead_s: float | None = None  # of our clock; to the second, as HTTP tells the time
        here = urlsplit(url).hostname in LOOPBACK
        self.http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(CALL_S, connect=5.0),
            trust_env=not here,  # a proxy has no business between two processes of one machine
            follow_redirects=False,  # or the token would go wherever an answer says
        )

    async def get(self, path: str, kind: type[T], params: Params | None = None) -> T:
        """Look something up."""
        return self._decoded(await self.ask("GET", path, params=params), kind)

    async def post(self, path: str, kind: type[T], body: Mapping[str, Any], *, key: str = "") -> T:
        """Have something done; under a key it can be repeated."""
        try:
            content = msgspec.json.encode(body)
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRequest(
                "the request cannot be written as JSON, because a value in it is not plain data: "
                f"{error}. Nothing was changed."
            ) from None
        return self._decoded(await self.ask("POST", path, content=content, key=key), kind)

    def now(self) -> float:
        """The server's time, as far as its answers tell it."""
        return self._clock() - (self._ahead_s or 0.0)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | None = None,
        key: str = "",
    ) -> bytes:
        """One request and its answer; repeated while the server is away, if that is safe."""
        waits, sent = Waits(self.patience_s), False
        safe = method == "GET" or bool(key)
        headers = {"content-type": "application/json"} if content is not None else {}
        headers |= {"idempotency-key": key} if key else {}
        while True:
            after_s = 0.0
            try:
                with anyio.fail_after(CALL_S + 5.0):
                    answer = await self.http.request(
                        method, path, params=params, content=content, headers=headers
                    )
            except NOT_SENT as error:
                failure: MidflightError = self._away(error, sent, key)
            except (httpx.TransportError, httpx.InvalidURL, TimeoutError) as error:
                sent = sent or method != "GET"
                failure = self._away(error, sent, key)
                if not safe:
                    raise failure from None
            else:
                self.tell(True)
                if answer.is_success:
                    self._note_time(answer)
                    return answer.content
                problem = told(answer.status_code, answer.content, self.url)
                failure, after_s = error_of(problem), _asked_to_wait(answer)
                unsure = answer.status_code == 500 and problem.changed is None and bool(key)
                if not (unsure or (safe and answer.status_code in LATER)):
                    raise failure
            if not await waits.one(after_s):
                raise failure from None

    def _away(self, error: Exception, sent: bool, key: str) -> ServerAway:
        self.tell(False)
        why = "it did not answer in time" if _timed_out(error) else str(error) or "it hung up"
        return ServerAway(self.url, why.rstrip("."), sent=sent, key=key if sent else "")

    def _note_time(self, answer: httpx.Response) -> None:
        """Note the server's time by an answer; half a second is added, as HTTP has whole ones."""
        said = answer.headers.get("date", "")
        try:
            there = parsedate_to_datetime(said).timestamp() + 0.5
        except ValueError:
            return
        ahead = self._clock() - there
        if self._ahead_s is None or abs(ahead - self._ahead_s) > 1.0:
            self._ahead_s = ahead if abs(ahead) > 1.0 else 0.0

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise error_of(told(200, b"", self.url)) from error


def _timed_out(error: Exception) -> bool:
    return isinstance(error, httpx.TimeoutException | TimeoutError)


def _asked_to_wait(answer: httpx.Response) -> float:
    try:
        return min(LONGEST_WAIT_S, float(answer.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


VARIABLE: Final = "MIDFLIGHT_TOKEN"
FILE_VARIABLE: Final = "MIDFLIGHT_TOKEN_FILE"
SIZE_MAX: Final = 4096


def usual_file() -> Path:
    """Return the path of the file that holds a person's token, unless they name another one."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(os.environ.get(FILE_VARIABLE) or Path(config) / "midflight" / "token")


def found_token(path: str | Path | None = None) -> str:
    """Return the token of ``MIDFLIGHT_TOKEN``, or of a file; "" if there is no token.

    A file that other users can read is refused: its token is no secret any more.
    """
    if path is None and (given := os.environ.get(VARIABLE, "").strip()):
        return checked_token(given, VARIABLE)
    place = Path(path) if path is not None else usual_file()
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        if path is None:
            return ""
        raise NotAdmitted(
            f"there is no token file {place}: name the right one, or put the token into "
            "MIDFLIGHT_TOKEN. Nothing was sent."
        ) from None
    except OSError as error:
        raise NotAdmitted(
            f"the token file {place} cannot be read: {error.strerror}. Nothing was sent."
        ) from None
    with os.fdopen(handle, "rb") as file:
        _check(place, os.fstat(file.fileno()))
        token = file.read(SIZE_MAX).decode("ascii", "replace").strip()
    return checked_token(token, str(place))


def checked_token(token: str, place: str) -> str:
    """Return a token that can stand in a request; another is refused, and as a secret not shown."""
    if not (token and token.isascii() and token.isprintable()) or " " in token:
        raise NotAdmitted(
            f"{place} does not hold a token, which is one word of ASCII. Nothing was sent."
        )
    return token


def _check(place: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotAdmitted(
            f"{place} cannot hold a token: it is not an ordinary file. Nothing was sent."
        )
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotAdmitted(
            f"other users can read the token file {place}. Run `chmod 600 {place}`, and have a "
            "new token made if somebody may have read it. Nothing was sent."
        )


def keep_token(token: str, path: Path | None = None) -> Path:
    """Write a token where ``found_token`` finds it, readable by nobody else."""
    place = path or usual_file()
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    fresh.replace(place)
    return place
