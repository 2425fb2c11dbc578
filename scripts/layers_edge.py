"""The layers between us and code of others: what it raises, returns and says."""

from __future__ import annotations

from layers import Mutant

RUNTIME = "src/midflight/runtime/"
SECOND = "tests/scenarios/test_second_line.py::test_"

EDGE_MUTANTS = (
    Mutant(
        "edge: half of a character is replaced in a text for people",
        RUNTIME + "foreign.py",
        'return said if said.isascii() else HALVES.sub("\\ufffd", said)',
        "return said",
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a long text for people is cut",
        RUNTIME + "foreign.py",
        "    if more > 0:",
        "    if False:",
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a result of NaN is refused",
        "src/midflight/plain.py",
        'if b"null" in body and value is not None and (found := _find(value, what, hook)):',
        "if False and (found := _find(value, what, hook)):",
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: what a line of a tool raises does not end the process",
        RUNTIME + "foreign.py",
        "        return not _raised_by_a_line(error) or _by_a_handler(error)",
        "        return True",
        ("tests/runtime/test_foreign.py",),
    ),
    Mutant(
        "edge: a fact that a store refuses is mended",
        RUNTIME + "foreign.py",
        "            kept[field.name] = text(value, MENDED_MAX)",
        "            kept[field.name] = value",
        (SECOND + "a_fact_that_a_store_refuses_is_mended_so_that_it_takes_it",),
    ),
    Mutant(
        "edge: a driver that fails again and again is not tried for ever",
        "src/midflight/engines/sweep.py",
        "        return self.times >= TRIES",
        "        return False",
        (SECOND + "a_run_whose_driver_fails_again_and_again_is_ended_in_words",),
    ),
)
