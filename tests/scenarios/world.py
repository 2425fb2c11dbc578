"""A twelve-step run with every class of effect, and the people who watch it.

What they do depends only on what they see in the journal and in the world, so they may die with
their process at any moment and be somebody else afterwards.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from midflight.agents import Agent, agent
from midflight.control import Ack, Control
from midflight.journal import events as e
from midflight.journal.phases import Effect, Outcome, Phase
from midflight.journal.record import Recorded
from midflight.journal.state import RunState
from midflight.journal.transition_table import VERBS
from midflight.run import Run
from midflight.tools.declaration import Done, NotDone, tool
from midflight.tools.options import EffectRecord, Retry
from scenarios import book

RUN = "r-library-one"
HOLD_S = 0.03
ROUNDS = 4

# ── tools ────────────────────────────────────────────────────────────────────────────────────────


async def appears(name: str) -> None:
    """Wait for a file, which may come from another process."""
    while not (book.folder() / name).exists():  # noqa: ASYNC110 - there is no event to wait for
        await anyio.sleep(0.005)


def undoing(what: str) -> Callable[[EffectRecord], Any]:
    async def undo(performed: EffectRecord) -> None:
        book.do_once(f"undo-{what}", performed.key)

    return undo


def checking(what: str, says: str) -> Callable[[EffectRecord], Any]:
    async def check(performed: EffectRecord) -> object:
        book.moment(f"check-{what}:before")
        done = book.has(what, performed.key)
        return Done(f"{says} {performed.args[0]}") if done else NotDone()

    return check


@tool(effect="read")
async def fetch(what: str) -> str:
    book.moment("fetch:before")
    return what.upper()


@tool(effect="model")
async def think(what: str) -> str:
    book.moment("think:before")
    await anyio.sleep(0.001)
    book.moment("think:after")
    return f"thought of {what}"


@tool(check=checking("lock", "locked"), settles_within=0, undo=undoing("lock"), always_undo=True)
async def lock(what: str, idempotency_key: str = "") -> str:
    book.do("lock", idempotency_key)
    return f"locked {what}"


@tool(effect="write", undo=undoing("upsert"))
async def upsert(what: str, idempotency_key: str = "") -> str:
    book.do_once("upsert", idempotency_key)
    return f"upserted {what}"


@tool(check=checking("send", "sent"), settles_within=0)
async def send(what: str, idempotency_key: str = "") -> str:
    book.do("send", idempotency_key)
    return f"sent {what}"


@tool(undo=undoing("order"))
async def order(what: str, idempotency_key: str = "") -> None:
    """Only a person can say whether it happened, and does not know what it would have returned."""
    book.do("order", idempotency_key)


@tool(check=checking("wire", "wired"), settles_within=0, irreversible=True)
async def wire(what: str, idempotency_key: str = "") -> str:
    book.do("wire", idempotency_key)
    return f"wired {what}"


@tool(
    check=checking("mail", "mailed"),
    settles_within=0,
    irreversible=True,
    approval=False,
    undo_window=HOLD_S,
)
async def mail(what: str, idempotency_key: str = "") -> str:
    book.do("mail", idempotency_key)
    return f"mailed {what}"


compress = tool(effect="write", runs="process", undo=undoing("compress"))(book.compress)
index = tool(check=checking("index", "indexed"), settles_within=0, undo=undoing("index"))(
    book.index
)


@tool(effect="write", retry=Retry(2, first_after=0.04))
async def upload(what: str, idempotency_key: str = "") -> str:
    """Works at the second try, and says that the first did nothing."""
    book.moment("upload:before")
    if book.first_time("upload"):
        book.moment("upload:refused")
        raise NotDone("come back later")
    book.do_once("upload", idempotency_key)
    return f"uploaded {what}"


@tool(effect="read", retry=Retry(2, first_after=0.04))
async def report(what: str) -> str:
    """Fails at the first try."""
    book.moment("report:before")
    if book.first_time("report"):
        raise ConnectionError("try again")
    book.moment("report:after")
    return f"report on {what}"


@tool(effect="read")
async def linger(what: str) -> str:
    """Takes for ever, until somebody has done what the story is about."""
    (book.folder() / "lingering").touch()
    await appears("go")
    return what


STEPS = ("fetch", "think", "lock", "upsert", "send", "order", "wire", "mail", "compress", "index")
"""The names under which they may be killed; upload and report have moments of their own."""


@agent()
async def clerk(run: Run) -> list[object]:
    """The first half of the work, a moment in which things may happen, and the second half."""
    rows = await run.step("Fetch", fetch, "customers")
    results: list[object] = [
        await run.step("Think", think, rows),
        await run.step("Lock", lock, rows),
        await run.step("Upsert", upsert, rows),
        await run.step("Send", send, rows),
        await run.step("Order", order, rows),
    ]
    if run.brief != "work":
        results.append(await run.step("Draft", upsert, f"draft of {run.brief}"))
    if run.brief == "linger":
        await run.step("Linger", linger, rows)
    what = f"{rows} for {run.brief}"
    results += [
        await run.step("Wire", wire, what),
        await run.step("Mail", mail, what),
        await run.step("Compress", compress, what),
        await run.step("Index", index, what),
        await run.step("Upload", upload, what),
        await run.step("Report", report, what),
    ]
    return results


@agent()
async def builder(run: Run) -> None:
    """Does what can be undone, and then lingers, to be cancelled."""
    rows = await run.step("Fetch", fetch, "customers")
    for name, tool_ in (("Lock", lock), ("Upsert", upsert), ("Order", order), ("Index", index)):
        await run.step(name, tool_, rows)
    await run.step("Compress", compress, rows)
    await run.step("Send", send, rows)
    await run.step("Linger", linger, rows)


class Between:
    """The rounds in which the function knows how its write ended, as it goes on to its read."""

    def __init__(self) -> None:
        self._rounds: list[int] = []
        self._news = anyio.Event()

    def add(self, number: int) -> None:
        self._rounds.append(number)
        self._news.set()

    async def next(self) -> int:
        while not self._rounds:
            self._news = anyio.Event()
            await self._news.wait()
        return self._rounds.pop(0)


between = Between()


@tool(effect="read")
async def consult(number: int) -> str:
    """Takes until somebody has pressed a button in this round."""
    await appears(f"pressed-{number}")
    return f"consulted {number}"


@agent()
async def scribe(run: Run) -> list[object]:
    """Writes and reads by turns; people press a button between the two."""
    results: list[object] = []
    for number in range(ROUNDS):
        results.append(await run.step("Upsert", upsert, f"round {number}"))
        between.add(number)
        results.append(await run.step("Consult", consult, number))
    return results


# ── people ───────────────────────────────────────────────────────────────────────────────────────


class Person:
    """Presses what the script says, answers by the ledger, and keeps every acknowledgement."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def keep(self, accepted: Ack) -> None:
        with (book.folder() / "acknowledged").open("a") as file:
            file.write(f"{accepted.verb}:{accepted.position}\n")

    async def answers(self) -> None:
        """Answer every question that a run rests with, and truthfully, until it ends."""
        async with self.control.watch(RUN) as news:
            async for _ in news:
                state = await self.control.state(RUN)
                if not state.alive:
                    return
                if state.phase is Phase.WAITING:
                    for question in list(state.questions):
                        await self._answer(state, question)

    async def _answer(self, state: RunState, position: int) -> None:
        question = state.questions[position]
        if question.kind == "approval":
            choice = "approve"
        elif question.kind == "doubt":
            attempt = state.effects[question.about]
            happened = book.has(attempt.name.lower(), attempt.key)
            choice = "happened" if happened else "again"
        else:
            raise AssertionError(f"nobody should have asked: {question.message}")
        self.keep(await self.control.answer(RUN, position, choice, key=f"answer-{position}"))

    async def presses(self, script: str) -> None:
        """Do what the story is about once the run lingers."""
        if script == "plain":
            return
        if script != "between":
            await appears("lingering")
        await getattr(self, f"_{script}")()

    async def _pause(self) -> None:
        self.keep(await self.control.pause(RUN, key="pause"))
        await self.control.until(RUN, lambda s: s.phase is not Phase.PAUSING)
        (book.folder() / "go").touch()
        self.keep(await self.control.resume(RUN, key="resume"))

    async def _between(self) -> None:
        """Pause in each round, and go on; also in the one in which somebody died meanwhile."""
        if (await self.control.state(RUN)).phase in {Phase.PAUSING, Phase.PAUSED}:
            await self._pause_in(sum(1 for _ in book.folder().glob("pressed-*")))
        while True:
            await self._pause_in(await between.next())

    async def _pause_in(self, number: int) -> None:
        self.keep(await self.control.pause(RUN, key=f"pause-{number}"))
        await self.control.until(RUN, lambda s: s.phase is not Phase.PAUSING)
        self.keep(await self.control.resume(RUN, key=f"resume-{number}"))
        (book.folder() / f"pressed-{number}").touch()

    async def _redirect(self) -> None:
        self.keep(await self.control.redirect(RUN, "EU only", key="redirect"))

    async def _cancel(self) -> None:
        self.keep(await self.control.cancel(RUN, key="cancel"))

    async def _drain(self) -> None:
        """The first process is told to end; whoever comes after it lets the run go on."""
        if (book.folder() / "drained").exists():
            (book.folder() / "go").touch()
            return
        (book.folder() / "drained").touch()
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()


