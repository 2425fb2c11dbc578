"""One call over HTTP: bounds for its silence, its failures as errors of ours, and its price."""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final, Protocol, TypedDict

import anyio
import msgspec
from msgspec.structs import replace

from midflight.errors import (
    DOTS,
    ModelBroken,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from midflight.inputs import Clock, wall_clock
from midflight.models.model import Spent, Stop, TextDelta

FIRST_TOKEN_S: Final = 120.0  # a model that thinks says nothing for long
BETWEEN_S: Final = 120.0
CONNECT_S: Final = 10.0
CLOSE_S: Final = 2.0
QUOTED_MAX: Final = 300  # characters of a provider's own words

OWN_CONNECTION: Final = {"Connection": "close"}
"""Each call has its own: to close it is to abort, and none goes stale between two calls."""

STATUS_OF: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""An error in the middle of a stream has no status of its own any more."""

NO_MONEY: Final = {"insufficient_quota", "enforced_spend_limit_reached"}


@cache
def certificates() -> ssl.SSLContext:
    """Return the trusted certificates. All models share them, because reading takes 20 ms."""
    import httpx2  # both SDKs are built on it

    return httpx2.create_ssl_context()


def usable(key: str, variable: str) -> str:
    """Return a key that can go into a header; raise for others, which libraries would print."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:  # layer key-cannot-one-not-tried
        raise ModelUnavailable(
            f"{variable} holds characters that no key has", f"Set {variable} to the key alone."
        )
    return key


class SdkStream(Protocol):
    """The stream of an answer, as both SDKs give it."""

    async def __anext__(self) -> Any:
        """Return the next event."""

    async def close(self) -> None:
        """Close the connection."""


class Bounds(TypedDict, total=False):
    """Seconds for which an answer may be silent, and the clock that prices go by."""

    first_token_s: float
    between_s: float
    clock: Clock


class Sdk:
    """An SDK with a client that makes no retries, and the model, server and key that it is for."""

    def __init__(
        self,
        package: Any,
        client: Callable[..., Any],
        model: str,
        base_url: str | None,
        key_variable: str,
        key: str,
        *,
        no_key: str = "",
        first_token_s: float = FIRST_TOKEN_S,
        between_s: float = BETWEEN_S,
        clock: Clock = wall_clock,
    ) -> None:
        self.package, self.model, self.clock = package, model, clock
        self.first_token_s, self.between_s = first_token_s, between_s
        self.key_variable, self.key = key_variable, usable(key, key_variable)
        self.client = client(
            api_key=self.key or no_key,
            base_url=base_url,
            max_retries=0,  # layer no-sdk-retries-by-itself
            timeout=package.Timeout(None, connect=CONNECT_S),  # the bounds of a `Call` are ours
            default_headers=OWN_CONNECTION,
            http_client=package.DefaultAsyncHttpxClient(verify=certificates()),
        )
        self.url = str(self.client.base_url)


class Call:
    """One answer on its way. Its reader adds to ``text`` and sets ``begun``."""

    def __init__(self, sdk: Sdk) -> None:
        self.sdk = sdk
        self.text: list[str] = []
        self.begun = False  # a piece of the answer has come
        self._connected = False

    async def events(
        self, ask: Callable[[], Awaitable[SdkStream]]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The events of the answer as plain data, each within its bound."""
        stream: SdkStream | None = None
        try:
            while True:
                failure: ModelError
                try:
                    with anyio.fail_after(self._patience):
                        if stream is None:
                            stream = await ask()
                            self._connected = True
                        event = await stream.__anext__()
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    failure = self._silent()
                except Exception as error:  # noqa: BLE001 - whatever an SDK makes of what came in
                    failure = self._meaning(error)  # layer sdk-raised-not-carried-along
                else:
                    yield self._plain(event)
                    continue
                raise failure  # outside of the handler, so that it does not carry the SDK's error
        finally:
            if stream is not None:
                with anyio.move_on_after(CLOSE_S, shield=True):
                    await stream.close()  # layer leaving-stream-closes-connection

    def read(self, raw: dict[str, Any], kind: Any) -> Any:
        """Return an event as one of ``kind``, a type or a union; raise for one of another shape."""
        try:
            return msgspec.convert(raw, type=kind)
        except msgspec.ValidationError as error:
            raise self.broken(f"a piece of it cannot be read ({error})") from None

    def say(self, text: str) -> TextDelta:
        """Add a piece of the text."""
        self.text.append(text)
        return TextDelta(text)

    def stop(self, reason: str, known: Mapping[str, Stop]) -> Stop:
        """Return why the answer has ended; raise if it has not, or for an unknown reason."""
        if not reason:
            raise self.broken("the stream ended before the answer did")
        if reason not in known:
            raise self.broken(f"it stopped for a reason that Midflight does not know ({reason})")
        return known[reason]

    def broken(self, why: str) -> ModelBroken:
        """The answer is not whole."""
        return ModelBroken(self.sdk.model, why, "".join(self.text))

    @property
    def _patience(self) -> float:
        # layer first-token-has-bound
        return self.sdk.between_s if self.begun else self.sdk.first_token_s

    def _silent(self) -> ModelError:
        why = f"it was silent for {self._patience:g} s"
        return self.broken(why) if self.begun else ModelBusy(self.sdk.model, why)

    def _plain(self, event: Any) -> dict[str, Any]:
        """Return an event as plain data; the SDK does not check the shape of its objects."""
        to_dict = getattr(event, "to_dict", None)
        if to_dict is None:
            # layer chunk-no-object-not-passed-over
            raise self.broken(f"a piece of it is no object but a {type(event).__name__}")
        plain: dict[str, Any] = to_dict(warnings=False)
        return plain

    def _meaning(self, error: Exception) -> ModelError:
        sdk, words = self.sdk, self._words(error)
        if isinstance(error, ValueError):
            return self.broken(f"a piece of it cannot be read ({words})")
        if self.begun:
            return self.broken(f"it broke off ({words})")
        status, code = _status(error), _code(error)
        if isinstance(error, sdk.package.APIStatusError) and status >= 400:
            if code in NO_MONEY or not _may_pass(status):  # layer account-without-money-not-asked
                return _refusal(sdk, status, code, words)
            return ModelBusy(sdk.model, f"{words} (HTTP {status})", retry_after=self._after(error))
        if getattr(error, "body", None) is not None:  # sent in place of an answer, with no status
            return ModelBusy(sdk.model, words)
        if isinstance(error, sdk.package.APIConnectionError) and not self._connected:
            return ModelBusy(sdk.model, f"{sdk.url} cannot be reached ({words})")
        return self.broken(f"the connection broke before the answer began ({words})")

    def _words(self, error: Exception) -> str:
        """Return the provider's message, or else that of the cause; never with the key."""
        said = _in_body(error, "message")
        if not said:
            cause = error.__cause__ or error
            said = f"{type(cause).__name__}: {cause}".rstrip(": ")
        # layer provider-words-quoted-without-key
        said = said.replace(self.sdk.key, DOTS) if self.sdk.key else said
        said = " ".join(said.split()).rstrip(".")
        return said if len(said) <= QUOTED_MAX else f"{said[:QUOTED_MAX]}…"

    def _after(self, error: Exception) -> float | None:
        """Return how many seconds the provider asks us to wait; None if it does not say."""
        headers = getattr(getattr(error, "response", None), "headers", {})
        said = headers.get("retry-after", "")
        try:
            seconds = float(said)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(said).timestamp() - self.sdk.clock()
            except ValueError:
                return None
        return max(seconds, 0.0) if math.isfinite(seconds) else None


def _may_pass(status: int) -> bool:
    """Return whether the same request may be taken later."""
    return status in {408, 409, 425, 429} or status >= 500


def _refusal(sdk: Sdk, status: int, code: str, words: str) -> ModelRefused:
    if status in {401, 403}:  # a provider may quote a part of the key
        words = "the key is not accepted" if status == 401 else "the key may not do this"
    now = {
        401: f"Check {sdk.key_variable}.",
        402: "Check the account's balance and limits at the provider.",
        403: f"Check what the key in {sdk.key_variable} may use.",
        404: f"Check the model's name and the address {sdk.url}.",
        413: "Send less: the conversation is too long.",
    }
    advice = now[402] if code in NO_MONEY else now.get(status, "Change the request.")
    return ModelRefused(sdk.model, f"{words} (HTTP {status})", advice, status=status)


def _status(error: Exception) -> int:
    status = getattr(error, "status_code", 0)
    return STATUS_OF.get(_in_body(error, "type"), 0) if status == 200 else int(status)


def _code(error: Exception) -> str:
    return _in_body(error, "code") or _in_body(error, "details", "error_code")


def _in_body(error: Exception, *path: str) -> str:
    """A text in the error that the provider sent; one SDK unwraps it and the other does not."""
    found: Any = getattr(error, "body", None)
    for part in (*_wrapping(found), *path):
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def _wrapping(body: Any) -> Iterable[str]:
    return ("error",) if isinstance(body, dict) and isinstance(body.get("error"), dict) else ()


def priced(spent: Spent, *, url: str, at: float) -> Spent:
    """Return the usage with its price, if the server at ``url`` is known to sell that model."""
    # layer estimated-figures-have-no-price
    return spent if spent.estimated else replace(spent, usd=_usd(spent, url, at))


def _usd(spent: Spent, url: str, at: float) -> float | None:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    try:
        usage = Usage(
            input_tokens=spent.input_tokens,
            cache_read_tokens=spent.cached_tokens,
            cache_write_tokens=spent.cache_write_tokens,
            output_tokens=spent.output_tokens,
        )
        found = calc_price(  # layer server-not-known-has-no-price
            usage,
            spent.model,
            provider_api_url=url,
            genai_request_timestamp=datetime.fromtimestamp(at, UTC),
        )
    except (LookupError, ValueError):  # not on the list, or figures that cannot be right
        return None
    return (
        float(found.total_price) or None
    )  # the list has models without a price: they cost 0 there
