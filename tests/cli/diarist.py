"""An agent that leaves a file of somebody's in the folder of its run."""

from __future__ import annotations

from midflight import Run, agent


@agent()
async def diarist(run: Run) -> str:
    (run.workdir / "private.txt").write_text(run.brief, encoding="utf-8")
    return "written"
