"""The layers between us and code of others: what it raises, returns and says."""

from __future__ import annotations

from marks import ALWAYS, NEVER, Mutant, Value

SECOND = "tests/scenarios/test_second_line.py::test_"

EDGE_MUTANTS = (
    Mutant(
        "edge: half of a character is replaced in a text for people",
        "half-of-character",
        ALWAYS,
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a long text for people is cut",
        "long-text-for-people-cut",
        NEVER,
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a result of NaN is refused",
        "result-of-nan-refused",
        NEVER,
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: what a line of a tool raises does not end the process",
        "line-of-tool",
        Value("True"),
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a fact that a store refuses is mended",
        "fact-store-refuses-mended",
        Value("value"),
        (SECOND + "a_fact_that_a_store_refuses_is_mended_so_that_it_takes_it",),
    ),
    Mutant(
        "edge: a driver that fails again and again is not tried for ever",
        "driver-fails-again-and-again",
        Value("False"),
        (SECOND + "a_run_whose_driver_fails_again_and_again_is_ended_in_words",),
    ),
)
