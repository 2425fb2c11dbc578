"""Talk to a run: speech in, speech out, and the same verbs of ``Control`` as at every other door.

Four seams (``Vad``, ``Recogniser``, ``Synthesiser``, ``Sink``) hold what depends on a machine or a
provider. A table without a clock, in ``turn_table``, decides who speaks when.
"""

from importlib.util import find_spec

from midflight.errors import to_install

if find_spec("numpy") is None or find_spec("onnxruntime") is None:
    raise ImportError(f"midflight.interfaces.voice needs an extra: {to_install('voice')}")

from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    RATE,
    Chunk,
    Heard,
    Mark,
    Recogniser,
    Sink,
    SpeechFailed,
    Synthesiser,
    Vad,
    Word,
)

__all__ = [
    "FRAME",
    "RATE",
    "Chunk",
    "Heard",
    "Mark",
    "Recogniser",
    "Sink",
    "SpeechFailed",
    "Synthesiser",
    "Vad",
    "Word",
]
