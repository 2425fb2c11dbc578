"""From where a run that has ended is tried again."""

from __future__ import annotations

import pytest

from midflight.journal.phases import ENDS, Phase
from midflight.view.data import ForkFrom, StepSheet
from midflight.view.step_list import fork_from


def standing(*stands: str) -> list[StepSheet]:
    """Steps that have begun and stand as they are called; a planned one has no position."""
    return [
        StepSheet(
            id=f"s{n}",
            position=0 if stand == "planned" else n + 1,
            name=f"{stand} {n}",
            status="cancelled" if stand == "planned" else stand,
            word=stand,
        )
        for n, stand in enumerate(stands, 1)
    ]


@pytest.mark.parametrize(
    ("phase", "steps", "failed", "begins_with"),
    [
        (Phase.CANCELLED, ("done", "undone", "undone"), "", "undone 2"),
        (Phase.CANCELLED, ("done", "kept", "cancelled"), "", "cancelled 3"),
        (Phase.CANCELLED, ("skipped", "undo_failed", "planned"), "", "undo_failed 2"),
        (Phase.CANCELLED, ("done", "done", "planned"), "", "done 2"),
        (Phase.KILLED, ("done", "failed"), "", "failed 2"),
        (Phase.DONE, ("done", "done"), "", "done 2"),
        (Phase.FAILED, ("undone", "failed"), "failed 2", "failed 2"),
        (Phase.FAILED, ("failed", "done", "failed"), "", "failed 3"),
        (Phase.FAILED, ("done", "cancelled", "planned"), "", "cancelled 2"),
    ],
)
def test_a_fork_begins_where_it_failed_or_where_the_work_is_not_there_any_more(
    phase: Phase, steps: tuple[str, ...], failed: str, begins_with: str
) -> None:
    number = int(begins_with[-1])

    assert fork_from(phase, standing(*steps), failed) == ForkFrom(number + 1, number, begins_with)


@pytest.mark.parametrize("phase", sorted(ENDS))
def test_what_had_not_begun_is_not_forked(phase: Phase) -> None:
    assert fork_from(phase, standing("planned"), "") is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in ENDS])
def test_what_still_lives_is_not_forked(phase: Phase) -> None:
    assert fork_from(phase, standing("done", "cancelled"), "") is None
