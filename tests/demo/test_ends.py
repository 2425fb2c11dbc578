"""How a demo ends: cancelled, rejected, held back, left, killed; and how it goes on."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.arithmetic import at_risk
from demo.test_memo import MAY, WHO, is_about
from demo.theatre import Playing, Theatre, command, plain_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
READ = ["Fetch customer list", "Join against MRR", "Score churn risk"]


def steps_with(playing: Playing, event: str) -> list[str]:
    """The names of those that such an event was recorded of, as often as it was."""
    records = playing.get(f"/v1/runs/{playing.run}/records")["records"]
    return [r["event"]["name"] for r in records if r["event"]["event"] == event]


def is_doing(step: str) -> Callable[[Any], object]:
    """Whether an effect is under way, and it is this one: in one look, or it may be another."""
    return lambda state: state["in_flight"] and step in state["status"]


def test_a_cancel_undoes_tasks_and_memo_and_the_receipt_says_so(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    tasks = len(at_risk(playing))
    consequence = playing.state()["preview"]["cancel"]["consequence"]
    assert f"Undoes {tasks} tasks and memo, saves" in consequence
    playing.verb("cancel")
    playing.ended("cancelled")

    assert playing.receipt() == [("memo", "undone"), (f"{tasks} tasks", "undone")]
    assert f"\nScore churn risk: {tasks} at risk, $" in playing.heard("Cancelled. Kept: ")
    assert playing.open_tasks() == set()
    assert playing.files("memos") == playing.files("outbox") == []


def test_a_cancel_after_a_change_of_course_undoes_both_versions(theatre: Theatre) -> None:
    playing = theatre.play()
    first = playing.asked(WHO)
    playing.verb("redirect", text="only EU")
    playing.asked(WHO, after=first)
    playing.verb("cancel")
    playing.ended("cancelled")

    assert playing.receipt() == [
        ("memo", "undone"),
        ("changed tasks", "undone"),
        ("memo", "undone"),
        (f"{len(at_risk(playing))} tasks", "undone"),
    ]
    assert playing.ask("SELECT count(*) FROM tasks") == [(0,)]
    assert playing.files("memos") == []


def test_what_others_have_changed_is_left_alone_by_a_cancel(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    (page,) = playing.files("memos")
    page.write_text("Ann's own words", encoding="utf-8")
    playing.verb("cancel")
    playing.ended("cancelled")

    assert playing.receipt()[0] == ("memo", "could not be undone")
    assert page.read_text(encoding="utf-8") == "Ann's own words"
    assert playing.open_tasks() == set()


def test_what_is_rejected_is_not_sent_and_all_else_stays(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.answer(WHO, "Sales leads")
    playing.answer(MAY, "reject")
    playing.ended("done")

    assert playing.heard("Nothing was sent")
    assert playing.files("outbox") == []
    is_about(playing, at_risk(playing), "paying customers")


def memo_of(playing: Playing) -> str:
    (page,) = playing.files("memos")
    return f"memos/{page.name}"


def test_whoever_answers_in_words_is_listened_to_before_it_is_sent(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.answer(WHO, "Sales leads")
    first = playing.asked(MAY)
    playing.answer(MAY, {"respond": "only EU"})
    playing.asked(MAY, after=first)
    playing.answer(MAY, {"edit": {"kwargs": {"memo": memo_of(playing), "to": "Customer success"}}})
    playing.ended("done")

    where = "NOT trial AND region = 'EU'"
    is_about(playing, at_risk(playing, where=where), "paying customers in the EU")
    (sent,) = playing.files("outbox")
    assert b"To: success@example.test" in sent.read_bytes()


def test_within_the_hold_window_a_cancel_still_wins(theatre: Theatre) -> None:
    playing = theatre.play("--hold", "60")
    playing.answer(WHO, "Sales leads")
    playing.answer(MAY, "approve")
    playing.until(lambda state: not state["questions"])
    playing.verb("cancel")
    playing.ended("cancelled")

    assert playing.files("outbox") == playing.files("memos") == []
    assert playing.open_tasks() == set()


def test_killed_in_the_middle_of_its_tasks_it_goes_on_and_does_nothing_twice(
    theatre: Theatre,
) -> None:
    playing = theatre.play("--pace", "0.6")
    playing.until(is_doing("Create follow-up tasks, step 4 of 6"))
    playing.leave(signal.SIGKILL)

    again = theatre.play()
    assert f"It goes on with run {playing.run}" in again.said
    again.answer(WHO, "Sales leads")
    again.answer(MAY, "approve")
    again.ended("done")
    is_about(again, at_risk(again), "paying customers")
    assert len(again.files("outbox")) == 1
    assert steps_with(again, "step.settled") == READ


def test_paused_in_a_step_nothing_moves_until_it_goes_on_where_it_was(theatre: Theatre) -> None:
    playing = theatre.play("--pace", "0.4")
    playing.until(lambda state: state["spent"]["steps"] >= 2)  # it may be further by now
    playing.verb("pause")
    playing.until(lambda state: state["phase"] == "paused")
    head = playing.state()["head"]
    time.sleep(2.5)  # twice what the step would have taken
    assert playing.state()["head"] == head
    playing.verb("resume")
    playing.asked(WHO)

    assert steps_with(playing, "step.settled") == READ
    assert steps_with(playing, "attempt.started")[-1] == "Write memo with chart"
    is_about(playing, at_risk(playing), "paying customers")


def test_killed_in_the_hold_window_it_holds_again_and_sends_once_without_asking_twice(
    theatre: Theatre,
) -> None:
    playing = theatre.play("--hold", "5")
    playing.answer(WHO, "Sales leads")
    playing.answer(MAY, "approve")
    playing.until(lambda state: not state["questions"])
    playing.leave(signal.SIGKILL)
    assert playing.files("outbox") == []

    again = theatre.play("--hold", "5")  # with another, it would be asked anew
    again.ended("done")
    assert len(again.files("outbox")) == 1


def test_killed_while_it_waits_it_asks_the_same_question_again(theatre: Theatre) -> None:
    playing = theatre.play()
    question = playing.asked(WHO)
    playing.leave(signal.SIGKILL)

    again = theatre.play()
    assert again.asked(WHO) == question
    assert len(again.open_tasks()) == len(at_risk(again))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_told_to_leave_it_holds_the_run_and_says_how_to_go_on(
    theatre: Theatre, how: signal.Signals
) -> None:
    playing = theatre.play("--pace", "0.5")
    code, said = playing.leave(how)

    assert code == 0
    assert "The same command goes on" in said
    assert "Traceback" not in said
    again = theatre.play()
    assert again.run == playing.run
    again.asked(WHO)


def test_when_its_run_has_ended_the_next_demo_begins_another_on_the_same_data(
    theatre: Theatre,
) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    revenue = playing.ask("SELECT sum(usd) FROM revenue")
    playing.verb("cancel")
    playing.ended("cancelled")
    playing.leave()

    again = theatre.play()
    assert again.run != playing.run
    assert again.ask("SELECT sum(usd) FROM revenue") == revenue
    again.asked(WHO)
    is_about(again, at_risk(again), "paying customers")


def test_a_fresh_start_leaves_nothing_of_the_last_one(theatre: Theatre) -> None:
    playing = theatre.play()
    playing.asked(WHO)
    (theatre.folder / "note.txt").write_text("not the demo's", encoding="utf-8")
    begun = playing.state()["created_at"]
    playing.leave()

    again = theatre.play("--fresh")
    assert again.state()["created_at"] > begun
    assert [row["journal"] for row in again.get("/v1/runs")["rows"] if not row["parent"]] == [
        again.run
    ]
    assert (theatre.folder / "note.txt").exists()


def test_its_folder_is_for_its_owner_alone(theatre: Theatre) -> None:
    theatre.play()

    assert stat.S_IMODE(theatre.folder.stat().st_mode) == 0o700


def refused(theatre: Theatre, *more: str, **variables: str) -> str:
    done = subprocess.run(
        command(theatre.folder, *more),
        env=plain_environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_two_at_once_in_a_folder_are_refused(theatre: Theatre) -> None:
    playing = theatre.play()

    assert "a demo is running in" in refused(theatre, "--fresh")
    playing.asked(WHO)


def test_a_folder_that_is_not_a_demos_is_not_touched(theatre: Theatre) -> None:
    theatre.folder.mkdir()
    (theatre.folder / "company.db").write_text("mine", encoding="utf-8")

    assert "holds things that are not a demo's" in refused(theatre, "--fresh")
    assert (theatre.folder / "company.db").read_text(encoding="utf-8") == "mine"


def test_a_server_without_a_model_a_key_that_is_missing_and_a_bad_pace_are_said_in_one_line(
    theatre: Theatre,
) -> None:
    assert "OPENAI_MODEL" in refused(theatre, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert "ANTHROPIC_API_KEY" in refused(theatre, "--model", "anthropic:claude-x")
    assert "is not the address of a model" in refused(theatre, "--model", "nobody")
    assert "--pace" in refused(theatre, "--pace", "-1")


def test_cancelled_in_the_middle_of_an_effect_it_is_proven_that_nothing_was_done(
    theatre: Theatre,
) -> None:
    playing = theatre.play("--pace", "0.8")
    playing.until(is_doing("Create follow-up tasks"))
    playing.verb("cancel")
    playing.ended("cancelled")

    ((noun, word),) = playing.receipt()
    assert (noun, word) == (f"{len(at_risk(playing))} tasks", "aborted")
    assert playing.ask("SELECT count(*) FROM tasks") == [(0,)]


def test_redirected_while_the_memo_is_being_written_there_is_one_memo_and_it_is_the_new_one(
    theatre: Theatre,
) -> None:
    playing = theatre.play("--pace", "0.6")
    playing.until(is_doing("Write memo with chart, step 5 of 6"))
    playing.verb("redirect", text="only EU, top 5")
    playing.asked(WHO)

    where = "NOT trial AND region = 'EU'"
    is_about(playing, at_risk(playing, where=where, top=5), "the top 5 paying customers in the EU")
    playing.verb("cancel")
    playing.ended("cancelled")
    assert {word for _, word in playing.receipt()} == {"undone"}
    assert playing.files("memos") == []
    assert playing.ask("SELECT count(*) FROM tasks") == [(0,)]


def test_a_port_that_is_taken_is_left_alone_and_a_browser_is_shown_the_run(
    theatre: Theatre, tmp_path: Path
) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    copies = f'cp "${{1#file://}}" {seen}.new && mv {seen}.new {seen}'
    browser.write_text(f"#!/bin/sh\n{copies}\n", encoding="utf-8")
    browser.chmod(0o700)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        playing = theatre.play("--port", str(port), "--open", BROWSER=f"{browser} %s", DISPLAY=":0")
        assert f":{port}/" not in playing.said

    playing.until(lambda _: seen.exists())
    sent_on = seen.read_text(encoding="utf-8").partition('href="')[2].partition('"')[0]
    assert sent_on in playing.said
    assert f"/runs/{playing.run}#code=" in sent_on


def test_its_greeting_says_how_to_steer_it_from_a_terminal(theatre: Theatre) -> None:
    playing = theatre.play()
    told = next(line for line in playing.said.splitlines() if "midflight tui --store " in line)
    store = Path(told.rpartition(" ")[2])

    assert store.resolve() == (playing.folder / "runs.db").resolve()
    runs = [sys.executable, "-m", "midflight", "runs", "--store", str(store)]
    done = subprocess.run(runs, capture_output=True, text=True, check=True, timeout=30)
    assert playing.run in done.stdout


def test_a_program_is_greeted_with_one_line_of_json(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen(
        command(folder, "--json"), env=plain_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        greeting = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)

    assert greeting["store"] == str(folder.resolve() / "runs.db")
    assert "/runs/r-demo-1#code=" in greeting["url"]
    assert "Run r-demo-1 has begun" in greeting["says"]
    assert rest == ""
