"""How soon we fall silent, whom we ignore, what stays of our words: by voice, with real sound.

``make bench-voice`` writes ``bench/results/voice.json`` and its page in ``docs``. The lists are
``bench/voice/*.tsv``; of them only the voices that are held out are measured.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
from anyio.from_thread import run as in_loop
from figures import RESULTS, ROOT, load, machine, percentile, save, show, table
from pipecat_side import pipecat_latencies
from voice_stage import ClockedSink, Microphone, SoundCard

from midflight.control import Control, local
from midflight.kernel.record import Who
from midflight.run import Agent, Run, agent
from midflight.voice.lexicon import Act
from midflight.voice.line import Engines, Line, line_to
from midflight.voice.offline import offline_engines
from midflight.voice.room import Room, RoomSink
from midflight.voice.seams import RATE, Sink
from midflight.voice.shown import Did, FloorShown, Outcome, Shown
from midflight.voice.sounds import silence
from midflight.voice.taking import Floor
from voice.counting import words_begun
from voice.noises import mixed, noise
from voice.speakers import said

LISTS = ROOT / "bench/voice"
INTERRUPTIONS = 60
SESSIONS, SESSIONS_S = 20, 20.0
ANN = Who("ann", channel="voice")
TALE = (
    "Here is the summary you asked for. Revenue has grown in every region this year. The largest "
    "share came from the enterprise plan. Churn was highest among trials in the second quarter, "
    "and we should look at that more closely. Support tickets have fallen by a third since March. "
    "The team in Hamburg closed the largest contract of the year. "
) * 3

KEPT = {Act.PAUSE, Act.STOP, Act.GO_ON}
"""After these our words are only put aside, and come back with "go on"."""

ROWS = {
    "bargein_median_ms": ("onset of speech → last sample played, ms, median", "≤ 150"),
    "bargein_p95_ms": ("onset of speech → last sample played, ms, p95", "≤ 400"),
    "pipecat_median_ms": ("the same sounds, Pipecat at its defaults, ms, median", ""),
    "false_stop_pct": ("backchannels and noises that end the turn, %", "≤ 5"),
    "backchannel_asked_pct": ("backchannels and noises that are asked about, %", ""),
    "ignored_commands": ("commands that are ignored", "0"),
    "command_asked_pct": ("commands that are asked about, %", ""),
    "heard_error_words_max": ("words between transcript and what was played, at most", "≤ 1"),
    "clarify_garbled_pct": ("garbled utterances that are asked about, %", "≥ 90"),
    "clarify_clean_pct": ("clean ones that are, %", "≤ 7"),
    "sink_late_p99_ms": ("20 lines at once: lateness of a loudspeaker's tick, ms, p99", "≤ 40"),
    "sink_gaps": ("20 lines at once: gaps in speech", "0"),
}
PAGE = """# How well one can interrupt by voice

Made by `make bench-voice`; the figures are in `bench/results/voice.json`. Sound is real: speech by
espeak-ng, SVOX Pico and flite, recordings of humans, and noises made by recipe, mixed as
`bench/voice/*.tsv` says. What is measured are the rows called `held-out`, written by
`bench/voice_lists.py` and first played after the last change of anything that hears or judges:
voices (four of them known ones at another speed), noises and their seeds are others than in all
rows before; words are those of the list before. Lists that were measured earlier are called `seen`:
in one 1 of 244 commands was ignored, in the other 2 of 226. Both were looked at and mended, and so
they prove nothing any more. Recordings of humans are few, and all were heard before.

Loudspeaker and microphone of the first figures keep the world's time, in threads of their own; the
lists are played in a room whose time is the sound's. Garbled is speech under white noise as loud as
itself.

| what | figure | wanted |
|---|---|---|
{rows}

{interruptions} interruptions, {commands} commands, {backchannels} backchannels and noises,
{clean} clean and {garbled} garbled utterances, {sessions} lines at once for {sessions_s:.0f} s.
{pipecat}

