"""A little world for agents to work in: tools that wait for their cue, and a ledger."""

from __future__ import annotations

from typing import Any

import anyio

from midflight.tools.declaration import Done, NotDone, Tool, tool
from midflight.tools.options import EffectName, EffectRecord


class Stage:
    """One story's world. Tools are made per story, so that no story sees another's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: list[str] = []
        self.begun: list[str] = []
        self.keys: list[str] = []
        self.gates: dict[str, anyio.Event] = {}
        self.news = anyio.Event()

    def gate(self, name: str) -> anyio.Event:
        return self.gates.setdefault(name, anyio.Event())

    def note(self, where: list[str], what: str) -> None:
        where.append(what)
        self.news.set()
        self.news = anyio.Event()

    async def until_begun(self, what: str, times: int = 1) -> None:
        with anyio.fail_after(10):
            while self.begun.count(what) < times:
                await self.news.wait()

    async def until_done(self, what: str) -> None:
        with anyio.fail_after(10):
            while what not in self.done:
                await self.news.wait()

    def reader(self) -> Tool:
        """Reads something, after its cue where there is one."""

        async def look(what: str) -> str:
            self.note(self.begun, what)
            if what in self.gates:
                await self.gates[what].wait()
            self.note(self.done, what)
            return what.upper()

        return tool(effect="read", name=f"{self.name}.look")(look)

    def writer(self, *, effect: EffectName = "once", **declared: Any) -> Tool:
        """Does something to the world, after its cue, and can undo it."""

        async def make(what: str, idempotency_key: str = "") -> str:
            self.note(self.begun, what)
            self.keys.append(idempotency_key)
            if what in self.gates:
                await self.gates[what].wait()
            self.note(self.done, what)
            return f"made {what}"

        async def unmake(performed: EffectRecord) -> None:
            self.note(self.done, f"undone {performed.args[0]}")

        declared.setdefault("undo", unmake)
        declared.setdefault("settles_within", 0)  # nothing of this world is still on its way
        declared.setdefault("describe", "thing")  # most stories count them and name none
        return tool(effect=effect, name=f"{self.name}.make", label="thing", **declared)(make)

    def locker(self, what: str) -> Tool:
        """Takes a lock that is freed at every end, after its cue."""

        async def lock(name: str) -> str:
            self.note(self.done, name)
            return f"locked {name}"

        async def free(performed: EffectRecord) -> None:
            name = f"release {performed.args[0]}"
            self.note(self.begun, name)
            if name in self.gates:
                await self.gates[name].wait()
            self.note(self.done, name)

        return tool(
            effect="once",
            name=f"{self.name}.lock-{what}",
            label=what,
            undo=free,
            always_undo=True,
        )(lock)

    def checked(self, **declared: Any) -> Tool:
        """Does something once; whether it has can be looked up, so nobody need be asked."""

        async def look_up(performed: EffectRecord) -> object:
            what = performed.args[0]
            return Done(f"made {what}") if what in self.done else NotDone()

        return self.writer(check=look_up, **declared)
