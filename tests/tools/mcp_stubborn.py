"""An MCP server that does not want to end when its input does, nor when it is asked to.

python mcp_stubborn.py FOLDER TOKEN [stubborn]
"""

from __future__ import annotations

import signal
import sys
import time

from mcp_server import server  # type: ignore[import-not-found]  # beside this program

if __name__ == "__main__":
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.run()
    while "stubborn" in sys.argv:
        time.sleep(1)
