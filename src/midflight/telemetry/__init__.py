"""Spans for OpenTelemetry, told from the journals: runs, steps, controls, undos.

::

    async with local("runs.db", report) as control, tracing(control):
        ...
"""

try:
    from midflight.telemetry.following import tracing
except ImportError as missing:
    if not (missing.name or "").startswith("opentelemetry"):
        raise
    raise ImportError("midflight.telemetry needs an extra: pip install 'midflight[otel]'") from None

__all__ = ["tracing"]