AGENTS = (clerk, builder, scribe)
AGENT_OF: dict[str, Agent[Any]] = {"cancel": builder, "between": scribe}
BRIEF_OF = {"plain": "work"}


async def start(control: Control, script: str) -> None:
    """Start the run; again, if it is there already, does nothing."""
    brief = BRIEF_OF.get(script, "linger")
    await control.start(AGENT_OF.get(script, clerk), brief, key="one")


# ── what must be true at the end ─────────────────────────────────────────────────────────────────


async def outcome(control: Control) -> dict[str, Any]:
    """How it ended, in plain data, to be compared with an undisturbed run."""
    state = await control.ended(RUN)
    records = await control.store.read(RUN)
    return {
        "phase": state.phase,
        "driver": state.driver,
        "result": await control.result(RUN) if state.phase == "done" else None,
        "undone": sorted({a.name for a in state.effects.values() if a.undone}),
        "applied": dict(book.applied()),
        "unasked": unasked_repeats(records),
        "lost": lost_acknowledgements(records),
        "in doubt": in_doubt(state),
        "positions": [type(record.event).__name__ for record in records],
    }


def in_doubt(state: RunState) -> list[str]:
    """Steps of which nobody knows to this end whether they happened."""
    done = {a.step for a in state.effects.values() if a.outcome is Outcome.DONE}
    doubt = {a.step for a in state.effects.values() if a.outcome in {None, Outcome.UNKNOWN}}
    return sorted(doubt - done)


