"""How soon we fall silent, whom we ignore, what stays of our words: by voice, with real sound.

``make bench-voice`` writes ``bench/results/voice.json`` and its page in ``docs``. The lists are
``bench/voice/*.tsv``; of them only the voices that are held out are measured.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from anyio.from_thread import run as in_loop
from figures import RESULTS, ROOT, load, machine, missed, percentile, save, show, table
from pipecat_side import pipecat_latencies
from voice_clarity import clarify, utterances
from voice_freshness import LIST, first_played, stale, stamp
from voice_scene import LISTS, MEASURED, TALE, lines_to, rows, sound_of, teller, telling
from voice_sockets import RESUMED, SESSIONS, SESSIONS_S, over_sockets
from voice_stage import SILENT_PCT, ClockedSink, Microphone, SoundCard, fell_silent, silent_pct

from midflight.control import Control
from midflight.interfaces.voice.lexicon import Act, meaning
from midflight.interfaces.voice.line import Line
from midflight.interfaces.voice.room import Room, RoomSink
from midflight.interfaces.voice.speech.offline_engines import offline_engines
from midflight.interfaces.voice.speech.speech_engines import FRAME, RATE, WIDTH, Engines, silence
from midflight.interfaces.voice.voice_wire import (
    ASKED,
    Did,
    FloorShown,
    Outcome,
    Shown,
    Trouble,
)
from voice.counting import words_begun
from voice.speakers import said

__all__ = [
    "BREATH",
    "KINDS",
    "LIST",
    "LISTS",
    "MEASURED",
    "counted",
    "drawn",
    "report",
    "rows",
    "stale",
    "utterances",
]

INTERRUPTIONS = 60
KINDS = {"commands": "commands", "backchannels": "assents"}
MISSED = ("resumed", "ignored", "nothing")
WRONG = "wrong act"
CONTROLS = {Act.PAUSE, Act.STOP, Act.GO_ON}  # of which it is plain whether they were done
NEVER_MS = 60_000.0  # of who does not stop at all: JSON knows no infinity
BREATH = ("human:goforward", "human:numbers", "human:something")
"""Recordings that begin with half a second of breath: nobody knows where speech does."""

ROWS = {
    "bargein_median_ms": ("onset of speech → last sample played, ms, median", "≤ 150"),
    "bargein_p95_ms": ("onset of speech → last sample played, ms, p95", "≤ 400"),
    "pipecat_median_ms": ("Pipecat at its defaults, ms, median", ""),
    "false_stop_pct": ("assents and noises that end the turn, %", "≤ 5"),
    "assent_asked_pct": ("assents that are asked about, %", ""),
    "noise_asked_pct": ("noises that are asked about, %", ""),
    "ignored_commands": ("commands that are ignored", "0"),
    "wrong_acts": ("commands to wait, stop or go on for which something else was done", "0"),
    "command_asked_pct": ("commands that are asked about, %", ""),
    "heard_error_words_max": ("words between transcript and what was played, at most", "≤ 1"),
    "clarify_garbled_pct": ("garbled utterances that are asked about, %", "≥ 90"),
    "clarify_clean_pct": ("clean ones that are, %", "≤ 7"),
    "misheard_clean_pct": ("clean ones that are acted on with a third of their words wrong, %", ""),
    "sink_late_p99_ms": ("20 lines at once: lateness of a tick's sound, ms, p99", "≤ 40"),
    "sink_gaps": ("20 lines at once: gaps in speech", "0"),
    "sink_silent_pct": ("20 lines at once: silence of a line in its own time, %, at most", ""),
    "socket_late_p99_ms": ("20 pages at once: lateness of a tick's sound, ms, p99", "≤ 40"),
    "socket_gaps": ("20 pages at once: gaps in speech", "0"),
    "socket_silent_pct": ("20 pages at once: silence of a line in its own time, %, at most", ""),
}
PAGE = """# How well one can interrupt by voice

