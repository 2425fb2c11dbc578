"""The interruptibility kit on all runtimes it knows: ``make kit``.

Writes ``bench/results/kit.json``, and from it ``docs/benchmarks.md`` and its plot. Fewer trials, or
one runtime anew with the other figures kept: ``make kit KIT="--n 50 --runtime pydantic-ai"``;
``KIT=--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import subprocess

import anyio
from figures import RESULTS, ROOT
from msgspec.structs import replace

from midflight.kit import report as kit_report
from midflight.kit.durable import Figure
from midflight.kit.playing import PROFILES, Player, Results, chosen_scenarios, read, write
from midflight.kit.runtimes import ALL

KEPT = RESULTS / "kit.json"
PAGE_AT = ROOT / "docs/benchmarks.md"
PLOT_AT = ROOT / "docs/benchmarks-stop.svg"

BUSY_PCT = 20
BUSY = """.
**That is much: times here are worse than on a quiet machine.** Rates are hardly touched by it"""
BUSY_STEPS = """
**Other programs used up to {load:.0f} % of the machine meanwhile: steps a second say little.**
"""

PAGE = """\
# How well can it be interrupted?

Made by `make kit`; the figures are in `bench/results/kit.json`, a row for each runtime, scenario
and metric. `midflight kit run` measures on your machine.

{machine}; {seconds:.0f} s; other programs used {load:.0f} % of the machine meanwhile{busy}.

{versions}

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
* Trials in which nothing was left to interrupt when the stop, pause or kill came do not count. Of
  the crashes ten share a kill, and the 200 that are stopped at once are one wave: these are not
  independent, and their bounds say less than others.
* After a stop Midflight goes on with what its receipt says was done, as words, and not with the
  calls themselves; that a model is still told what was done is counted apart.
* An effect in the crash scenario must not happen twice and its provider knows no keys. Midflight's
  tool has a `check`, which asks the world; the others have no place for one, and an author would
  have to write it into each tool.
* The tool with child processes kills its process group when it is cancelled, as a careful author
  writes it; one child has left the group. In Midflight it is a tool with `runs="process"`.
* LangGraph runs with `durability="sync"` and with `stream_chunk_timeout=None`: with the default,
  Python 3.11's `asyncio.wait_for` loses a cancellation that comes together with a chunk, and most
  streams went on to their end after a stop.

## What was seen

![time to stop](benchmarks-stop.svg)

{tables}
{verdict}
## Limits

One machine with two cores, loopback, a scripted model, Linux. A cancelled asyncio task is how
LangGraph is stopped outside its platform; the platform was not tried, nor were engines that the
OpenAI Agents SDK and Pydantic AI can be run on, nor add-ons such as the middleware of `deepagents`
that mends conversations for LangGraph. The bare loop is what one writes in an afternoon: it does
not mend its conversation. Whether a model does the right thing with a message that reaches
it is not measured here. A rate of zero is no proof: that is in how the journal is made
(`ARCHITECTURE.md`), and this is its test.
"""


def report(results: Results) -> str:
    busy = BUSY if results.load_of_others_pct > BUSY_PCT else ""
    return PAGE.format(
        machine=results.machine,
        seconds=results.seconds,
        load=results.load_of_others_pct,
        busy=busy,
        versions="\n".join(f"* **{name}**: {what}" for name, what in results.versions.items()),
        not_offered=kit_report.NOT_OFFERED,
        lanes=4,
        tables=kit_report.tables(results),
        verdict=verdict(results.durable),
    )


def verdict(figures: list[Figure]) -> str:
    """Durable steps against LangGraph on SQLite, by its leanest state and by a comparable one."""
    lines = []
    for shape, words in (("last", "only the last result"), ("list", "all results")):
        for runs in (1, 50):
            ours = _speed(figures, "midflight-immediate", "", runs)
            theirs = _speed(figures, "langgraph-sqlite", shape, runs)
            if ours and theirs:
                times = ours.against_raw / theirs.against_raw
                cpu = theirs.cpu_ms / ours.cpu_ms
                lines.append(f"| {words} | {runs} | {times:.1f} | {cpu:.1f} |")
    load = max((figure.load_of_others_pct for figure in figures), default=0.0)
    busy = BUSY_STEPS.format(load=load) if load > BUSY_PCT else ""
    return VERDICT.format(lines="\n".join(lines), busy=busy) if lines else ""


VERDICT = """\
So many durable steps does Midflight do for one of LangGraph on SQLite (wanted: 3 with one run, 15
with 50), by the clock, each against raw SQLite in the same minute, and by processor time, which a
busy machine does not change:

| LangGraph keeps | runs | by the clock | by processor time |
|---|---|---|---|
{lines}
{busy}
Both sync twice a step. Ours are one before it begins and one after it: what has begun must be known
after a crash; those of many runs share a sync. LangGraph's are both after it, its writes and its
checkpoint, and each waits for its own.

Where our time goes: with 50 runs the processor is what runs out, three parts in four of it on the
event loop (two decisions a step, their folds, waking who waits) and one in the writer's thread.
With one run a step waits for its two commits, one after the other, and the loop turns six or seven
times. That is the price of a journal that says what has begun, and of a stop that is heard within a
step; it is less than the goal.

"""


def _speed(figures: list[Figure], runtime: str, shape: str, runs: int) -> Figure | None:
    wanted = (runtime, shape, runs, "speed")
    return next((f for f in figures if (f.runtime, f.shape, f.runs, f.what) == wanted), None)


def write_pages(results: Results) -> None:
    PAGE_AT.write_text(report(results), encoding="utf-8")
    PLOT_AT.write_text(kit_report.plot(results), encoding="utf-8")


def keep(results: Results) -> None:
    command = ("git", "rev-parse", "--short", "HEAD")
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name, version in results.versions.items():
        if name.startswith("midflight") and " at " not in version:
            results.versions[name] = f"{version} at {commit.strip() or 'no commit'}"
    write(KEPT, results)


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
        some = chosen.runtime or chosen.scenario or chosen.steps
        scenarios = [] if chosen.steps else chosen_scenarios(chosen.scenario)
        earlier = read(KEPT) if KEPT.exists() and some else None
        player = Player(profile, results=earlier, say=say, keep=keep)
        anyio.run(player.play, chosen.runtime or list(ALL), scenarios)
    write_pages(read(KEPT))


if __name__ == "__main__":
    main()
