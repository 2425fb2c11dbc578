"""A little office for the agent: a reader, a writer that can be undone, a letter that cannot."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from midflight.agents import Agent
from midflight.assistant import Profile, assistant
from midflight.assistant.profile import Policy
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, call, say
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectRecord

Script = list[Line] | Callable[[Prompt], Line]


class Office:
    """One story's tools. ``gates`` holds those back that are to take their time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done: list[str] = []
        self.begun: list[str] = []
        self.gates: dict[str, anyio.Event] = {}

    def gate(self, what: str) -> anyio.Event:
        return self.gates.setdefault(what, anyio.Event())

    async def _do(self, what: str) -> None:
        self.begun.append(what)
        if what in self.gates:
            await self.gates[what].wait()
        self.done.append(what)

    async def until_begun(self, what: str, times: int = 1) -> None:
        await until(lambda: self.begun.count(what) >= times)

    def tools(self) -> list[Tool]:
        async def look(what: str) -> str:
            """Look something up."""
            await self._do(what)
            return f"{what} is fine"

        async def note(text: str) -> str:
            """Write a note."""
            await self._do(text)
            return "noted"

        async def unnote(performed: EffectRecord) -> None:
            self.done.append(f"undone {performed.kwargs['text']}")

        async def mail(to: str, text: str) -> str:
            """Send a letter. It cannot be called back."""
            await self._do(f"mail {to}")
            return "sent"

        async def fail(why: str) -> str:
            """Does not work."""
            raise RuntimeError(why)

        return [
            tool(effect="read", name=f"{self.name}.look")(look),
            tool(effect="once", name=f"{self.name}.note", undo=unnote)(note),
            tool(effect="once", name=f"{self.name}.mail", irreversible=True)(mail),
            tool(effect="read", name=f"{self.name}.fail")(fail),
        ]


def clerk(
    name: str,
    script: Script,
    office: Office | None = None,
    *,
    triage: Script | ScriptedModel | None = None,
    policy: Policy | None = None,
    on_error: str = "model",
    context_tokens: int = 100_000,
    **declared: object,
) -> tuple[Agent, ScriptedModel, Office]:
    """An assistant with the office's tools, called ``look``, ``note``, ``mail`` and ``fail``."""
    office = office or Office(name)
    model = ScriptedModel(script, name=f"{name}-model")
    quick = triage or (lambda _: say("no choice"))
    if not isinstance(quick, ScriptedModel):
        quick = ScriptedModel(quick, name=f"{name}-triage")
    profile = Profile(
        model,
        office.tools(),
        policy=policy,
        on_error=on_error,  # type: ignore[arg-type]
        context_tokens=context_tokens,
    )
    return assistant(name, profile, triage_model=quick, **declared), model, office  # type: ignore[arg-type]


def slow_clerk(name: str, *replies: Line) -> tuple[Agent, Office]:
    """One that looks at ``slow`` first, whose gate is closed, and then says that it is ready."""
    office = Office(name)
    office.gate("slow")
    said = replies or (say("Ready."),)
    works, _, _ = clerk(name, [call(f"{name}_look", what="slow"), *said], office)
    return works, office


async def until(ready: Callable[[], bool]) -> None:
    """Wait for something that no journal tells."""
    with anyio.fail_after(30):
        while not ready():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.005)


def last(prompt: Prompt) -> str:
    """What the model was told last."""
    return prompt.turns[-1].text
