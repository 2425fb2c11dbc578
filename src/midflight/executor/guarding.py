"""The guards of a run: looked at when it comes back, and before effects that rely on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import anyio

from midflight.executor import stale
from midflight.guards import Guard
from midflight.kernel import events as e
from midflight.kernel.phases import Phase

if TYPE_CHECKING:
    from midflight.executor.drive import Driver

LOOK_S: Final = 10.0  # what takes longer to look at cannot be checked here


class Guards:
    """What the function has said it relies on."""

    def __init__(self, driver: Driver) -> None:
        self._fresh = False
        self._driver = driver
        self._live: dict[str, Guard] = {}
        self._calls: Counter[str] = Counter()

    @property
    def any(self) -> bool:
        """Whether the run relies on anything."""
        return bool(self._driver.log.state.guards)

    @property
    def fresh(self) -> bool:
        """Whether everything was looked at since the run has come back."""
        return self._fresh or not self.any

    def look_again(self) -> None:
        """The run comes back: nothing is known of the world outside."""
        self._fresh = False

    def enter(self) -> None:
        """The function is called (again), and names its guards again."""
        self._fresh = not self.any
        self._calls.clear()

    async def take(self, guard: Guard) -> None:
        """``run.guard``: note how it looks now, unless it was noted before the function came back.

        Then how it looked at that time stands, and the pilot compares.
        """
        name, driver = guard.name, self._driver
        self._live[name] = guard
        self._calls[name] += 1
        noted = max(driver.replay.guards[name], 1 if name in driver.log.state.guards else 0)
        if self._calls[name] <= noted:
            return
        await self._note(guard)

    async def _note(self, guard: Guard, why: str = "") -> None:
        driver = self._driver
        noted = e.GuardSet(
            epoch=driver.epoch,
            name=guard.name,
            kind=guard.kind,
            fingerprint=await self._look(guard),
            why=why,
        )
        live = {Phase.RUNNING, Phase.PAUSING, Phase.PAUSED}
        await driver.log.decide(lambda s: [noted] if s.phase in live and not driver.lost else [])

    async def _look(self, guard: Guard) -> str:
        with anyio.fail_after(LOOK_S):
            return await guard.look(self._driver.clock())

    async def check(self) -> None:
        """The run came back: is everything as it was? Otherwise it is held, and asks."""
        changed: dict[str, str] = {}
        for name, (_, before) in list(self._driver.log.state.guards.items()):
            words = await self._compare(name, before)
            if words:
                changed[name] = words
        if changed:
            await stale.hold_for_guards(self._driver, changed)
        else:
            self._fresh = True
            self._driver.log.stir()

    async def _compare(self, name: str, before: str) -> str:
        guard = self._live.get(name)
        if before == stale.ACCEPTED:
            await self._accept(name, guard)
            return ""
        if guard is None:
            return "cannot be checked here"
        try:
            with anyio.fail_after(LOOK_S):
                return await guard.changed(before, self._driver.clock())
        except Exception as error:  # noqa: BLE001 - a user's code: what it cannot say has changed
            return f"cannot be checked ({type(error).__name__}: {error})"

    async def _accept(self, name: str, guard: Guard | None) -> None:
        if guard is not None:
            await self._note(guard, "accepted")
            return
        dropped = e.GuardSet(
            epoch=self._driver.epoch, name=name, kind="", fingerprint="", why="dropped"
        )
        await self._driver.log.decide(lambda s: [dropped] if not self._driver.lost else [])

    async def intact(self) -> dict[str, str]:
        """Which guards are as they were noted; the others say what is different."""
        found = {}
        for name, (_, before) in list(self._driver.log.state.guards.items()):
            found[name] = await self._compare(name, before)
        return found

    async def hold_unless(self, names: Iterable[str], found: Mapping[str, str]) -> bool:
        """Whether all of these are intact; otherwise the run is held, and asks."""
        changed = {name: found.get(name, "was never guarded") for name in names}
        changed = {name: words for name, words in changed.items() if words}
        if changed:
            await stale.hold_for_guards(self._driver, changed)
        return not changed

    async def refresh(self, found: Mapping[str, str]) -> None:
        """An effect of our own has ended: what it changed is as it should be."""
        for name in [name for name, words in found.items() if not words]:
            _, before = self._driver.log.state.guards[name]
            if await self._compare(name, before):
                await self._note(self._live[name], "refreshed")
