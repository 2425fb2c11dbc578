"""``Run`` as the driver implements it: at every call the function can be told things."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import anyio

from midflight.errors import StepFailed
from midflight.executor import values
from midflight.executor.calls import refuse_inside_a_step
from midflight.executor.drive import Driver
from midflight.executor.replay import Record
from midflight.executor.steps import Step
from midflight.kernel import events as e
from midflight.run import Answer, Redirected, Signal
from midflight.tools.base import as_tool

PATIENCE: Final = 3  # signals raised before a function that catches them all waits for ever


class RunContext:
    """The run of one call of an agent function."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.course = driver.course
        self._signals = 0
        self._now = driver.log.state.created_at
        self._chance = random.Random(driver.run)
        self.restored: Any = None
        if driver.replay.state is not None:
            self.restored = values.decode(driver.replay.state.state)
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Time and chance from the last snapshot on, where it was made as where it is restored."""
        position, at = self._driver.replay.saved
        self._chance = random.Random(f"{self._driver.run}:{position}")
        self._now = max(self._now, at)

    @property
    def id(self) -> str:
        """See ``Run.id``."""
        return self._driver.run

    @property
    def brief(self) -> str:
        """See ``Run.brief``."""
        refuse_inside_a_step("run.brief")
        return self._driver.log.state.brief

    @property
    def input(self) -> Any:
        """See ``Run.input``."""
        return values.decode(self._driver.input)

    @property
    def workdir(self) -> Path:
        """See ``Run.workdir``."""
        self._driver.workdir.mkdir(parents=True, exist_ok=True)
        return self._driver.workdir

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, key: str = "", **kwargs: Any
    ) -> Any:
        """See ``Run.step``."""
        refuse_inside_a_step("run.step")
        await self._listen()
        tool = as_tool(function)
        given = values.encode(name, "its arguments", {"args": list(args), "kwargs": kwargs})
        driver = self._driver
        identity = driver.replay.identity(key or f"{name}:{values.digest(bytes(given))}")
        kind = values.result_type(tool.function)
        if (record := driver.replay.claim(identity)) is not None:
            driver.log.stir()
            return await self._from_record(name, record, kind)
        if driver.replay.redirected(identity):
            raise self._noted(Redirected(driver.log.state.brief))
        step = Step(
            driver, identity, name, tool, call=(args, kwargs), given=given, course=self.course
        )
        driver.steps.add(step)
        driver.tasks.start_soon(step.perform)
        driver.log.stir()
        try:
            raw = await self._told(step.future)
        finally:
            self._passes(driver.replay.records.get(identity))
        return values.decode(bytes(raw), kind)

    def _passes(self, record: Record | None) -> None:
        """Time goes on with what the function has got, and so it does at replay."""
        if record is not None:
            self._now = max(self._now, record.at)

    async def _from_record(self, name: str, record: Record, kind: Any) -> Any:
        self._passes(record)
        if record.error:
            raise StepFailed(name, record.error)
        if record.blob is not None:
            return values.decode(await self._driver.store.blob(record.blob.hash), kind)
        return values.decode(bytes(record.result), kind)

    async def plan(self, *steps: str) -> None:
        """See ``Run.plan``."""
        await self._listen()
        epoch = self._driver.epoch
        await self._driver.log.decide(
            lambda s: (
                [*self._driver.wait_over(s), e.PlanSet(epoch=epoch, steps=steps)]
                if s.plan != steps and self._driver.may_start(self.course)
                else []
            )
        )

    async def ask(
        self,
        message: str,
        *,
        schema: dict[str, Any] | None = None,
        expires_in: float | None = None,
        answerers: Sequence[str] = (),
    ) -> Answer:
        """See ``Run.ask``."""
        refuse_inside_a_step("run.ask")
        await self._listen()
        driver = self._driver
        step = driver.replay.identity(f"ask:{message}")
        if driver.replay.redirected(step):
            raise self._noted(Redirected(driver.log.state.brief))
        expires_at = None if expires_in is None else driver.clock() + expires_in
        try:
            answered = await driver.ask(
                step,
                "ask",
                message,
                schema=schema,
                expires_at=expires_at,
                answerers=tuple(answerers),
            )
        except Signal as signal:
            if isinstance(signal, Redirected):
                driver.replay.forget_turn(step)
            raise self._noted(signal) from None
        return Answer(values.decode(bytes(answered.payload)), answered.by)

    async def snapshot(self, state: Any) -> None:
        """See ``Run.snapshot``."""
        await self._listen()
        epoch = self._driver.epoch
        saved = values.encode("snapshot", "the state", state)
        written = await self._driver.log.decide(
            lambda s: (
                [*self._driver.wait_over(s), e.StateSaved(epoch=epoch, state=saved)]
                if self._driver.may_start(self.course)
                else []
            )
        )
        if written:
            self._begin_anew()

    def now(self) -> float:
        """See ``Run.now``."""
        return self._now

    def random(self) -> random.Random:
        """See ``Run.random``."""
        return self._chance

    def uuid(self) -> UUID:
        """See ``Run.uuid``."""
        return UUID(int=self._chance.getrandbits(128), version=4)

    async def _listen(self) -> None:
        """Raise what has to be told; a function that will not hear it waits for ever."""
        if self._signals >= PATIENCE and self._driver.told is not None:
            await anyio.sleep_forever()
        try:
            self._driver.raise_if_told(self.course)
        except Signal as signal:
            raise self._noted(signal) from None

    async def _told(self, future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except Signal as signal:
            raise self._noted(signal) from None

    def _noted(self, signal: Signal) -> Signal:
        if isinstance(signal, Redirected):
            self.course = self._driver.course
        else:
            self._signals += 1
        return signal
