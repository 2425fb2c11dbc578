"""The protecting layers of the models; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, DROP, NEVER, Instead, Mutant, Swap, Value, Without

FAILURES = "tests/models/test_failures.py"
ABORT = "tests/models/test_abort.py"
REQUESTS = "tests/models/test_requests.py"

MODEL_MUTANTS = (
    Mutant(
        "models: leaving a stream closes its connection",
        "leaving-stream-closes-connection",
        DROP,
        (ABORT,),
    ),
    Mutant(
        "models: the first token has a bound",
        "first-token-has-bound",
        Swap("self.sdk.first_token_s", "9.0"),
        (FAILURES,),
    ),
    Mutant(
        "models: silence in the middle has a bound",
        "first-token-has-bound",
        Swap("self.sdk.between_s", "9.0"),
        (FAILURES,),
    ),
    Mutant(
        "models: what an SDK raised is not carried along",
        "sdk-raised-not-carried-along",
        Swap("failure = self._meaning(error)", "raise self._meaning(error) from error"),
        (FAILURES,),
    ),
    Mutant(
        "models: a provider's words are quoted without the key",
        "provider-words-quoted-without-key",
        NEVER,
        (FAILURES,),
    ),
    Mutant(
        "models: a key that cannot be one is not tried",
        "key-cannot-one-not-tried",
        Without(0),
        (FAILURES,),
    ),
    Mutant(
        "models: an account without money is not asked again",
        "account-without-money-not-asked",
        Without(0),
        (FAILURES,),
    ),
    Mutant(
        "models: a chunk that is no object is not passed over",
        "chunk-no-object-not-passed-over",
        Instead('return {"choices": []}'),
        (FAILURES,),
    ),
    Mutant(
        "models: Claude's answer is whole only after its end",
        "claude-answer-whole-only-after-end",
        Swap('if self.stopped else ""', "or 'end_turn'"),
        (FAILURES,),
    ),
    Mutant(
        "models: a chat's answer is whole only with a reason for its end",
        "chat-answer-whole-only-with-reason",
        Swap("_finish", "_finish or 'stop'"),
        (FAILURES,),
    ),
    Mutant(
        "models: no SDK retries by itself",
        "no-sdk-retries-by-itself",
        Value("1"),
        (FAILURES,),
    ),
    Mutant(
        "models: an unpaired call is not sent to Claude",
        "unpaired-call-not-sent-to-claude",
        DROP,
        (REQUESTS,),
    ),
    Mutant(
        "models: an unpaired call is not sent to a chat",
        "unpaired-call-not-sent-to-chat",
        DROP,
        (REQUESTS,),
    ),
    Mutant(
        "models: what Claude thought goes back to nobody else",
        "what-claude-thought",
        ALWAYS,
        (REQUESTS,),
    ),
    Mutant(
        "models: no two tool names become one",
        "no-two-tool-names-become",
        NEVER,
        (REQUESTS,),
    ),
    Mutant(
        "models: a server that is not known has no price",
        "server-not-known-has-no-price",
        Without("provider_api_url"),
        ("tests/models/test_prices.py",),
    ),
    Mutant(
        "models: estimated figures have no price",
        "estimated-figures-have-no-price",
        NEVER,
        ("tests/models/test_prices.py",),
    ),
    Mutant(
        "models: a scripted model is as strict as a provider",
        "scripted-model-as-strict",
        DROP,
        ("tests/models/test_scripted.py",),
    ),
)
