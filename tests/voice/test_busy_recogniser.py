"""Many lines and few recognisers: whoever waits is not late for it, and who is late is busy."""

from __future__ import annotations

from time import sleep

import anyio
import pytest
from typing_extensions import override

from midflight.interfaces.voice.speech import offline_engines
from midflight.interfaces.voice.speech.fallback import AnyRecogniser
from midflight.interfaces.voice.speech.offline_engines import AT_ONCE, Moonshine
from midflight.interfaces.voice.speech.speech_engines import Heard, SpeechFailed, silence

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Slow(Moonshine):
    """Takes so many seconds for whatever it is."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.asked = 0

    @override
    def hear(self, pcm: bytes) -> Heard:
        self.asked += 1
        sleep(self.seconds)
        return Heard("Count please", 0.9)


async def failures(engine: Moonshine, lines: int) -> list[str]:
    """What those lines are told that are not understood."""
    found: list[str] = []

    async def line() -> None:
        try:
            await engine.recognise(silence(0.5))
        except SpeechFailed as error:
            found.append(error.why)

    async with anyio.create_task_group() as tasks:
        for _ in range(lines):
            tasks.start_soon(line)
    return found


async def test_time_in_which_others_are_recognised_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline_engines, "THINK_S", 2.5)
    monkeypatch.setattr(
        "midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 5.0
    )  # of which one try has a half
    engine = Slow(1.5)
    busy = AnyRecogniser(engine)
    heard: list[str] = []

    async def line() -> None:
        heard.append((await busy.recognise(silence(0.5))).text)

    async with anyio.create_task_group() as tasks:
        for _ in range(2 * AT_ONCE):
            tasks.start_soon(line)

    assert heard == ["Count please"] * 2 * AT_ONCE
    assert engine.asked == 2 * AT_ONCE, "nobody was taken for late, and asked again"


async def test_one_that_takes_too_long_is_busy_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline_engines, "THINK_S", 0.1)
    monkeypatch.setattr(offline_engines, "TURN_S", 0.2)
    monkeypatch.setattr(offline_engines, "THINK_A_SECOND", 0.0)
    engine = Slow(3.0)

    assert await failures(engine, AT_ONCE) == ["took more than 0.1 s"] * AT_ONCE
    assert await failures(engine, 1) == ["was busy for 0.2 s"]
    engine.seconds = 0.0
    monkeypatch.undo()  # a second or two are enough now, if the threads are let go
    assert await failures(engine, 1) == []


async def test_who_speaks_long_is_given_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_engines, "THINK_S", 0.1)
    monkeypatch.setattr(offline_engines, "TURN_S", 20.0)
    engine = Slow(0.6)

    assert (await engine.recognise(silence(28))).text == "Count please"
    with pytest.raises(SpeechFailed, match="took more than"):
        await engine.recognise(silence(0.2))  # 130 ms
