"""Finds the agents that ``module:agent`` names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from midflight.agents import Agent
from midflight.cli.failing import Unknown


def found_at(place: str) -> list[Agent]:
    """Return the agents that ``module:name`` or ``module`` means."""
    module, _, name = place.partition(":")
    if "/" in module or module.endswith(".py"):
        meant = _as_module(module, name or "AGENT")
        raise Unknown(f"name a module, not a file: {meant}. Nothing was started.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: modules of this folder can be named
    try:
        there = importlib.import_module(module)
        found = getattr(there, name) if name else list(vars(there).values())
    except (ImportError, AttributeError, ValueError) as error:
        raise Unknown(f"{place}: {error}. Nothing was started.") from error
    except SystemExit as error:
        raise Unknown(
            f"{module} ended the program while it was imported (sys.exit): what it does when it is "
            'called belongs below `if __name__ == "__main__":`. Nothing was started.'
        ) from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise Unknown(f"{module} cannot be imported: {told}. Nothing was started.") from error
    every: Iterable[Any] = found if isinstance(found, list | tuple) else [found]
    agents = [agent for agent in every if isinstance(agent, Agent)]
    if not agents:
        raise Unknown(
            f"{place} is no agent: name an `async def` below `@agent()`. Nothing was started."
        )
    return agents


def _as_module(path: str, name: str) -> str:
    """Return a file of this folder as ``module:agent``; of another one, with where to go first."""
    parts = PurePath(path.removesuffix(".py")).parts
    if path.startswith("/") or ".." in parts:
        return f"{parts[-1]}:{name}, from the folder that it is in"
    return f"{'.'.join(parts)}:{name}"


def all_at(places: Iterable[str]) -> list[Agent]:
    """Return the agents of several places, each once."""
    return list({agent.name: agent for place in places for agent in found_at(place)}.values())