Made by `make bench-voice`; the figures are in `bench/results/voice.json`. Sound is real: speech by
espeak-ng, SVOX Pico and flite, recordings of humans, and noises made by recipe, mixed as
`bench/voice/*.tsv` says; the number of a row is the seed of the noise beside it. What is measured
are the rows called `held-out`, written by `bench/voice_lists.py`, {first_played}. New in them are
most words, the four voices of espeak-ng (with accents that were heard before), the speeds of flite
and Pico, how loud the noises beside speech are, and all seeds. Not new are the words that nobody
can do without ("stop", "no", "uh-huh"), the voices of flite and Pico but for their speed, the kinds
of noise, and the recordings of humans. Lists that were measured earlier are called `seen`: of their
commands 1 of 244, 2 of 226, none of 226, 1 of 226, and, from the sixth on, none, 2, none, none,
none, 1, none and none of 256, none of 260 and none of 238 were ignored; what was not as it should
be was looked at and mended. Of the fifth only what is not understood was played; decision 43 says
what it gave. With the newest list the one before it is measured once more (`held-out-before`):
after its first play something that judges was changed, for what a reader had found and not for what
came of it, so nothing was chosen with it either. How soon is measured with the newest alone.
{stale}
**How soon.** Loudspeaker and microphone keep the world's time, in threads of their own. Browser and
network are not in the figure: a page adds its buffers, and the way there and back. All recordings
are among the sounds but `goforward`, `numbers` and `something`, which begin with half a second of
breath: nobody knows where speech does. The others are drawn from the commands by chance. A hold
before the onset is no measurement: {rejected} were rejected for that. Who does not stop counts as
never.

**Who is passed over.** Lists are played in a room whose time is the sound's. A command counts as
taken if its words were acted on, as asked about if it was asked about and not acted on, and else as
ignored, also where speech had been cut and went on. {unheard} of {noises} noises never trip the
ear; they are not in the percentages of noises. After each of {heard_compared} trials, taken or not,
the line is hung up, and what is on record is compared with what was played.{wrong_acts_told}

**What is not understood.** Every command of four words and more by every voice of the list, and
every recording, are said into silence; garbled is the same under white noise as loud as itself. The
share is of all that were said, also of those in which nothing was heard.{by_kind}
Clean ones that are acted on although more than a third of their words was heard as others are
counted apart: who asks less mishears more.

**Many at once.** Lines are in one process with their loudspeakers. Pages are WebSockets to
`midflight serve` in a process of its own; they play by their own clock, and a tick that has no
sound yet is as late as its sound.{silence_told}

| what | figure | wanted |
|---|---|---|
{rows}
{missed}
{interruptions} interruptions, {commands} commands, {assents} assents, {noises} noises,
{clean} clean and {garbled} garbled utterances, {sessions} lines at once for {sessions_s:.0f} s.
{pipecat}

