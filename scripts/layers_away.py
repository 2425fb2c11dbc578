"""The protecting layers against a store that is away for a while; see ``layers.py``."""

from __future__ import annotations

from layers import Mutant

RUNTIME = "src/midflight/runtime/"
CLIENT = RUNTIME + "journal_client.py"
AWAY = "tests/scenarios/test_store_away.py::test_no_call_fails_while_a_store_answers_nothing"
PATIENCE = "tests/scenarios/test_patience.py::test_"
WHOLE_TIME = (
    PATIENCE + "people_have_the_whole_time_for_an_answer_from_when_they_can_see_the_question"
)

AWAY_MUTANTS = (
    Mutant(
        "store away: an append is repeated",
        CLIENT,
        "                unsure |= error.unsure\n                await self.wait(error)\n",
        "                raise\n",
        (AWAY,),
    ),
    Mutant(
        "store away: a request and a read are repeated",
        CLIENT,
        "                await self.wait(error)\n            if given_up is not None and unless():",
        "                raise\n            if given_up is not None and unless():",
        (AWAY,),
    ),
    Mutant(
        "Postgres: what was missed while the store was away is read again",
        CLIENT,
        "                await self._client.wait(error)\n            else:",
        "                raise\n            else:",
        ("tests/scenarios/test_store_away.py::test_no_call_fails_while_postgres_is_restarted",),
    ),
    Mutant(
        "store away: a decision that was not taken is chosen anew",
        RUNTIME + "run_journal.py",
        "            if unsure or self.state.head != head:",
        "            if True:",
        (WHOLE_TIME,),
    ),
    Mutant(
        "store away: the time for an answer begins when the question can be seen",
        RUNTIME + "questions.py",
        "        if within is not None:\n",
        "        if False:\n",
        (
            PATIENCE
            + "people_have_the_whole_time_for_an_answer_from_when_they_can_see_the_question",
        ),
    ),
    Mutant(
        "store away: a sweep that fails does not end the engine",
        "src/midflight/engines/sweep.py",
        "            except Exception as error:",
        "            except StoreError as error:",
        (PATIENCE + "a_sweep_that_fails_does_not_end_the_engine",),
    ),
    Mutant(
        "store away: a closed store in memory refuses",
        "src/midflight/stores/memory.py",
        "        if self._closed:",
        "        if False:",
        ("tests/stores/test_contract_closed.py",),
    ),
)
