"""``midflight kit``: errors in words, and a report of what is in the file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from midflight.interfaces.cli.main import main
from midflight.kit import subject
from midflight.kit.results import Results, Sitting, read, write
from midflight.kit.score import Row
from midflight.kit.subject import Kind


def test_a_runtime_or_scenario_that_is_not_there_is_named_with_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["kit", "run", "--runtime", "smolagents"]) == 1
    assert (
        "there is no runtime smolagents; there are: midflight-immediate" in capsys.readouterr().err
    )
    assert main(["kit", "run", "--scenario", "earthquake"]) == 1
    assert "Nothing was run." in capsys.readouterr().err


@pytest.mark.slow
def test_a_scenario_is_played_as_often_as_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kit.json"
    chosen = ["--runtime", "midflight-immediate", "--scenario", "first", "--n", "2"]
    assert main(["kit", "run", *chosen, "--results", str(path)]) == 0
    assert "stop before the first step: 2 in" in capsys.readouterr().out
    assert {row.trials for row in read(path).rows if row.metric == "unlisted"} == {2}


def test_a_report_shows_what_is_in_the_file_and_says_so_if_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kit.json"
    assert main(["kit", "report", "--results", str(path)]) == 1
    assert "To make them, run `midflight kit run`" in capsys.readouterr().err

    row = Row("bare-asyncio", "crash", "duplicates", trials=200, failures=4, total=4, bound_pct=4.3)
    write(path, Results([Sitting(1, "bare-asyncio", "Python 1.0")], rows=[row]))
    assert main(["kit", "report", "--results", str(path)]) == 0
    assert "| effects done twice | **2.0 %** (≤ 4.3 %) |" in capsys.readouterr().out
    assert main(["kit", "report", "--results", str(path), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows"][0]["failures"] == 4
    assert main(["kit", "report", "--results", str(path), "--format", "svg"]) == 0
    assert capsys.readouterr().out.startswith("<svg")


def test_a_runtime_that_cannot_be_started_is_told_in_words_with_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(subject.KINDS, "nothing", Kind("nothing", "on_nothing"))

    path = tmp_path / "kit.json"
    assert main(["kit", "run", "--runtime", "nothing", "--results", str(path)]) == 1

    said = capsys.readouterr().err
    assert said.startswith("midflight: nothing: start: gone: its process has ended.")
    assert "No module named midflight.kit.adapters.on_nothing" in said
    assert "Traceback" not in said


MINE = """
from midflight.kit.adapters import stage
from midflight.kit.adapters.on_asyncio import OnAsyncio


class OnMine(OnAsyncio):
    offers = frozenset({"stop"})


if __name__ == "__main__":
    stage.serve(OnMine)
"""


@pytest.mark.slow
@pytest.mark.parametrize("python", ["", sys.executable])
def test_a_runtime_that_the_kit_does_not_know_is_scored_by_its_own_adapter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], python: str
) -> None:
    adapter, path = tmp_path / "my_runtime.py", tmp_path / "kit.json"
    adapter.write_text(MINE, encoding="utf-8")
    chosen = ["--adapter", str(adapter), "--scenario", "tool", "--scenario", "crash", "--n", "2"]
    where = ["--python", python] if python else []

    assert main(["kit", "run", *chosen, *where, "--results", str(path)]) == 0
    found = read(path)
    assert {row.runtime for row in found.rows} == {"my_runtime"}
    assert {row.trials for row in found.rows if row.metric == "unlisted"} == {2}
    assert main(["kit", "report", "--results", str(path)]) == 0
    assert "my_runtime" in capsys.readouterr().out


def test_an_adapter_that_is_not_there_or_has_a_name_of_ours_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kit", "run", "--adapter", str(tmp_path / "no.py")]) == 1
    assert "no.py. Nothing was run." in capsys.readouterr().err
    taken = tmp_path / "bare-asyncio.py"
    taken.write_text(MINE, encoding="utf-8")
    assert main(["kit", "run", "--adapter", str(taken)]) == 1
    assert "give the file of your adapter another name" in capsys.readouterr().err
