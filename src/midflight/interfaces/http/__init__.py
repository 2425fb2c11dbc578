"""Runs over HTTP: verbs, state, one event stream, access. Translates; Control decides."""

from importlib.util import find_spec

from midflight.errors import to_install

if find_spec("fastapi") is None or find_spec("uvicorn") is None:
    raise ImportError(f"midflight.interfaces.http needs an extra: {to_install('server')}")
