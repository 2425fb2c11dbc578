"""The protecting layers of the models; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

MODELS = "src/midflight/models/"
FAILURES = "tests/models/test_failures.py"
ABORT = "tests/models/test_abort.py"
REQUESTS = "tests/models/test_requests.py"

MODEL_MUTANTS = (
    Mutant(
        "models: leaving a stream closes its connection",
        "src/midflight/models/wire.py",
        "                    await stream.close()\n",
        "                    pass\n",
        (ABORT,),
    ),
    Mutant(
        "models: the first token has a bound",
        "src/midflight/models/wire.py",
        "if self.begun else self.sdk.first_token_s",
        "if self.begun else 9.0",
        (FAILURES,),
    ),
    Mutant(
        "models: silence in the middle has a bound",
        "src/midflight/models/wire.py",
        "return self.sdk.between_s if self.begun",
        "return 9.0 if self.begun",
        (FAILURES,),
    ),
    Mutant(
        "models: what an SDK raised is not carried along",
        "src/midflight/models/wire.py",
        "                    failure = self._meaning(error)\n",
        "                    raise self._meaning(error) from error\n",
        (FAILURES,),
    ),
    Mutant(
        "models: a provider's words are quoted without the key",
        "src/midflight/models/wire.py",
        "said.replace(self.sdk.key, DOTS) if self.sdk.key else said",
        "said",
        (FAILURES,),
    ),
    Mutant(
        "models: a key that cannot be one is not tried",
        "src/midflight/models/wire.py",
        "    if not (key.isascii() and key.isprintable()) or",
        "    if",
        (FAILURES,),
    ),
    Mutant(
        "models: an account without money is not asked again",
        "src/midflight/models/wire.py",
        "if code in NO_MONEY or not _may_pass(status)",
        "if not _may_pass(status)",
        (FAILURES,),
    ),
    Mutant(
        "models: a chunk that is no object is not passed over",
        "src/midflight/models/wire.py",
        '            raise self.broken(f"a piece of it is no',
        '            return {"choices": []}\n            raise self.broken(f"a piece of it is no',
        (FAILURES,),
    ),
    Mutant(
        "models: Claude's answer is whole only after its end",
        "src/midflight/models/anthropic.py",
        'self._stop_reason if self.stopped else ""',
        "self._stop_reason or 'end_turn'",
        (FAILURES,),
    ),
    Mutant(
        "models: a chat's answer is whole only with a reason for its end",
        MODELS + "openai.py",
        "self.call.stop(self._finish, STOPS)",
        "self.call.stop(self._finish or 'stop', STOPS)",
        (FAILURES,),
    ),
    Mutant(
        "models: no SDK retries by itself",
        "src/midflight/models/wire.py",
        "            max_retries=0,\n",
        "            max_retries=1,\n",
        (FAILURES,),
    ),
    Mutant(
        "models: an unpaired call is not sent to Claude",
        "src/midflight/models/anthropic.py",
        "        check_pairing(prompt.turns)\n",
        "",
        (REQUESTS,),
    ),
    Mutant(
        "models: an unpaired call is not sent to a chat",
        MODELS + "openai.py",
        "        check_pairing(prompt.turns)\n",
        "",
        (REQUESTS,),
    ),
    Mutant(
        "models: what Claude thought goes back to nobody else",
        "src/midflight/models/anthropic.py",
        "return thought.blocks if same and thought.model == model else None",
        "return thought.blocks",
        (REQUESTS,),
    ),
    Mutant(
        "models: no two tool names become one",
        "src/midflight/models/model.py",
        "            while taken in self._back:\n",
        "            while False:\n",
        (REQUESTS,),
    ),
    Mutant(
        "models: a server that is not known has no price",
        "src/midflight/models/wire.py",
        "            provider_api_url=url,\n",
        "",
        ("tests/models/test_prices.py",),
    ),
    Mutant(
        "models: estimated figures have no price",
        "src/midflight/models/wire.py",
        "return spent if spent.estimated else replace",
        "return replace",
        ("tests/models/test_prices.py",),
    ),
    Mutant(
        "models: a scripted model is as strict as a provider",
        MODELS + "scripted.py",
        "            check_pairing(asked.prompt.turns)\n",
        "",
        ("tests/models/test_scripted.py",),
    ),
)
