"""The driving process is killed with -9, wherever it can be; the run ends as if it had not been.

Each story below is a run of twelve steps with every class of effect, told in processes that are
forked and really killed (``worker.py``). What was done to the world outside is in a ledger, and the
people who are asked tell the truth from it (``world.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scenarios.stories import KILLED, Life, told
from scenarios.world import HOLD_S, ROUNDS, STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPTS = ("plain", "pause", "redirect", "cancel", "drain", "between")


def outcome(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "outcome").read_bytes())
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """How each script ends when nobody dies; the drain needs a second process by its nature."""
    folder = tmp_path_factory.mktemp("undisturbed")
    lives = [{"drains": True}, {}]
    told({folder / s: [{**life, "script": s} for life in lives] for s in SCRIPTS})
    return {script: outcome(folder / script) for script in SCRIPTS}


def ends_as_if_undisturbed(
    folder: Path, script: str, undisturbed: dict[str, Any], deaths: Iterable[list[Life]]
) -> int:
    """Tell the script once for each way to die, and compare. Gives the number of kills."""
    whole = {"script": script, "drains": True}
    stories = {
        folder / f"{number:03}": [*({**whole, **life} for life in lives), whole, whole]
        for number, lives in enumerate(deaths)
    }
    endings = told(stories)
    assert endings.keys() == stories.keys()
    kills = 0
    for at, lives in stories.items():
        how = f"{lives[:-2]} ended {endings[at]}; see {at}/log"
        assert set(endings[at]) <= {0, KILLED}, how
        assert (at / "outcome").exists(), f"the run did not get to its end: {how}"
        found = outcome(at)
        for part in ("applied", "result", "phase", "undone", "driver", "in doubt"):
            assert found[part] == undisturbed[part], f"{part}: {how}"
        assert (found["unasked"], found["lost"]) == ([], []), how
        assert KILLED in endings[at], f"nobody was killed: {how}"
        kills += endings[at].count(KILLED)
    return kills


def positions(undisturbed: dict[str, Any], first: str = "RunCreated", last: str = "") -> range:
    names: list[str] = undisturbed["positions"]
    end = names.index(last) if last else len(names) - 1
    return range(names.index(first) + 1, end + 2)


Ends = dict[str, dict[str, Any]]
WHEN = pytest.mark.parametrize("when", ["before", "after"])


def test_undisturbed_everything_happens_once_and_nobody_is_asked_in_vain(
    undisturbed: Ends,
) -> None:
    """What the others are compared with; or all of them could be wrong together."""
    whole, cancelled = undisturbed["plain"], undisturbed["cancel"]
    acts = ["lock", "upsert", "send", "order", "wire", "mail", "compress", "index", "upload"]
    assert [line.split()[0] for line in whole["applied"]] == [*acts, "undo-lock"]
    assert set(whole["applied"].values()) == {1}
    assert (whole["phase"], len(whole["result"])) == ("done", 11)
    assert whole["positions"].count("QuestionOpened") == 1
    built = ["lock", "upsert", "order", "index", "compress", "send"]
    undone = [f"undo-{act}" for act in ("compress", "index", "order", "upsert", "lock")]
    assert [line.split()[0] for line in cancelled["applied"]] == [*built, *undone]
    assert (cancelled["phase"], set(cancelled["applied"].values())) == ("cancelled", {1})
    assert "draft of EU only" in str(undisturbed["redirect"]["result"])
    for script in ("pause", "drain"):
        assert len(undisturbed[script]["applied"]) == len(whole["applied"]) + 1


@WHEN
def test_killed_at_every_position_of_its_journal(
    tmp_path: Path, undisturbed: Ends, when: str
) -> None:
    """Just before the position is written, and when it is on the disk and nobody knows."""
    everywhere = positions(undisturbed["plain"])
    deaths = [[{when: position}] for position in everywhere]

    kills = ends_as_if_undisturbed(tmp_path, "plain", undisturbed["plain"], deaths)

    assert kills == len(everywhere) >= 35


@WHEN
def test_killed_at_every_position_of_writes_and_reads_with_a_press_between_them(
    tmp_path: Path, undisturbed: Ends, when: str
) -> None:
    """The function knows how a write ended and goes on to a read, and a person pauses the run."""
    everywhere = positions(undisturbed["between"])
    deaths = [[{when: position}] for position in everywhere]

    kills = ends_as_if_undisturbed(tmp_path, "between", undisturbed["between"], deaths)

    assert undisturbed["between"]["positions"].count("PauseRequested") == ROUNDS
    assert kills == len(everywhere) >= 6 * ROUNDS


def test_killed_in_the_middle_of_every_step(tmp_path: Path, undisturbed: Ends) -> None:
    """Inside the tool: before it has acted, and after that."""
    moments = [f"{step}:{when}" for step in STEPS for when in ("before", "after")]
    moments.remove("fetch:after")
    moments += ["upload:before", "upload:refused", "upload:after"]
    moments += ["report:before", "report:after"]
    deaths = [[{"moment": moment}] for moment in moments]

    ends_as_if_undisturbed(tmp_path, "plain", undisturbed["plain"], deaths)


def test_killed_in_a_step_and_again_while_it_is_found_out_what_became_of_it(
    tmp_path: Path, undisturbed: Ends
) -> None:
    checked = ("lock", "send", "wire", "mail", "index")
    deaths = [
        [{"moment": f"{step}:{when}"}, {"moment": f"check-{step}:before"}]
        for step in checked
        for when in ("before", "after")
    ]
    asked: list[Life] = [{"moment": "order:after"}, *({"appends": n} for n in (3, 2, 1))]

    ends_as_if_undisturbed(tmp_path, "plain", undisturbed["plain"], [*deaths, asked])


def test_killed_in_the_middle_of_a_hold_and_of_a_back_off(
    tmp_path: Path, undisturbed: Ends
) -> None:
    names: list[str] = undisturbed["plain"]["positions"]
    waits = [at + 1 for at, name in enumerate(names) if name in {"WindowOpened", "TimerSet"}]
    deaths = [[{"after": position, "later": HOLD_S / 2}] for position in waits]

    assert ends_as_if_undisturbed(tmp_path, "plain", undisturbed["plain"], deaths) == 3


@pytest.mark.parametrize("appends", [4, 5, 7, 11])
def test_killed_again_and_again_it_still_gets_on(
    tmp_path: Path, undisturbed: Ends, appends: int
) -> None:
    deaths = [[{"appends": appends}] * 40]

    kills = ends_as_if_undisturbed(tmp_path, "plain", undisturbed["plain"], deaths)

    assert kills >= 40 // appends


@WHEN
def test_killed_at_every_position_of_a_cancel(tmp_path: Path, undisturbed: Ends, when: str) -> None:
    of_it = positions(undisturbed["cancel"], "CancelRequested")
    deaths = [[{when: position}] for position in of_it]

    ends_as_if_undisturbed(tmp_path, "cancel", undisturbed["cancel"], deaths)


def test_killed_in_the_middle_of_every_undo(tmp_path: Path, undisturbed: Ends) -> None:
    undone = ("compress", "index", "order", "upsert", "lock")
    deaths = [
        [{"moment": f"undo-{what}:{when}"}] for what in undone for when in ("before", "after")
    ]
    twice = [
        [{"moment": f"undo-{what}:after"}, {"moment": f"undo-{what}:after"}] for what in undone
    ]

    ends_as_if_undisturbed(tmp_path, "cancel", undisturbed["cancel"], [*deaths, *twice])


@WHEN
@pytest.mark.parametrize(
    ("script", "first", "last"),
    [
        ("pause", "PauseRequested", "QuestionOpened"),
        ("redirect", "RedirectRequested", "WindowOpened"),
        ("drain", "HoldPlaced", "QuestionOpened"),
    ],
)
def test_killed_at_every_position_of_what_a_person_asks_for(
    tmp_path: Path, undisturbed: Ends, script: str, first: str, last: str, when: str
) -> None:
    of_it = positions(undisturbed[script], first, last)
    deaths = [[{when: position}] * 2 for position in of_it]  # a drain is over in the second life

    ends_as_if_undisturbed(tmp_path, script, undisturbed[script], deaths)
