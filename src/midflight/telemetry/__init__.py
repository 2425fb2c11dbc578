"""Spans for OpenTelemetry, told from the journals: runs, steps, controls, undos.

::

    async with midflight.open("runs.db", agents=[report]) as client, tracing(client):
        ...
"""

from midflight.errors import to_install

try:
    from midflight.telemetry.spans import tracing
except ImportError as missing:
    if not (missing.name or "").startswith("opentelemetry"):
        raise
    raise ImportError(f"midflight.telemetry needs an extra: {to_install('otel')}") from None

__all__ = ["tracing"]
