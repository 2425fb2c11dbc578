"""Runs in the terminal: watched and steered by keys, on a store or on a server."""

from importlib.util import find_spec

from midflight.errors import to_install

if find_spec("textual") is None:
    raise ImportError(f"midflight.interfaces.tui needs an extra: {to_install('tui')}")
