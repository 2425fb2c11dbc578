"""Tools of MCP servers, with effects that we list and they do not.

``async with McpServer.stdio("crm-server", name="crm", effects={"search": "read"}) as crm`` gives
``crm.tools``. A tool that is not in the listing happens ``once`` and is approved first; what the
server says of itself (``readOnlyHint`` and the like) changes nothing about that. Its descriptions
are data: a model reads them, a person who approves does not.

Before each call the server is asked for its tools again. One that is not as it was when it was
listed is not called: ``await crm.refresh()`` lists anew, and since the rule of an approval holds a
digest of the definition, people are asked again.

A server on standard input runs under our supervisor: it ends with all its processes when we close,
and also when we are killed. One that dies is started again by the next call; what it was doing has
an unknown outcome, unless it was a read.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.abc
import msgspec
from msgspec import Struct

from midflight.errors import InvalidRequest, InvalidTool
from midflight.schemas import check_schema
from midflight.tools.base import Tool, ToolFailed, ToolRefused, tool
from midflight.tools.secret import Secret
from midflight.tools.supervised import SUPERVISOR

try:
    import httpx2
    from mcp import Client, MCPError, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import CallToolResult, ListToolsResult
    from mcp.types import Tool as Listed
except ImportError as error:
    raise InvalidTool("mcp", "it needs the extra `mcp`: pip install 'midflight[mcp]'") from error

CONNECT_S: Final = 20.0
LIST_S: Final = 20.0
CLOSE_S: Final = 15.0  # the SDK closes, waits and kills in less
GRACE_S: Final = 1.0  # for the supervisor to end the tree; then the SDK would kill it
TRIES: Final = 2  # at reaching a server before a call is given up
PAGES_MAX: Final = 50
TOOLS_MAX: Final = 500
TEXT_MAX: Final = 200_000
DATA_BYTES_MAX: Final = 500_000
DESCRIPTION_MAX: Final = 4_000
NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")
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
"""How the SDK says that a server cannot be spoken to, or talks nonsense."""


class McpAnswer(Struct, frozen=True):
    """What a tool of a server has answered. ``error`` is the server's own word for how it went."""

    text: str
    data: Any = None
    error: bool = False
    note: str = ""


class McpServer:
    """A server and its tools, for as long as the block runs."""

    def __init__(
        self,
        connect: Connect,
        *,
        name: str,
        address: tuple[str, ...],
        effects: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
            raise InvalidTool(name, "a server's name is made of letters, digits, - and _")
        self.name = name
        self.tools: tuple[Tool, ...] = ()
        self.left_out: dict[str, str] = {}
        """Tools of the server that cannot be offered, and why."""
        self._address = address
        self._effects = dict(effects or {})
        self._timeout_s = timeout_s
        self._connect = connect
        self._link: Link | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    @classmethod
    def stdio(
        cls,
        *command: str,
        name: str,
        effects: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] = os.devnull,
        timeout_s: float = TIMEOUT_S,
    ) -> McpServer:
        """A server that is a program of this machine, started by us.

        Of our environment it sees what tells where it is (``PATH``, ``HOME``, …) and ``env``. What
        it prints as errors goes to the file ``log``.
        """
        if not command or shutil.which(command[0], path=(env or {}).get("PATH")) is None:
            raise InvalidTool(
                name, f"the program {' '.join(command[:1])!r} of the server is absent"
            )
        connect = partial(_over_pipes, command, dict(env or {}), cwd, log)
        return cls(connect, name=name, address=command, effects=effects, timeout_s=timeout_s)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        name: str,
        effects: Mapping[str, str] | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> McpServer:
        """A server somewhere else, by streamable HTTP. The address is the developer's to choose."""
        connect = partial(_over_http, url, dict(headers or {}))
        return cls(connect, name=name, address=(url,), effects=effects, timeout_s=timeout_s)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]
        """The same server under the same name: its tools may be declared again."""
        if not isinstance(other, McpServer):
            return NotImplemented
        return (self.name, self._address) == (other.name, other._address)

    def __hash__(self) -> int:  # type: ignore[explicit-override]
        return hash((self.name, self._address))

    # ── being connected ──────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> McpServer:
        self._connecting = anyio.Lock()
        self._tasks = await anyio.create_task_group().__aenter__()
        try:
            await self.refresh()
        except BaseException:
            await self.__aexit__(*sys.exc_info())
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        with anyio.CancelScope(shield=True):  # each wait in it has a bound
            if self._link is not None:
                await self._link.close()
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)

    async def refresh(self) -> tuple[Tool, ...]:
        """List the server's tools anew. Those whose definition has changed are approved anew."""
        _, listed = await self._listed()
        self.left_out = {"…": f"more than {TOOLS_MAX} tools"} if len(listed) > TOOLS_MAX else {}
        self.tools = tuple(filter(None, map(self._declared, islice(listed.values(), TOOLS_MAX))))
        return self.tools

    async def _listed(self) -> tuple[Client, dict[str, Listed]]:
        """A connection that is known to work now, and what the server has on offer."""
        why: object = "it is not open; use it within `async with`"
        for _ in range(TRIES):
            link = await self._linked()
            try:
                with anyio.fail_after(LIST_S):
                    if link.client is not None:
                        return link.client, await _all_tools(link.client)
            except BROKEN as error:
                link.error = link.error or error
            why = _words(link.error)
            await link.close()
        raise ToolRefused(f"the MCP server {self.name} cannot be used: {why}. Nothing was asked.")

    async def _linked(self) -> Link:
        if self._tasks is None:
            raise ToolRefused(f"the MCP server {self.name} is not open. Nothing was asked of it.")
        async with self._connecting:
            if self._link is None or not self._link.works:
                self._link = Link(self._connect)
                self._tasks.start_soon(self._link.own)
            with anyio.move_on_after(CONNECT_S):
                await self._link.ready.wait()
            return self._link

    # ── its tools ────────────────────────────────────────────────────────────────────────────

    def _declared(self, listed: Listed) -> Tool | None:
        if not NAME.fullmatch(listed.name):
            self.left_out[ascii(listed.name)[:80]] = "its name cannot be used"
            return None
        try:
            check_schema(listed.input_schema)
        except InvalidRequest as error:
            self.left_out[listed.name] = str(error)
            return None
        ours = self._effects.get(listed.name)
        digest = _digest(listed)
        rule = f"{listed.name} of the MCP server {self.name}, as defined now ({digest})."
        told = f"(A tool of {self.name}.) {listed.description or listed.name}"
        declare = tool(
            effect=ours or "once",
            name=f"{self.name}.{listed.name}",
            noun=f"{self.name}.{listed.name}",
            approval=False if ours else rule,
            timeout=self._timeout_s,
            description=told[:DESCRIPTION_MAX],
            schema=listed.input_schema,
        )
        return declare(partial(self._call, listed.name, digest))

    async def _call(self, called: str, digest: str, /, **arguments: Any) -> McpAnswer:
        client, listed = await self._listed()
        if called not in listed:
            raise ToolRefused(f"the MCP server {self.name} has no tool {called} any more.")
        if _digest(listed[called]) != digest:
            raise ToolRefused(
                f"the MCP server {self.name} has changed its tool {called} since it was listed. "
                "It was not called; list the tools again."
            )
        try:
            answer = await client.call_tool(called, arguments)
        except BROKEN as error:
            raise ToolFailed(
                f"{called} of the MCP server {self.name} did not answer: {_words(error)}. "
                "It may have begun."
            ) from error
        return _answer(answer)


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
        """Whether it is open or being opened."""
        return not (self._enough.is_set() or self._ended.is_set())

    async def own(self) -> None:
        """Open it, and close it when it is not wanted any more. Never fails: says why it ended."""
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
    """Instead of the SDK's check of results: what was done is done, whatever shape its answer has.

    And a schema with a bad expression in it, matched with a text to go with it, is a way for a
    server to stop our whole process.
    """


