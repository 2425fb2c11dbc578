"""What the benchmark of voice counts as what: a figure is worth no more than that."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from test_docs import benchmark

speaking, freshness = benchmark("speaking"), benchmark("voice_freshness")


@pytest.mark.parametrize(
    ("outcomes", "what"),
    [
        ([], "nothing"),
        (["interrupted", "heard"], "interrupted"),
        (["interrupted", "heard", "ignored"], "interrupted"),
        (["asked again", "heard"], "interrupted"),
        (["interrupted", "asked again"], "asked again"),
        (["asked if meant"], "asked if meant"),
        (["interrupted", "resumed"], "resumed"),
        (["resumed"], "resumed"),
    ],
)
def test_a_sound_is_what_was_done_about_it_in_the_end(outcomes: list[str], what: str) -> None:
    assert speaking.came_of(outcomes) == what


@pytest.mark.parametrize(
    ("text", "acts", "what"),
    [
        ("stop", ["stop"], "interrupted"),
        ("wait, stop", ["stop"], "interrupted"),
        ("stop", ["redirect"], "wrong act"),
        ("hold on", ["say"], "wrong act"),
        ("hold on", ["stop"], "wrong act"),
        ("only the paid orders", ["say"], "interrupted"),
        ("(a recording)", ["say"], "interrupted"),
    ],
)
def test_a_control_is_taken_if_it_is_what_was_done(text: str, acts: list[str], what: str) -> None:
    assert speaking.came_of(["interrupted", "heard"], acts, text) == what
    assert speaking.came_of(["interrupted", "asked again"], [], text) == "asked again"


def test_commands_that_were_cut_for_nothing_are_ignored_and_noises_unheard_are_apart() -> None:
    row = {"number": "1", "text": "stop", "voice": "flite:slt", "noise": "clean"}
    commands = ["interrupted", "resumed", "asked again", "nothing", "wrong act"]
    others = [("assents", "resumed"), ("assents", "asked if meant"), ("noises", "nothing")]
    others += [("noises", "interrupted")]
    trials = [("commands", row, what, 0) for what in commands]
    trials += [(kind, row, what, 1) for kind, what in others]

    found = speaking.counted(trials)

    assert (found["ignored_commands"], found["command_asked_pct"]) == (2, 20.0)
    assert found["wrong_acts"] == 1
    assert (found["noises"], found["unheard"]) == (2, 1)
    assert (found["assent_asked_pct"], found["noise_asked_pct"]) == (50.0, 0.0)
    assert found["false_stop_pct"] == pytest.approx(100 / 3)
    assert (found["heard_error_words_max"], found["heard_compared"]) == (1, 9)


def test_interruptions_are_drawn_by_chance_with_all_recordings_whose_beginning_is_known() -> None:
    commands = speaking.rows("commands")

    drawn = speaking.drawn(commands, 60)

    people = {row["voice"] for row in drawn if row["voice"].startswith("human:")}
    known = {row["voice"] for row in commands if row["voice"].startswith("human:")}
    assert len(drawn) == 60
    assert people == known - set(speaking.BREATH)
    newest = [row for row in commands if row["split"] == speaking.MEASURED]
    beside = {row["noise"] for row in newest}
    assert all(row in newest for row in drawn)
    assert {row["noise"] for row in drawn if row["voice"] not in people} == beside
    assert drawn == speaking.drawn(commands, 60)


def test_every_voice_of_the_list_is_asked_to_be_understood() -> None:
    voices = {row["voice"] for row in speaking.rows("commands")}

    assert {voice for _, voice in speaking.utterances()} == voices


def test_no_voice_speed_or_seed_of_the_list_that_is_measured_was_heard_before() -> None:
    measured = {row["voice"] for name in speaking.KINDS for row in speaking.rows(name)}
    before = {
        line.split("\t")[2]
        for name in speaking.KINDS
        for line in (speaking.LISTS / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        if not line.startswith(speaking.MEASURED)
    }

    again = {voice for voice in measured & before if not voice.startswith("human:")}
    assert again == set()


def test_words_are_misheard_if_more_than_a_third_is_other_words_and_they_were_acted_on() -> None:
    clarity = benchmark("voice_clarity")

    def misheard(heard: str, *, text: str = "use the other table", asked: bool = False) -> bool:
        return bool(clarity.Utterance(text, "flite:slt", asked, heard).misheard)

    assert not misheard("Use the other table.")
    assert not misheard("Use the other tables.")
    assert misheard("You'll see another table.")
    assert misheard("Table")
    assert not misheard("", asked=True)
    assert not misheard("Ten of clubs.", text="(a recording)")


def test_a_tick_without_sound_is_as_late_as_its_sound_and_a_hold_is_no_gap() -> None:
    stage = benchmark("voice_stage")
    sink, tick = stage.ClockedSink(), bytes(2 * stage.TICK)

    async def told() -> None:
        await sink.play(tick)
        sink.tick(1.00)
        sink.tick(1.02)
        sink.tick(1.04)
        await sink.play(tick * 2)
        sink.tick(1.06)
        await sink.hold()
        sink.tick(1.08)
        await sink.go_on()
        sink.tick(1.10)

    anyio.run(told)

    assert sink.gaps == 1
    assert sink.starved_ms == pytest.approx([40, 20])


def test_a_line_that_falls_silent_for_good_has_a_gap_as_long_as_it_was_looked_at() -> None:
    stage = benchmark("voice_stage")
    sink = stage.ClockedSink()

    async def told() -> None:
        await sink.play(bytes(2 * stage.TICK))
        for tick in range(4):
            sink.tick(1.00 + 0.02 * tick)
        sink.end(1.08)
        sink.tick(1.10)  # who has hung up is silent

    anyio.run(told)

    assert sink.gaps == 1
    assert sink.starved_ms == pytest.approx([60, 40, 20])
    assert (sink.due_s, sink.silent_s) == pytest.approx((0.08, 0.06))


def test_silence_after_a_question_of_the_lines_is_no_gap() -> None:
    stage = benchmark("voice_stage")
    sink = stage.ClockedSink()

    async def told() -> None:
        await sink.play(bytes(2 * stage.TICK))
        sink.tick(1.00)
        sink.tick(1.02)
        sink.end(1.04, waits=True)

    anyio.run(told)

    assert (sink.gaps, sink.starved_ms) == (0, [])


@pytest.mark.parametrize(
    ("silent", "held", "asked", "fails"),
    [(0, 0, 0, False), (1, 0, 0, False), (5, 0, 0, True), (50, 50, 0, False), (30, 0, 1, False)],
)
def test_figures_of_lines_that_did_not_speak_are_not_kept(
    silent: int, held: int, asked: int, fails: bool
) -> None:
    stage = benchmark("voice_stage")
    sink = stage.ClockedSink()

    async def told() -> None:
        await sink.play(bytes(2 * stage.TICK) * (100 - silent))
        for tick in range(100):
            if held and tick == 100 - silent:
                await sink.hold()
            sink.tick(0.02 * tick)

    anyio.run(told)

    assert bool(stage.fell_silent([sink], [asked])) is fails


def measured(**others: str) -> dict[str, Any]:
    """Marks of figures that are of today's list and code, but for these."""
    marks: dict[str, Any] = {}
    for part in speaking.PARTS:
        marks |= freshness.stamp(part, marks)
    return marks | others


