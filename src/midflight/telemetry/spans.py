"""Spans of one run, made only of what is on record and with the times of the record.

A span is made when its end is on record, so nothing that was cut off is told as finished. Only the
run's own span is open meanwhile: it is the parent of all others, and of background runs.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
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
    set_span_in_context,
)

from midflight.kernel import events as e
from midflight.kernel.fold import advance
from midflight.kernel.phases import Outcome, Phase
from midflight.kernel.record import Recorded, Usage
from midflight.kernel.state import RunState

NANOSECONDS: Final = 1_000_000_000
WRONG: Final = frozenset({Outcome.FAILED, Outcome.UNKNOWN})
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
