"""The interruptibility kit on all runtimes it knows: ``make kit``.

Writes ``bench/results/kit.json``, and from it ``docs/benchmarks.md`` and its plot. A runtime by
itself, or with fewer trials: ``make kit KIT="--n 20 --runtime pydantic-ai"``. What is not measured
anew is kept, with the sitting that it comes from; ``KIT=--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import anyio
from figures import RESULTS, ROOT
from msgspec.structs import replace

from midflight.kit import durable
from midflight.kit import results as kit_report
from midflight.kit.durable import Figure
from midflight.kit.plays import LANES, MOMENT_S
from midflight.kit.results import Results, read, write
from midflight.kit.subject import ALL
from midflight.kit.trial_runs import PROFILES, PROMISED, Player, chosen_scenarios

KEPT = RESULTS / "kit.json"
PAGE_AT = ROOT / "docs/benchmarks.md"
PLOT_AT = ROOT / "docs/benchmarks-stop.svg"

PAGE = """\
# How well can it be interrupted?

Made by `make kit`; the figures are in `bench/results/kit.json`, a row for each runtime, scenario
and metric. `midflight kit run` measures on your machine.

Each figure comes from one of these sittings. The commit is that of this repository, adapters
included; *others used* is the share of all cores that other programs used meanwhile, a Postgres
server among them. Where that is much, times are worse than on a quiet machine; rates are hardly
touched by it.

{sittings}
By `make kit` midflight-immediate has {promised[0]} trials of each stop scenario and {promised[1]}
of each other one, the other runtimes have {stops} and {others}; {scale} runs are stopped at once.
How many there were stands in each table.

## Method

Each runtime is a program of its own, in an environment with pinned versions, driven by a small
adapter through its documented API at its best; the adapter's docstring says which
(`src/midflight/kit/adapters/`). All are given the same scripted model and the same tools. Nothing
is asked of the runtime: a tool tells a ledger in another process what it does and waits for the
answer; processes are found in `/proc`; the model is an HTTP server that streams as OpenAI does,
sees who closes a connection, counts what it sends after a stop, and refuses what providers refuse.
Only what can be held against that is taken from a runtime's own words: what it lists as in flight,
its receipt, and in the stale resume that it asks a person.

* *Acknowledged* is when the call that stops returns, *stopped* when the runtime says that the run
  is over. *Time to stop* runs from the press to the last sign of life of the run, or to “stopped”
  if that is later: a runtime gains nothing by saying it early.
* Rates are of trials in which it happened at all, then in brackets what they may be at most, with
  95 % confidence (one side; rule of three where nothing was seen, else Wilson). Times are p50 / p99
  in ms. {not_offered} means that the runtime has no such verb. {lanes} runs at a time, except where
  200 are stopped at once.
* A run that does not come to the moment at which it is to be interrupted within {moment:.0f} s has
  failed: that is a figure of its own, and it is in no other. Before the stops that come before the
  first step one run is let through, which must do all its work. Trials in which nothing was left to
  interrupt when the stop, pause or kill came do not count, and are played anew. Of the crashes ten
  share a kill, and the 200 that are stopped at once are one wave: these are not independent, and
  their bounds say less than others.
* After a stop Midflight goes on with what its receipt says was done, as words, and not with the
  calls themselves; that a model is still told what was done is counted apart.
* An effect in the crash scenario must not happen twice and its provider knows no keys. Midflight's
  tool has a `check`, which asks the world; the others have no place for one, and an author would
  have to write it into each tool.
* The tool with child processes kills its process group when it is cancelled, as a careful author
  writes it; one child has left the group, and the stop comes when it has. In Midflight it is a tool
  with `runs="process"`.
* A message reaches the OpenAI Agents SDK and LangGraph between two turns: the run is held as for a
  pause, the message is put into its state (`RunState.add_input`, `aupdate_state`), and the run goes
  on from there.
