"""The verbs of ``Control`` over HTTP, for programs in another process or on another machine.

async with RemoteControl.open("http://127.0.0.1:8321", token=found_token()) as control:
    await control.pause(run)
"""

from importlib.util import find_spec

from midflight.errors import to_install

if find_spec("httpx") is None:
    raise ImportError(f"midflight.control.remote needs an extra: {to_install('http')}")

from midflight.control.remote.link import found_token
from midflight.control.remote.remote_control import RemoteControl

__all__ = ["RemoteControl", "found_token"]
