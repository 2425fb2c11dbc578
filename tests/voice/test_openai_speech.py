"""Speech by a server: a stand-in on loopback that speaks as OpenAI's does, and then does not."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import numpy as np
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from midflight.interfaces.voice.speech.fallback import AnyRecogniser
from midflight.interfaces.voice.speech.openai_speech import SPEECH_RATE, OpenAISpeech
from midflight.interfaces.voice.speech.speech_engines import (
    RATE,
    Heard,
    Resampler,
    SpeechFailed,
    read_wav,
    resampled,
    samples,
    silence,
)
from server.house import serving

pytestmark = pytest.mark.anyio
HELLO = [{"token": "Hello", "logprob": math.log(0.8)}, {"token": ".", "logprob": math.log(0.6)}]


class Standin:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.asked: list[dict[str, str]] = []
        self.answer: object = {"text": "Hello.", "logprobs": HELLO}
        self.verbose: object = {"error": "unsupported response_format"}
        self.refuses: list[tuple[str, str]] = []  # what it does not want to be asked
        self.thinks_s = {"json": 0.0, "verbose_json": 0.0}
        self.status = 200
        self.sound = np.full(SPEECH_RATE, 5_000, "<i2").tobytes()

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/audio/transcriptions")
        async def hears(request: Request) -> Response:
            async with request.form() as form:
                file = form["file"]
                assert not isinstance(file, str)
                self.heard.append(read_wav(await file.read()))
                self.asked.append({k: v for k, v in form.items() if isinstance(v, str)})
            verbose = self.asked[-1]["response_format"] == "verbose_json"
            await anyio.sleep(self.thinks_s[self.asked[-1]["response_format"]])
            if any(field in self.asked[-1].items() for field in self.refuses):
                return Response("{}", 422, media_type="application/json")
            refused = verbose and "error" in msgspec.json.encode(self.verbose).decode()
            told = msgspec.json.encode(self.verbose if verbose else self.answer)
            status = 400 if refused else self.status
            return Response(told, status, media_type="application/json")

        @app.post("/v1/audio/speech")
        async def speaks(request: Request) -> Response:
            self.asked.append(await request.json())

            async def pieces() -> AsyncIterator[bytes]:
                for start in range(0, len(self.sound), 1_001):  # cut through samples, as nets do
                    yield self.sound[start : start + 1_001]

            return StreamingResponse(pieces(), self.status, media_type="audio/pcm")

        return app


@asynccontextmanager
async def standing_in() -> AsyncIterator[tuple[Standin, OpenAISpeech]]:
    standin = Standin()
    async with serving(standin.app()) as port:
        yield standin, OpenAISpeech(f"http://127.0.0.1:{port}/v1", key="secret")


async def test_sound_goes_out_as_wav_and_comes_back_as_words_with_their_confidence() -> None:
    async with standing_in() as (standin, speech):
        heard = await speech.recognise(silence(0.5))

        assert heard.text == "Hello."
        assert heard.confidence == pytest.approx(0.7)
        assert standin.heard == [silence(0.5)]
        assert standin.asked[0]["include[]"] == "logprobs"


@pytest.mark.parametrize(
    ("answer", "confidence"),
    [
        ({"text": "Hello."}, None),
        ({"text": "Hello.", "logprobs": {"yes": 1}}, None),
        ({"text": "Hello.", "segments": [{"avg_logprob": math.log(0.5)}]}, 0.5),
        ({"text": "  "}, 0.0),
    ],
)
async def test_servers_say_in_different_ways_how_sure_they_are(
    answer: object, confidence: float | None
) -> None:
    async with standing_in() as (standin, speech):
        standin.answer = answer

        assert (await speech.recognise(silence(0.1))).confidence == pytest.approx(confidence)


async def test_a_server_that_is_sure_only_in_the_verbose_way_is_asked_in_that() -> None:
    async with standing_in() as (standin, speech):
        standin.answer = {"text": "Hello."}
        standin.verbose = {"text": "Hello.", "segments": [{"avg_logprob": math.log(0.9)}]}

        heard = [await speech.recognise(silence(0.1)) for _ in range(2)]

        assert [one.confidence for one in heard] == [pytest.approx(0.9)] * 2
        formats = [asked["response_format"] for asked in standin.asked]
        assert formats == ["json", "verbose_json", "verbose_json"]


@pytest.mark.parametrize("verbose", [{"error": "no"}, {"text": "Hello."}, {"segments": 3}])
async def test_a_server_that_never_says_how_sure_it_is_is_asked_only_once_in_the_other_way(
    verbose: object,
) -> None:
    async with standing_in() as (standin, speech):
        standin.answer, standin.verbose = {"text": "Hello."}, verbose

        heard = [await speech.recognise(silence(0.1)) for _ in range(2)]

        assert heard == [Heard("Hello.", None)] * 2
        formats = [asked["response_format"] for asked in standin.asked]
        assert formats == ["json", "verbose_json", "json"]


TOKENS, SEGMENTS = ("include[]", "logprobs"), ("response_format", "verbose_json")


def ways(standin: Standin) -> list[str]:
    told = {"verbose_json": "by segments", "json": "plain"}
    return ["by tokens" if TOKENS[0] in x else told[x["response_format"]] for x in standin.asked]


async def test_a_server_that_refuses_to_be_asked_by_tokens_is_asked_by_segments() -> None:
    async with standing_in() as (standin, speech):
        standin.refuses = [TOKENS]
        standin.verbose = {"text": "Hello.", "segments": [{"avg_logprob": math.log(0.9)}]}

        heard = [await speech.recognise(silence(0.1)) for _ in range(2)]

        assert [one.confidence for one in heard] == [pytest.approx(0.9)] * 2
        assert ways(standin) == ["by tokens", "by segments", "by segments"]


async def test_a_server_that_refuses_both_is_asked_for_the_words_alone() -> None:
    async with standing_in() as (standin, speech):
        standin.refuses, standin.answer = [TOKENS, SEGMENTS], {"text": "Hello."}

        heard = [await speech.recognise(silence(0.1)) for _ in range(2)]

        assert heard == [Heard("Hello.", None)] * 2
        assert ways(standin) == ["by tokens", "by segments", "plain", "plain"]


async def test_a_server_that_refuses_whatever_it_is_asked_is_a_failure() -> None:
    async with standing_in() as (standin, speech):
        standin.status = 400

        with pytest.raises(SpeechFailed, match="answered HTTP 400"):
            await speech.recognise(silence(0.1))


async def test_a_way_that_took_too_long_is_tried_again_and_nobody_waits_for_it_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.openai_speech.OTHERWISE_S", 0.3)
    async with standing_in() as (standin, speech):
        standin.answer, standin.thinks_s["verbose_json"] = {"text": "Hello."}, 5.0
        standin.verbose = {"text": "Hello.", "segments": [{"avg_logprob": math.log(0.9)}]}
        assert await speech.recognise(silence(0.1)) == Heard("Hello.", None)
        standin.thinks_s["verbose_json"] = 0.0

        assert (await speech.recognise(silence(0.1))).confidence == pytest.approx(0.9)


async def test_a_way_that_always_takes_too_long_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.speech.openai_speech.OTHERWISE_S", 0.05)
    async with standing_in() as (standin, speech):
        standin.answer, standin.thinks_s["verbose_json"] = {"text": "Hello."}, 5.0

        for _ in range(6):
            assert await speech.recognise(silence(0.1)) == Heard("Hello.", None)

        assert ways(standin).count("by segments") == 3


async def test_a_server_that_needs_most_of_the_time_for_the_words_alone_is_understood_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "midflight.interfaces.voice.speech.fallback.RECOGNISE_S", 3.0
    )  # all at half its length
    for name, seconds in (("ASKED_S", 1.25), ("OTHERWISE_S", 0.5)):
        monkeypatch.setattr(
            f"midflight.interfaces.voice.speech.openai_speech.{name}", seconds, raising=False
        )
    async with standing_in() as (standin, speech):
        standin.answer, standin.verbose = {"text": "Hello."}, {"text": "Hello."}
        standin.thinks_s = {"json": 1.1, "verbose_json": 1.1}

        for _ in range(4):
            heard = await AnyRecogniser(speech).recognise(silence(0.1))
            assert heard == Heard("Hello.", None)

        assert ways(standin).count("by tokens") == 4  # at the first try
        assert ways(standin).count("by segments") <= 3  # and then it is known


async def test_speech_comes_at_our_rate_whatever_pieces_it_came_in() -> None:
    async with standing_in() as (standin, speech):
        pcm = b"".join([chunk.pcm async for chunk in speech.speak("Hello.")])

        assert abs(len(pcm) // 2 - RATE) <= 2
        middle = samples(pcm)[1_000:-1_000]
        assert abs(int(middle.min()) - 5_000) < 20
        assert standin.asked[0]["response_format"] == "pcm"


@pytest.mark.parametrize(("status", "answer"), [(500, {}), (200, {"error": "x"}), (200, [1])])
async def test_what_a_server_does_wrong_is_a_failure_with_words(
    status: int, answer: object
) -> None:
    async with standing_in() as (standin, speech):
        standin.status, standin.answer = status, answer

        with pytest.raises(SpeechFailed, match=r"127\.0\.0\.1"):
            await speech.recognise(silence(0.1))


async def test_a_server_that_is_not_there_or_gives_nothing_is_a_failure_too() -> None:
    with pytest.raises(SpeechFailed, match="could not be reached"):
        await OpenAISpeech("http://127.0.0.1:9/v1").recognise(silence(0.1))
    async with standing_in() as (standin, speech):
        standin.sound = b""
        with anyio.fail_after(10), pytest.raises(SpeechFailed, match="gave no sound"):
            async for _ in speech.speak("Hello."):
                pass


def test_sound_in_pieces_is_rendered_as_if_it_were_whole() -> None:
    tone = (np.sin(np.arange(SPEECH_RATE) / 9) * 8_000).astype("<i2").tobytes()
    made = Resampler(SPEECH_RATE)
    pieces = [made.feed(tone[n : n + 1_234 * 2]) for n in range(0, len(tone), 1_234 * 2)]
    whole = samples(b"".join(pieces) + made.feed(b"", last=True))

    at_once = samples(resampled(tone, SPEECH_RATE))
    count = min(len(whole), len(at_once)) - 100
    assert count > 15_000
    assert int(np.abs(whole[100:count].astype(int) - at_once[100:count].astype(int)).max()) < 40
