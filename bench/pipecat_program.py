"""Runs in an environment that has Pipecat: how soon its output ends when somebody speaks.

Everything is at its defaults: Silero VAD, the user-turn strategies, the output transport's chunks.
Given a folder of raw sounds, it prints one JSON list of milliseconds, null where it did not stop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    InputAudioRawFrame,
    OutputAudioRawFrame,
    StartFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.turns.user_turn_processor import UserTurnProcessor
from pipecat.workers.runner import WorkerRunner

RATE, TICK_S, LOUD = 16_000, 0.02, 300
TONE = (np.sin(np.arange(RATE * 20) / 5) * 3_000).astype("<i2").tobytes()
"""Longer than any sound: its end would look like a stop."""


class Loudspeaker(BaseOutputTransport):
    """Takes a chunk when the one before it was played, as a sound card does."""

    def __init__(self) -> None:
        params = TransportParams(audio_out_enabled=True, audio_out_auto_silence=False)
        super().__init__(params)
        self.ended_s = 0.0
        self.loud_s = 0.0

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        await asyncio.sleep(max(0.0, self.ended_s - time.monotonic()))
        self.ended_s = max(self.ended_s, time.monotonic()) + len(frame.audio) / 2 / RATE
        if any(frame.audio):
            self.loud_s = self.ended_s
        return True


async def measure(pcm: bytes) -> float | None:
    out = Loudspeaker()
    line = Pipeline([VADProcessor(vad_analyzer=SileroVADAnalyzer()), UserTurnProcessor(), out])
    params = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE)
    worker = PipelineWorker(line, params=params, cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())  # noqa: TID251, RUF100 - this is a Pipecat program
    try:
        await asyncio.sleep(0.5)
        await worker.queue_frame(TTSAudioRawFrame(TONE, RATE, 1))
        until = time.monotonic() + 10
        while not out.loud_s and time.monotonic() < until:  # noqa: ASYNC110 - it does not tell
            await asyncio.sleep(0.02)
        onset_s = await speak(worker, bytes(int(0.6 * RATE) * 2) + pcm + bytes(RATE))
        return (out.loud_s - onset_s) * 1000 if out.loud_s < time.monotonic() - 0.2 else None
    finally:
        await worker.cancel()
        await running


async def speak(worker: Any, pcm: bytes) -> float:
    """Give it sound as a microphone does; when speech in it began."""
    loud = np.flatnonzero(np.abs(np.frombuffer(pcm, "<i2").astype(np.int32)) > LOUD)
    began, size = time.monotonic(), int(TICK_S * RATE) * 2
    for number in range(len(pcm) // size):
        await asyncio.sleep(max(0.0, began + (number + 1) * TICK_S - time.monotonic()))
        piece = pcm[number * size : (number + 1) * size]
        await worker.queue_frame(InputAudioRawFrame(piece, RATE, 1))
    return began + loud[0] / RATE


async def main(sounds: list[bytes]) -> None:
    print(json.dumps([await measure(sound) for sound in sounds]))


if __name__ == "__main__":
    asyncio.run(main([file.read_bytes() for file in sorted(Path(sys.argv[1]).glob("*.raw"))]))