* LangGraph runs with `durability="sync"` and with `stream_chunk_timeout=None`: with the default,
  Python 3.11's `asyncio.wait_for` loses a cancellation that comes together with a chunk, and most
  streams went on to their end after a stop.
* Durable steps: {alone} in one run, and {together_steps} in each of {together} runs at once, of 200
  bytes each; once to warm up, then {rounds} rounds, of which the median is shown. Before and after
  each round plain SQLite commits {raw} rows of 200 bytes, one at a time, on the same disk with
  `synchronous=FULL`; *against raw* is the median of the rounds' ratios. Midflight does them by
  `run.step` with a `write` tool, all runs in one process; LangGraph by a node that is done anew
  through a conditional edge, one `ainvoke(durability="sync")` a run, all at once in one event loop,
  as its async API is used. What each database says of the connections that the runtime writes by
  (2 is FULL), asked before the steps:
{syncs}
* Growth is what a run adds on disk, logs brought in, after its process was killed; *resume* is from
  the call that goes on with it, in a new process, to the first line of its next step.

## What was seen

![time to stop](benchmarks-stop.svg)

{tables}
{verdict}
## Limits

One machine with two cores, loopback, a scripted model, Linux. A cancelled asyncio task is how
LangGraph is stopped outside its platform: `request_drain` is documented for a shutdown in good
order and lets what runs come to its end, so it is the pause here, and `abort` of its event stream,
which cancels the same task, is marked experimental. Its documentation calls messages to a running
thread a feature of the platform; they are offered here because documented calls make them, if not
one verb. Undo, a stale resume and going back to a parked task stay “not offered” by all others: no
call of theirs does it, and what an author could write around them would be the author's. The
platform was not tried, nor were engines that the OpenAI Agents SDK and Pydantic AI can be run on,
nor add-ons such as the middleware of `deepagents` that mends conversations for LangGraph. The
share of the event loop is that of the process's first thread, by the kernel's clock ticks. The bare
loop is what one writes in an afternoon: it does
not mend its conversation. Whether a model does the right thing with a message that reaches
it is not measured here. A rate of zero is no proof: that is in how the journal is made
(`ARCHITECTURE.md`), and this is its test.
"""


def report(results: Results) -> str:
    full = PROFILES["full"]
    return PAGE.format(
        sittings=kit_report.sittings(results),
        promised=full.promised,
        stops=full.stops,
        others=full.others,
        scale=full.scale,
        moment=MOMENT_S,
        not_offered=kit_report.NOT_OFFERED,
        lanes=LANES,
        alone=durable.STEPS_ALONE,
        together=durable.TOGETHER,
        together_steps=durable.STEPS_TOGETHER,
        rounds=durable.ROUNDS,
        raw=durable.RAW,
        syncs=syncs(results.durable),
        tables=kit_report.tables(results),
        verdict=verdict(results.durable),
    )


def syncs(figures: list[Figure]) -> str:
    """What the databases have said, by runtime; a figure from before this was asked has nothing."""
    said = {figure.runtime: figure.syncs or "not asked" for figure in figures if figure.per_s}
    return "\n".join(f"  * {name}: {what}" for name, what in said.items())


def verdict(figures: list[Figure]) -> str:
    """Durable steps against LangGraph on SQLite, by its leanest state and by a comparable one."""
    lines = []
    for shape, words in (("last", "only the last result"), ("list", "all results")):
        for runs in GOALS:
            ours = _speed(figures, PROMISED, "", runs)
            theirs = _speed(figures, "langgraph-sqlite", shape, runs)
            if ours and theirs:
                times = ours.against_raw / theirs.against_raw
                cpu = theirs.cpu_ms / ours.cpu_ms
                load = f"{ours.load_of_others_pct:.0f} % / {theirs.load_of_others_pct:.0f} %"
                missed = "" if times >= GOALS[runs] else ": **missed**"
                lines.append(f"| {words} | {runs} | {times:.1f}{missed} | {cpu:.1f} | {load} |")
    if not lines:
        return ""
    return VERDICT.format(lines="\n".join(lines), loop=loop_words(figures)) + resumes(figures)


def loop_words(figures: list[Figure]) -> str:
    """Which share of the processor time is the event loop's, as it was measured."""
    ours = _speed(figures, PROMISED, "", durable.TOGETHER)
    if ours is None or not ours.loop_pct:
        return ""
    return f", {ours.loop_pct:.0f} % of it on the event loop and the rest in other threads"


