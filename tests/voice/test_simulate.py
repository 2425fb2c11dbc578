"""``midflight voice simulate``, as a person runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import pytest

from cli.scene import Scene
from cli.terminal import Terminal
from midflight.interfaces.voice.speech.speech_engines import as_wav, read_wav, silence
from voice.speakers import said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.flite,
    pytest.mark.timeout(120),
]
TESTS = Path(__file__).resolve().parent.parent
MIDFLIGHT = str(Path(sys.executable).with_name("midflight"))


def simulate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [MIDFLIGHT, "voice", "simulate", "voice.clerks:clerk", *map(str, arguments)]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=100)


def test_a_file_talks_assents_and_interrupts_and_both_sides_are_written(tmp_path: Path) -> None:
    spoken = silence(0.5) + said("Give me the summary please.", "flite:slt") + silence(3)
    spoken += said("yeah", "flite:slt") + silence(2)
    spoken += said("What about Germany in the second quarter?", "flite:slt")
    (tmp_path / "in.wav").write_bytes(as_wav(spoken + silence(1)))

    done = simulate(
        tmp_path / "in.wav", "--out", tmp_path / "out.wav", "--workdir", tmp_path, "--json"
    )

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    shown = [line["shown"] for line in lines if "shown" in line]
    outcomes = [one["outcome"] for one in shown if one["t"] == "outcome"]
    assert outcomes == ["heard", "resumed", "interrupted", "heard"]
    cut = [line for line in lines[-1]["transcript"] if line["status"] == "cut short"]
    assert len(cut) == 1
    with wave.open(str(tmp_path / "out.wav")) as both:
        assert (both.getnchannels(), both.getframerate()) == (2, 16_000)
        assert both.getnframes() * 2 >= len(spoken) * 0.9


def test_what_is_no_sound_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "in.wav").write_text("not a sound")

    done = simulate(tmp_path / "in.wav")

    assert done.returncode == 1
    assert "cannot be read as WAV" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_sound_of_another_rate_and_two_channels_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "in.wav"), "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(48_000)
        out.writeframes(bytes(48_000 * 4))

    assert len(read_wav(tmp_path / "in.wav")) == 32_000


@pytest.mark.parametrize("how", ["its terminal is closed", "SIGTERM"])
def test_the_run_that_is_talked_to_is_held_when_the_command_is_told_to_end(
    tmp_path: Path, how: str
) -> None:
    scene = Scene(tmp_path)
    spoken = silence(0.5) + said("Give me the summary please.", "flite:slt") + silence(30)
    (tmp_path / "in.wav").write_bytes(as_wav(spoken))
    talk = ("voice", "simulate", "cli.staff:host", "in.wav", "--store", "midflight.db")
    window = Terminal(scene.folder, scene.env, *talk, "--out", "out.wav", "--real-time")
    try:
        window.until("heard")
        deadline = time.monotonic() + 20  # the words are shown before the run has begun for them
        while not scene.json("runs"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        scene.until("last", "running")
        if how == "SIGTERM":
            window.process.send_signal(signal.SIGTERM)
        else:
            window.hang_up()

        assert window.process.wait(timeout=20) == 130
        shown = scene.json("show", "last")
        assert (shown["phase"], shown["holds"], shown["in_flight"]) == ("paused", ["drain"], [])
        with wave.open(str(tmp_path / "out.wav")) as both:
            assert both.getnframes() > 0
    finally:
        window.close()