def unasked_repeats(records: list[Recorded]) -> list[str]:
    """Repeats of a ``once`` for which nobody had said that the last try did not happen."""
    last: dict[str, int] = {}
    settled: dict[int, tuple[Outcome, str]] = {}
    answered: set[int] = set()
    about: dict[int, int] = {}
    found: list[str] = []
    for record in records:
        match record.event:
            case e.QuestionOpened() as event:
                about[record.position] = event.about
            case e.QuestionAnswered() as event:
                answered.add(about[event.question])
            case e.AttemptSettled() as event:
                settled[event.attempt] = (event.outcome, "tool")
            case e.LateOutcome() as event:
                settled[event.attempt] = (event.outcome, event.how)
            case e.AttemptStarted() as event if event.effect is Effect.ONCE:
                before = last.get(event.step, 0)
                word, how = settled.get(before, (None, ""))
                proven = word in {Outcome.NOT_DONE, Outcome.NOT_STARTED}
                asked = before in answered or (how != "person" and event.name != "Order")
                if before and not (proven and (asked or word is Outcome.NOT_STARTED)):
                    found.append(f"{event.name} at {record.position} after {before}: {word} {how}")
                last[event.step] = record.position
            case _:
                pass
    return found


def lost_acknowledgements(records: list[Recorded]) -> list[str]:
    """What somebody was told is on record, and is not there."""
    path = book.folder() / "acknowledged"
    told = path.read_text().split() if path.exists() else []
    places = [line.split(":") for line in told]
    return [
        f"{verb} at {position}"
        for verb, position in places
        if int(position) > len(records)
        or not isinstance(records[int(position) - 1].event, VERBS[verb])
    ]


async def until_over(control: Control, script: str) -> None:
    """Be the person of a script, and write down how it ended."""
    person = Person(control)
    async with anyio.create_task_group() as group:
        group.start_soon(person.presses, script)
        await person.answers()
        group.cancel_scope.cancel()
    body = msgspec.json.encode(await outcome(control))
    (book.folder() / "outcome").write_bytes(body)
