"""Async tests run on asyncio, what the stores are written for; Postgres is a real server.

Properties are drawn the same way on every machine: a red build can be repeated anywhere.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from midflight.tools.declaration import REGISTRY
from shares import Shares, in_order
from stores.backends import postgres_server

if TYPE_CHECKING:
    from playwright.sync_api import Playwright

HURRY = "MIDFLIGHT_HURRY" in os.environ
"""Set by `make check`: a few draws of each, which find what is plainly broken."""

settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=8 if HURRY else 50,
)
settings.load_profile("deterministic")


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # or what tests start under nohup would not hear it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # until all tests are read: nearly all that this makes stays


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What stays is not looked at again: a third of what the tests do themselves would be that."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    return Shares(config, log)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """Its loop runs as long as it is open, and there can be one in a thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """One server for all tests of a session, or of each of its workers."""
    with postgres_server() as address:
        yield address


@pytest.fixture(autouse=True)
def tools_of_this_story() -> Iterator[None]:
    """Tools are found by name in the whole process; those of a story go with it."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.fixture(autouse=True)
def log_of_this_story() -> Iterator[None]:
    """A command that a story runs in this process sets up the log for its own."""
    ours = [logging.getLogger(name) for name in ("midflight", "midflight.runtime.run_session")]
    before = [(one.level, one.handlers[:], one.filters[:]) for one in ours]
    yield
    for one, (level, handlers, filters) in zip(ours, before, strict=True):
        one.setLevel(level)
        one.handlers[:], one.filters[:] = handlers, filters