{machine}, {seconds:.0f} s.
"""


@agent("teller", converses=True)
async def teller(run: Run) -> str:
    """Says the same whatever it is asked: who is measured is the line."""
    await run.say(TALE)
    return "told"


@asynccontextmanager
async def lines_to(*agents: Agent) -> AsyncIterator[Control]:
    with tempfile.TemporaryDirectory() as folder:
        async with local("memory:", *agents, workdir=folder, drain_s=0.5) as control:
            yield control


@asynccontextmanager
async def telling(
    control: Control, engines: Engines, sink: Sink, shown: list[Shown], thread: str
) -> AsyncIterator[Line]:
    """A line on which the teller has begun to speak."""
    async with line_to(
        control, teller, thread, who=ANN, engines=engines, sink=sink, show=shown.append
    ) as line:
        await anyio.sleep(0.02)
        await control.start(teller, "Tell me", thread=thread, who=Who("bob"))
        with anyio.fail_after(20):
            while line.taking.floor is not Floor.SPEAKING:  # noqa: ASYNC110 - nobody tells us
                await anyio.sleep(0.01)
        yield line


# ── how soon ─────────────────────────────────────────────────────────────────────────────────────


def rows(name: str) -> list[dict[str, str]]:
    with (LISTS / f"{name}.tsv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["split"] == "held-out"]


def sound_of(row: dict[str, str]) -> bytes:
    if row["voice"].startswith("noise:"):
        return noise(row["voice"].removeprefix("noise:"))
    return mixed(said(row["text"], row["voice"]), row["noise"])


def spread(found: list[dict[str, str]], count: int) -> list[dict[str, str]]:
    """So many of them, evenly; every human recording is among them.

    But for those three that begin with half a second of breath: nobody knows where speech does.
    """
    human = [row for row in found if row["voice"].startswith(("human:cards", "human:librivox"))]
    others = [row for row in found if not row["voice"].startswith("human:")]
    step = max(1, len(others) // max(1, count - len(human)))
    return [*human, *others[::step]][:count]


async def barge_in(control: Control, engines: Engines, row: dict[str, str], number: int) -> float:
    """Milliseconds from the first sample of speech to the last that was played before silence."""
    sink, shown = ClockedSink(), list[Shown]()
    with SoundCard(sink):
        async with telling(control, engines, sink, shown, f"t-barge-{number}") as line:
            while sink.played < RATE // 2:  # noqa: ASYNC110 - a thread counts it
                await anyio.sleep(0.02)
            pcm = silence(0.3 + 0.011 * (number % 20)) + sound_of(row) + silence(0.3)
            microphone = Microphone(pcm, lambda frame: in_loop(line.hear, frame))
            await anyio.to_thread.run_sync(microphone.run)
    held = any(isinstance(one, FloorShown) and one.floor == "held" for one in shown)
    return (sink.held_last_s - microphone.onset_s) * 1000 if held else float("inf")


async def barge_ins(engines: Engines) -> list[float]:
    found: list[float] = []
    async with lines_to(teller) as control:
        for number, row in enumerate(spread(rows("commands"), INTERRUPTIONS)):
            found.append(await barge_in(control, engines, row, number))
    return found


# ── whom we ignore, and what stays of our words ──────────────────────────────────────────────────


async def outcome(control: Control, engines: Engines, pcm: bytes, number: str) -> tuple[str, int]:
    """What became of a sound while we speak, and by how many words the transcript was wrong."""
    sink, shown, thread = RoomSink(), [], f"t-list-{number}"  # type: ignore[var-annotated]
    async with telling(control, engines, sink, shown, thread) as line:
        room = Room(line, sink)
        await room.wait(1.0)
        await room.hear(pcm)
        await room.wait(1.2)
        outcomes = [one.outcome for one in shown if isinstance(one, Outcome)]
        cut = "interrupted" in outcomes
        kept = any(isinstance(one, Did) and one.act in KEPT for one in shown)
        taken = "heard" in outcomes  # else it is asked about, and goes on where it was
        wrong = await _wrong(control, sink, thread) if cut and taken and not kept else 0
    if cut:
        return "interrupted", wrong
    for word in ("asked again", "resumed"):
        if word in outcomes:
            return word, wrong
    return "nothing", wrong


async def _wrong(control: Control, sink: RoomSink, thread: str) -> int:
    """Words on record beside those that the loudspeaker had begun, from its own count."""
    said_lines = [x for x in await control.transcript(thread) if x.status == "cut short"]
    if not said_lines:
        return len(TALE.split())  # the record says that all of it was heard
    return abs(len(said_lines[0].text.split()) - words_begun(TALE, sink.cuts[0]))


async def lists(engines: Engines) -> list[tuple[str, dict[str, str], str, int]]:
    found = []
    async with lines_to(teller) as control:
        for name in ("commands", "backchannels"):
            for number, row in enumerate(rows(name)):
                what, wrong = await outcome(control, engines, sound_of(row), f"{name}-{number}")
                found.append((name, row, what, wrong))
                if number % 50 == 49:
                    print(f"  {name}: {number + 1}", flush=True)
    return found


def counted(found: Iterable[tuple[str, dict[str, str], str, int]]) -> dict[str, Any]:
    tally: dict[str, Counter[str]] = {"commands": Counter(), "backchannels": Counter()}
    worst = 0
    for name, row, what, wrong in found:
        tally[name][what] += 1
        worst = max(worst, wrong)
        missed = name == "commands" and what in {"resumed", "nothing"}
        if missed or (name == "backchannels" and what == "interrupted"):
            print(f"  {what}: {row['text']} {row['voice']} {row['noise']}", flush=True)
    commands, others = tally["commands"], tally["backchannels"]
    return {
        "commands": commands.total(),
        "backchannels": others.total(),
        "ignored_commands": commands["resumed"] + commands["nothing"],
        "command_asked_pct": 100 * commands["asked again"] / commands.total(),
        "false_stop_pct": 100 * others["interrupted"] / others.total(),
        "backchannel_asked_pct": 100 * others["asked again"] / others.total(),
        "heard_error_words_max": worst,
    }


# ── what is not understood ───────────────────────────────────────────────────────────────────────


def utterances() -> list[tuple[str, str]]:
    """Each sentence of four words and more by each clear voice, and the recordings."""
    found = rows("commands")
    people = {(row["text"], row["voice"]) for row in found if row["voice"].startswith("human:")}
    voices = {row["voice"] for row in found if row["voice"].startswith(("pico:", "flite:"))}
    texts = {row["text"] for row in found if len(row["text"].split()) >= 4}
    return sorted(people | {(text, voice) for text in texts for voice in voices})


async def clarified(engines: Engines, recipe: str) -> tuple[float, int]:
    """Of sentences said into silence, the share that is asked about, in per cent."""
    asked = heard = 0
    async with lines_to(teller) as control:
        for number, (text, voice) in enumerate(utterances()):
            pcm = mixed(said(text, voice), recipe, seed=number + 1)
            sink, shown = RoomSink(), []  # type: ignore[var-annotated]
            async with line_to(
                control,
                teller,
                f"t-{recipe}-{number}",
                who=ANN,
                engines=engines,
                sink=sink,
                show=shown.append,
            ) as line:
                room = Room(line, sink)
                await room.wait(0.5)
                await room.hear(pcm)
                await room.wait(1.0)
            outcomes = {one.outcome for one in shown if isinstance(one, Outcome)}
            heard += bool(outcomes)
            asked += "asked again" in outcomes and "heard" not in outcomes
    return 100 * asked / max(heard, 1), heard


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


async def many(engines: Engines) -> tuple[list[float], int]:
    """Twenty lines speak and are spoken to; how late loudspeakers are, and how often hungry."""
    sinks = [ClockedSink() for _ in range(SESSIONS)]
    user = silence(2) + said("yeah", "flite:slt") + silence(2.5)
    user *= int(SESSIONS_S / (len(user) / 2 / RATE) + 1)
    lines: list[Line] = []

    async def hear(frame: bytes) -> None:
        for line in lines:
            await line.hear(frame)

    with SoundCard(*sinks) as card:
        async with AsyncExitStack() as stack, lines_to(teller) as control:
            for number, sink in enumerate(sinks):
                one = telling(control, engines, sink, [], f"t-many-{number}")
                lines.append(await stack.enter_async_context(one))
            card.late_ms.clear()
            microphone = Microphone(
                user[: int(SESSIONS_S * RATE) * 2], lambda frame: in_loop(hear, frame)
            )
            await anyio.to_thread.run_sync(microphone.run)
            await stack.aclose()
    return card.late_ms, sum(sink.gaps for sink in sinks)


async def soon(engines: Engines) -> dict[str, Any]:
    times = await barge_ins(engines)
    return {
        "bargein_median_ms": statistics.median(times),
        "bargein_p95_ms": percentile(times, 95),
        "interruptions": len(times),
    }


async def at_once(engines: Engines) -> dict[str, Any]:
    late, gaps = await many(engines)
    return {"sink_late_p99_ms": percentile(late, 99), "sink_gaps": gaps}


async def clarify(engines: Engines) -> dict[str, Any]:
    clean, clean_count = await clarified(engines, "clean")
    garbled, garbled_count = await clarified(engines, "white0")
    return {
        "clarify_clean_pct": clean,
        "clean": clean_count,
        "clarify_garbled_pct": garbled,
        "garbled": garbled_count,
    }


async def listed(engines: Engines) -> dict[str, Any]:
    return counted(await lists(engines))


async def pipecat(_: Engines) -> dict[str, Any]:
    sounds = [sound_of(row) for row in spread(rows("commands"), INTERRUPTIONS)]
    return await anyio.to_thread.run_sync(pipecat_latencies, sounds)


PARTS = {"soon": soon, "pipecat": pipecat, "many": at_once, "clarify": clarify, "lists": listed}


async def main() -> None:
    """All parts, or those that are named; the others keep the figures that they have."""
    wanted = sys.argv[1:] or list(PARTS)
    results: dict[str, Any] = {}
    engines = await anyio.to_thread.run_sync(offline_engines)
    for part in wanted:
        began = time.perf_counter()
        found = await PARTS[part](engines)
        if sys.argv[1:] and has_results():
            results = load("voice")
        results |= {**found, f"{part}_s": time.perf_counter() - began, "machine": machine()}
        show({name: value for name, value in found.items() if isinstance(value, float | int)})
        save("voice", results)
    if all(name in results for name in ROWS):
        page = ROOT / "docs/benchmarks-voice.md"
        page.write_text(report(results), encoding="utf-8")


def has_results() -> bool:
    return (RESULTS / "voice.json").exists()


def report(results: dict[str, Any]) -> str:
    """The page in the docs."""
    seconds = sum(results.get(f"{part}_s", 0.0) for part in PARTS)
    told = dict(results, rows=table(results, ROWS), seconds=seconds)
    told |= {"sessions": SESSIONS, "sessions_s": SESSIONS_S}
    return PAGE.format(**told)


if __name__ == "__main__":
    anyio.run(main)
