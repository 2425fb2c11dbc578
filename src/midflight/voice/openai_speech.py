"""Speech by any server that speaks as OpenAI's does, at ``/audio/transcriptions`` and ``/speech``.

Stand-ins on a machine of one's own (speaches, LocalAI, vLLM) speak the same way. No retries here:
whoever stands behind ``AnyRecogniser`` and ``AnySynthesiser`` is tried again, and then another is.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from midflight.voice.seams import WIDTH, Chunk, Heard, SpeechFailed
from midflight.voice.sounds import Resampler, as_wav

SPEECH_RATE: Final = 24_000  # of ``pcm`` as the API gives it
BY_TOKENS: Final = {"response_format": "json", "include[]": "logprobs"}
BY_SEGMENTS: Final = {"response_format": "verbose_json"}
"""Two ways to ask how sure a server is; some know one of them, some none."""
TIMEOUT: Final = httpx.Timeout(10.0, connect=3.0)
PIECE: Final = 9_600  # bytes that are asked for at once: a fifth of a second


class OpenAISpeech:
    """Hears and speaks. ``url`` ends before ``/audio``, as in ``http://127.0.0.1:8000/v1``."""

    def __init__(
        self,
        url: str,
        *,
        key: str = "",
        hears: str = "gpt-4o-mini-transcribe",
        speaks: str = "gpt-4o-mini-tts",
        voice: str = "alloy",
    ) -> None:
        self.name = f"{httpx.URL(url).host}"
        self._url, self._key = url.rstrip("/"), key
        self._hears, self._speaks, self._voice = hears, speaks, voice
        self._way = BY_TOKENS
        self._tried_both = False

    async def recognise(self, pcm: bytes) -> Heard:
        """What was said, and how sure the server is if it says so."""
        async with self._asking() as http:
            heard = await self._transcribed(http, pcm, self._way)
            if heard.confidence is None and not self._tried_both:
                return await self._asked_otherwise(http, pcm, heard)
            return heard

    async def _asked_otherwise(self, http: httpx.AsyncClient, pcm: bytes, first: Heard) -> Heard:
        """Once: whether it says so where it is asked in the other way, which it may refuse."""
        self._tried_both = True
        try:
            heard = await self._transcribed(http, pcm, BY_SEGMENTS)
        except (SpeechFailed, httpx.HTTPError):
            return first
        if heard.confidence is None:
            return first
        self._way = BY_SEGMENTS
        return heard

    async def _transcribed(
        self, http: httpx.AsyncClient, pcm: bytes, way: Mapping[str, str]
    ) -> Heard:
        asked = {"model": self._hears, **way}
        sound = {"file": ("said.wav", as_wav(pcm), "audio/wav")}
        answer = await http.post(f"{self._url}/audio/transcriptions", data=asked, files=sound)
        self._check(answer)
        return self._heard(_object(answer))

    def _heard(self, told: dict[str, Any]) -> Heard:
        text = told.get("text")
        if not isinstance(text, str):
            raise SpeechFailed(self.name, "gave no text")
        return Heard(text.strip(), _confidence(told) if text.strip() else 0.0)

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """The speech as it comes. There are no marks: what was heard goes by its share."""
        asked = {
            "model": self._speaks,
            "voice": self._voice,
            "input": text,
            "response_format": "pcm",
        }
        made, left, any_sound = Resampler(SPEECH_RATE), b"", False
        async with (
            self._asking() as http,
            http.stream("POST", f"{self._url}/audio/speech", json=asked) as answer,
        ):
            self._check(answer)
            async for piece in answer.aiter_bytes(PIECE):
                whole = left + piece
                left = whole[len(whole) // WIDTH * WIDTH :]
                any_sound = True
                yield Chunk(made.feed(whole[: len(whole) // WIDTH * WIDTH]))
        if not any_sound:
            raise SpeechFailed(self.name, "gave no sound")
        yield Chunk(made.feed(b"", last=True))

    @asynccontextmanager
    async def _asking(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT) as http:
                yield http
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise SpeechFailed(self.name, f"could not be asked: {why}") from None

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code != httpx.codes.OK:
            raise SpeechFailed(self.name, f"answered {answer.status_code}")


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {}


def _confidence(told: dict[str, Any]) -> float | None:
    """From the tokens' logarithms, or the segments' as Whisper gives them; None without any."""
    for name, inner in (("logprobs", "logprob"), ("segments", "avg_logprob")):
        parts = told.get(name)
        found = parts if isinstance(parts, list) else []
        logs = [x.get(inner) for x in found if isinstance(x, dict)]
        known = [math.exp(min(0.0, x)) for x in logs if isinstance(x, int | float)]
        if known:
            return sum(known) / len(known)
    return None
