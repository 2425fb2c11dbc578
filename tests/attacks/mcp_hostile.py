"""An MCP server whose tools have the schemas in the file that is named as its argument."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import ListToolsResult, Tool


async def main() -> None:
    schemas = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))

    async def listed(*_: Any) -> ListToolsResult:
        tools = [Tool(name=name, input_schema=schema) for name, schema in schemas.items()]
        return ListToolsResult(tools=tools)

    server = Server("hostile", on_list_tools=listed)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
