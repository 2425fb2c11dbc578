"""An approval and a record count only for the call that they are about, byte for byte.

Identities of steps and questions hold a digest of what the function has given. In runs of earlier
releases that digest has 48 bits, and two calls with the same one can be made in minutes. So what
is on record under such an identity is compared with what is asked for now. Where they differ, the
call gets an identity with a full-length digest, and nothing that was said about the other one
counts for it.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from midflight.executor import values
from midflight.executor.replay import Replay
from midflight.kernel import events as e
from midflight.kernel.identities import KEYED, about_step


def step_identity(
    replay: Replay, key: str, name: str, stored: Raw, *, reusable: bool
) -> tuple[str, str]:
    """Return the digest of a step's arguments and the identity of the step."""
    size = replay.digest_bytes
    asked = values.digest(bytes(stored), size)
    if key:
        return asked, replay.identity(f"{KEYED}{key}")
    identity = replay.identity(replay.scoped(f"{name}:{asked}", reusable=reusable))
    if size < values.DIGEST_BYTES and _is_another_call(replay, identity, stored):
        replay.give_back(identity)
        asked = values.digest(bytes(stored))
        identity = replay.identity(replay.scoped(f"{name}:{asked}", reusable=reusable))
    return asked, identity


def _is_another_call(replay: Replay, identity: str, stored: Raw) -> bool:
    """Return whether the call on record under a short identity had other arguments.

    A person may have edited the arguments of the attempt: then the question shows what was given.
    """
    about = [asked for asked in replay.asked.values() if about_step(asked) == identity]
    given = [begun.event.input for begun in replay.attempts_of(identity)]
    given += [shown for asked in about if (shown := arguments_shown(asked)) is not None]
    return bool(given) and not any(bytes(each) == bytes(stored) for each in given)


def question_name(replay: Replay, kind: str, message: str, schema: Raw) -> str:
    """Return what the identity of a question of the function is made of."""
    size = replay.digest_bytes
    short = f"{kind}:{message}:{values.digest(bytes(schema), size)}"
    if size == values.DIGEST_BYTES:
        return short
    identity = replay.identity(replay.scoped(short))
    replay.give_back(identity)
    at = replay.questions.get(identity)
    before = replay.asked_before.get(identity) if at is None else replay.asked[at]
    if before is None or bytes(before.schema) == bytes(schema):
        return short
    return f"{kind}:{message}:{values.digest(bytes(schema))}"


def arguments_shown(asked: e.QuestionOpened) -> Raw | None:
    """Return the arguments that a question about a step shows, as they were stored."""
    schema = msgspec.json.decode(asked.schema)
    if not isinstance(schema, dict) or "x-details" not in schema:
        return None
    return values.encode(asked.step, "its arguments", schema["x-details"])
