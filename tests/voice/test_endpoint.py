"""Voice over a WebSocket: the real server, a client that is no browser, and what it does wrong."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from fastapi import FastAPI
from httpx import AsyncClient
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Close

from midflight.agents import Agent, agent
from midflight.assistant import Profile, assistant
from midflight.control import Control, local
from midflight.errors import JournalNotFound
from midflight.interfaces.app import create_app
from midflight.interfaces.cli.commands import serve_command
from midflight.interfaces.cli.commands.serve_command import MESSAGE_MAX
from midflight.interfaces.http.access.access import Access
from midflight.interfaces.http.access.keyring import Keyring
from midflight.interfaces.voice.page_call import BEHIND, FULL, POLICY, TOO_OFTEN, router
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, Engines, SpeechFailed
from midflight.interfaces.voice.spoken_verbs import BROKEN_OFF
from midflight.journal.phases import Role
from midflight.models.scripted import ScriptedModel, say
from midflight.run import Run
from server.house import PATIENT, House, serving
from voice.studio import (
    THREAD,
    WORD,
    PlainRecogniser,
    PlainSynthesiser,
    PlainVad,
    Words,
)

pytestmark = pytest.mark.anyio
TEXT = "one two three four five six seven eight nine ten eleven twelve"
SILENCE = bytes(FRAME * 2)
TOO_BIG = 1009


class Phone:
    """A page as far as the server can tell: sends frames, plays what it gets, counts."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.shown: list[dict[str, Any]] = []
        self.waiting = 0  # samples
        self.played = 0
        self._held = False
        self.cuts = 0
        self.is_deaf_to_cuts = False
        self.closed: Close | None = None

    async def listen(self) -> None:
        try:
            async for message in self._socket:
                if isinstance(message, bytes):
                    self.waiting += len(message) // 2
                else:
                    await self._take(msgspec.json.decode(message))
        except ConnectionClosed as closed:
            self.closed = closed.rcvd

    async def _take(self, message: dict[str, Any]) -> None:
        match message["t"]:
            case "hold":
                self._held = True
            case "go on":
                self._held = False
            case "cut":
                self.waiting = 0
                self.cuts += 1
                if not self.is_deaf_to_cuts:
                    await self.tell(t="silenced", played=self.played, number=message["number"])
            case _:
                self.shown.append(message)

    async def tell(self, **message: Any) -> None:
        await self._socket.send(msgspec.json.encode(message).decode())

    async def frames(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), FRAME * 2):
            frame = pcm[start : start + FRAME * 2].ljust(FRAME * 2, b"\0")
            await self._socket.send(self.played.to_bytes(4, "little") + frame)
            if not self._held:
                count = min(self.waiting, FRAME)
                self.waiting, self.played = self.waiting - count, self.played + count
            await anyio.sleep(0.004)

    async def send(self, message: str | bytes) -> None:
        await self._socket.send(message)

    async def until(self, ready: Any) -> None:
        with anyio.fail_after(20):
            while not ready():
                await self.frames(SILENCE)

    def troubles(self) -> list[str]:
        return [shown["text"] for shown in self.shown if shown["t"] == "trouble"]

    def outcomes(self) -> list[str]:
        return [shown["outcome"] for shown in self.shown if shown["t"] == "outcome"]

    def heard(self) -> list[str]:
        """What was taken for words, and acted on."""
        return [shown["heard"] for shown in self.shown if shown.get("outcome") == "heard"]


class Exchange:
    def __init__(self, house: House, control: Control, words: Words) -> None:
        self.house, self.control, self.words = house, control, words

    def url(self, thread: str = THREAD) -> str:
        return f"ws://127.0.0.1:{self.house.port}/v1/threads/{thread}/voice"

    @asynccontextmanager
    async def call(
        self, role: Role = Role.CONTROLLER, thread: str = THREAD
    ) -> AsyncIterator[Phone]:
        headers = {"authorization": f"Bearer {self.house.tokens[role]}"}
        async with connect(self.url(thread), additional_headers=headers) as socket:
            phone = Phone(socket)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(phone.listen)
                yield phone
                tasks.cancel_scope.cancel()