{machine}, {seconds:.0f} s.
"""


# ── how soon ─────────────────────────────────────────────────────────────────────────────────────


def drawn(found: list[dict[str, str]], wanted: int) -> list[dict[str, str]]:
    """So many of the newest list by chance, the same each time; all its human recordings."""
    found = [row for row in found if row["split"] == MEASURED]
    human = [row for row in found if row["voice"].startswith("human:")]
    others = [row for row in found if not row["voice"].startswith("human:")]
    known = [row for row in human if row["voice"] not in BREATH]
    return [*known, *random.Random(1).sample(others, wanted - len(known))]


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
    return (sink.held_last_s - microphone.onset_s) * 1000 if held else NEVER_MS


async def barge_ins(engines: Engines) -> list[float]:
    found: list[float] = []
    async with lines_to(teller) as control:
        for number, row in enumerate(drawn(rows("commands"), INTERRUPTIONS)):
            found.append(await barge_in(control, engines, row, number))
    return found


# ── whom we ignore, and what stays of our words ──────────────────────────────────────────────────


async def outcome(
    control: Control, engines: Engines, pcm: bytes, number: str, text: str = ""
) -> tuple[str, int]:
    """What became of a sound while we speak, and by how many words the transcript was wrong.

    ``text`` is the command that it was, if it was one.
    """
    sink, shown, thread = RoomSink(), list[Shown](), f"t-list-{number}"
    async with telling(control, engines, sink, shown, thread) as line:
        room = Room(line, sink)
        await room.wait(1.0)
        await room.hear(pcm)
        await room.wait(1.2)
    outcomes = outcomes_of(shown)
    resumed = any(isinstance(one, Did) and one.act is Act.GO_ON for one in shown)
    went_on = resumed or outcomes[-1:] == ["resumed"] or not sink.cuts
    wrong = await _wrong(control, sink.played if went_on else sink.cuts[0], thread)
    acts = [one.act for one in shown if isinstance(one, Did)]
    return came_of(outcomes, acts, text), wrong


def came_of(outcomes: list[str], acts: Iterable[str] = (), text: str = "") -> str:
    """What was acted on is taken, whatever came after; else the last word on a sound counts.

    A control whose words were taken for something else was not.
    """
    if not outcomes:
        return "nothing"
    if "heard" not in outcomes:
        return outcomes[-1]
    wanted = meaning(text).act
    return WRONG if wanted in CONTROLS and wanted not in acts else "interrupted"


async def _wrong(control: Control, played: int, thread: str) -> int:
    """Words on record beside those that the loudspeaker had begun, from its own count."""
    said_lines = [x for x in await control.transcript(thread) if x.status == "cut short"]
    if not said_lines:
        return len(TALE.split())  # the record says that all of it was heard
    return abs(len(said_lines[0].text.split()) - words_begun(TALE, played))


Trial: TypeAlias = tuple[str, dict[str, str], str, int]


async def lists(engines: Engines) -> list[Trial]:
    found = []
    async with lines_to(teller) as control:
        for name in ("commands", "backchannels"):
            for number, row in enumerate(rows(name)):
                text = row["text"] if name == "commands" else ""
                place = f"{name}-{number}"
                what, wrong = await outcome(control, engines, sound_of(row), place, text)
                kind = "noises" if row["voice"].startswith("noise:") else KINDS[name]
                found.append((kind, row, what, wrong))
                if number % 50 == 49:
                    print(f"  {name}: {number + 1}", flush=True)
    return found


def counted(found: Iterable[Trial]) -> dict[str, Any]:
    tally: dict[str, Counter[str]] = {"commands": Counter(), "assents": Counter()}
    tally["noises"] = Counter()
    worst = 0
    for kind, row, what, wrong in found:
        tally[kind][what] += 1
        worst = max(worst, wrong)
        passed_over = what in (*MISSED, WRONG) if kind == "commands" else what == "interrupted"
        if passed_over or wrong > 1:
            told = f"{kind} {row['number']}: {row['text']} {row['voice']} {row['noise']}"
            print(f"  {what}, {wrong} words: {told}", flush=True)
    commands, assents, noises = tally["commands"], tally["assents"], tally["noises"]
    heard = noises.total() - noises["nothing"]
    stopped = assents["interrupted"] + noises["interrupted"]
    return {
        "commands": commands.total(),
        "assents": assents.total(),
        "noises": noises.total(),
        "unheard": noises["nothing"],
        "ignored_commands": sum(commands[what] for what in MISSED),
        "wrong_acts": commands[WRONG],
        "command_asked_pct": 100 * asked(commands) / commands.total(),
        "false_stop_pct": 100 * stopped / (assents.total() + heard),
        "assent_asked_pct": 100 * asked(assents) / assents.total(),
        "noise_asked_pct": 100 * asked(noises) / max(heard, 1),
        "heard_error_words_max": worst,
        "heard_compared": commands.total() + assents.total() + noises.total(),
    }


def asked(tally: Counter[str]) -> int:
    return sum(tally[what] for what in ASKED)


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


async def many(engines: Engines) -> dict[str, Any]:
    """Twenty lines speak, and are spoken to one after the other.

    How late their sound is, how often none is there, and what the lines have made of it.
    """
    sinks = [ClockedSink() for _ in range(SESSIONS)]
    user = silence(2) + said("yeah", "flite:slt") + silence(2.5)
    frames = [user[at : at + FRAME * WIDTH] for at in range(0, len(user), FRAME * WIDTH)]
    lines: list[Line] = []
    shown: list[list[Shown]] = [[] for _ in sinks]
    places = count()

    async def hear(_: bytes) -> None:
        place = next(places)
        for number, line in enumerate(lines):
            turn = place + number * len(frames) // SESSIONS
            await line.hear(frames[turn % len(frames)])

    with SoundCard(*sinks) as card:
        async with AsyncExitStack() as stack, lines_to(teller) as control:
            for number, sink in enumerate(sinks):
                one = telling(control, engines, sink, shown[number], f"t-many-{number}")
                lines.append(await stack.enter_async_context(one))
            card.late_ms.clear()
            microphone = Microphone(silence(SESSIONS_S), lambda frame: in_loop(hear, frame))
            await anyio.to_thread.run_sync(microphone.run)
            for sink, outcomes in zip(sinks, map(outcomes_of, shown), strict=True):
                sink.end(time.monotonic(), waits=not ASKED.isdisjoint(outcomes[-1:]))
            late = card.late_ms * SESSIONS
            await stack.aclose()
    every = [one for of_line in shown for one in of_line]
    troubles = {one.text for one in every if isinstance(one, Trouble)}
    waited = [sum(what != RESUMED for what in outcomes_of(of_line)) for of_line in shown]
    wrong = f"had trouble: {troubles}" if troubles else fell_silent(sinks, waited)
    if wrong:
        raise SystemExit(f"Of {SESSIONS} lines at once: {wrong}. Nothing is kept.")
    starved = [ms for sink in sinks for ms in sink.starved_ms]
    return {
        "sink_late_p99_ms": percentile([*late, *starved], 99),
        "sink_gaps": sum(sink.gaps for sink in sinks),
        "sink_silent_pct": silent_pct(sinks),
        "many_came_of": Counter(outcomes_of(every)),
    }


def outcomes_of(shown: Iterable[Shown]) -> list[str]:
    return [one.outcome for one in shown if isinstance(one, Outcome)]


async def soon(engines: Engines) -> dict[str, Any]:
    every = await barge_ins(engines)
    times = [ms for ms in every if ms >= 0]  # a hold before the onset is none for it
    return {
        "bargein_median_ms": statistics.median(times),
        "bargein_p95_ms": percentile(times, 95),
        "interruptions": len(times),
        "rejected": len(every) - len(times),
    }


async def listed(engines: Engines) -> dict[str, Any]:
    return counted(await lists(engines))


async def pipecat(_: Engines) -> dict[str, Any]:
    sounds = [sound_of(row) for row in drawn(rows("commands"), INTERRUPTIONS)]
    return await anyio.to_thread.run_sync(pipecat_latencies, sounds, NEVER_MS)


async def sockets(_: Engines) -> dict[str, Any]:
    return await over_sockets()


PARTS: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]]
PARTS = {"soon": soon, "pipecat": pipecat, "many": many, "sockets": sockets}
PARTS |= {"clarify": clarify, "lists": listed}


PAGE_ALONE = "--page"
"""Nothing is measured, and the page is written anew from the figures that are there."""


async def main() -> None:
    """All parts, or those that are named; the others keep the figures that they have."""
    before = kept()
    results = before if sys.argv[1:] else {}
    parts = [part for part in sys.argv[1:] or PARTS if part != PAGE_ALONE]
    engines = await anyio.to_thread.run_sync(offline_engines) if parts else None
    for part in parts:
        began, marks = time.perf_counter(), stamp(part, {**before, **results})
        found = await PARTS[part](engines)
        results = kept() if sys.argv[1:] else results  # others may measure other parts
        results |= {**found, **marks, f"{part}_s": time.perf_counter() - began}
        results["machine"] = machine()
        show({name: value for name, value in found.items() if isinstance(value, float | int)})
        save("voice", results)
    page = ROOT / "docs/benchmarks-voice.md"
    page.write_text(report(results), encoding="utf-8")


def kept() -> dict[str, Any]:
    return load("voice") if (RESULTS / "voice.json").exists() else {}


WRONG_ACTS = """
A command to wait, to stop or to go on is taken if that was done. If its words were taken for
something else, it is neither ignored nor asked about, and counted apart."""
SILENCE = """
A tick that never gets any sound is a gap, too. Nothing is kept of lines that were silent for more
than {pct:g} % of the time in which nobody held them; who has asked something may wait for the
answer."""


def report(results: dict[str, Any]) -> str:
    """The page in the docs; a figure that was not measured yet has no row."""
    seconds = sum(results.get(f"{part}_s", 0.0) for part in PARTS)
    measured = {name: row for name, row in ROWS.items() if name in results}
    told = dict(results, rows=table(results, measured), seconds=seconds, by_kind=by_kind(results))
    told["wrong_acts_told"] = wrong_acts_told(results)
    told["silence_told"] = silence_told(results)
    told |= {"sessions": SESSIONS, "sessions_s": SESSIONS_S, "stale": stale(results)}
    told["first_played"] = first_played(results)
    told["missed"] = missed_told(results)
    return PAGE.format(**told)


def missed_told(results: dict[str, Any]) -> str:
    """Which goals are not reached, in a sentence; nothing if all are."""
    names = ", ".join(f"`{name}`" for name in missed(results, ROWS))
    return (
        f"\nNot reached, and so missed: {names}. Decision 43 says what was found.\n"
        if names
        else ""
    )


def wrong_acts_told(results: dict[str, Any]) -> str:
    """What is counted as a wrong act; nothing as long as nothing was."""
    return WRONG_ACTS * ("wrong_acts" in results)


def silence_told(results: dict[str, Any]) -> str:
    """What silence is allowed; nothing as long as it was not looked at."""
    looked_at = {"sink_silent_pct", "socket_silent_pct"} <= results.keys()
    return SILENCE.format(pct=SILENT_PCT) * looked_at


def by_kind(results: dict[str, Any]) -> str:
    """Of whose clean utterances how many are asked about."""
    shares = results.get("clarify_clean_by", {})
    told = ", ".join(f"{share:.1f} % of {kind}'s" for kind, share in shares.items())
    lists = results.get("clarify_clean_by_list", {})
    told += "".join(f"; {share:.2f} % of the list called {name}" for name, share in lists.items())
    return f"\nClean ones that are asked about, by who has said them: {told}." * bool(told)


if __name__ == "__main__":
    anyio.run(main)
