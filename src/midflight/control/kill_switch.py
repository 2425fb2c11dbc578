"""The operator's switch: stops all runs in a scope at once, and lets them move again."""

from __future__ import annotations

from midflight.control.any_control import scope_of
from midflight.control.audit_trail import wrote_record
from midflight.control.recorder import Recorder
from midflight.errors import InvalidRequest
from midflight.journal.record import Actor
from midflight.runtime.threads.succession import look_after
from midflight.stores.protocol import Killing


class KillSwitch:
    """Does the verbs of operators over a scope."""

    def __init__(self, record: Recorder) -> None:
        self.record = record

    async def kill(self, scope: str, reason: str, *, who: Actor) -> Killing:
        """Stop everything in scope. When this returns, it has stopped."""
        scope_of(scope)
        _check_reason(reason)
        killing = await self.record.store.kill(scope, who, reason)
        wrote_record()
        return killing

    async def release(self, scope: str, *, who: Actor) -> bool:
        """Let a scope move again, and have what waits there driven. False if it was not stopped."""
        record = self.record
        scope_of(scope)
        released = await record.store.release(scope, who)
        wrote_record()
        for row in await record.store.due() if released else ():
            if row.kind == "thread":
                for run in await look_after(record.store.submit, record.ids, row.journal):
                    await record.engine.ensure(run)
            else:
                await record.engine.ensure(row.journal)
        return released


def _check_reason(reason: str) -> None:
    try:
        str.encode(reason)
    except (TypeError, UnicodeEncodeError):
        raise InvalidRequest(
            f"reason= must be a text, not {reason!r:.80}. Nothing was stopped."
        ) from None
