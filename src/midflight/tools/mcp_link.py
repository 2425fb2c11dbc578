"""One connection to an MCP server: opening, owning and closing it, and noticing that it broke.

A server on standard input runs under our supervisor: it ends with all its processes when we close,
and also when we are killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio

from midflight.errors import InvalidTool, to_install
from midflight.tools.processes.supervised import SUPERVISOR
from midflight.tools.secret import Secret

try:
    import httpx2
    from mcp import Client, MCPError, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import CallToolResult
except ImportError as error:
    raise InvalidTool("mcp", f"it needs the extra `mcp`: {to_install('mcp')}") from error

CONNECT_S: Final = 20.0
CLOSE_S: Final = 15.0  # the SDK closes, waits and kills in less
GRACE_S: Final = 1.0  # for the supervisor to end the tree; then the SDK would kill it
TIMEOUT_S: Final = 600.0

Connect = Callable[[], AbstractAsyncContextManager[Client]]
BROKEN: Final = (
    MCPError,
    OSError,  # also a TimeoutError
    RuntimeError,
    ValueError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    httpx2.HTTPError,
)
"""The errors of the SDK for a server that cannot be reached, or answers nonsense."""


class Link:
    """One connection. The SDK wants it closed by the task that opened it: this is that task."""

    def __init__(self, connect: Connect) -> None:
        self.client: Client | None = None
        self.error: BaseException | None = None
        self.ready = anyio.Event()
        self._connect = connect
        self._scope = anyio.CancelScope()
        self._enough = anyio.Event()
        self._ended = anyio.Event()

    @property
    def works(self) -> bool:
        """True if the connection is open or being opened."""
        return not (self._enough.is_set() or self._ended.is_set())

    async def own(self) -> None:
        """Open the connection, and close it when told to. It keeps an error, and raises none."""
        try:
            with self._scope:
                async with self._connect() as client:
                    vars(client.session)["validate_tool_result"] = _as_it_comes
                    self.client = client
                    self.ready.set()
                    await self._enough.wait()
        except Exception as error:  # noqa: BLE001 - the edge of the SDK: kept, and told to callers
            self.error = error
        finally:
            self.client = None
            self.ready.set()
            self._ended.set()

    async def close(self) -> None:
        """Have it closed, and wait for that as long as it may take."""
        self._enough.set()
        if self.client is None:
            self._scope.cancel()  # it is still being opened; the SDK shields its own clean-up
        with anyio.move_on_after(CLOSE_S):
            await self._ended.wait()
        self._scope.cancel()


async def _as_it_comes(_name: str, _result: CallToolResult) -> None:
    """Take a result as it is, without the SDK's check: the call was done, whatever its answer.

    A server could also stop our whole process with a bad regular expression in its schema, and a
    text on which that takes for ever.
    """


@asynccontextmanager
async def over_pipes(
    command: Sequence[str],
    env: dict[str, str],
    cwd: str | os.PathLike[str] | None,
    log: str | os.PathLike[str],
) -> AsyncIterator[Client]:
    """To a program of this machine, under our supervisor."""
    supervisor = [sys.executable, "-I", "-S", "-X", "utf8", SUPERVISOR]
    ours = ["-", "-", str(os.getpid()), "", str(GRACE_S), "", ""]
    program, *arguments = [*supervisor, *ours, *command]  # layer server-runs-under-supervisor
    server = StdioServerParameters(
        command=program, args=arguments, env=env, cwd=os.fspath(cwd) if cwd else None
    )
    with open(log, "a", encoding="utf-8") as errors:  # noqa: ASYNC230 - once, and it is handed on
        async with Client(stdio_client(server, errlog=errors), cache=None) as client:
            yield client


@asynccontextmanager
async def over_http(url: str, headers: dict[str, str | Secret]) -> AsyncIterator[Client]:
    """To a server somewhere else."""
    plain = {k: v.reveal() if isinstance(v, Secret) else v for k, v in headers.items()}
    limits = httpx2.Timeout(CONNECT_S, read=TIMEOUT_S)
    async with (
        httpx2.AsyncClient(headers=plain, timeout=limits) as http,
        Client(streamable_http_client(url, http_client=http), cache=None) as client,
    ):
        yield client


def words(error: BaseException | None) -> str:
    """Return the message of an error, also where the SDK has wrapped it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return f"it did not answer within {CONNECT_S:g} s"
    return str(error) or type(error).__name__
