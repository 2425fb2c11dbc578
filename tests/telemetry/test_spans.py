"""Spans tell what is on record: with the real SDK, into its memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from typing_extensions import override

import midflight
from midflight import Actor, EffectRecord, Run, agent, tool
from midflight.agents import Agent
from midflight.control import Control, local
from midflight.errors import InvalidRequest, to_install
from midflight.journal.phases import Role
from midflight.telemetry import tracing

pytestmark = pytest.mark.anyio

SECRET = "xylophone"
OLGA = Actor(by="olga", role=Role.OPERATOR)


@tool(effect="read", name="traced.look")
async def look(what: str) -> str:
    return what.upper()


def take_away(_made: EffectRecord) -> None:
    pass


@tool(effect="once", name="traced.make", label="draft", undo=take_away)
async def make(what: str) -> str:
    await anyio.sleep(0.02)
    return what


@tool(effect="once", name="traced.wait", label="walk")
async def wait() -> None:
    await anyio.sleep(30)


@tool(effect="write", name="traced.fail", label="jump")
async def fail() -> None:
    raise ValueError("too high")


@agent()
async def child(run: Run) -> str:
    return str(await run.step("Look around", look, run.brief))


@agent()
async def works(run: Run) -> str:
    await run.step("Look", look, SECRET)
    await run.step("Make a draft", make, SECRET)
    await (await run.spawn(child, "help")).result()
    if run.brief == "wait":
        await run.step("Go for a walk", wait)
    if run.brief == "fail":
        await run.step("Jump", fail)
    return SECRET


class Told:
    """The spans that have come so far."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = (span for span in self.spans if span.name == name)
        return found

    async def of(self, name: str) -> ReadableSpan:
        """Wait for a span."""
        ends = anyio.current_time() + 20
        for _ in iter(lambda: name in self.names or anyio.current_time() > ends, True):
            await anyio.sleep(0.01)
        return self.named(name)

    @property
    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)


@asynccontextmanager
async def traced(folder: Path, *agents: Agent) -> AsyncIterator[tuple[Control, Told]]:
    told = Told()
    async with (
        local("memory:", *agents, workdir=folder) as control,
        tracing(control, provider=told.provider),
    ):
        yield control, told


async def at_the_walk(control: Control, run: str) -> None:
    with anyio.fail_after(20):
        await control.until(run, lambda s: any(a.name == "Go for a walk" for a in s.open.values()))


def said(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {})[f"midflight.{name}"]


def is_below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == parent.context.span_id


async def test_a_run_its_steps_and_its_background_run_are_one_trace(tmp_path: Path) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        run = await control.start(works, "work", who=OLGA)
        await control.result(run)
        records = await control.store.read(run)

    assert told.names == ["Look", "Look around", "Make a draft", "run child", "run works"]
    whole, made, helped = (told.named(n) for n in ("run works", "Make a draft", "run child"))
    assert is_below(made, whole)
    assert is_below(told.named("Look"), whole)
    assert is_below(helped, whole)
    assert is_below(told.named("Look around"), helped)
    assert (said(whole, "phase"), said(whole, "run"), said(whole, "steps")) == ("done", run, 3)
    assert (said(made, "effect"), said(made, "outcome")) == ("once", "done")
    times = {type(r.event).__name__: int(r.at * 1e9) for r in records}
    assert (made.start_time, made.end_time) == (times["AttemptStarted"], times["AttemptSettled"])
    assert (whole.start_time, whole.end_time) == (times["RunCreated"], times["RunFinished"])


async def test_a_cancel_is_told_from_its_acknowledgement_to_its_end_and_each_undo_of_it(
    tmp_path: Path,
) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        run = await control.start(works, "wait", who=OLGA)
        await at_the_walk(control, run)
        await control.cancel(run, who=OLGA)
        await control.ended(run)

    cancelled, undone = told.named("control cancel"), told.named("undo draft")
    assert (said(cancelled, "role"), said(cancelled, "delivery")) == ("operator", "applied")
    assert said(told.named("run works"), "phase") == "cancelled"
    assert said(undone, "undone") is True
    (link,) = undone.links
    assert link.context.span_id == told.named("Make a draft").context.span_id
    assert (cancelled.start_time or 0) < (undone.start_time or 0) < (cancelled.end_time or 0)
    walk = told.named("Go for a walk")
    assert (said(walk, "outcome"), walk.status.status_code) == ("unknown", StatusCode.ERROR)


