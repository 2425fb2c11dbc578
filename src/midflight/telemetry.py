"""Spans for OpenTelemetry: made only of what is on record, and with the times of the record.

::

    async with midflight.open("runs.db", agents=[report]) as client, tracing(client):
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import anyio
from msgspec import Struct

from midflight.client import Client, control_of
from midflight.control import Control
from midflight.errors import JournalNotFound, StoreError, to_install
from midflight.journal import events as e
from midflight.journal.fold import advance
from midflight.journal.phases import Outcome, Phase
from midflight.journal.record import Recorded, Usage
from midflight.journal.state import RunState
from midflight.stores.hints import Movements
from midflight.stores.protocol import RUN_PREFIX
from midflight.tasks import owned_tasks
from midflight.tools.secret import clean_logger

try:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        INVALID_SPAN,
        Link,
        NonRecordingSpan,
        Span,
        SpanContext,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
except ImportError as missing:
    if not (missing.name or "").startswith("opentelemetry"):
        raise
    raise ImportError(f"midflight.telemetry needs an extra: {to_install('otel')}") from None

__all__ = ["tracing"]

NANOSECONDS: Final = 1_000_000_000
SETTLE_S: Final = 2.0  # what the last look may take
AGAIN_S: Final = 1.0  # before a store that is out of reach is asked again
WRONG: Final = frozenset({Outcome.FAILED, Outcome.UNKNOWN})
log: Final = clean_logger(__name__)
Said = dict[str, str | int | float | bool]


class Begun(Struct, frozen=True):
    """Something whose end is awaited: when it began, what it is called, what is known of it."""

    at: float
    name: str
    said: Said


class Told(Struct, frozen=True):
    """The position up to which an ended run was told, and the span of that run."""

    upto: int
    span: SpanContext


class RunSpans:
    """Tells one run: what is on record from ``since`` on, and behind what was ``told`` before."""

    def __init__(self, tracer: Tracer, run: str, *, since: float, told: Told | None = None) -> None:
        self.state = RunState(run)
        self._tracer = tracer
        self._since = since
        self._upto = told.upto if told else 0
        self._span: Span = NonRecordingSpan(told.span) if told else INVALID_SPAN
        self._attempts: dict[int, Begun] = {}
        self._tried: set[str] = set()
        self._undos: dict[int, tuple[Begun, int]] = {}
        self._requests: dict[int, Begun] = {}
        self._effects: dict[int, SpanContext] = {}

    @property
    def context(self) -> Context:
        """The context in which spans below this run are made, with the run's span as parent."""
        return set_span_in_context(self._span, Context())

    @property
    def told(self) -> Told:
        """The position and the span to go on from, if the run moves again after its end."""
        return Told(self.state.head, self._span.get_span_context())

    def begin(self, above: Context) -> None:
        """Open the run's span: where it began, or where somebody has begun to look."""
        state, at = self.state, self.state.created_at
        said: Said = {
            "midflight.run": state.journal,
            "midflight.thread": state.thread,
            "midflight.agent": state.agent,
            "midflight.mode": str(state.mode),
            "midflight.continued": at < self._since,
        }
        start = _ns(max(at, self._since))
        self._span = self._tracer.start_span(
            f"run {state.agent}", context=above, attributes=said, start_time=start
        )

    def end(self, at: float) -> None:
        """Close the run's span: it has ended, or nobody looks any more."""
        state, span = self.state, self._span
        if not span.is_recording():
            return
        span.set_attribute("midflight.phase", str(state.phase))
        span.set_attribute("midflight.steps", state.spent.steps)
        span.set_attribute("midflight.tokens", state.spent.tokens)
        if not state.spent.unpriced:  # one unknown price makes the sum unknown
            span.set_attribute("midflight.usd", state.spent.usd)
        if state.phase in {Phase.FAILED, Phase.KILLED}:
            span.set_status(Status(StatusCode.ERROR, state.error or str(state.phase)))
        span.end(_ns(max(at, self._since)))

    # ── what a record says ───────────────────────────────────────────────────────────────────

    def take(self, record: Recorded) -> None:
        """Fold one record, and tell what has ended with it."""
        event, at = record.event, record.position
        advance(self.state, record)
        match event:
            case e.AttemptStarted():
                said: Said = {
                    "midflight.step": _shown(event.step),
                    "midflight.tool": event.tool,
                    "midflight.effect": str(event.effect),
                    "midflight.irreversible": event.irreversible,
                }
                self._attempts[at] = Begun(record.at, _label(event.name), said)
                self._tried.add(event.step)
            case e.AttemptSettled() | e.LateOutcome():
                self._settle(event, record)
            case e.StepSettled():
                self._read(event, record)
            case e.UndoStarted():
                noun = self.state.effects[event.effect].noun
                begun = Begun(record.at, f"undo {noun}", {"midflight.effect_at": event.effect})
                self._undos[at] = begun, event.effect
            case e.UndoSettled() if event.undo in self._undos:
                self._undone(event, record)
            case _:
                self._request(record)
        self._deliver(record)

    def _settle(self, event: e.AttemptSettled | e.LateOutcome, record: Recorded) -> None:
        begun = self._attempts.pop(event.attempt, None)
        said: Said = {"midflight.outcome": str(event.outcome), **_spent(event.usage)}
        if begun is None:  # it was told as unknown, and now somebody knows
            if self._is_news(record):
                self._span.add_event("outcome learned", said, _ns(record.at))
            return
        wrong = (event.error or str(event.outcome)) if event.outcome in WRONG else ""
        told = self._tell(begun, record, said, wrong=wrong)
        if event.attempt in self.state.effects and told is not None:
            self._effects[event.attempt] = told

    def _read(self, event: e.StepSettled, record: Recorded) -> None:
        """Tell of a plain read: only its end is on record, so its span has no length.

        A step that was not permitted is told in the same way. One that had attempts is not told
        here: the spans of its attempts tell how it has ended.
        """
        if event.step in self._tried:
            return
        said: Said = {"midflight.step": _shown(event.step)}
        self._tell(Begun(record.at, _label(event.name), said), record, {}, wrong=event.error)

    def _undone(self, event: e.UndoSettled, record: Recorded) -> None:
        begun, effect = self._undos.pop(event.undo)
        link = self._effects.get(effect)
        wrong = "" if event.undone else event.why or "not undone"
        self._tell(begun, record, {"midflight.undone": event.undone}, wrong=wrong, link=link)

    def _request(self, record: Recorded) -> None:
        delivery = self.state.deliveries.get(record.position)
        if delivery is not None:
            who = getattr(record.event, "who", None)
            by = {"midflight.role": str(who.role), "midflight.channel": who.channel} if who else {}
            said, name = {**by}, f"control {delivery.verb}"
            self._requests[record.position] = Begun(record.at, name, said)

    def _deliver(self, record: Recorded) -> None:
        """End the spans of controls that were applied, or that another control has replaced."""
        for position in list(self._requests):
            status = self.state.deliveries[position].status
            if status != "accepted":
                begun = self._requests.pop(position)
                self._tell(begun, record, {"midflight.delivery": status})

    def _is_news(self, record: Recorded) -> bool:
        return record.at >= self._since and record.position > self._upto

    def _tell(
        self,
        begun: Begun,
        record: Recorded,
        said: Said,
        *,
        wrong: str = "",
        link: SpanContext | None = None,
    ) -> SpanContext | None:
        if not self._is_news(record):
            return None
        span = self._tracer.start_span(
            begun.name,
            context=self.context,
            attributes={"midflight.run": self.state.journal, **begun.said, **said},
            links=[Link(link)] if link else None,
            start_time=_ns(begun.at),
        )
        if wrong:
            span.set_status(Status(StatusCode.ERROR, wrong))
        span.end(_ns(record.at))
        return span.get_span_context()