def served_as_by_the_command(app: FastAPI) -> AbstractAsyncContextManager[int]:
    return serving(app, server=serve_command._server(app))


@agent(converses=True)
async def worker(run: Run) -> str:
    await run.step("Work", anyio.sleep, 30)
    return "worked"


@agent(converses=True)
async def reader(run: Run) -> str:
    await run.say(" ".join(f"w{number}" for number in range(40)))
    await run.step("Work", anyio.sleep, 30)
    return "read"


def clerk(*texts: str) -> Agent:
    model = ScriptedModel([say(text) for text in texts])
    return assistant("clerk", Profile(model, actions=()), delegates=False)


@asynccontextmanager
async def exchange(
    folder: Path, agent: Agent, engines: Any = None, server: Any = serving
) -> AsyncIterator[Exchange]:
    words = Words()

    def plain() -> Engines:
        return Engines(PlainVad, (PlainRecogniser(words),), (PlainSynthesiser(),))

    async with local("memory:", agent, workdir=folder, drain_s=0.2) as control:
        door = router(control, [agent], engines or plain)
        access = Access(Keyring())
        app = create_app(control, agents=[agent], access=access, quotas=PATIENT, doors=[door])
        async with server(app) as port:
            yield Exchange(House(app, port), control, words)


async def test_words_are_heard_answered_and_cut_short_where_the_page_says_it_was(
    tmp_path: Path,
) -> None:
    async with exchange(tmp_path, clerk(TEXT, "thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("Count please"))
        await phone.until(lambda: phone.played >= 4 * WORD)
        await phone.frames(there.words.said("What comes after twelve"))
        await phone.until(lambda: phone.outcomes().count("heard") == 2)
        cut_at = phone.played
        await phone.until(lambda: phone.played >= cut_at + WORD)

        lines = await there.control.transcript(THREAD)
        said = [line for line in lines if line.kind == "said: text"]
        assert said[0].status == "cut short"
        heard = len(said[0].text.split())
        assert abs(heard - cut_at / WORD) <= 1
        assert said[1].text == "thirteen"


@pytest.mark.parametrize(
    ("silence_ms", "before"),
    [(0, BROKEN_OFF), (700, "")],
    ids=["at once", "while it is recognised"],
)
async def test_the_last_words_of_who_hangs_up_are_still_done(
    tmp_path: Path, silence_ms: int, before: str
) -> None:
    words = Words()
    recogniser = PlainRecogniser(words)
    recogniser.thinks = lambda: anyio.sleep(0.5)

    def engines() -> Engines:
        return Engines(PlainVad, (recogniser,), (PlainSynthesiser(),))

    async with exchange(tmp_path, clerk("thirteen"), engines) as there:
        async with there.call() as phone:
            await phone.tell(t="hello", rate=RATE)
            await phone.until(lambda: phone.shown)
            await phone.frames(words.said("Count please") + bytes(silence_ms * RATE // 500))

        said = await _thread_once_it_has(there.control, "message")
        assert said == [f"{before}Count please"]


async def test_who_says_wait_and_closes_the_page_has_paused(tmp_path: Path) -> None:
    async with exchange(tmp_path, worker) as there:
        async with there.call() as phone:
            await phone.tell(t="hello", rate=RATE)
            await phone.frames(there.words.said("Begin the work"))
            await phone.until(lambda: phone.heard())
            [run] = await there.control.runs()
            await phone.frames(there.words.said("Wait"))

        with anyio.fail_after(10):
            while not (await there.control.state(run.journal)).holds:  # noqa: ASYNC110 - it comes by the store
                await anyio.sleep(0.02)


async def test_who_says_wait_over_us_and_closes_the_page_is_not_waited_for_before_it_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "voice_wire",
        "speech.playback",
    ):  # nobody is there to say how much was played
        monkeypatch.setattr(f"midflight.interfaces.voice.{module}.ANSWER_S", 60.0)
    async with exchange(tmp_path, reader) as there:
        async with there.call() as phone:
            await phone.tell(t="hello", rate=RATE)
            await phone.frames(there.words.said("Read it to me"))
            await phone.until(lambda: phone.played >= 4 * WORD)
            [run] = await there.control.runs()
            await phone.frames(there.words.said("Wait"))

        with anyio.fail_after(5):
            while not (await there.control.state(run.journal)).holds:  # noqa: ASYNC110 - it comes by the store
                await anyio.sleep(0.02)


async def test_whose_key_is_revoked_is_not_obeyed_with_the_last_words_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.KNOWN_S", 0.05)
    async with exchange(tmp_path, worker) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("Begin the work"))
        await phone.until(lambda: phone.heard())
        [run] = await there.control.runs()
        there.house.keyring.revoke("the-controller")
        with suppress(ConnectionClosed):
            await phone.frames(there.words.said("Wait", 1.0))
        with anyio.fail_after(10):
            while phone.closed is None:  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.005)
        await anyio.sleep(0.3)

        assert not (await there.control.state(run.journal)).holds


async def test_with_a_key_to_talk_the_room_is_not_heard_and_what_is_said_to_the_key_is(
    tmp_path: Path,
) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE, mode="push")
        await phone.frames(there.words.said("Somebody else in the room") + bytes(RATE * 2))
        await phone.tell(t="talk", on=True)
        await phone.frames(there.words.said("Count please"))
        await phone.tell(t="talk", on=False)
        await phone.frames(there.words.said("Somebody else again") + bytes(RATE * 2))
        await phone.until(lambda: phone.played >= WORD)

        assert phone.heard() == ["Count please"]
        await phone.tell(t="hello", rate=RATE, mode="hands-free")
        await phone.frames(there.words.said("Now without the key"))
        await phone.until(lambda: len(phone.heard()) == 2)
        assert phone.heard()[1] == "Now without the key"


