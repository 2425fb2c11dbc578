"""Runs in the terminal: watched and steered by keys, on a store or on a server."""

from importlib.util import find_spec

if find_spec("textual") is None:
    raise ImportError("midflight.tui needs an extra: pip install 'midflight[tui]'")
