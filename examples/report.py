"""A straight-line report in four steps, with nothing but ``await run.step(...)``.

Fetch customers, join their revenue, score the risk that they leave, write a memo. It is paused in
the middle and the program that drives it ends; a second one goes on where it was, and no step that
was done is done again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from midflight import Run, agent, local, tool

CUSTOMERS = [("Ada", "EU", 420), ("Grace", "US", 60), ("Edsger", "EU", 15), ("Barbara", "US", 250)]


@tool(effect="read")
def fetch_customers(database: str) -> list[tuple[str, str]]:
    """Blocking code is fine: it runs in a thread."""
    print("  fetching customers")
    with closing(sqlite3.connect(database)) as rows:
        return rows.execute("SELECT name, region FROM customers").fetchall()


@tool(effect="read")
def join_revenue(database: str, customers: list[tuple[str, str]]) -> list[tuple[str, int]]:
    """What each of them pays a month."""
    print("  joining revenue")
    with closing(sqlite3.connect(database)) as rows:
        paid = dict(rows.execute("SELECT name, mrr FROM customers").fetchall())
    return [(name, paid[name]) for name, _ in customers]


@tool(effect="read")
async def score_churn(revenue: list[tuple[str, int]]) -> list[tuple[str, float]]:
    """Who pays little may leave."""
    print("  scoring")
    await asyncio.sleep(0.3)
    return sorted(
        ((name, round(1 / (1 + mrr / 50), 2)) for name, mrr in revenue), key=lambda x: -x[1]
    )


@tool(effect="write", noun="memo")
def write_memo(path: str, scores: list[tuple[str, float]]) -> str:
    """Written again with the same content after a crash, which does no harm."""
    print("  writing the memo")
    text = "".join(f"{name}: {score:.0%}\n" for name, score in scores)
    Path(path).write_text(text, encoding="utf-8")
    return text


@agent()
async def churn_report(run: Run) -> str:
    """The whole agent."""
    await run.plan("Fetch customers", "Join revenue", "Score churn risk", "Write memo")
    customers = await run.step("Fetch customers", fetch_customers, run.input)
    revenue = await run.step("Join revenue", join_revenue, run.input, customers)
    scores = await run.step("Score churn risk", score_churn, revenue)
    path = str(run.workdir / "memo.txt")
    return str(await run.step("Write memo", write_memo, path, scores))


@contextmanager
def a_company() -> Iterator[Path]:
    """A folder with a small customer database."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(sqlite3.connect(Path(folder) / "crm.db")) as rows, rows:
            rows.execute("CREATE TABLE customers (name TEXT, region TEXT, mrr INTEGER)")
            rows.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
        yield Path(folder)


async def main() -> None:
    """Two programs, one after the other, on one journal."""
    with a_company() as folder:
        journal, workdir = folder / "midflight.db", folder / "work"
        print("first program")
        async with local(journal, churn_report, workdir=workdir) as control:
            run = await control.start(churn_report, "Churn report", input=str(folder / "crm.db"))
            await control.until(run, lambda state: state.spent.steps == 2)
            await control.applied(await control.pause(run))
            print("paused, and the program ends")

        print("second program")
        async with local(journal, churn_report, workdir=workdir) as control:
            await control.resume(run)
            print(await control.result(run), end="")


if __name__ == "__main__":
    asyncio.run(main())
