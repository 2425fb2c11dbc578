"""``midflight discord`` with Discord's addresses from the environment."""

from __future__ import annotations

import os
import sys

import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from midflight.interfaces.cli.main import main

Route.BASE = os.environ["DISCORD_REST"]
DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(os.environ["DISCORD_GATEWAY"])
sys.exit(main(sys.argv[1:]))