@asynccontextmanager
async def _over_pipes(
    command: Sequence[str],
    env: dict[str, str],
    cwd: str | os.PathLike[str] | None,
    log: str | os.PathLike[str],
) -> AsyncIterator[Client]:
    supervisor = [sys.executable, "-I", "-S", "-X", "utf8", SUPERVISOR]
    ours = ["-", "-", str(os.getpid()), str(GRACE_S), "", ""]
    program, *arguments = [*supervisor, *ours, *command]
    server = StdioServerParameters(
        command=program, args=arguments, env=env, cwd=os.fspath(cwd) if cwd else None
    )
    with open(log, "a", encoding="utf-8") as errors:  # noqa: ASYNC230 - once, and it is handed on
        async with Client(stdio_client(server, errlog=errors), cache=None) as client:
            yield client


@asynccontextmanager
async def _over_http(url: str, headers: dict[str, str | Secret]) -> AsyncIterator[Client]:
    plain = {k: v.reveal() if isinstance(v, Secret) else v for k, v in headers.items()}
    limits = httpx2.Timeout(CONNECT_S, read=TIMEOUT_S)
    async with (
        httpx2.AsyncClient(headers=plain, timeout=limits) as http,
        Client(streamable_http_client(url, http_client=http), cache=None) as client,
    ):
        yield client


async def _all_tools(client: Client) -> dict[str, Listed]:
    found: dict[str, Listed] = {}
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page: ListToolsResult = await client.list_tools(cursor=cursor)
        for listed in page.tools:
            if listed.name in found:
                raise ValueError(f"it lists two tools {listed.name[:80]!r}")
            found[listed.name] = listed
        cursor = page.next_cursor
        if cursor is None or len(found) > TOOLS_MAX:
            break
    return found


def _digest(listed: Listed) -> str:
    """A name for a definition: when anything in it changes, so does the name."""
    plain = listed.model_dump(mode="json", by_alias=True)
    return blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=8).hexdigest()


def _answer(result: CallToolResult) -> McpAnswer:
    texts, others, notes = [], 0, []
    for block in result.content:
        text = getattr(block, "text", None) or getattr(
            getattr(block, "resource", None), "text", None
        )
        others += text is None
        texts.append(text or "")
    text, data = "\n".join(filter(None, texts)), result.structured_content
    if others:
        notes.append(f"{others} parts that are no text are not shown")
    if len(text) > TEXT_MAX:
        notes.append(f"only the first {TEXT_MAX:,} characters of {len(text):,} are shown")
    if data is not None and len(msgspec.json.encode(data)) > DATA_BYTES_MAX:
        data = None
        notes.append(f"its data are more than {DATA_BYTES_MAX:,} bytes and not shown")
    return McpAnswer(text[:TEXT_MAX], data, result.is_error, "; ".join(notes))


def _words(error: BaseException | None) -> str:
    """What went wrong, also where the SDK has wrapped it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return f"it did not answer within {CONNECT_S:g} s"
    return str(error) or type(error).__name__
