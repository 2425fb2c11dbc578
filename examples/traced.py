"""A run as OpenTelemetry spans: its steps, a cancel, and what the cancel undid.

This program needs ``pip install 'midflight[otel]' opentelemetry-sdk``. It prints the spans. With
another exporter the provider sends them where your other spans go.
"""

from __future__ import annotations

import asyncio
import tempfile

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import midflight
from midflight import Run, agent, tool
from midflight.telemetry import tracing


@tool(effect="once", label="draft", undo=lambda made: None)
async def write_draft(name: str) -> str:
    """Write a draft, which can be undone."""
    await asyncio.sleep(0.05)
    return name


@tool(effect="once", label="walk")
async def walk() -> None:
    """Take a long time."""
    await asyncio.sleep(60)


@agent
async def writer(run: Run) -> None:
    """Write two drafts, and take a long walk."""
    for name in ("summary", "details"):
        await run.step(f"Write {name}", write_draft, name)
    await run.step("Think about it", walk)


def line(span: ReadableSpan, began: int) -> str:
    """Return ``+12 ms  run writer (103 ms)``, with what became of it."""
    start, end = span.start_time or 0, span.end_time or 0
    said = span.attributes or {}
    words = [said.get(f"midflight.{name}") for name in ("phase", "outcome", "delivery")]
    became = next((word for word in words if word), "")
    below = "  " if span.parent else ""
    at, took = (start - began) / 1e6, (end - start) / 1e6
    return f"+{at:4.0f} ms {below}{span.name} ({took:.0f} ms) {became}"


async def main() -> None:
    """Cancel the writer in the middle of its walk."""
    told = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(told))
    async with midflight.open("memory:", agents=[writer], workdir=tempfile.mkdtemp()) as client:
        async with tracing(client, provider=provider):
            run = await client.start(writer, "write")
            await run.until(lambda s: any(a.noun == "walk" for a in s.open.values()))
            await run.cancel_and_wait()
        spans = sorted(told.get_finished_spans(), key=lambda span: span.start_time or 0)
        for span in spans:
            print(line(span, spans[0].start_time or 0))


if __name__ == "__main__":
    asyncio.run(main())