def test_figures_of_the_list_before_say_so_until_this_one_was_played() -> None:
    old = freshness.stale(measured(lists_list="fourth"))

    assert "commands, assents and noises" in old
    assert "not understood" not in old
    assert freshness.stale(measured()) == ""


def test_figures_from_before_a_change_of_what_hears_or_judges_say_so() -> None:
    old = freshness.stale(measured(clarify_code="another"))

    assert "Before the last change" in old
    assert "what is not understood" in old
    assert "commands" not in old
    unknown = {name: told for name, told in measured().items() if name != "soon_code"}
    assert "how soon" in freshness.stale(unknown)  # it was not noted then


@pytest.mark.parametrize("part", speaking.PARTS)
def test_figures_of_every_part_say_so_that_are_from_before_a_change_of_what_they_hang_on(
    part: str,
) -> None:
    old = freshness.stale(measured(**{f"{part}_code": "another"}))

    assert freshness.MEASURED[part].tells in old
    assert old.count("the figures of") == 1


@pytest.mark.parametrize("part", ["soon", "lists"])
def test_how_soon_we_stop_and_what_is_done_hang_on_who_speaks_and_acts_too(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("src/midflight/interfaces/voice", "bench"):
        shutil.copytree(speaking.ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(freshness, "ROOT", tmp_path)
    freshness.codes.cache_clear()
    marks = measured()
    with (tmp_path / "src/midflight/interfaces/voice/speech/mouth.py").open(
        "a", encoding="utf-8"
    ) as mouth:
        mouth.write("# changed\n")
    freshness.codes.cache_clear()
    old = freshness.stale(marks)
    freshness.codes.cache_clear()

    assert freshness.MEASURED[part].tells in old
    assert freshness.MEASURED["clarify"].tells not in old


def test_a_list_is_new_as_long_as_what_hears_and_judges_was_not_changed_since_it_was_played() -> (
    None
):
    new = measured()
    other = {"list": freshness.LIST, "code": "of its first play"}

    assert freshness.first_played(new) == freshness.UNTOUCHED
    assert freshness.first_played(new | {"first_played": other}) == freshness.TOUCHED
    assert freshness.first_played({}) == freshness.NOT_YET
    assert freshness.first_played({"first_played": {"list": "fourth"}}) == freshness.NOT_YET
    assert freshness.stamp("lists", {"first_played": other})["first_played"] == other
    before = {"list": "fourth", "code": "of its first play"}
    assert (
        freshness.stamp("lists", {"first_played": before})["first_played"]["list"] == freshness.LIST
    )
    assert set(freshness.stamp("pipecat", {})) == {"pipecat_code"}  # it says nothing of our ear
    unknown = {"soon_list": freshness.LIST}  # it was played when that was not noted
    assert freshness.first_played(freshness.stamp("lists", unknown)) == freshness.TOUCHED


def test_what_hears_and_judges_is_there_to_be_looked_at() -> None:
    files = [file for part in freshness.MEASURED.values() for file in part.files]

    assert set(freshness.MEASURED) == set(speaking.PARTS)
    assert [file for file in files if not (speaking.ROOT / file).is_file()] == []
