"""Moonshine tiny, by onnxruntime. The model comes inside ``moonshine-voice``; nothing is fetched.

Who is not sure listens again: to the same sound a little slower and a little faster, and to all
three at once for each next word. What is there is there at every speed; what was guessed is not.

Of a short sound it is also asked how well a few phrases would fit. A single word is often misheard
as a whole, and is still nearer to "stop" than to "uh-huh", or the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import numpy as np
import onnxruntime as ort
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from midflight.voice.lexicon import ASSENTS, EACH, ORDERS, PLAIN
from midflight.voice.seams import RATE, WIDTH, Heard, SpeechFailed, Word
from midflight.voice.silero import LOUDEST, packaged, session

FOLDER: Final = "assets/tiny-en"
BEGIN, END = 1, 2
LAYERS, HEADS, HEAD = 6, 8, 36
TOKENS_A_SECOND: Final = 6.5  # people say no more; the model, when it repeats itself, does
SHORTEST: Final = RATE // 8  # the encoder wants to see something
LONGEST_S: Final = 30
SPACE: Final = "▁"
SHORT: Final = int(1.6 * RATE)  # longer ones have words enough
FAINT: Final = 1e-9
NOISES: Final = (1e-4, 1e-3, 1e-2)
SPEEDS: Final = (1.0, 0.93, 1.07)  # at which a doubtful sound is heard
AT_ONCE: Final = 2  # recognitions, however many lines there are

Floats = NDArray[np.float32]
Counts = NDArray[np.int64]


class Seen(Struct, frozen=True):
    """What the encoder made of a sound, or of several that are heard together: a row for each."""

    hidden: Floats
    mask: Counts  # 1 where a row has something

    @property
    def rows(self) -> int:
        """How many sounds they are."""
        return len(self.hidden)

    def times(self, many: int) -> Seen:
        """Each row so many times, one after the other."""
        return Seen(np.repeat(self.hidden, many, axis=0), np.repeat(self.mask, many, axis=0))


class Moonshine:
    """``assents`` and ``orders`` are the phrases between which short sounds are weighed."""

    name = "moonshine"

    def __init__(self, assents: Sequence[str] = ASSENTS, orders: Sequence[str] = ORDERS) -> None:
        self._model = _model()
        self._assents, self._orders = tuple(assents), tuple(orders)
        self._limiter: anyio.CapacityLimiter | None = None

    async def recognise(self, pcm: bytes) -> Heard:
        """What was said; takes 50 to 200 ms, in a thread."""
        self._limiter = self._limiter or anyio.CapacityLimiter(AT_ONCE)
        return await anyio.to_thread.run_sync(
            self.hear, pcm, limiter=self._limiter, abandon_on_cancel=True
        )

    def hear(self, pcm: bytes) -> Heard:
        """The same, in this thread."""
        sound = np.frombuffer(pcm[: LONGEST_S * RATE * WIDTH], "<i2").astype(np.float32) / LOUDEST
        if len(sound) < SHORTEST:
            sound = np.pad(sound, (0, SHORTEST - len(sound)))
        try:
            return self._hear(sound)
        except ort.capi.onnxruntime_pybind11_state.Fail as error:
            raise SpeechFailed(self.name, f"failed: {error}") from None

    def _hear(self, sound: Floats) -> Heard:
        at_most = int(len(sound) / RATE * TOKENS_A_SECOND) + 4
        alone = self._model.encode(sound)
        heard = self._heard(*self._model.decode(alone, at_most))
        short = len(sound) <= SHORT
        each = min((word.confidence for word in heard.words), default=0.0)
        if heard.confidence >= PLAIN and (each >= EACH or not short):
            return heard
        again = self._model.encode(*(_at_speed(sound, speed) for speed in SPEEDS))
        heard = self._heard(*self._model.decode(again, at_most))
        return replace(heard, lean=self._lean(alone)) if short else heard

    def _heard(self, tokens: Sequence[int], sure: Sequence[float]) -> Heard:
        text = self._model.text(tokens)
        if not any(map(str.isalnum, text)):  # sure of nothing, or of a tune, is not sure
            return Heard("", 0.0)
        return Heard(text, float(np.mean(sure)), self._words(tokens, sure))

    def _words(self, tokens: Sequence[int], sure: Sequence[float]) -> tuple[Word, ...]:
        found: list[tuple[str, list[float]]] = []
        for token, probability in zip(tokens, sure, strict=False):
            piece = self._model.pieces[token].decode(errors="replace")
            if piece.startswith(SPACE) or not found:
                found.append((piece.lstrip(SPACE), [probability]))
            else:
                found[-1] = (found[-1][0] + piece, [*found[-1][1], probability])
        return tuple(Word(text, min(probabilities)) for text, probabilities in found if text)

    def _lean(self, seen: Seen) -> float:
        """How much better the best assent fits than the best order.

        Twice over, as it is and against how well each fits no sound at all: the first knows which
        words are frequent, the second hears.
        """
        phrases, many = (*self._assents, *self._orders), len(self._assents)
        if not (self._assents and self._orders):
            return 0.0
        fits = self._model.fit(seen, phrases)
        against = fits - self._model.fit_of_noise(phrases)
        both = [fit[:many].max() - fit[many:].max() for fit in (fits, against)]
        return float(sum(both)) / 2


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

    def encode(self, *sounds: Floats) -> Seen:
        """What the decoder looks at."""
        rows = [self._encoded(sound) for sound in sounds]
        longest = max(map(len, rows))
        hidden = [np.pad(row, ((0, longest - len(row)), (0, 0))) for row in rows]
        mask = [np.arange(longest) < len(row) for row in rows]
        return Seen(np.stack(hidden), np.stack(mask).astype(np.int64))

    def _encoded(self, sound: Floats) -> Floats:
        seen = np.ones((1, len(sound)), np.int64)
        (hidden,) = self._encoder.run(None, {"input_values": sound[None], "attention_mask": seen})
        return hidden[0]  # type: ignore[no-any-return]

    def decode(self, seen: Seen, at_most: int) -> tuple[list[int], list[float]]:
        """The token that is likeliest for all together each time, and how likely it was."""
        past, given = _nothing(seen), BEGIN
        tokens: list[int] = []
        sure: list[float] = []
        for place in range(at_most):
            fed = np.full((seen.rows, 1), given, np.int64)
            logits, past = self._step(seen, fed, past, place > 0)
            chances = np.maximum(_softmax(logits[:, -1]), FAINT)
            given = int(np.log(chances).mean(axis=0).argmax())
            sure.append(float(chances[:, given].mean()))
            if given == END:
                break
            tokens.append(given)
        return tokens, sure

    def fit(self, seen: Seen, phrases: Sequence[str]) -> Floats:
        """How well each phrase would do: the logarithm of its chance, with its end."""
        coded = [[*self.tokens(phrase), END] for phrase in phrases]
        found = np.zeros(len(coded), np.float32)
        for length in set(map(len, coded)):  # apart, or the short ones are as dear as the longest
            places = [place for place, tokens in enumerate(coded) if len(tokens) == length]
            wanted = np.array([coded[place] for place in places] * seen.rows, np.int64)
            given = np.concatenate([np.full((len(wanted), 1), BEGIN), wanted[:, :-1]], axis=1)
            many = seen.times(len(places))
            logits, _ = self._step(many, given, _nothing(many), False)
            chances = np.take_along_axis(_softmax(logits), wanted[:, :, None], axis=2)[:, :, 0]
            fits = np.log(np.maximum(chances, FAINT)).sum(axis=1)
            found[places] = fits.reshape(seen.rows, len(places)).mean(axis=0)
        return found

    def fit_of_noise(self, phrases: tuple[str, ...]) -> Floats:
        """The same for no words at all, however loud."""
        if phrases not in self._noise:
            chance = np.random.default_rng(0)
            noises = [chance.standard_normal(RATE) * level for level in NOISES]
            seen = self.encode(*(noise.astype(np.float32) for noise in noises))
            self._noise[phrases] = self.fit(seen, phrases)
        return self._noise[phrases]

    def _step(
        self, seen: Seen, given: Counts, past: dict[str, Any], cached: bool
    ) -> tuple[Floats, dict[str, Any]]:
        fed = {
            "input_ids": given,
            "encoder_hidden_states": seen.hidden,
            "encoder_attention_mask": seen.mask,
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


def _nothing(seen: Seen) -> dict[str, Floats]:
    """The memory of a decoder that has not begun."""
    rows, frames = seen.mask.shape
    return {
        f"past_key_values.{layer}.{side}.{what}": np.zeros(
            (rows, HEADS, 0 if side == "decoder" else frames, HEAD), np.float32
        )
        for layer in range(LAYERS)
        for side in ("decoder", "encoder")
        for what in ("key", "value")
    }


def _at_speed(sound: Floats, speed: float) -> Floats:
    places = np.arange(0, len(sound) - 1, speed)
    return np.interp(places, np.arange(len(sound)), sound).astype(np.float32)


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return chances