async def test_after_a_key_was_down_for_too_long_the_room_is_not_heard_until_it_is_pressed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.turn_table.LONGEST_MS", 960)
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE, mode="push")
        await phone.tell(t="talk", on=True)
        await phone.frames(there.words.said("Count please", 0.9) + bytes(RATE))
        await phone.until(lambda: phone.heard())
        await phone.until(lambda: phone.played >= WORD)

        room = there.words.said("Somebody else in the room")  # and the key is still down
        await phone.frames(room + bytes(RATE * 2))
        await phone.tell(t="talk", on=False)
        await phone.tell(t="talk", on=True)
        await phone.frames(there.words.said("Once more"))
        await phone.tell(t="talk", on=False)
        await phone.until(lambda: len(phone.heard()) > 1)

        assert phone.heard() == ["Count please", "Once more"]


async def test_what_was_said_before_the_line_was_open_comes_at_once_and_is_heard(
    tmp_path: Path,
) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE)
        early = bytes(RATE * 10) + there.words.said("Count please") + bytes(RATE * 2)
        for start in range(0, len(early), 31 * FRAME * 2):
            await phone.send(bytes(4) + early[start : start + 31 * FRAME * 2])
        await phone.until(lambda: phone.played >= WORD)

        assert phone.heard() == ["Count please"]
        assert phone.troubles() == []


MISFITS: dict[str, tuple[str | bytes, str]] = {
    "an odd number of bytes": (b"12345", "16-bit samples"),
    "no header": (b"12", "16-bit samples"),
    "a frame of a minute": (bytes(200_000), "too large"),
    "no JSON": ("hello?", "could not be understood"),
    "another kind of message": ('{"t": "dance"}', "could not be understood"),
    "a text without end": ("x" * 5_000, "too large"),
    "another rate": ('{"t": "hello", "rate": 44100}', "44,100 samples a second"),
}


async def test_what_a_page_does_wrong_is_told_and_the_line_lives_on(tmp_path: Path) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        for number, (sent, told) in enumerate(MISFITS.values(), 1):
            await phone.send(sent)
            with anyio.fail_after(20):
                while len(phone.troubles()) < number:  # noqa: ASYNC110 - it comes by the socket
                    await anyio.sleep(0.005)
            assert told in phone.troubles()[-1]
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("Count please"))
        await phone.until(lambda: phone.played >= WORD)


