"""Deliveries signed as the Standard Webhooks specification says: genuine, recent, and taken once.

``webhook-signature`` is ``v1,`` and the HMAC-SHA256 over id, timestamp and body. A delivery that is
older than five minutes is refused, and so is the same delivery a second time.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from midflight.errors import InvalidRequest
from midflight.inputs import Clock, wall_clock

TOLERANCE_S: Final = 300.0
SECRET_BYTES_MIN: Final = 24
SEEN_MAX: Final = 100_000  # within the tolerance; more than that is not a chat
PREFIX: Final = "whsec_"


class NotGenuine(InvalidRequest):
    """A delivery has a wrong signature, is too old, or was taken before."""


class Signer:
    """Signs what goes out and checks what comes in, with one secret for each way or for both."""

    def __init__(self, secret: str, *, clock: Clock = wall_clock) -> None:
        self._secret = _decoded(secret)
        self._clock = clock
        self._seen: dict[str, float] = {}

    def sign(self, delivery: str, body: bytes) -> dict[str, str]:
        """Return the headers that go with a body."""
        stamp = str(int(self._clock()))
        return {
            "webhook-id": delivery,
            "webhook-timestamp": stamp,
            "webhook-signature": self._signature(delivery, stamp, body),
        }

    def check(self, headers: Mapping[str, str], body: bytes) -> str:
        """Give the id of a delivery that is genuine, fresh and new; raise ``NotGenuine`` if not."""
        delivery, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        is_stamped = stamp.isascii() and stamp.isdigit() and len(stamp) <= 12
        if not 0 < len(delivery) <= 128 or not is_stamped:
            raise NotGenuine("the delivery has no id or no timestamp. Nothing was changed.")
        given = headers.get("webhook-signature", "").split(" ")[:8]
        right = self._signature(delivery, stamp, body)
        genuine = [hmac.compare_digest(each.encode(), right.encode()) for each in given]
        if not any(genuine):
            raise NotGenuine("the signature does not fit. Nothing was changed.")
        now = self._clock()
        if abs(now - int(stamp)) > TOLERANCE_S:
            raise NotGenuine(
                f"the delivery is not of this moment: its time is {int(now - int(stamp))} s away. "
                "Nothing was changed."
            )
        self._once(right, now)
        return delivery

    def forget(self, headers: Mapping[str, str], body: bytes) -> None:
        """Forget a delivery that could not be taken, so that the same one may come again."""
        delivery, stamp = headers["webhook-id"], headers["webhook-timestamp"]
        self._seen.pop(self._signature(delivery, stamp, body), None)

    def _once(self, signature: str, now: float) -> None:
        """Refuse a signature that was seen before: a sender that tries again signs again."""
        if signature in self._seen:
            raise NotGenuine("this very delivery was taken before. Nothing was changed.")
        while self._seen and now - next(iter(self._seen.values())) > 2 * TOLERANCE_S:
            del self._seen[next(iter(self._seen))]  # the oldest came first
        if len(self._seen) >= SEEN_MAX:
            raise NotGenuine(
                "too many deliveries at once; send it again later. Nothing was changed."
            )
        self._seen[signature] = now

    def _signature(self, delivery: str, stamp: str, body: bytes) -> str:
        signed = b".".join([delivery.encode(), stamp.encode(), body])
        return "v1," + base64.b64encode(hmac.new(self._secret, signed, sha256).digest()).decode()


def _decoded(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < SECRET_BYTES_MIN:
        raise InvalidRequest(
            f"the secret of a webhook is {PREFIX} and at least {SECRET_BYTES_MIN} bytes in base64. "
            "Nothing was started."
        )
    return key
