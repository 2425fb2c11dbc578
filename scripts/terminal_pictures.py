"""Draw the pictures of the terminal app for the docs: ``python scripts/terminal_pictures.py``.

A small agent is held still at three places, and the app is looked at there.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import anyio

from midflight import Actor, EffectRecord, Limits, Run, agent, emit, spend, tool
from midflight.control import Control, local
from midflight.interfaces.tui.tui_app import MidflightApp
from midflight.journal.phases import Role

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
GATE = anyio.Event()
FONT = re.compile(r"@font-face\s*{[^}]*}\s*", re.DOTALL)  # they would be fetched from elsewhere


async def remove(made: EffectRecord) -> None:
    """Take it back."""


@tool(effect="read")
async def fetch(what: str) -> str:
    """Look something up."""
    return f"322 {what}: 75 APAC, 133 EU, 114 US"


@tool(effect="write", label="32 tasks", undo=remove)
async def create_tasks(about: str) -> str:
    """Do something that can be taken back."""
    spend(tokens=1_840, usd=0.42)
    return f"32 tasks created {about}"


@tool(effect="read")
async def write_memo() -> str:
    """Speak, and wait to be let go."""
    emit("Churn risk is concentrated in accounts whose usage fell for two months in a row. ")
    await GATE.wait()
    return "memo.md, 71 words, with a chart"


@tool(effect="once", irreversible=True, label="email to Sales leads")
async def send_memo(to: str) -> str:
    """Cannot be taken back, and so asks first."""
    return f"sent to {to}"


@agent(limits=Limits(usd=2.0), converses=True)
async def analyst(run: Run) -> str:
    """Four steps, the last of them asked about."""
    await run.plan("Fetch customer list", "Create follow-up tasks", "Write memo", "Send memo")
    await run.say("I write a memo on churn risk, in four steps.")
    await run.step("Fetch customer list", fetch, "customers")
    await run.step("Create follow-up tasks", create_tasks, "in the CRM")
    await run.step("Write memo", write_memo)
    return str(await run.step("Send memo", send_memo, "sales@example.com"))


async def draw(app: MidflightApp, name: str) -> None:
    """Write what is on the screen."""
    picture = FONT.sub("", app.export_screenshot(title="midflight tui"))
    (PICTURES / f"terminal-{name}.svg").write_text(picture, encoding="utf-8")


async def main() -> None:
    """Three places of one run."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    ann = Actor(by="ann", role=Role.OPERATOR)
    with tempfile.TemporaryDirectory() as folder:
        async with local("memory:", analyst, workdir=folder) as driver:
            control = Control(driver.store, driver._engine, who=ann)
            brief = "Write a memo on churn risk and send it to the sales leads"
            run = await control.start(analyst, brief, title="Churn memo")
            await control.until(run, lambda state: state.spent.steps >= 2)
            app = MidflightApp(control, run=run)
            async with app.run_test(size=(100, 26)) as pilot:
                await pilot.pause(1.0)
                await draw(app, "running")
                await control.send(run, "also include trials")
                await pilot.press("ctrl+r")
                await pilot.pause(1.0)
                await draw(app, "redirect")
                await pilot.press("escape")
                GATE.set()
                await control.until(run, lambda state: bool(state.questions))
                await pilot.pause(1.0)
                await draw(app, "question")
                await pilot.press("ctrl+x")
                await control.ended(run)
                await pilot.pause(1.0)
                await draw(app, "receipt")


if __name__ == "__main__":
    anyio.run(main)
