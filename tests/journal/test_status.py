"""The line with which a message is answered."""

from __future__ import annotations

from journal.journals import running, waiting
from midflight.journal import events as e
from midflight.journal.phases import Cause, Phase
from midflight.journal.status import STATUS_WIDTH, status


def test_it_names_the_step_its_number_and_the_time_spent() -> None:
    run = running()
    run.did("load")
    run.append(e.PlanSet(epoch=1, steps=("Score churn", "Write memo")))

    assert status(run.state, run.state.at) == "working: Score churn, step 1 of 2, 0:03"
    run.did("score")
    run.start("memo")
    assert status(run.state, run.state.at + 3600) == "working: memo, step 2 of 2, 1:00:06"


def test_without_a_plan_it_counts() -> None:
    run = running()
    run.did("load")

    assert status(run.state, run.state.at) == "working: step 2, 0:02"


def test_beyond_its_plan_it_counts_too() -> None:
    run = running()
    run.append(e.PlanSet(epoch=1, steps=("Load",)))
    run.did("load")

    assert status(run.state, run.state.at).startswith("working: step 2,")


def test_it_says_that_it_asks() -> None:
    run = running()
    run.open_question()

    assert status(run.state, run.state.at).endswith("1 question for you")
    assert status(waiting().state, 0.0) == "waiting for you"


def test_a_held_run_says_why() -> None:
    run = running()
    run.start("invoice")
    run.pause()
    assert status(run.state, 0.0) == "pausing: finishing invoice"

    state = running().state
    state.phase = Phase.PAUSED
    for cause, words in {Cause.USER: "paused", Cause.CAP: "held at a cap, waiting for you"}.items():
        state.holds = {cause}
        assert status(state, 0.0) == words


def test_an_undo_and_an_end_are_named() -> None:
    run = running()
    run.did("book", undoable=True)
    run.cancel()
    assert status(run.state, 0.0) == "cancelling"

    state = running().state
    state.phase, state.error = Phase.FAILED, "ValueError: " + "x" * 500
    assert len(status(state, 0.0)) == STATUS_WIDTH
