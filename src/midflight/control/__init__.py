"""All that a person, a front door or a program can do to runs.

``verbs`` is the table of verbs. ``Control`` does them on a store that this process has open,
``remote.RemoteControl`` on the runs of a server.
"""

from midflight.control.ack import Ack, Turn
from midflight.control.local_control import LIBRARY, Control, local
from midflight.control.recorder import offers

__all__ = ["LIBRARY", "Ack", "Control", "Turn", "local", "offers"]
