"""A channel on paper: shows posts in a list. What a channel of your own has to do, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from midflight.agents import Agent
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.interfaces.chat import People, Post, Switchboard
from midflight.interfaces.chat.channel import ChatGone, NotNow, NotTaken, PostGone
from midflight.journal.phases import Role
from midflight.journal.record import Actor
from midflight.stores.memory import MemoryStore

ANN = Actor("ann", Role.CONTROLLER, "paper:desk")


class Paper:
    """Keeps what it shows; can be away, and can lose the answer to what it was given."""

    name = "paper"

    def __init__(self) -> None:
        self.shown: dict[str, Post] = {}
        self.times: dict[str, int] = {}
        self.away = 0
        self.loses_answers_after = -1
        self.loses_answer_to = ""
        self.gone = False
        self.takes: Callable[[Post], bool] = lambda _: True

    async def post(self, chat: str, post: Post) -> str:
        if self.gone:
            raise ChatGone("torn")
        if not self.takes(post):
            raise NotTaken("no ink of that colour")
        if self.away:
            self.away -= 1
            raise NotNow("out of ink")
        known = next((n for n, p in self.shown.items() if p.key and p.key == post.key), "")
        number = known or str(len(self.shown) + 1)
        self.times[post.key] = self.times.get(post.key, 0) + 1
        if not known:
            self.shown[number] = post
        if self.loses_answers_after == len(self.shown) or self.loses_answer_to == post.text:
            raise LostAnswer
        return number

    async def edit(self, chat: str, message: str, post: Post) -> None:
        if message not in self.shown:
            raise PostGone(message)
        key = self.shown[message].key
        self.shown[message] = Post(post.text, key, post.buttons, post.menu)

    @property
    def text(self) -> str:
        return "\n".join(post.text for post in self.shown.values())


class LostAnswer(BaseException):
    """The process ends between the showing and knowing that it was shown."""


@asynccontextmanager
async def working(folder: Path, *agents: Agent) -> AsyncIterator[Control]:
    """An engine; lives of a switchboard may come and go meanwhile."""
    store = MemoryStore()
    async with LocalEngine.open(store, agents, workdir=folder / "w", sweep_s=0.05) as engine:
        with anyio.fail_after(30):
            yield Control(store, engine)


@asynccontextmanager
async def life(
    paper: Paper, control: Control, works: Agent, folder: Path, **more: Any
) -> AsyncIterator[Any]:
    """One life of a switchboard, which remembers what earlier ones in its folder have done."""
    more.setdefault("people", People.listed(["ann=ann:controller"]))
    async with Switchboard(control, paper, works, folder=folder, **more) as board:
        yield board