async def test_what_fails_is_an_error_and_says_why(tmp_path: Path) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        await control.ended(await control.start(works, "fail"))

    for name in ("Jump", "run works"):
        status = told.named(name).status
        assert status.status_code is StatusCode.ERROR
        assert "too high" in (status.description or "")
    assert told.named("run child").status.status_code is StatusCode.UNSET


async def test_a_kill_ends_the_span_of_the_run_at_once(tmp_path: Path) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        run = await control.start(works, "wait")
        await at_the_walk(control, run)
        await control.kill("all", who=OLGA)
        await control.ended(run)

    killed = told.named("run works")
    assert (said(killed, "phase"), killed.status.status_code) == ("killed", StatusCode.ERROR)
    assert "Go for a walk" not in told.names  # nobody knows how it ended


async def test_an_undo_after_the_end_is_told_under_the_same_run_and_nothing_twice(
    tmp_path: Path,
) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        run = await control.start(works, "work")
        await control.result(run)
        await told.of("run works")
        await control.undo(run, who=OLGA)
        await control.until(run, lambda state: not (state.undo_wanted or state.undos))

    assert is_below(told.named("undo draft"), told.named("run works"))
    assert is_below(told.named("control undo"), told.named("run works"))
    assert len(told.names) == len(set(told.names))


async def test_who_comes_late_tells_what_is_new_and_who_leaves_early_what_was_so_far(
    tmp_path: Path,
) -> None:
    told = Told()
    async with local("memory:", works, child, workdir=tmp_path) as control:
        run = await control.start(works, "wait")
        await at_the_walk(control, run)
        async with tracing(control, provider=told.provider):
            await control.pause(run, who=OLGA)  # and the walk is finished first
        assert told.names == ["run works"]
        whole = told.named("run works")
        assert (said(whole, "continued"), said(whole, "phase")) == (True, "pausing")
        await control.cancel(run, now=True)
        await control.ended(run)


async def test_a_client_of_a_store_is_traced_and_a_client_of_a_server_is_refused(
    tmp_path: Path,
) -> None:
    told = Told()
    async with (
        midflight.open("memory:", agents=[child], workdir=tmp_path) as client,
        tracing(client, provider=told.provider),
    ):
        run = await client.start(child, "help")
        assert await run.result() == "HELP"
    assert told.names == ["Look around", "run child"]

    async with midflight.connect("http://127.0.0.1:9") as client:
        with pytest.raises(InvalidRequest, match=r"midflight\.open"):
            async with tracing(client, provider=told.provider):
                pass


async def test_what_began_before_and_ends_now_is_told_with_its_own_beginning(
    tmp_path: Path,
) -> None:
    told, go_on = Told(), anyio.Event()

    @tool(effect="once", name="traced.gate", label="gate")
    async def gate() -> None:
        await go_on.wait()

    @agent()
    async def gated(run: Run) -> None:
        await run.step("Make a draft", make, "early")
        await run.step("Stand at the gate", gate)

    async with local("memory:", gated, workdir=tmp_path) as control:
        run = await control.start(gated, "wait")
        await control.until(run, lambda s: any(a.noun == "gate" for a in s.open.values()))
        async with tracing(control, provider=told.provider):
            go_on.set()
            await control.ended(run)
        records = await control.store.read(run)

    assert told.names == ["Stand at the gate", "run gated"]
    *_, began = (r.at for r in records if type(r.event).__name__ == "AttemptStarted")
    stood = told.named("Stand at the gate")
    assert stood.start_time == int(began * 1e9)
    assert (stood.start_time or 0) < (told.named("run gated").start_time or 0)


async def test_no_words_of_people_or_tools_are_in_a_span(tmp_path: Path) -> None:
    async with traced(tmp_path, works, child) as (control, told):
        run = await control.start(works, "wait", title=SECRET, input=SECRET)
        await at_the_walk(control, run)
        await control.redirect(run, SECRET)
        await control.cancel(run, now=True)
        await control.ended(run)

    assert told.spans
    assert SECRET not in "".join(span.to_json() for span in told.spans).lower()


class Broken(TracerProvider):
    @override
    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self  # which has no spans


async def test_a_run_goes_on_although_it_cannot_be_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        local("memory:", works, child, workdir=tmp_path) as control,
        tracing(control, provider=Broken()),
    ):
        assert await control.result(await control.start(works, "work")) == SECRET

    assert "could not be passed on to OpenTelemetry" in caplog.text


def test_without_the_package_the_extra_is_named() -> None:
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "try:\n    import midflight.telemetry\n"
        "except ImportError as missing:\n    print(missing)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip().endswith(to_install("otel"))
