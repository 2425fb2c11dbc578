"""Speech by any server that speaks as OpenAI's does, at ``/audio/transcriptions`` and ``/speech``.

Stand-ins on a machine of one's own (speaches, LocalAI, vLLM) speak the same way. There are no
retries here: ``AnyRecogniser`` and ``AnySynthesiser`` try an engine again, and then another one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx

from midflight.interfaces.voice.speech.speech_engines import (
    WIDTH,
    Chunk,
    Heard,
    Resampler,
    SpeechFailed,
    as_wav,
)

SPEECH_RATE: Final = 24_000  # of ``pcm`` as the API gives it
BY_TOKENS: Final = {"response_format": "json", "include[]": "logprobs"}
BY_SEGMENTS: Final = {"response_format": "verbose_json"}
PLAIN: Final = {"response_format": "json"}
WAYS: Final = (BY_TOKENS, BY_SEGMENTS, PLAIN)
"""Two ways to ask how sure a server is, which it may not know or may refuse; then a plain one."""
REFUSED: Final = frozenset({httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY})
OTHERWISE_S: Final = 1.0  # for another way, where its words are known already
ASKED_S: Final = 2.5  # since it was first asked: a recogniser has little more, all ways together
OTHERWISE_TRIES: Final = 3  # that came to nothing, before it is not asked so any more
TIMEOUT: Final = httpx.Timeout(10.0, connect=3.0)
PIECE: Final = 9_600  # bytes that are asked for at once: a fifth of a second


class _NotInThisWay(SpeechFailed):
    """It refuses to be asked so, or what it answered has no words in it."""


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
        self._way: Mapping[str, str] | None = None  # in which it is asked, once that is known
        self._tries = 0

    async def recognise(self, pcm: bytes) -> Heard:
        """Return the words that were said, and how sure the server is if it says so."""
        async with self._asking() as http:
            if self._way is not None:
                return await self._transcribed(http, pcm, self._way)
            return await self._asked_in_every_way(http, pcm)

    async def _asked_in_every_way(self, http: httpx.AsyncClient, pcm: bytes) -> Heard:
        """Ask in every way, and keep to one in which the server says how sure it is, or answers."""
        found: tuple[Mapping[str, str], Heard] | None = None
        until = anyio.current_time() + ASKED_S
        why = SpeechFailed(self.name, "was not asked")
        for way in WAYS:
            if found is not None and (way is PLAIN or not found[1].text):
                break  # it would tell no more
            try:
                known = found[1] if found else None
                heard = await self._asked_so(http, pcm, way, known, until)
            except _NotInThisWay as error:
                why = error
                continue
            if heard is None:
                assert found is not None
                return found[1]  # it did not answer in time, and is asked so another time
            if found is None or heard.confidence is not None:
                found = (way, heard)
            if heard.confidence is not None:
                break
        if found is None:
            raise why
        self._way = found[0] if found[1].text else None  # an answer to silence shows nothing
        return found[1]

    async def _asked_so(
        self,
        http: httpx.AsyncClient,
        pcm: bytes,
        way: Mapping[str, str],
        known: Heard | None,
        until: float,
    ) -> Heard | None:
        """Ask in one way; return None if no answer came and the words are ``known`` already.

        Where they are known, the server gets little time and few tries, so that the words do not
        come too late. After the last try they are returned as they are known.
        """
        if known is None:
            return await self._transcribed(http, pcm, way)
        if self._tries >= OTHERWISE_TRIES:
            return known
        self._tries += 1  # first: the caller may give up meanwhile
        seconds = min(OTHERWISE_S, until - anyio.current_time())
        try:
            with anyio.move_on_after(max(0.0, seconds)):
                return await self._transcribed(http, pcm, way)
        except _NotInThisWay:
            raise
        except (SpeechFailed, httpx.HTTPError):
            pass
        return known if self._tries >= OTHERWISE_TRIES else None

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
            raise _NotInThisWay(self.name, "gave no text")
        return Heard(text.strip(), _confidence(told) if text.strip() else 0.0)

    async def speak(self, text: str) -> AsyncGenerator[Chunk, None]:
        """Yield the speech as it comes, without marks: the part heard is told by its share."""
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
            raise SpeechFailed(self.name, f"could not be reached: {why}") from None

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code in REFUSED:
            raise _NotInThisWay(self.name, f"answered HTTP {answer.status_code}")
        if answer.status_code != httpx.codes.OK:
            raise SpeechFailed(self.name, f"answered HTTP {answer.status_code}")


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        told = None
    return told if isinstance(told, dict) else {}


def _confidence(told: dict[str, Any]) -> float | None:
    """Return the mean probability of the tokens, or of Whisper's segments; None without any."""
    for name, inner in (("logprobs", "logprob"), ("segments", "avg_logprob")):
        parts = told.get(name)
        found = parts if isinstance(parts, list) else []
        logs = [x.get(inner) for x in found if isinstance(x, dict)]
        known = [math.exp(min(0.0, x)) for x in logs if isinstance(x, int | float)]
        if known:
            return sum(known) / len(known)
    return None