def _label(step: str) -> str:
    """Return the name of a step without what an assistant's step is about: that is an argument."""
    return step.partition(": ")[0]


def _shown(identity: str) -> str:
    """Return a step's identity likewise: its label, and the digest that tells it from others."""
    label, about, rest = identity.partition(": ")
    return f"{label}:{rest.rpartition(':')[2]}" if about and ":" in rest else label


def _spent(usage: Usage) -> Said:
    said: Said = {"midflight.tokens": usage.tokens} if usage.tokens else {}
    return said if usage.usd is None or not usage.tokens else {**said, "midflight.usd": usage.usd}


def _ns(at: float) -> int:
    return int(at * NANOSECONDS)


@asynccontextmanager
async def tracing(
    client: Client | Control, *, provider: TracerProvider | None = None
) -> AsyncIterator[None]:
    """Send spans of every run of a store that moves while the block is open.

    ``client`` is one of ``midflight.open``. Spans go to ``provider``, or to the one that the
    program has set. Runs are children of the span that is current here, if there is one. Call it in
    one process of those that share a store, or each of them sends the same spans.
    """
    control = control_of(client)
    tracer = get_tracer("midflight", version("midflight"), provider)
    above = set_span_in_context(get_current_span(), Context())
    follower = Follower(control, tracer, above, since=await control.store.now())
    async with control.store.movements() as movements, owned_tasks() as tasks:
        tasks.start_soon(follower.follow, movements)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(SETTLE_S):
                await follower.finish(movements)