async def test_sound_of_another_rate_is_not_heard_until_it_is_ours(tmp_path: Path) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=48_000)
        await phone.frames(there.words.said("At another rate") + bytes(RATE * 2))
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("At our rate"))
        await phone.until(lambda: phone.heard())

        assert phone.heard() == ["At our rate"]


async def test_a_microphone_without_any_sound_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.SILENT_S", 0.2)
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.until(lambda: phone.troubles())
        await phone.frames(SILENCE * 60)
        assert ["no sound at all" in text for text in phone.troubles()] == [True]
        await phone.frames(there.words.said("Can you hear me now"))
        await phone.until(lambda: phone.heard())

        assert phone.heard() == ["Can you hear me now"]


async def test_a_microphone_is_not_called_mute_for_the_time_in_which_no_key_was_pressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.SILENT_S", 0.3)
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE, mode="push")
        await phone.until(lambda: phone.shown)
        waited = anyio.current_time() + 0.6
        await phone.until(lambda: anyio.current_time() > waited)
        await phone.tell(t="talk", on=True)
        await phone.frames(SILENCE + there.words.said("Count please"))
        await phone.tell(t="talk", on=False)
        await phone.until(lambda: phone.heard())

        assert phone.troubles() == []


async def test_a_page_from_which_nothing_comes_any_more_does_not_keep_the_line_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.STILL_S", 0.5)
    async with exchange(tmp_path, clerk(TEXT)) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("Count please"))
        await phone.until(lambda: phone.played >= 2 * WORD)
        await phone.frames(there.words.said("Uh-huh", 0.3))  # and then its sound is suspended
        with anyio.fail_after(10):
            while "resumed" not in phone.outcomes():  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.01)

        assert phone.troubles() == []


@agent(converses=True)
async def asker(run: Run) -> str:
    await run.step("Work", anyio.sleep, 1.0)
    said = await run.ask("May I send it to everybody?", schema={"type": "boolean"})
    return "sent" if said.payload else "kept"


async def test_a_question_that_comes_while_the_sound_of_a_page_is_suspended_was_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.STILL_S", 0.3)
    monkeypatch.setattr("midflight.interfaces.voice.speech.playback.STALLED_MS", 1_000)
    async with exchange(tmp_path, asker) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE)
        await phone.frames(there.words.said("Begin"))
        await phone.until(lambda: phone.heard())
        phone.is_deaf_to_cuts = True  # it sends and plays nothing, for longer than it may
        await anyio.sleep(3.5)
        [run] = await there.control.runs()
        assert (await there.control.state(run.journal)).questions
        assert (phone.played, phone.troubles()) == (0, [])

        phone.is_deaf_to_cuts = False
        await phone.frames(there.words.said("Yes", 0.5))  # to somebody in the room
        await phone.until(lambda: phone.outcomes().count("heard") == 2)
        await phone.until(lambda: phone.played >= 6 * WORD)  # and now it is asked
        assert (await there.control.state(run.journal)).questions
        await phone.frames(SILENCE * 10 + there.words.said("Yes please", 0.5))
        await phone.until(lambda: phone.outcomes().count("heard") == 3)

        assert await there.control.result(run.journal) == "sent"


async def asked_aloud(there: Exchange, phone: Phone) -> str:
    """The run whose question they have heard to its end."""
    await phone.tell(t="hello", rate=RATE)
    await phone.frames(there.words.said("Begin"))
    await phone.until(lambda: phone.played >= 6 * WORD)
    await phone.frames(SILENCE * 10)
    [run] = await there.control.runs()
    return run.journal


