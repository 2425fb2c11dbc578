"""Record the golden journals of a release: ``cd tests && python -m journals.record 0.1``.

The stories are played on the store in memory, with a clock that counts, so that two recordings are
equal. An existing file is never written again: a change to a stored event brings a new folder.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Raw

from journals.golden import FOLDER, folded, line, meaning
from midflight.inputs import new_id
from midflight.journal import events as e
from midflight.journal.phases import Cause, Effect, Mode, Outcome, Role
from midflight.journal.record import Actor, Blob, Event, Fact, Limits, Recorded, Usage
from midflight.journal.threads import thread as t
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Append, Entry, Query, Store
from stores.runs import (
    ANN,
    OLGA,
    Driver,
    ask,
    cancel,
    claim,
    decision,
    drive,
    open_thread,
    pause,
    read_all,
    resume,
    running,
    say,
    tell,
    thread_state,
)

BEGAN_AT: Final = 1_767_225_600  # 1 January 2026, and then a second for each look at the clock


# ── the stories ──────────────────────────────────────────────────────────────────────────────


async def done(store: Store) -> None:
    """A run with a plan, reads, a model call, effects, a child, a cap, a drain, and an end."""
    driver = await running(
        store,
        "r-done",
        brief="Send the March invoices",
        title="March invoices",
        input=Raw(b'{"month":"2026-03"}'),
        limits=Limits(steps=40, usd=0.5),
        profile="careful",
        code="sha-1",
    )
    await driver.decides(
        e.PlanSet(epoch=1, steps=("List customers", "Write invoices", "Send them")),
        e.GuardSet(epoch=1, name="prices.csv", kind="file", fingerprint="9f2c"),
    )
    await _says(driver, e.StepSettled(epoch=1, step="list#1", name="List", result=Raw(b"[1,2]")))
    pdf = Blob("5f1d7a84db00d2fce00b31a7fc73224f8a3f2a5c", 70_000)
    await _says(driver, e.StepSettled(epoch=1, step="fetch#1", name="Fetch", blob=pdf))
    await _says(driver, e.StepSettled(epoch=1, step="fetch#2", name="Fetch", error="404"))
    call = await driver.begins("write", effect=Effect.MODEL, reserved=Usage(900, 0.02))
    await _says(driver, e.TextStreamed(epoch=1, step="write", offset=0, text="Dear", attempt=call))
    await driver.settles(call, result=Raw(b'"Dear Bob"'), usage=Usage(812, 0.014))
    await _says(driver, e.UsageSpent(epoch=1, usage=Usage(50)))
    await driver.decides(e.TimerSet(epoch=1, name="back-off", until=BEGAN_AT + 900.5))
    await driver.decides(e.TimerCleared(epoch=1, name="back-off"))
    draft = await driver.begins("draft", noun="draft", effect=Effect.WRITE, undoable=True)
    await driver.settles(draft, result=Raw(b'{"id":"d-7"}'))
    until = BEGAN_AT + 60.0
    await driver.decides(e.WindowOpened(epoch=1, step="send", noun="invoice", until=until))
    sent = await driver.begins("send", noun="invoice", irreversible=True)
    await driver.settles(sent)
    await driver.decides(
        e.ChildSpawned(
            epoch=1, child="r-child", agent="filer", brief="File it", allotment=Limits(usd=0.1)
        )
    )
    await _says(driver, e.ChildSettled(epoch=1, child="r-child", outcome="done"))
    await driver.decides(e.StateSaved(epoch=1, state=Raw(b'{"sent":1}')))
    await driver.decides(e.HoldPlaced(cause=Cause.CAP, why="usd"))
    await driver.pauses()
    await ask(store, e.LimitsRaised(who=ANN, limits=Limits(steps=40, usd=2.0)), "r-done")
    await driver.reads_again()
    await driver.decides(e.HoldPlaced(cause=Cause.DRAIN, why="new version"))
    await driver.pauses()
    await driver.decides(e.HoldLifted(cause=Cause.DRAIN))
    await driver.decides(e.RunEntered(epoch=1, why="drain"))
    await driver.finishes(result=Raw(b'"2 invoices sent"'))
    await driver.leaves()


async def undone(store: Store) -> None:
    """An end, and later a person who wants it undone; one effect can be, one cannot."""
    driver = await running(store, "r-undone")
    for noun in ("task", "note"):
        await driver.settles(await driver.begins(noun, noun=noun, undoable=True))
    await driver.finishes()
    await driver.leaves()
    await ask(store, e.UndoRequested(who=ANN, key="k-undo"), "r-undone")
    driver = await drive(store, "r-undone", driver="d-2")
    await _undo(driver, 6, undone=False, why="changed by others since")
    await _undo(driver, 4, undone=True)
    await driver.leaves()


async def redirected(store: Store) -> None:
    """Paused in the middle of an effect, which is stopped; redirected, resumed, done."""
    driver = await running(
        store,
        "r-redirected",
        brief="Book a train",
        mode=Mode.BOUNDARY,
        parent="r-trip",
        fork_of="r-older",
        fork_at=7,
    )
    booking = await driver.begins("book", noun="booking", undoable=True)
    await pause(store, "r-redirected")
    await ask(store, e.EffectStopRequested(who=ANN, attempt=booking), "r-redirected")
    await driver.settles(booking, Outcome.UNKNOWN, error="stopped")
    await driver.pauses()
    await _redirect(driver, "Book a bus", profile="")
    await _redirect(driver, "Book a night bus", profile="frugal")
    resumed = e.ResumeRequested(
        who=Actor("bob", Role.CONTROLLER, "web"), diff="~train~ =night bus="
    )
    await ask(store, resumed, "r-redirected")
    await driver.reads_again()
    await driver.decides(
        e.RedirectDelivered(
            epoch=1,
            upto=driver.state.head,
            brief="Book a night bus",
            profile="frugal",
            diff="Book a ~train~ =night bus=",
            calls=("book",),
        )
    )
    await driver.settles(await driver.begins("bus", noun="ticket"))
    await driver.finishes(result=Raw(b'"booked"'))
    await driver.leaves()


async def held(store: Store) -> None:
    """Held by the person and by a cap, with a redirect still to be told and a timer running."""
    driver = await running(store, "r-held", brief="Sort the photos", limits=Limits(tokens=10))
    call = await driver.begins("look", effect=Effect.MODEL)
    await driver.settles(call, Outcome.ABORTED, usage=Usage(12, 0.001))
    await driver.decides(e.TimerSet(epoch=1, name="snooze", until=BEGAN_AT + 3600.0))
    await driver.decides(e.HoldPlaced(cause=Cause.CAP, why="tokens"))
    await pause(store, "r-held")
    await driver.pauses()
    await _redirect(driver, "Only those of 2025", profile="")
    await driver.leaves()


async def handed(store: Store) -> None:
    """Given to a person, taken by one, handed back; then taken from it."""
    driver = await running(store, "r-handed", brief="Answer the customer")
    asked = e.QuestionOpened(epoch=1, kind="human", message="She is angry", step="human:1")
    await driver.decides(asked, e.HoldPlaced(cause=Cause.HUMAN, why="She is angry"))
    await driver.pauses()
    await ask(store, e.TakenOver(who=ANN), "r-handed")
    await ask(store, e.HandedBack(who=ANN, note="I have called her"), "r-handed")
    await ask(store, e.TakenOver(who=ANN), "r-handed")
    await driver.pauses()
    await driver.leaves()


async def stopping(store: Store) -> None:
    """In the middle of a cancel: one effect still in flight, another being undone."""
    driver = await running(store, "r-stopping", brief="Move the files")
    moved = await driver.begins("move", noun="file", undoable=True)
    await driver.settles(moved)
    await driver.begins("copy", noun="copy")
    await cancel(store, "r-stopping")
    await driver.reads_again()
    await driver.decides(e.UndoStarted(epoch=1, effect=moved, idempotency_key="move#1:undo"))


async def cancelled(store: Store) -> None:
    """Cancelled with something in flight and a question open; undone in reverse; work saved."""
    driver = await running(store, "r-cancelled", brief="Plan the party")
    for noun in ("calendar entry", "reservation"):
        await driver.settles(await driver.begins(noun, noun=noun, undoable=True))
    await driver.settles(await driver.begins("post", noun="announcement"))
    paying = await driver.begins("pay", noun="payment", undoable=True)
    await driver.asks("Invite Carol too?")
    await cancel(store, "r-cancelled")
    await driver.settles(paying, Outcome.NOT_DONE)
    await _undo(driver, 6, undone=True)
    await _undo(driver, 4, undone=False, why="calendar is read-only")
    await driver.decides(e.WorkSaved(epoch=1, what=("guest list", "draft of the invitation")))
    await driver.finishes("cancelled")
    await driver.leaves()


async def killed(store: Store) -> None:
    """Killed with effects in flight, whose outcome comes late; recovered after the release."""
    driver = await running(store, "r-killed", brief="Pay the suppliers")
    payment = await driver.begins("pay", noun="payment", irreversible=True)
    note = await driver.begins("note", noun="note", undoable=True)
    resting = await running(store, "r-resting", brief="Ask about Friday")
    await resting.asks("Friday?", expires_at=BEGAN_AT + 86_400.0)
    await resting.waits()
    await store.kill("agent:clerk", OLGA, "paid twice")
    await tell(store, e.AttemptSettled(epoch=1, attempt=payment, outcome=Outcome.DONE), "r-killed")
    await ask(store, e.Recovered(who=OLGA), "r-killed")
    await store.release("agent:clerk", OLGA)
    await resume(store, "r-killed")
    driver = await drive(store, "r-killed", driver="d-2")
    await driver.decides(e.RunEntered(epoch=driver.epoch, why="recovery"))
    await driver.settles(note, Outcome.UNKNOWN, error="worker lost")
    await driver.finishes("failed", error="nobody knows about the note")
    await driver.leaves()


async def asked(store: Store) -> None:
    """Three questions: answered, expired, and left open while the work goes on."""
    driver = await running(store, "r-asked", brief="Order lunch")
    which = await driver.asks(
        "Soup or salad?", schema=Raw(b'{"enum":["soup","salad"]}'), step="order#1"
    )
    when = await driver.asks("When?", expires_at=BEGAN_AT + 30.0)
    await driver.asks("Allergies?", answerers=("ann", "operator"))
    await driver.waits()
    answer = e.QuestionAnswered(who=ANN, key="k-1", question=which, payload=Raw(b'"soup"'))
    await ask(store, answer, "r-asked")
    await driver.reads_again()
    await driver.decides(e.QuestionClosed(question=when, why="expired"))
    await driver.decides(e.WaitEnded(epoch=1))


async def declined(store: Store) -> None:
    """Two questions that nobody needs to answer any more: the person has said so."""
    driver = await running(store, "r-declined", brief="Order lunch")
    first, second = await driver.asks("Soup or salad?"), await driver.asks("Coffee?")
    await driver.waits()
    for question in (first, second):
        await ask(store, e.QuestionAnswered(who=ANN, question=question, declined=True), driver.run)
    await driver.reads_again()


async def steered(store: Store) -> None:
    """Entered again by a redirect, with one effect kept; comes back to a world that has changed."""
    driver = await running(
        store,
        "r-steered",
        brief="Invite all customers",
        limits=Limits(steps=5, repeats=2),
        fork_of="r-older",
        fork_at=9,
        inherited=("list of customers",),
    )
    await driver.settles(await driver.begins("invite", noun="invitation", undoable=True))
    await _redirect(driver, "Invite EU customers", profile="")
    await driver.decides(
        e.RedirectDelivered(epoch=1, upto=driver.state.head, brief="Invite EU customers")
    )
    await driver.decides(e.RunEntered(epoch=1, why="redirected"))
    await _says(driver, e.StepReused(epoch=1, step="invite#1"))
    await _says(driver, e.StepLeft(epoch=1, step="weather:1", name="weather", waited=2.5))
    await driver.decides(
        e.GuardSet(epoch=1, name="prices.csv", kind="file", fingerprint="9f2c"),
        e.NoticeGiven(epoch=1, kind="cap:steps:5", text="steps: 80% of 5 is used"),
        e.Spoke(epoch=1, step="say:5f1d"),
    )
    await ask(store, e.PauseRequested(who=ANN, scope="this"), "r-steered")
    await driver.reads_again()
    await driver.pauses()
    await ask(store, e.LimitsRaised(who=ANN, limits=Limits(steps=9)), "r-steered")
    await resume(store, "r-steered")
    await driver.reads_again()
    await driver.decides(
        e.HoldPlaced(cause=Cause.STALE, why="prices.csv has changed"),
        e.QuestionOpened(epoch=1, kind="stale", message="prices.csv has changed. Go on?"),
    )
    question = driver.state.head
    await driver.pauses()
    await ask(store, e.QuestionAnswered(who=ANN, question=question), "r-steered")
    await driver.reads_again()
    await driver.decides(
        e.GuardSet(epoch=1, name="prices.csv", kind="file", fingerprint="*", why="accepted"),
        e.RecordsDropped(epoch=1, steps=("look:77",)),
        e.HoldLifted(cause=Cause.STALE),
    )
    await driver.decides(
        e.ChildSpawned(epoch=1, child="r-child", agent="filer", brief="File it", step="spawn:1")
    )
    spent = Usage(tokens=7, usd=0.1)
    settled = e.ChildSettled(
        epoch=1, child="r-child", outcome="done", usage=spent, steps=2, tool_calls=3
    )
    await _says(driver, settled)
    await driver.finishes(result=Raw(b'"invited"'))
    await driver.leaves()


async def capped(store: Store) -> None:
    """One cap is raised and the others stay; a thread that cannot be stopped; no caps any more."""
    driver = await running(store, "r-capped", limits=Limits(steps=5, usd=1.0))
    engraving = await driver.begins("engrave", noun="engraving", in_thread=True)
    await ask(store, e.LimitsRaised(who=ANN, limits=Limits(steps=9)), "r-capped")
    await driver.settles(engraving)
    await ask(store, e.LimitsRaised(who=ANN, limits=Limits(), no_caps=True), "r-capped")
    await driver.reads_again()
    await driver.finishes()
    await driver.leaves()


async def thread(store: Store) -> None:
    """A conversation: messages read, edited, taken back; a run parked, and taken up again."""
    await open_thread(store, "t-talk", title="Travel")
    first = await running(store, "r-first", thread="t-talk", brief="Find flights")
    await _both(store, first, (t.FrontChanged(run="r-first"),), ())
    for text in ("Aisle seat, please", "And a vegan mael", "Forget the last one", "Also: hotels"):
        await say(store, text, "t-talk")
    await ask(store, t.MessageEdited(who=ANN, message=4, text="And a vegan meal"), "t-talk")
    await ask(store, t.MessageWithdrawn(who=ANN, message=5), "t-talk")
    taken = e.MessagesTaken(run="r-first", upto=4, messages=(3, 4))
    await _both(store, first, (taken, t.Said(run="r-first", text="Noted.")), (taken,))
    await _both(
        store,
        first,
        (
            t.MessageTriaged(message=6, choice="switch", run="r-first", why="another task"),
            t.TodoAdded(kind="parked", text="Resume flights", run="r-first", note="step 3"),
            t.FrontChanged(run=""),
        ),
        (e.HoldPlaced(cause=Cause.PARKED, why="switched to hotels"),),
    )
    await first.pauses()
    await _thread(
        store,
        t.TodoAdded(kind="deferred", text="Find hotels", message=6),
        t.TodoAdded(kind="deferred", text="Check the visa"),
        t.TodoAdded(kind="deferred", text="Buy a map"),
    )
    order = [todo.position for todo in (await thread_state(store, "t-talk")).next_todos]
    await ask(store, t.TodosReordered(who=ANN, order=(order[2], order[0])), "t-talk")
    await ask(store, t.TodoRemoved(who=ANN, todo=order[3]), "t-talk")
    await _both(
        store,
        first,
        (t.TodoTaken(todo=order[0], run="r-first"), t.FrontChanged(run="r-first")),
        (e.HoldLifted(cause=Cause.PARKED),),
    )
    await say(store, "How is it going?", "t-talk")


async def conversation(store: Store) -> None:
    """An agent that converses: a switch, a choice overruled, a side question, todos wanted."""
    await open_thread(store, "t-talk", title="Shop")
    first = await running(
        store, "r-first", thread="t-talk", brief="Count the stock", converses=True, asides=True
    )
    host = t.FrontChanged(
        run="r-first", agent="clerk", mode=Mode.BOUNDARY, limits=Limits(usd=0.5), asides=True
    )
    await _both(store, first, (host,), ())
    for text in ("Order paper now", "Sweep the floor", "Stop"):
        await say(store, text, "t-talk")
    triage = await first.begins("triage:5", effect=Effect.MODEL, tool="midflight.triage")
    await first.settles(triage, result=Raw(b'[{"message":3,"action":"switch"}]'), usage=Usage(90))
    created = e.RunCreated(
        who=ANN,
        agent="clerk",
        thread="t-talk",
        brief="Order paper now",
        converses=True,
        asides=True,
        thread_at=5,
        messages=(3,),
    )
    await store.append(Append(new_id(), (Entry("r-second", 0, (created,)),)))
    parked = t.TodoAdded(
        kind="parked", text="resume Count the stock", run="r-first", note="half", until="r-second"
    )
    await _both(
        store,
        first,
        (
            t.MessageTriaged(message=3, choice="switch", run="r-second"),
            parked,
            t.FrontChanged(run="r-second"),
            e.MessagesTaken(run="r-second", upto=3, messages=(3,)),
            t.MessageTriaged(message=4, choice="incorporate", run="r-second", why="small"),
        ),
        (e.HoldPlaced(cause=Cause.PARKED, why="until 'Order paper now' is done"),),
    )
    await first.pauses()
    await ask(store, t.ChoiceOverruled(who=ANN, message=4, choice="defer"), "t-talk")
    await _thread(
        store,
        t.MessageTriaged(message=4, choice="defer"),
        t.TodoAdded(kind="deferred", text="Sweep the floor", message=4),
    )
    await ask(store, t.AsideAsked(who=ANN, text="How much is left?", run="r-second"), "t-talk")
    await _thread(store, t.Said(run="r-second", text="working", kind="aside"))
    todos = (await thread_state(store, "t-talk")).next_todos
    await ask(store, t.TodoWanted(who=ANN, todo=todos[1].position), "t-talk")
    await _thread(
        store,
        t.TodoTaken(todo=todos[1].position, run="r-third"),
        t.TodoDropped(todo=todos[0].position, why="its run has ended"),
        t.MessageTriaged(message=5, choice="pause", run="r-second", why="a stop word"),
    )


async def spoken(store: Store) -> None:
    """A listener cuts words short: those that were whole on record, and those that never ended."""
    await open_thread(store, "t-talk", title="On the phone")
    await running(store, "r-first", thread="t-talk", brief="Sum it up")
    await _thread(store, t.Said(run="r-first", text="Here is the summary you asked for."))
    said = (await thread_state(store, "t-talk")).head
    heard = t.SpeechHeard(who=ANN, run="r-first", text="Here is the", of=said)
    await ask(store, heard, "t-talk")
    await say(store, "Only the EU", "t-talk")
    await ask(store, t.SpeechHeard(who=ANN, run="r-first", text="In the EU there"), "t-talk")
    left = t.SpeechHeard(who=ANN, run="r-first", text="In the US", how=t.HUNG_UP)
    await ask(store, left, "t-talk")
    await _thread(store, t.Said(run="r-first", text="In the US it was more."))


async def abandoned(store: Store) -> None:
    """A run that has looked for messages loses its driver; the next one says how long it lived."""
    async with store.lease("d-1"):
        driver = await running(store, "r-abandoned", brief="Count the stock")
        await driver.decides(e.InboxOpened(epoch=1), e.PlanSet(epoch=1, steps=("Count",)))
    await pause(store, "r-abandoned")
    await resume(store, "r-abandoned")
    async with store.lease("d-2"):
        epoch = await claim(store, "r-abandoned", driver="d-2")
        await driver.reads_again()
        await driver.decides(e.RunFinished(epoch=epoch, outcome="done"))


STORIES: Final[dict[str, Callable[[Store], Awaitable[None]]]] = {
    "done": done,
    "undone": undone,
    "redirected": redirected,
    "held": held,
    "handed": handed,
    "stopping": stopping,
    "cancelled": cancelled,
    "killed": killed,
    "asked": asked,
    "declined": declined,
    "steered": steered,
    "capped": capped,
    "thread": thread,
    "conversation": conversation,
    "spoken": spoken,
    "abandoned": abandoned,
}


# ── their words ──────────────────────────────────────────────────────────────────────────────


async def _says(driver: Driver, fact: Fact) -> None:
    await tell(driver.store, fact, driver.run)
    await driver.reads_again()


async def _redirect(driver: Driver, text: str, profile: str) -> None:
    request = e.RedirectRequested(who=ANN, text=text, profile=profile)
    await ask(driver.store, request, driver.run)
    await driver.reads_again()


async def _undo(driver: Driver, effect: int, *, undone: bool, why: str = "") -> None:
    epoch, key = driver.epoch, driver.state.effects[effect].key
    started = e.UndoStarted(epoch=epoch, effect=effect, idempotency_key=f"{key}:undo")
    at = (await driver.decides(started)).position(driver.run)
    await _says(driver, e.UndoSettled(epoch=epoch, undo=at, undone=undone, why=why))


async def _thread(store: Store, *events: Event) -> None:
    head = (await thread_state(store, "t-talk")).head
    await store.append(decision("t-talk", head, *events))


async def _both(
    store: Store, driver: Driver, thread: tuple[Event, ...], run: tuple[Event, ...]
) -> None:
    """One decision over the thread and a run."""
    head = (await thread_state(store, "t-talk")).head
    entries = (Entry("t-talk", head, thread), Entry(driver.run, driver.state.head, run))
    await store.append(Append(new_id(), entries))
    await driver.reads_again()


# ── writing ──────────────────────────────────────────────────────────────────────────────────


async def play(story: Callable[[Store], Awaitable[None]]) -> list[Recorded]:
    """Play a story, and give its journals one after the other."""
    seconds = count(BEGAN_AT)
    store = MemoryStore(clock=lambda: float(next(seconds)))
    await story(store)
    rows = await store.rows(Query()) + await store.rows(Query(kind="thread"))
    journals = sorted(row.journal for row in rows)
    return [record for journal in journals for record in await read_all(store, journal)]


def write(folder: Path) -> None:
    """Add the stories that the folder does not have; refuse to touch those it has."""
    folder.mkdir(exist_ok=True)
    for name, story in STORIES.items():
        records = anyio.run(play, story)
        told = {journal: meaning(state) for journal, state in folded(records).items()}
        with (folder / f"{name}.jsonl").open("xb") as rows:
            rows.writelines(line(record) + b"\n" for record in records)
        with (folder / f"{name}.json").open("xb") as expected:
            expected.write(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")


if __name__ == "__main__":
    write(FOLDER / sys.argv[1])
