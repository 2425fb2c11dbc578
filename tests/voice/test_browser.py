"""A real Chromium with a microphone that plays a file talks to the real server, end to end."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Playwright, expect

from midflight.interfaces.voice.speech.speech_engines import as_wav, silence
from page.theatre import soon
from voice.clerks import GERMANY, SUMMARY
from voice.counting import words_begun
from voice.noises import mixed
from voice.speakers import said

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chromium,
    pytest.mark.flite,
    pytest.mark.timeout(120),
]
TESTS = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
]
LONG_MS = 40_000
AGAIN = 3  # times that something is said at most: it may be asked for, where sound is lost
GERMANY_ASKED = "What about Germany in the second quarter?"
LET_GO = """
    window.tracks.length > 0 && window.tracks.every((track) => track.readyState === "ended")
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server that can be talked to, and the link that it prints."""
    midflight = str(Path(sys.executable).with_name("midflight"))
    command = [midflight, "serve", "voice.clerks:clerk", "--voice", "--json", "--port", "0"]
    command += ["--store", str(tmp_path / "runs.db"), "--keys", str(tmp_path / "keys.json")]
    command += ["--workdir", str(tmp_path / "work"), "--drain", "0"]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
        server.terminate()
        server.wait(20)


def open_page(playwright: Playwright, url: str, sound: Path) -> Iterator[tuple[Page, str]]:
    """A page that looks at a run, in a browser whose microphone is a file."""
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={sound}%noloop"]
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(url)
    expect(page.locator("body")).to_contain_text("New run", timeout=LONG_MS)
    root = url.partition("/#")[0]
    begun = context.request.post(
        f"{root}/v1/runs",
        headers={"x-midflight": "1", "content-type": "application/json", **secret_of(page)},
        data=json.dumps({"agent": "clerk", "brief": "Get ready"}),
    )
    run = begun.json()["run"]
    page.goto(f"{root}/runs/{run}")
    page.evaluate(
        """() => {
            window.tracks = [];
            const media = navigator.mediaDevices, open = media.getUserMedia.bind(media);
            window.wanted = [];
            media.getUserMedia = async (wanted) => {
                window.wanted.push(wanted.audio);
                const stream = await open(wanted);
                window.tracks.push(...stream.getTracks());
                return stream;
            };
        }"""
    )
    yield page, root
    browser.close()


def secret_of(page: Page) -> dict[str, str]:
    """The half of the session that the page keeps; the cookie goes along by itself."""
    return {"x-midflight-page": str(page.evaluate("localStorage.getItem('midflight-page:/')"))}


def lines_of(page: Page, root: str) -> list[dict[str, Any]]:
    run = page.url.rpartition("/")[2]
    ask, headers = page.context.request.get, secret_of(page)
    thread = ask(f"{root}/v1/runs/{run}", headers=headers).json()["thread"]
    told = ask(f"{root}/v1/threads/{thread}/transcript", headers=headers).json()
    return list(told["lines"])


def open_line(page: Page) -> Locator:
    """Talk, on a server whose engines are loaded: the microphone's file begins with the call."""
    page.evaluate(
        """() => new Promise((ready) => {
            const line = new WebSocket(`ws://${location.host}/v1/threads/t-before/voice`, [
                "midflight", `midflight.page.${localStorage.getItem("midflight-page:/")}`]);
            line.onmessage = () => { line.close(); ready(); };
        })"""
    )
    page.evaluate(
        """() => {
            window.seen = [];
            window.levels = [];
            setInterval(() => {
                const meter = document.querySelector("meter.voice-level");
                if (meter) window.levels.push(meter.value);
            }, 50);
            new MutationObserver(() => {
                for (const part of [".voice-floor", ".voice-heard"]) {
                    const text = document.querySelector(part)?.textContent ?? "";
                    if (text && window.seen.at(-1) !== text) window.seen.push(text);
                }
            }).observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    voice = page.get_by_role("region", name="Voice")
    voice.get_by_role("button", name="Talk").click()
    expect(voice.locator(".voice-floor")).to_have_text("Listening", timeout=LONG_MS)
    return voice


def speak_when_told(page: Page, *sentences: str) -> None:
    """A microphone into which the test speaks: each sentence when its moment has come."""
    page.evaluate(
        """async (sentences) => {
            const room = new AudioContext(), microphone = room.createMediaStreamDestination();
            const bytes = (wav) => Uint8Array.from(atob(wav), (one) => one.charCodeAt(0)).buffer;
            const sounds = await Promise.all(
                sentences.map((wav) => room.decodeAudioData(bytes(wav))));
            window.speak = (which) => new Promise((spoken) => {
                const sentence = new AudioBufferSourceNode(room, { buffer: sounds[which] });
                sentence.connect(microphone);
                sentence.onended = () => spoken();
                sentence.start();
            });
            navigator.mediaDevices.getUserMedia = async () => {
                window.tracks.push(...microphone.stream.getTracks());
                return microphone.stream;
            };
        }""",
        [b64encode(as_wav(said(text, "flite:slt") + silence(1))).decode() for text in sentences],
    )


def comes_after(seen: list[str], *wanted: str) -> bool:
    """Whether these were seen one after the other, whatever was between them."""
    left = iter(seen)
    return all(any(text in one for one in left) for text in wanted)


def test_somebody_talks_assents_and_interrupts_in_a_browser(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    spoken = silence(2.5) + said("Give me the summary please.", "flite:slt")
    # two assents: a busy machine's microphone loses sound, and one alone may be asked about then
    spoken += silence(7) + said("okay, okay", "flite:slt")
    spoken += (silence(4) + said(GERMANY_ASKED, "flite:slt")) * AGAIN
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(spoken + silence(30)))
    cuts: list[int] = []
    for page, root in open_page(playwright, url, sound):
        page.on("websocket", lambda line: line.on("framesent", lambda sent: note_cut(sent, cuts)))
        voice = open_line(page)
        expect(voice.locator("q")).to_have_text(re.compile("please"), timeout=LONG_MS)
        expect(voice.locator(".voice-floor")).to_have_text("Speaking", timeout=LONG_MS)
        expect(voice.locator("q")).to_have_text(re.compile("Germany"), timeout=LONG_MS)
        page.screenshot(path=str(tmp_path / "talking.png"))
        expect(page.locator(".thread-pane")).to_contain_text(GERMANY, timeout=LONG_MS)
        voice.get_by_role("button", name="Hang up").click()
        [wanted] = page.evaluate("window.wanted")
        assert wanted["echoCancellation"] is True, "or it would hear itself, and stop"

        held = "Held while you speak"
        seen = page.evaluate("window.seen")
        went_on = "Went on where it was"
        assert comes_after(seen, "Speaking", held, went_on, held, "Interrupted"), seen
        levels = page.evaluate("window.levels")
        assert max(levels) > 0.1, "the meter shows that somebody speaks"
        assert min(levels) < 0.02, "and that nobody does"
        cut = [line for line in lines_of(page, root) if line["status"] == "cut short"]
        assert SUMMARY.startswith(cut[0]["text"])
        assert abs(len(cut[0]["text"].split()) - words_begun(SUMMARY, cuts[0])) <= 1
        assert len(cut[0]["text"].split()) > 5


def test_in_noise_too_words_are_heard_and_interrupt_in_a_browser(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    """A fan runs, as it were, and somebody else speaks than in the other test."""
    spoken = silence(2.5) + said("Give me the summary please.", "flite:rms")
    spoken += silence(4) + (silence(4) + said(GERMANY_ASKED, "flite:rms")) * AGAIN
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(mixed(spoken + silence(30), "pink20", seed=3)))
    for page, root in open_page(playwright, url, sound):
        voice = open_line(page)
        expect(voice.locator("q")).to_have_text(re.compile("summary"), timeout=LONG_MS)
        expect(voice.locator(".voice-floor")).to_have_text("Speaking", timeout=LONG_MS)
        expect(voice.locator("q")).to_have_text(re.compile("Germany"), timeout=LONG_MS)
        expect(page.locator(".thread-pane")).to_contain_text(GERMANY, timeout=LONG_MS)

        assert "cut short" in [line["status"] for line in lines_of(page, root)]


def test_push_to_talk_is_chosen_before_the_call_and_a_call_that_opens_can_be_hung_up(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(silence(30)))
    greetings: list[str] = []
    for page, _ in open_page(playwright, url, sound):
        page.on("websocket", lambda line: line.on("framesent", lambda sent: note(sent, greetings)))
        page.evaluate(
            """() => {
                const media = navigator.mediaDevices, open = media.getUserMedia;
                media.getUserMedia = (wanted) =>
                    new Promise((ready) => { window.allow = () => ready(open(wanted)); });
            }"""
        )
        voice = page.get_by_role("region", name="Voice")
        voice.get_by_label("Push to talk").check()
        voice.get_by_role("button", name="Talk", exact=True).click()
        expect(voice.locator(".voice-floor")).to_have_text("Opening…")
        voice.get_by_role("button", name="Hang up").click()
        expect(voice.get_by_role("button", name="Talk", exact=True)).to_be_enabled()
        page.evaluate("window.allow()")
        soon(partial(page.evaluate, LET_GO), "the microphone, let go")

        voice.get_by_role("button", name="Talk", exact=True).click()
        page.evaluate("window.allow()")
        expect(voice.locator(".voice-floor")).to_have_text("Hold the key to talk", timeout=LONG_MS)
        assert [json.loads(text)["mode"] for text in greetings] == ["push"]
        page.screenshot(path=str(tmp_path / "push.png"))


def test_the_controls_of_a_call_are_named_told_of_and_pressed_by_key(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(silence(30)))
    for page, _ in open_page(playwright, url, sound):
        voice = page.get_by_role("region", name="Voice")
        status = voice.get_by_role("status")
        expect(status).to_have_text("")  # it is there before it has something to tell
        ways = voice.get_by_role("radiogroup", name="How to talk")
        ways.get_by_role("radio", name="Hands-free").focus()
        page.keyboard.press("ArrowRight")
        expect(ways.get_by_role("radio", name="Push to talk")).to_be_checked()
        talk = voice.get_by_role("button", name="Talk", exact=True)
        expect(talk).not_to_have_attribute("aria-pressed", re.compile(""))  # its name says it
        talk.focus()
        page.keyboard.press("Enter")
        expect(status).to_have_text("The line is open.", timeout=LONG_MS)
        expect(voice.get_by_role("button", name="Hang up")).to_be_focused()

        hold = voice.get_by_role("button", name="Hold to talk")
        for key in ("Enter", "Space"):
            hold.focus()
            page.keyboard.down(key)
            expect(voice.locator(".voice-floor")).to_have_text("You are speaking", timeout=LONG_MS)
            page.keyboard.up(key)
            expect(voice.locator(".voice-floor")).not_to_have_text(
                "You are speaking", timeout=LONG_MS
            )
        expect(voice.get_by_role("meter", name="How loud you are")).to_be_visible()


def note(sent: str | bytes, greetings: list[str]) -> None:
    if isinstance(sent, str) and '"hello"' in sent:
        greetings.append(sent)


def note_cut(sent: str | bytes, cuts: list[int]) -> None:
    """What the page itself says that it had played, when it was told to forget the rest."""
    if isinstance(sent, str) and '"silenced"' in sent:
        cuts.append(json.loads(sent)["played"])


def test_with_a_key_to_talk_a_browser_hears_while_it_is_held_and_lets_go_when_left(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(silence(1)))
    for page, root in open_page(playwright, url, sound):
        speak_when_told(page, "Give me the summary please.", GERMANY_ASKED)
        voice = open_line(page)
        voice.get_by_label("Push to talk").check()
        expect(voice.locator(".voice-floor")).to_have_text("Hold the key to talk", timeout=LONG_MS)
        page.evaluate("window.speak(0)")  # and no key is held
        for _ in range(AGAIN):
            voice.get_by_role("button", name="Hold to talk").dispatch_event("pointerdown")
            expect(voice.locator(".voice-floor")).to_have_text("You are speaking", timeout=LONG_MS)
            page.evaluate("window.speak(1)")
            page.evaluate(
                "window.dispatchEvent(new Event('blur'))"
            )  # nobody tells it of the key going up
            expect(voice).to_contain_text(re.compile("Germany|say it again"), timeout=LONG_MS)
            if "Germany" in voice.inner_text():
                break
        expect(voice.locator("q")).to_have_text(re.compile("Germany"), timeout=LONG_MS)
        expect(page.locator(".thread-pane")).to_contain_text(GERMANY, timeout=LONG_MS)

        messages = [line["text"] for line in lines_of(page, root) if line["kind"] == "message"]
        assert not any("summary" in text for text in messages)
        page.get_by_role("link", name="New run").first.click()
        soon(partial(page.evaluate, LET_GO), "the microphone, let go")


def test_a_microphone_that_is_not_allowed_is_said_in_plain_words(
    playwright: Playwright, url: str, tmp_path: Path
) -> None:
    sound = tmp_path / "microphone.wav"
    sound.write_bytes(as_wav(silence(1)))
    for page, _ in open_page(playwright, url, sound):
        page.evaluate(
            "() => { navigator.mediaDevices.getUserMedia = () => "
            "Promise.reject(new DOMException('no', 'NotAllowedError')) }"
        )
        voice = page.get_by_role("region", name="Voice")
        voice.get_by_role("button", name="Talk").click()

        expect(voice.get_by_role("alert")).to_contain_text(
            "The microphone was not allowed", timeout=LONG_MS
        )
