"""A process that opens a stubborn MCP server, lets it start something, and waits to be killed.

python mcp_owner.py FOLDER TOKEN
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from midflight.tools.mcp import McpServer

FOLDER, TOKEN = sys.argv[1:]


async def main() -> None:
    program = str(Path(__file__).with_name("mcp_stubborn.py"))
    command = (sys.executable, program, FOLDER, TOKEN, "stubborn")
    async with McpServer.stdio(*command, name="stubborn") as server:
        (litter,) = (each for each in server.tools if each.name == "stubborn.litter")
        sys.stdout.write(f"{(await litter(token=TOKEN)).text}\n")
        sys.stdout.flush()
        await anyio.sleep(60)


if __name__ == "__main__":
    anyio.run(main)