class Follower:
    """The runs of which spans are being made, and how far that has come for ended runs."""

    def __init__(self, control: Control, tracer: Tracer, above: Context, *, since: float) -> None:
        self._store = control.store
        self._tracer, self._above, self._since = tracer, above, since
        self._open: dict[str, RunSpans] = {}
        self._told: dict[str, Told] = {}  # a run that has ended may still be undone
        self._lock = anyio.Lock()

    async def follow(self, movements: Movements) -> None:
        """Follow the runs that move, until cancelled."""
        while True:
            await movements.wait()
            await self._look(movements)

    async def finish(self, movements: Movements) -> None:
        """Tell what has moved last, and close the spans of runs that live on."""
        await self._look(movements)
        now = await self._store.now()
        for spans in self._open.values():
            spans.end(now)
        self._open.clear()

    async def _look(self, movements: Movements) -> None:
        async with self._lock:
            moved = [name for name in movements.take() if name.startswith(RUN_PREFIX)]
            try:
                while moved:
                    await self._catch_up(moved[-1])
                    moved.pop()
            except JournalNotFound:
                moved.pop()  # purged meanwhile
            except StoreError:
                await anyio.sleep(AGAIN_S)
            except Exception:  # no run may end because it cannot be told
                run = moved.pop()
                about = {"action": "not_told", "run": run}
                words = "What happened in run %s could not be passed on to OpenTelemetry"
                log.warning(words, run, exc_info=True, extra=about)
            finally:
                for name in moved:  # is looked at again
                    movements.note(name)

    async def _catch_up(self, run: str) -> RunSpans:
        """Tell what is new of a run."""
        told = self._told.get(run)
        spans = self._open.get(run) or RunSpans(self._tracer, run, since=self._since, told=told)
        while records := await self._store.read(run, after=spans.state.head):
            for record in records:
                spans.take(record)
                if record.position == 1 and told is None:
                    spans.begin(await self._above_of(spans.state.parent))
            self._open[run] = spans
        if not spans.state.alive:
            spans.end(spans.state.at)
            self._told[run] = spans.told
            self._open.pop(run, None)
        return spans

    async def _above_of(self, parent: str) -> Context:
        """Return the context for a run's span: its parent's, or the one that was current here."""
        if not parent:
            return self._above
        return (self._open.get(parent) or await self._catch_up(parent)).context
