"""One server, asked again and again until it answers, within bounds.

A request that changes something carries an idempotency key, so that it can be repeated when its
answer was lost, and is not done twice. A request without a key is repeated only if it surely was
not sent.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx
import msgspec

from midflight.control.remote.refusals import error_of, told
from midflight.errors import InvalidRequest, MidflightError, NotAdmitted, ServerAway
from midflight.inputs import LOOPBACK, Clock, wall_clock

CALL_S: Final = 30.0  # an answer takes this long at most; a delivery may be waited for 25 s of it
PATIENCE_S: Final = 10.0  # for a server that is away
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
            f"{parts.hostname} is another machine, and over http:// everybody on the way could "
            "read your token. Use https://. Nothing was sent."
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