def resumes(figures: list[Figure]) -> str:
    """How the time of a resume grows."""
    ours = [f for f in figures if (f.runtime, f.what) == (PROMISED, "growth")]
    if len(ours) < 2:
        return ""
    told = ", ".join(f"{f.resume_ms:,.0f} ms at {f.steps:,} steps" for f in ours)
    return RESUMES.format(told=told)


GOALS = {1: 3, 50: 15}
"""Runs at once -> how many durable steps of ours are wanted for one of LangGraph's."""

VERDICT = """\
So many durable steps does Midflight do for one of LangGraph on SQLite (wanted: 3 with one run, 15
with 50), by the clock, each against raw SQLite in the same minute, and by processor time, which a
busy machine does not change:

| LangGraph keeps | runs | by the clock | by processor time | others used, ours / theirs |
|---|---|---|---|---|
{lines}

Ours sync once a step: the commit has the outcome of the step before and the start of the next one,
since what has begun must be known after a crash; those of many runs share a sync. LangGraph's sync
twice, its writes and its checkpoint, and each waits for its own.

Where our time goes: with 50 runs the processor is what runs out{loop}. With one run a step waits
for its commit. That is the price of a journal that says what has begun, and of a stop that is heard
within a step.

"""

RESUMES = """\
A resume of ours begins with a stored fold of the journal and calls the function again, which asks
for each of its steps: a few microseconds for each. A checkpoint of LangGraph's is read in one
piece, and its resume hardly grows with the length of the run. Ours: {told}.

"""


def _speed(figures: list[Figure], runtime: str, shape: str, runs: int) -> Figure | None:
    wanted = (runtime, shape, runs, "speed")
    return next((f for f in figures if (f.runtime, f.shape, f.runs, f.what) == wanted), None)


def write_pages(results: Results) -> None:
    PAGE_AT.write_text(report(results), encoding="utf-8")
    PLOT_AT.write_text(kit_report.plot(results), encoding="utf-8")


def commit() -> str:
    """What is measured: with a mark if it is more than what is committed."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ("git", *words), cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "src") else ""
    return f"{git('rev-parse', '--short', 'HEAD') or 'none'}{changed}"


def say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=0)
    parser.add_argument("--runtime", action="append", default=[])
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--steps", action="store_true", help="only durable steps and growth")
    parser.add_argument("--stops", action="store_true", help="only the scenarios, no steps")
    parser.add_argument("--page", action="store_true")
    chosen = parser.parse_args()
    if not chosen.page:
        profile = PROFILES["full"]
        if chosen.n:
            profile = replace(profile, stops=chosen.n, others=chosen.n, promised=None)
        profile = replace(profile, steps=not (chosen.scenario or chosen.stops))
        scenarios = [] if chosen.steps else chosen_scenarios(chosen.scenario)
        earlier = read(KEPT) if KEPT.exists() else None
        given = " ".join(sys.argv[1:])
        player = Player(
            profile,
            results=earlier,
            commit=commit(),
            arguments=f'make kit KIT="{given}"' if given else "make kit",
            say=say,
            keep=lambda results: write(KEPT, results),
        )
        anyio.run(player.play, chosen.runtime or list(ALL), scenarios)
    write_pages(read(KEPT))


if __name__ == "__main__":
    main()
