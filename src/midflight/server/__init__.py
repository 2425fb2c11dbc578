"""Runs over HTTP: verbs, state, one event stream, access. Translates; Control and kernel decide."""

from importlib.util import find_spec

if find_spec("fastapi") is None or find_spec("uvicorn") is None:
    raise ImportError("midflight.server needs an extra: pip install 'midflight[server]'")
