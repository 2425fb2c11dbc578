"""Tools of MCP servers; their effects are listed by us, not by the servers.

``async with McpServer.stdio("crm-server", name="crm", effects={"search": "read"}) as crm`` gives
``crm.tools``. A tool that is not in the listing happens ``once`` and is approved first; hints of
the server (``readOnlyHint`` and the like) change nothing about that. Its descriptions are data: a
model reads them, a person who approves does not.

Before each call the server is asked for its tools again. One that is not as it was when it was
listed is not called: ``await crm.refresh()`` lists anew, and since the rule of an approval holds a
digest of the definition, people are asked again.

A server on standard input runs under our supervisor: it ends with all its processes when we close,
and also when we are killed. One that dies is started again by the next call; the call that it was
at has an unknown outcome, unless that was a read.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from msgspec import Struct
from typing_extensions import override

from midflight.errors import InvalidRequest, InvalidTool
from midflight.schemas import check_schema
from midflight.tools.declaration import Tool, ToolFailed, ToolRefused, tool
from midflight.tools.mcp_link import (
    BROKEN,
    CONNECT_S,
    TIMEOUT_S,
    Connect,
    Link,
    over_http,
    over_pipes,
    words,
)
from midflight.tools.options import EffectName
from midflight.tools.secret import Secret

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ListToolsResult
    from mcp.types import Tool as Listed

LIST_S: Final = 20.0
TRIES: Final = 2  # at reaching a server before a call is given up
PAGES_MAX: Final = 50
TOOLS_MAX: Final = 500
TEXT_MAX: Final = 200_000
DATA_BYTES_MAX: Final = 500_000
SCHEMAS_BYTES_MAX: Final = 1_000_000  # of all tools of a server together
DESCRIPTION_MAX: Final = 4_000
NAME: Final = re.compile(r"[A-Za-z0-9_./-]{1,128}")


class McpAnswer(Struct, frozen=True):
    """The answer of a server's tool. ``error`` is true if the server says that the call failed."""

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
        effects: Mapping[str, EffectName] | None = None,
        timeout_s: float = TIMEOUT_S,
        outside: bool = True,
        untrusted: bool = True,
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
        self._outside = outside
        self._untrusted = untrusted
        self._connect = connect
        self._link: Link | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    @classmethod
    def stdio(
        cls,
        *command: str,
        name: str,
        effects: Mapping[str, EffectName] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] = os.devnull,
        timeout_s: float = TIMEOUT_S,
        outside: bool = True,
        untrusted: bool = True,
    ) -> McpServer:
        """A server that is a program of this machine, started by us.

        Of our environment it sees what tells where it is (``PATH``, ``HOME``, …) and ``env``. What
        it prints as errors goes to the file ``log``. Its tools count as leaving this machine, and
        what they return as words of strangers; ``outside=False`` and ``untrusted=False`` say that
        they are not.
        """
        if not command or shutil.which(command[0], path=(env or {}).get("PATH")) is None:
            raise InvalidTool(
                name, f"the program {' '.join(command[:1])!r}, which is the server, cannot be found"
            )
        return cls(
            partial(over_pipes, command, dict(env or {}), cwd, log),
            name=name,
            address=command,
            effects=effects,
            timeout_s=timeout_s,
            outside=outside,
            untrusted=untrusted,
        )

    @classmethod
    def http(
        cls,
        url: str,
        *,
        name: str,
        effects: Mapping[str, EffectName] | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        timeout_s: float = TIMEOUT_S,
        outside: bool = True,
        untrusted: bool = True,
    ) -> McpServer:
        """A server somewhere else, by streamable HTTP. The address is the developer's to choose."""
        return cls(
            partial(over_http, url, dict(headers or {})),
            name=name,
            address=(url,),
            effects=effects,
            timeout_s=timeout_s,
            outside=outside,
            untrusted=untrusted,
        )

    @override
    def __eq__(self, other: object) -> bool:
        """The same server under the same name: its tools may be declared again."""
        if not isinstance(other, McpServer):
            return NotImplemented
        return (self.name, self._address) == (other.name, other._address)

    @override
    def __hash__(self) -> int:
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
        room = SCHEMAS_BYTES_MAX
        declared = []
        for one in islice(listed.values(), TOOLS_MAX):
            room -= _size(one.input_schema)
            if room < 0:
                self.left_out[ascii(one.name)[:80]] = (
                    f"the schemas of the server have more than {SCHEMAS_BYTES_MAX:,} bytes"
                )
                continue
            # a schema from a stranger takes up to 0.3 s to check; other runs go on meanwhile
            declared.append(await anyio.to_thread.run_sync(self._declared, one))
        self.tools = tuple(filter(None, declared))
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
            why = words(link.error)
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
            check_schema(listed.input_schema, "its schema", "The tool is left out.")
        except InvalidRequest as error:
            self.left_out[listed.name] = str(error)
            return None
        ours = self._effects.get(listed.name)
        digest = _digest(listed)
        rule = f"{listed.name} of the MCP server {self.name}, as defined now ({digest})."
        told = f"(A tool of {self.name}.) {listed.description or listed.name}"
        declare = tool(  # layer not-listed-approved
            effect=ours or "once",
            name=f"{self.name}.{listed.name}",
            label=f"{self.name}.{listed.name}",
            approval=False if ours else rule,
            timeout=self._timeout_s,
            description=told[:DESCRIPTION_MAX],
            schema=listed.input_schema,
            outside=self._outside,
            untrusted=self._untrusted,
        )
        return declare(partial(self._call, listed.name, digest))

    async def _call(self, called: str, digest: str, /, **arguments: Any) -> McpAnswer:
        client, listed = await self._listed()
        if called not in listed:
            raise ToolRefused(
                f"the MCP server {self.name} has no tool {called} any more. Nothing was called; "
                "list the tools again."
            )
        if _digest(listed[called]) != digest:  # layer tool-has-changed-not-called
            raise ToolRefused(
                f"the MCP server {self.name} has changed its tool {called} since it was listed. "
                "It was not called; list the tools again."
            )
        try:
            answer = await client.call_tool(called, arguments)
        except BROKEN as error:
            raise ToolFailed(
                f"{called} of the MCP server {self.name} did not answer: {words(error)}. The call "
                "may have taken effect."
            ) from error
        return _answer(answer)


async def _all_tools(client: Client) -> dict[str, Listed]:
    found: dict[str, Listed] = {}
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page: ListToolsResult = await client.list_tools(cursor=cursor)
        for listed in page.tools:
            if listed.name in found:
                raise ValueError(f"it lists two tools with the name {listed.name[:80]!r}")
            found[listed.name] = listed
        cursor = page.next_cursor
        if cursor is None or len(found) > TOOLS_MAX:
            break
    return found


def _size(schema: Any) -> int:
    """Return how many bytes a schema has; one too deep to encode counts as the largest."""
    try:
        return len(msgspec.json.encode(schema))
    except RecursionError:
        return SCHEMAS_BYTES_MAX


def _digest(listed: Listed) -> str:
    """A name for a definition: when anything in it changes, so does the name."""
    plain = listed.model_dump(mode="json", by_alias=True)
    return blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=32).hexdigest()


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
