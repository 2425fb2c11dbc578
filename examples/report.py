"""A straight-line report in four steps, with nothing but ``await run.step(...)``.

The agent fetches customers, joins their revenue, scores the risk that they leave and writes a memo.
A person pauses it in the middle, and the program that drives it ends. A second program goes on
where the first one was, and repeats no step that was done.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import midflight
from midflight import Run, agent, tool

CUSTOMERS = [("Ada", "EU", 420), ("Grace", "US", 60), ("Edsger", "EU", 15), ("Barbara", "US", 250)]


@tool(effect="read")
def fetch_customers(database: str) -> list[tuple[str, str]]:
    """Read the customers. Blocking code is fine: it runs in a thread."""
    print("  fetching customers")
    with closing(sqlite3.connect(database)) as rows:
        return rows.execute("SELECT name, region FROM customers").fetchall()


@tool(effect="read")
def join_revenue(database: str, customers: list[tuple[str, str]]) -> list[tuple[str, int]]:
    """Read what each customer pays a month."""
    print("  joining revenue")
    with closing(sqlite3.connect(database)) as rows:
        paid = dict(rows.execute("SELECT name, mrr FROM customers").fetchall())
    return [(name, paid[name]) for name, _ in customers]


@tool(effect="read")
async def score_churn(revenue: list[tuple[str, int]]) -> list[tuple[str, float]]:
    """Score each customer: one who pays little may leave."""
    print("  scoring")
    await asyncio.sleep(0.3)
    return sorted(
        ((name, round(1 / (1 + mrr / 50), 2)) for name, mrr in revenue), key=lambda x: -x[1]
    )


@tool(effect="write", label="memo")
def write_memo(path: str, scores: list[tuple[str, float]]) -> str:
    """Write the memo. To write the same content again after a crash does no harm."""
    print("  writing the memo")
    text = "".join(f"{name}: {score:.0%}\n" for name, score in scores)
    Path(path).write_text(text, encoding="utf-8")
    return text


@agent
async def churn_report(run: Run) -> str:
    """Write a memo about the customers who may leave."""
    await run.plan("Fetch customers", "Join revenue", "Score churn risk", "Write memo")
    customers = await run.step("Fetch customers", fetch_customers, run.input)
    revenue = await run.step("Join revenue", join_revenue, run.input, customers)
    scores = await run.step("Score churn risk", score_churn, revenue)
    path = str(run.workdir / "memo.txt")
    return await run.step("Write memo", write_memo, path, scores)


@contextmanager
def a_company() -> Iterator[Path]:
    """Make a folder with a small customer database."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(sqlite3.connect(Path(folder) / "crm.db")) as rows, rows:
            rows.execute("CREATE TABLE customers (name TEXT, region TEXT, mrr INTEGER)")
            rows.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
        yield Path(folder)


async def main() -> None:
    """Play two programs, one after the other, on one store."""
    with a_company() as folder:
        path, workdir = folder / "midflight.db", folder / "work"
        print("first program")
        async with midflight.open(path, agents=[churn_report], workdir=workdir) as client:
            run = await client.start(churn_report, "Churn report", input=str(folder / "crm.db"))
            await run.until(lambda state: state.spent.steps == 2)
            await run.pause()
            await run.wait_paused()
            print("paused, and the program ends")

        print("second program")
        async with midflight.open(path, agents=[churn_report], workdir=workdir) as client:
            run = client.run(run.id)
            await run.resume()
            print(await run.result(), end="")


if __name__ == "__main__":
    asyncio.run(main())