async def test_what_was_said_when_nothing_came_any_more_may_be_half_of_it_and_approves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.STILL_S", 0.3)
    async with exchange(tmp_path, asker) as there, there.call() as phone:
        run = await asked_aloud(there, phone)
        await phone.frames(there.words.said("Yes", 0.5))  # of "yes, but only to Bob"
        with anyio.fail_after(10):
            while phone.heard() != ["Begin", "Yes"]:  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.01)
        await phone.frames(SILENCE * 20)

        assert (await there.control.state(run)).questions
        assert (await _thread_once_it_has(there.control, "message"))[-1] == f"{BROKEN_OFF}Yes"
        await phone.frames(there.words.said("Yes please", 0.5))  # the network is back
        await phone.until(lambda: len(phone.heard()) == 3)
        assert await there.control.result(run) == "sent"


async def test_a_network_that_stands_still_for_a_while_does_not_end_what_is_being_said(
    tmp_path: Path,
) -> None:
    async with exchange(tmp_path, asker) as there, there.call() as phone:
        run = await asked_aloud(there, phone)
        said = there.words.said("No thank you", 1.024)
        await phone.frames(said[: len(said) // 2])
        await anyio.sleep(2.5)
        assert phone.heard() == ["Begin"]
        await phone.frames(said[len(said) // 2 :])
        await phone.until(lambda: len(phone.heard()) == 2)
        await phone.frames(SILENCE * 20)

        assert phone.heard() == ["Begin", "No thank you"]
        assert await there.control.result(run) == "kept"


async def test_a_key_that_nobody_lets_go_is_let_go_also_where_nothing_comes_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.STILL_S", 0.5)
    monkeypatch.setattr("midflight.interfaces.voice.turn_table.LONGEST_MS", 1_600)
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE, mode="push")
        await phone.tell(t="talk", on=True)
        await phone.frames(there.words.said("Count please"))
        with anyio.fail_after(10):
            while not phone.heard():  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.01)

        assert phone.heard() == ["Count please"]


async def test_strangers_and_other_sites_are_not_let_in(tmp_path: Path) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there:
        token = there.house.tokens[Role.CONTROLLER]
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Bearer {token}", "origin": "https://evil.example"},
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(there.url(), additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 403


async def test_who_may_only_look_may_not_talk(tmp_path: Path) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there:
        headers = {"authorization": f"Bearer {there.house.tokens[Role.VIEWER]}"}
        async with connect(there.url(), additional_headers=headers) as socket:
            assert "You may look here and not talk" in str(await socket.recv())
            with pytest.raises(ConnectionClosed):
                await socket.recv()


async def test_a_machine_without_engines_says_what_is_missing(tmp_path: Path) -> None:
    def missing() -> Engines:
        raise SpeechFailed("espeak-ng", "is not here; pip install './midflight[voice]' brings it")

    async with exchange(tmp_path, clerk("thirteen"), missing) as there, there.call() as phone:
        with anyio.fail_after(20):
            while not phone.troubles():  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.005)

        assert "pip install './midflight[voice]'" in phone.troubles()[0]


async def test_a_page_is_told_whether_one_can_talk_here(tmp_path: Path) -> None:
    async with exchange(tmp_path, clerk("thirteen")) as there, there.house.client() as http:
        assert (await http.get("/v1/me")).json()["server"]["voice"] is True


async def test_whose_key_is_revoked_is_not_talked_to_any_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.KNOWN_S", 0.05)
    monkeypatch.setattr("midflight.interfaces.voice.page_call.LAST_WORD_S", 10.0)
    async with exchange(tmp_path, clerk(TEXT)) as there:
        headers = {"authorization": f"Bearer {there.house.tokens[Role.CONTROLLER]}"}
        async with connect(there.url(), additional_headers=headers) as socket:
            await anyio.sleep(0.2)
            there.house.keyring.revoke("the-controller")
            told: list[str | bytes] = []
            with anyio.fail_after(20), pytest.raises(ConnectionClosed) as over:
                while True:
                    told.append(await socket.recv())

            assert "You are not let in here any more" in str(told[-1])
            assert over.value.rcvd is not None
            assert over.value.rcvd.code == POLICY


async def test_one_more_than_there_is_room_for_is_told_so_and_let_in_when_another_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.LINES_MAX", 1)
    async with exchange(tmp_path, clerk("thirteen")) as there:
        headers = {"authorization": f"Bearer {there.house.tokens[Role.CONTROLLER]}"}
        async with there.call() as first:
            await first.until(lambda: first.shown)
            async with connect(there.url(), additional_headers=headers) as second:
                assert "All 1 lines of this server are taken" in str(await second.recv())
                with pytest.raises(ConnectionClosed) as full:
                    await second.recv()
            assert full.value.rcvd is not None
            assert full.value.rcvd.code == FULL
        with anyio.fail_after(10):
            while True:
                async with connect(there.url(), additional_headers=headers) as third:
                    if '"floor"' in str(await third.recv()):
                        break


async def cut_and_not_told(there: Exchange, phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speech was cut, and until the page says how much of it was played nobody hears."""
    for module in ("voice_wire", "speech.playback"):
        monkeypatch.setattr(f"midflight.interfaces.voice.{module}.ANSWER_S", 30.0)
    monkeypatch.setattr(
        "midflight.interfaces.voice.page_call.SILENT_S", 60.0
    )  # it sends silence, and not nothing
    await phone.tell(t="hello", rate=RATE)
    await phone.frames(there.words.said("Count please"))
    await phone.until(lambda: phone.played >= WORD)
    phone.is_deaf_to_cuts = True
    await phone.frames(there.words.said("Hm", 3.0, confidence=0.3))
    await phone.until(lambda: phone.cuts)


async def test_who_speaks_quicker_than_we_hear_is_told_once_and_a_key_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with exchange(tmp_path, clerk(TEXT, "thirteen")) as there, there.call() as phone:
        await cut_and_not_told(there, phone, monkeypatch)
        monkeypatch.setattr("midflight.interfaces.voice.page_call.UNHEARD_MAX", 8 * FRAME)

        await phone.tell(t="hello", rate=RATE, mode="push")
        await phone.frames(SILENCE * 20)
        await phone.tell(t="talk", on=True)
        await phone.frames(SILENCE * 20)
        await phone.tell(t="talk", on=False)
        await phone.until(lambda: phone.troubles())
        monkeypatch.setattr("midflight.interfaces.voice.page_call.UNHEARD_MAX", 10_000 * FRAME)
        phone.is_deaf_to_cuts = False
        await phone.tell(t="silenced", played=phone.played)
        await phone.until(lambda: "asked again" in phone.outcomes())
        assert phone.troubles() == [BEHIND]
        await phone.tell(t="talk", on=True)
        await phone.frames(there.words.said("Once more"))
        await phone.tell(t="talk", on=False)
        await phone.until(lambda: len(phone.heard()) > 1)

        assert phone.heard() == ["Count please", "Once more"]


async def test_what_waits_to_be_heard_is_counted_by_its_length_and_not_by_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with exchange(tmp_path, clerk(TEXT)) as there, there.call() as phone:
        await cut_and_not_told(there, phone, monkeypatch)
        monkeypatch.setattr("midflight.interfaces.voice.page_call.UNHEARD_MAX", 10 * RATE)

        for _ in range(12):
            await phone.send(bytes(4 + 2 * RATE))
        with anyio.fail_after(20):
            while not phone.troubles():  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.005)
        assert phone.troubles() == [BEHIND]
        await phone.tell(t="silenced", played=phone.played)


async def test_a_key_that_is_pressed_all_the_time_is_not_followed_and_is_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.KEYS_MAX", 3)
    monkeypatch.setattr("midflight.interfaces.voice.page_call.KEYS_S", 60.0)
    words = Words()
    recogniser, asked = PlainRecogniser(words), list[None]()
    recogniser.before = lambda: asked.append(None)

    def engines() -> Engines:
        return Engines(PlainVad, (recogniser,), (PlainSynthesiser(),))

    async with exchange(tmp_path, clerk("thirteen"), engines) as there, there.call() as phone:
        await phone.tell(t="hello", rate=RATE, mode="push")
        for _ in range(20):
            await phone.tell(t="talk", on=True)
            await phone.tell(t="talk", on=False)
        await phone.until(lambda: len(phone.troubles()) == 17)
        assert set(phone.troubles()) == {TOO_OFTEN}
        assert len(asked) <= 3
        monkeypatch.setattr(
            "midflight.interfaces.voice.page_call.KEYS_S", 0.0
        )  # as if that were long ago
        await phone.tell(t="talk", on=True)
        await phone.frames(words.said("Count please"))
        await phone.tell(t="talk", on=False)
        await phone.until(lambda: phone.heard())

        assert phone.heard() == ["Count please"]


async def test_nobody_takes_all_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.interfaces.voice.page_call.LINES_EACH", 1)
    async with exchange(tmp_path, clerk("thirteen")) as there, there.call() as first:
        await first.until(lambda: first.shown)
        headers = {"authorization": f"Bearer {there.house.tokens[Role.CONTROLLER]}"}
        async with connect(there.url("t-other"), additional_headers=headers) as second:
            assert "You are on 1 lines here already" in str(await second.recv())
            with pytest.raises(ConnectionClosed) as full:
                await second.recv()
        assert full.value.rcvd is not None
        assert full.value.rcvd.code == FULL
        async with there.call(Role.OPERATOR) as another:
            await another.until(lambda: another.shown)
            assert another.troubles() == []


async def test_a_message_that_no_socket_takes_ends_the_line_and_says_why(tmp_path: Path) -> None:
    async with (
        exchange(tmp_path, clerk("thirteen"), server=served_as_by_the_command) as there,
        there.call() as phone,
    ):
        await phone.until(lambda: phone.shown)
        with suppress(ConnectionClosed):  # it is refused before all of it is sent
            await phone.send(bytes(2 * MESSAGE_MAX))
        with anyio.fail_after(20):
            while phone.closed is None:  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.005)

        assert phone.closed.code == TOO_BIG
        assert f"exceeds limit of {MESSAGE_MAX} bytes" in phone.closed.reason
        async with there.call() as again:
            await again.until(lambda: again.shown)


async def test_engines_that_break_in_a_way_of_their_own_are_told_of_too(tmp_path: Path) -> None:
    def broken() -> Engines:
        raise ValueError("the model file is half there")

    async with exchange(tmp_path, clerk("thirteen"), broken) as there, there.call() as phone:
        with anyio.fail_after(20):
            while not phone.troubles():  # noqa: ASYNC110 - it comes by the socket
                await anyio.sleep(0.005)

        assert "the model file is half there" in phone.troubles()[0]
        assert "You can still write" in phone.troubles()[0]


async def test_seconds_that_people_and_we_have_spoken_are_among_the_figures(
    tmp_path: Path,
) -> None:
    async with exchange(tmp_path, clerk(TEXT)) as there:
        async with there.call() as phone:
            await phone.tell(t="hello", rate=RATE)
            await phone.frames(there.words.said("Count please", 1.0))
            await phone.until(lambda: phone.played >= 12 * WORD)
            await phone.frames(SILENCE * 5)

        heard, spoken = await _seconds_in_metrics(there.house)
        assert 0.9 <= heard <= 1.1
        assert spoken == 1.2


async def _thread_once_it_has(control: Control, kind: str) -> list[str]:
    """Its lines of this kind."""
    with anyio.fail_after(10):
        while True:
            with suppress(JournalNotFound):
                lines = [
                    line.text for line in await control.transcript(THREAD) if line.kind == kind
                ]
                if lines:
                    return lines
            await anyio.sleep(0.02)


async def _seconds_in_metrics(house: House) -> tuple[float, float]:
    """Speech heard and spoken, once the call has been counted."""
    headers = {"authorization": f"Bearer {house.tokens[Role.VIEWER]}"}
    async with AsyncClient(base_url=f"http://127.0.0.1:{house.port}", headers=headers) as http:
        with anyio.fail_after(20):
            while True:
                text = (await http.get("/metrics")).text
                found = re.findall(r'voice_seconds_total{side="(\w+)"} ([\d.]+)', text)
                told = {side: float(seconds) for side, seconds in found}
                if told.get("spoken"):
                    return told["heard"], told["spoken"]
                await anyio.sleep(0.05)
