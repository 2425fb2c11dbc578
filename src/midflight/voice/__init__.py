"""Talk to a run: speech in, speech out, and the same verbs of ``Control`` as at every other door.

Four seams (``Vad``, ``Recogniser``, ``Synthesiser``, ``Sink``) hold what depends on a machine or a
provider. Who speaks when is decided by a table without a clock, in ``taking``.
"""

from importlib.util import find_spec

if find_spec("numpy") is None or find_spec("onnxruntime") is None:
    raise ImportError("midflight.voice needs an extra: pip install 'midflight[voice]'")

from midflight.voice.seams import (
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
