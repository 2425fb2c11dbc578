"""All scenarios, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from midflight.kit.plays import (
    Scenario,
    continuing,
    crashing,
    pausing,
    sending,
    staling,
    stopping,
    stopping_at_once,
    stopping_first,
    switching,
)
from midflight.kit.witnesses import Answer, Call, happened

STOP: Final = (
    "unlisted", "listed", "after_stopped", "untrue", "unknown", "hung", "never_came", "stop_ms",
    "ack_ms",
)  # fmt: skip
LATE: Final = ("after_stopped", *(metric for metric in STOP if metric != "after_stopped"))
TALK: Final = tuple(Answer((Call("act", f"a{n}", ms=40),)) for n in range(3))
LONG: Final = 3_000  # ms: at half of it a tool acts, long after any stop on a busy machine


def act(*names: str, tool: str = "act", ms: int = 20) -> Answer:
    """Return a turn of the model that calls one tool once for each name."""
    return Answer(tuple(Call(tool, name, ms) for name in names))


SCENARIOS: Final = (
    Scenario(
        "stream",
        "stop during a model stream",
        stopping,
        ("streamed_on", "tokens", *STOP),
        answers=(Answer(words=200),),
        moment=happened("word", 3),
    ),
    Scenario(
        "tool",
        "stop during an async tool",
        stopping,
        LATE,
        answers=(act("a1", ms=LONG), act("a2")),
        moment=happened("begin"),
        spread_ms=600,
        late_s=2.0,
    ),
    Scenario(
        "blocking",
        "stop during a blocking tool",
        stopping,
        LATE,
        answers=(act("a1", tool="hold", ms=LONG), act("a2", tool="hold")),
        moment=happened("begin"),
        spread_ms=600,
        late_s=2.0,
    ),
    Scenario(
        "process",
        "stop during a tool with child processes",
        stopping,
        ("orphans", *STOP),
        answers=(act("a1", tool="spawn", ms=LONG),),
        moment=happened("spawned"),
    ),
    Scenario(
        "batch",
        "stop between the tools of a batch",
        stopping,
        STOP,
        answers=(act("a1", "a2", "a3", "a4", ms=16), act("a5")),
        moment=happened("acted"),
        spread_ms=30,
    ),
    Scenario(
        "first",
        "stop before the first step",
        stopping_first,
        STOP,
        answers=(act("a1"), act("a2")),
        spread_ms=4,
    ),
    Scenario(
        "scale",
        "stop 200 runs at once",
        stopping_at_once,
        LATE,
        answers=(act("a1", ms=8_000),),
        moment=happened("begin"),
        late_s=6.0,
    ),
    Scenario(
        "undo",
        "compensation on cancel",
        stopping,
        ("not_taken_back", *STOP),
        needs=("stop", "undo"),
        answers=(act("a1", "a2", "a3", tool="make", ms=4), act("a4", tool="make", ms=40)),
        moment=happened("acted", 3),
        spread_ms=60,
    ),
    Scenario(
        "transcript",
        "the conversation goes on after a stop",
        continuing,
        ("invalid", "forgot", "hung", "never_came"),
        needs=("stop", "again"),
        answers=(act("a1"), act("a2", "a3", ms=60), act("a4")),
        moment=happened("begin", 2),
        spread_ms=60,
    ),
    Scenario(
        "pause",
        "pause and resume",
        pausing,
        ("while_paused", "duplicates", "undone_things", "hung", "never_came", "ack_ms"),
        needs=("pause",),
        answers=(act("a1", ms=100), act("a2", "a3", ms=100), act("a4")),
        moment=happened("begin"),
        spread_ms=150,
    ),
    Scenario(
        "crash",
        "kill -9 and resume",
        crashing,
        ("duplicates", "undone_things", "hung", "never_came"),
        needs=("crash",),
        answers=(act("a1"), act("a2", "a3", ms=40), act("a4"), act("a5")),
        moment=happened("begin"),
        spread_ms=120,
    ),
    Scenario(
        "message",
        "a message while it works",
        sending,
        ("lost", "turned_away", "hung", "never_came"),
        needs=("send",),
        answers=TALK,
        moment=happened("begin"),
        spread_ms=60,
    ),
    Scenario(
        "messages",
        "20 messages at once",
        sending,
        ("lost", "turned_away", "hung", "never_came"),
        needs=("send",),
        answers=TALK,
        moment=happened("begin"),
        spread_ms=60,
    ),
    Scenario(
        "stale",
        "resume in a world that has moved on",
        staling,
        ("in_spite", "never_came"),
        needs=("pause", "stale"),
        answers=(act("l1", tool="look"), act("a1", ms=60), act("a2"), act("a3")),
        moment=happened("begin"),
        spread_ms=0,
    ),
    Scenario(
        "switch",
        "an urgent task in between, then back",
        switching,
        ("not_back", "duplicates", "never_came"),
        needs=("send", "switch"),
        answers=tuple(act(f"a{n}", ms=200) for n in range(1, 7)),  # longer than the urgent one
        moment=happened("begin"),
    ),
)
BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}
