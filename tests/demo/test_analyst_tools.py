"""The demo's tools by themselves: what a check says after a crash, and what an undo touches."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from midflight.demo.analyst_tools import AnalystTools
from midflight.demo.company import CUSTOMERS, MONTHS, make_company, months_before
from midflight.tools.declaration import NotDone
from midflight.tools.options import EffectRecord

MARCH_2026 = 1_773_000_000.0  # in the middle of it


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    place = tmp_path_factory.mktemp("company") / "company.db"
    make_company(place, clock=lambda: MARCH_2026)
    return place.read_bytes()


@pytest.fixture
def tools(tmp_path: Path, company: bytes) -> AnalystTools:
    (tmp_path / "company.db").write_bytes(company)
    return AnalystTools(tmp_path, pace=0)


def performed(key: str = "r-1:memo") -> EffectRecord:
    return EffectRecord(key, [], {})


def checked(tool: Any, done: EffectRecord) -> Any:
    return tool.check(done)


@pytest.mark.anyio
async def test_a_memo_that_is_on_record_but_not_in_its_place_was_not_written(
    tools: AnalystTools,
) -> None:
    written = await tools.write_memo("Title", "Text.", idempotency_key="r-1:memo")
    assert checked(tools.write_memo, performed()).result.path == written.path
    (tools.folder / written.path).unlink()

    with pytest.raises(NotDone):
        checked(tools.write_memo, performed())


@pytest.mark.anyio
async def test_the_same_key_twice_is_one_change_and_its_undo_takes_it_all_back(
    tools: AnalystTools,
) -> None:
    first = await tools.set_tasks([1, 2, 3], idempotency_key="r-1:a")
    assert await tools.set_tasks([1, 2, 3], idempotency_key="r-1:a") == first
    changed = await tools.set_tasks([3, 4], idempotency_key="r-1:b")
    assert changed.text == "1 task created, 2 withdrawn, 1 kept"
    await tools.set_tasks([9], idempotency_key="r-2:a")  # of another run

    assert tools.set_tasks.undo is not None
    tools.set_tasks.undo(performed("r-1:b"))
    assert tasks(tools, "r-1") == [1, 2, 3]
    tools.set_tasks.undo(performed("r-1:a"))
    assert (tasks(tools, "r-1"), tasks(tools, "r-2")) == ([], [9])


@pytest.mark.anyio
async def test_a_task_for_nobody_is_refused_and_nothing_is_changed(tools: AnalystTools) -> None:
    with pytest.raises(NotDone, match="1 of these customers do not exist"):
        await tools.set_tasks([1, 99_999], idempotency_key="r-1:a")

    assert tasks(tools, "r-1") == []


@pytest.mark.anyio
async def test_only_a_memo_can_be_sent(tools: AnalystTools) -> None:
    (tools.folder / "secret.html").write_text("no memo", encoding="utf-8")

    for path in ("memos/../secret.html", "secret.html", "company.db", "memos/none.html"):
        with pytest.raises(NotDone, match="there is no memo"):
            await tools.send_memo(path, "The board", idempotency_key="r-1:send")


def tasks(tools: AnalystTools, run: str) -> list[int]:
    with sqlite3.connect(tools.books.path) as db:
        found = "SELECT customer FROM tasks WHERE run = ? AND state = 'open' ORDER BY 1"
        return [customer for (customer,) in db.execute(found, [run])]


def test_the_company_is_the_same_each_time_and_ends_with_the_last_whole_month(
    tools: AnalystTools, tmp_path: Path
) -> None:
    make_company(tmp_path / "again.db", clock=lambda: MARCH_2026)
    with sqlite3.connect(tmp_path / "again.db") as one, sqlite3.connect(tools.books.path) as other:
        everything = "SELECT * FROM customers JOIN revenue ON customer = id ORDER BY id, month"
        assert one.execute(everything).fetchall() == other.execute(everything).fetchall()
        assert one.execute("SELECT count(*) FROM customers").fetchone() == (CUSTOMERS,)
    assert tools.books.months() == months_before(MARCH_2026)
    assert (months_before(MARCH_2026)[-1], len(months_before(MARCH_2026))) == ("2026-02", MONTHS)
    one.close()
    other.close()
