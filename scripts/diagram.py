"""Draws the state diagram of ARCHITECTURE.md from the kernel's table, so that it cannot lie."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from midflight.journal.phases import ENDS, Phase
from midflight.journal.transition_table import TRANSITIONS

PAGE = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"
PLACE = re.compile(r"(<!-- diagram -->\n).*?(<!-- /diagram -->)", re.DOTALL)


def diagram() -> str:
    """The table as a Mermaid state diagram; events that stay in their phase are left out."""
    edges: defaultdict[tuple[Phase, Phase], list[str]] = defaultdict(list)
    for phase, row in TRANSITIONS.items():
        for kind, cell in row.items():
            for target in cell if isinstance(cell, tuple) else (cell,):
                if target is not phase:
                    edges[phase, target].append(kind.stored_name())
    lines = [f"    {a} --> {b}: {', '.join(sorted(names))}" for (a, b), names in edges.items()]
    ends = [f"    {phase} --> [*]" for phase in sorted(ENDS)]
    body = "\n".join(["stateDiagram-v2", "    [*] --> queued: run.created", *lines, *ends])
    return f"```mermaid\n{body}\n```\n"


def redrawn(page: str) -> str:
    """The page with today's diagram in its place."""
    return PLACE.sub(lambda found: found[1] + diagram() + found[2], page)


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
