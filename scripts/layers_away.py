"""The protecting layers against a store that is away for a while; see ``layers.py``."""

from __future__ import annotations

from marks import ALWAYS, NEVER, Instead, Mutant, Swap

AWAY = "tests/scenarios/test_store_away.py::test_no_call_fails_while_a_store_answers_nothing"
PATIENCE = "tests/scenarios/test_patience.py::test_"
WHOLE_TIME = (
    PATIENCE + "people_have_the_whole_time_for_an_answer_from_when_they_can_see_the_question"
)

AWAY_MUTANTS = (
    Mutant(
        "store away: an append is repeated",
        "append-repeated",
        Instead("raise"),
        (AWAY,),
    ),
    Mutant(
        "store away: a request and a read are repeated",
        "request-and-read-repeated",
        Instead("raise"),
        (AWAY,),
    ),
    Mutant(
        "Postgres: what was missed while the store was away is read again",
        "missed-while-store-away-read",
        Instead("raise"),
        ("tests/scenarios/test_store_away.py::test_no_call_fails_while_postgres_is_restarted",),
    ),
    Mutant(
        "store away: a decision that was not taken is chosen anew",
        "decision-not-taken-chosen-anew",
        ALWAYS,
        (WHOLE_TIME,),
    ),
    Mutant(
        "store away: the time for an answer begins when the question can be seen",
        "time-for-answer-begins",
        NEVER,
        (
            PATIENCE
            + "people_have_the_whole_time_for_an_answer_from_when_they_can_see_the_question",
        ),
    ),
    Mutant(
        "store away: a sweep that fails does not end the engine",
        "sweep-fails-does-not-end-engine",
        Swap("Exception", "StoreError"),
        (PATIENCE + "a_sweep_that_fails_does_not_end_the_engine",),
    ),
    Mutant(
        "store away: a closed store in memory refuses",
        "closed-store-in-memory-refuses",
        NEVER,
        ("tests/stores/test_contract_closed.py",),
    ),
)
