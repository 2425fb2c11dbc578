"""The tools of the demo: it reads its company, makes tasks, writes files and sends a memo.

The same ones are given to the demo model's loop and, with a key, to a real model. What changes
something is noted under the attempt's key in the same database, so that a check and an undo work in
any later process, also after a kill.
"""

from __future__ import annotations

import os
import re
from email.message import EmailMessage
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from msgspec import Struct

from midflight.demo import memo
from midflight.demo.figures import Books, Overview, Revenue, Scored
from midflight.demo.wishes import Question, Scope, counted
from midflight.models.base import CHARACTERS_PER_TOKEN
from midflight.overriding import override
from midflight.tools.base import Done, NotDone, Performed, Tool, ToolRefused, tool
from midflight.tools.progress import emit, spend

STEP_S: Final = 3.0  # what a step takes at pace 1: long enough to interrupt it
HOLD_S: Final = 8.0
TOLD: Final = 8  # tasks that are named while they are made
NAMED: Final = 8  # characters of a run's id in the names of its files
WORD: Final = re.compile(r"\S+\s*")
CANNOT_BE_UNSENT: Final = "It cannot be unsent."
TO: Final = {
    "Sales leads": "sales-leads@example.test",
    "Customer success": "success@example.test",
    "The board": "board@example.test",
}

Region = Literal["", "EU", "US", "APAC"]
Plan = Literal["", "starter", "team", "enterprise"]
Kind = Literal["churned", "revenue", "customers"]
Recipients = Literal["Sales leads", "Customer success", "The board"]


class Tasks(Struct, frozen=True):
    """The follow-up tasks of a run after a change."""

    text: str
    open: int


class Written(Struct, frozen=True):
    """A file of the demo's folder."""

    text: str
    path: str


class AnalystTools:
    """Tools over one folder. ``pace`` stretches all that takes time; 0 is for tests."""

    def __init__(
        self, folder: Path, *, pace: float = 1.0, hold: float = HOLD_S, free: bool = True
    ) -> None:
        self.folder = folder
        self.books = Books(folder / "company.db")
        self._pace = pace
        self._free = free  # what is said is said by the demo model, which costs nothing
        self.fetch_customers = _reads(self._fetch_customers)
        self.join_mrr = _reads(self._join_mrr)
        self.score_churn_risk = _reads(self._score_churn_risk)
        self.count = _reads(self._count)
        self.check_months = _reads(self._check_months)
        self.check_leavers = _reads(self._check_leavers)
        self.set_tasks = tool(
            effect="write",
            name="demo.set_tasks",
            noun="follow-up tasks",
            check=self._tasks_set,
            undo=self._unset_tasks,
            leaves=self._tasks_left,
        )(self._set_tasks)
        self.write_memo = self._writes(self._write_memo, "memo")
        self.draft_slide = self._writes(self._draft_slide, "slide")
        self.send_memo = tool(
            effect="once",
            name="demo.send_memo",
            noun="email",
            irreversible=True,
            approval=CANNOT_BE_UNSENT,
            hold=hold,
            check=self._sent,
        )(self._send_memo)

    @property
    def for_a_model(self) -> tuple[Tool, ...]:
        """Those that a model gets."""
        return (
            self.fetch_customers,
            self.join_mrr,
            self.score_churn_risk,
            self.count,
            self.set_tasks,
            self.write_memo,
            self.draft_slide,
            self.send_memo,
        )

    @override
    def __eq__(self, other: object) -> bool:
        """Of the same folder they are the same, as after a reload."""
        return isinstance(other, AnalystTools) and self.folder == other.folder

    @override
    def __hash__(self) -> int:
        return hash(self.folder)

    def _writes(self, function: Any, noun: str) -> Tool:
        return tool(
            effect="write",
            name=f"demo.{function.__name__.lstrip('_')}",
            noun=noun,
            check=self._file_written,
            undo=self._put_back,
            leaves=self._file_left,
        )(function)

    async def _say(self, text: str, share: float = 1.0) -> None:
        """Say something word by word, for that share of the time that a step takes."""
        words = WORD.findall(text)
        for word in words:
            emit(word)
            await anyio.sleep(self._pace * STEP_S * share / len(words))
        if self._free:
            spend(len(text) // CHARACTERS_PER_TOKEN, 0.0)

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    async def _fetch_customers(self) -> Overview:
        """Fetch the customer list: how many there are, where, on trial, and how many have left."""
        await self._say("Fetching the customer list from the CRM …\n", 0.6)
        found = self.books.overview()
        await self._say(f"{found.text}.\n", 0.4)
        return found

    async def _join_mrr(self) -> Revenue:
        """Join the customer list against monthly revenue: what all of them pay now."""
        await self._say("Joining every customer with 18 months of revenue …\n", 0.6)
        found = self.books.revenue()
        await self._say(f"{found.text}.\n", 0.4)
        return found

    async def _score_churn_risk(
        self, region: Region = "", plan: Plan = "", trials: bool = False, top: int = 0
    ) -> Scored:
        """Score who may leave, the likeliest first; empty and 0 mean all. Gives customer ids."""
        scope = Scope(region, plan, trials, top)
        await self._say(f"Scoring {scope.words()} by revenue lost, silence and tickets …\n", 0.5)
        found = self.books.scored(scope)
        await self._say(f"{found.text}.\n", 0.3)
        for account in found.accounts[:3]:
            await self._say(f"{account.risk} {account.name}: {account.why}\n", 0.2)
        return found

    async def _count(
        self, kind: Kind, month: str = "", region: Region = "", plan: Plan = ""
    ) -> str:
        """Count customers, who churned, or revenue. ``month`` is an English name: ``March``."""
        answer = self.books.answer(Question(kind, month, region, plan))
        await self._say(f"{answer}\n", 0.5)
        return answer

    async def _check_months(self) -> str:
        """For the background run: whether the months add up, counted in two ways."""
        await self._say("Adding up 18 months, customer by customer …\n", 1.5)
        months = dict(self.books.by_month(Scope()))
        with self.books.open() as db:
            (total,) = db.execute("SELECT sum(usd) FROM revenue").fetchone()
        if sum(months.values()) != total:
            raise ToolRefused(
                f"the months sum to ${sum(months.values()):,}, the rows to ${total:,}"
            )
        return f"{len(months)} months add up to ${total:,}"

    async def _check_leavers(self) -> str:
        """For the background run: whether those who have left still pay."""
        await self._say("Looking for payments of customers who have left …\n", 1.5)
        late = "SELECT count(*) FROM revenue JOIN customers ON customer = id "
        late += "WHERE churned_on != '' AND month >= churned_on"
        with self.books.open() as db:
            (paying,) = db.execute(late).fetchone()
        return "nobody who left still pays" if not paying else f"{paying} payments came too late"

    # ── tasks ────────────────────────────────────────────────────────────────────────────────

    async def _set_tasks(self, customers: list[int], idempotency_key: str) -> Tasks:
        """Have a follow-up task for each of these customers (ids) and for nobody else."""
        wanted, run = set(customers), _run(idempotency_key)
        await self._say(self._preparing(wanted), 1.0)
        with self.books.open() as db:
            db.execute("BEGIN IMMEDIATE")
            done = "SELECT 1 FROM task_changes WHERE key = ?"
            if db.execute(done, [idempotency_key]).fetchone() is None:
                open_now = "SELECT customer FROM tasks WHERE run = ? AND state = 'open'"
                there = {customer for (customer,) in db.execute(open_now, [run])}
                add = "INSERT INTO tasks (customer, title, run, made_by) "
                add += "SELECT id, 'Call ' || name, ?, ? FROM customers WHERE id = ?"
                new = [(run, idempotency_key, c) for c in sorted(wanted - there)]
                added = db.executemany(add, new).rowcount if new else 0
                if added != len(new):
                    raise NotDone(f"{len(new) - added} of these customers do not exist")
                drop = "UPDATE tasks SET state = 'withdrawn', withdrawn_by = ? "
                drop += "WHERE run = ? AND state = 'open' AND customer = ?"
                db.executemany(drop, [(idempotency_key, run, c) for c in there - wanted])
                note = "INSERT INTO task_changes VALUES (?, ?, ?, ?)"
                kept = len(there & wanted)
                db.execute(note, [idempotency_key, added, len(there - wanted), kept])
        return self._tasks(idempotency_key)

    def _preparing(self, customers: set[int]) -> str:
        with self.books.open() as db:
            names = dict(db.execute("SELECT id, name FROM customers").fetchall())
        calls = [f"Call {names[c]}" for c in sorted(customers & names.keys())]
        more = [f"and {len(calls) - TOLD} more"] if len(calls) > TOLD else []
        listed = "\n".join([*calls[:TOLD], *more])
        return f"Preparing {counted(len(calls), 'follow-up task')}:\n{listed}\n"

    def _tasks(self, key: str) -> Tasks:
        with self.books.open() as db:
            found = db.execute("SELECT * FROM task_changes WHERE key = ?", [key]).fetchone()
        if found is None:
            raise NotDone
        _, added, withdrawn, kept = found
        parts = (
            f"{counted(added, 'task')} created" if added or not (withdrawn or kept) else "",
            f"{withdrawn} withdrawn" if withdrawn else "",
            f"{kept} kept" if kept else "",
        )
        return Tasks(", ".join(filter(None, parts)), added + kept)

    def _tasks_set(self, done: Performed) -> Done:
        return Done(self._tasks(done.key))

    def _unset_tasks(self, done: Performed) -> None:
        with self.books.open() as db:
            db.execute("DELETE FROM tasks WHERE made_by = ?", [done.key])
            back = "UPDATE tasks SET state = 'open', withdrawn_by = '' WHERE withdrawn_by = ?"
            db.execute(back, [done.key])
            db.execute("DELETE FROM task_changes WHERE key = ?", [done.key])

    def _tasks_left(self, done: Performed) -> Any:
        rows = "SELECT id, customer, title, state FROM tasks WHERE ? IN (made_by, withdrawn_by)"
        with self.books.open() as db:
            return [list(row) for row in db.execute(f"{rows} ORDER BY id", [done.key])]

    # ── files ────────────────────────────────────────────────────────────────────────────────

    async def _write_memo(
        self,
        title: str,
        text: str,
        idempotency_key: str,
        region: Region = "",
        plan: Plan = "",
        trials: bool = False,
        top: int = 0,
    ) -> Written:
        """Write the memo. A chart of revenue and the table of who is at risk are added to it."""
        await self._say(f"{title}\n\n{text}\n", 1.5)
        scope = Scope(region, plan, trials, top)
        rows = self.books.scored(scope).accounts
        whole = memo.page(title, text, self.books.by_month(scope), rows)
        path = f"memos/churn-{_named(idempotency_key)}.html"
        self._put(idempotency_key, path, whole.encode())
        return Written(f"{path}, {counted(len(text.split()), 'word')}, with a chart", path)

    async def _draft_slide(self, title: str, points: list[str], idempotency_key: str) -> Written:
        """Draft one slide, as Markdown."""
        text = f"# {title}\n\n" + "".join(f"* {point}\n" for point in points)
        await self._say(text)
        path = f"slides/churn-{_named(idempotency_key)}.md"
        self._put(idempotency_key, path, text.encode())
        return Written(f"{path}, {counted(len(points), 'point')}", path)

    def _put(self, key: str, path: str, data: bytes) -> None:
        """Put a file in place; what was there before is kept for an undo, by this key."""
        place = self.folder / path
        before = place.read_bytes() if place.exists() else None
        with self.books.open() as db:
            keep = "INSERT INTO files VALUES (?, ?, ?, ?) "
            keep += "ON CONFLICT (key) DO UPDATE SET digest = excluded.digest"
            db.execute(keep, [key, path, _digest(data), before])
        _replace(place, data)

    def _file_written(self, done: Performed) -> Done:
        path, digest, _ = self._file(done.key)
        if self._look(path) != digest:
            raise NotDone
        return Done(Written(path, path))

    def _put_back(self, done: Performed) -> None:
        path, _, before = self._file(done.key)
        if before is None:
            (self.folder / path).unlink(missing_ok=True)
        else:
            _replace(self.folder / path, before)

    def _file_left(self, done: Performed) -> str:
        return self._look(self._file(done.key)[0])

    def _file(self, key: str) -> tuple[str, str, bytes | None]:
        with self.books.open() as db:
            asked = "SELECT path, digest, before FROM files WHERE key = ?"
            found: tuple[str, str, bytes | None] | None = db.execute(asked, [key]).fetchone()
        if found is None:
            raise NotDone
        return found

    def _look(self, path: str) -> str:
        place = self.folder / path
        return _digest(place.read_bytes()) if place.exists() else "gone"

    # ── sending ──────────────────────────────────────────────────────────────────────────────

    async def _send_memo(self, memo: str, to: Recipients, idempotency_key: str) -> Written:
        """Send the memo (its path, as it was written) to people. It cannot be unsent."""
        if memo not in {f"memos/{path.name}" for path in (self.folder / "memos").glob("*.html")}:
            raise ToolRefused(f"there is no memo {memo!r}. Nothing was sent.")
        page = (self.folder / memo).read_text(encoding="utf-8")
        letter = EmailMessage()
        letter["To"], letter["From"] = TO[to], "analyst@example.test"
        letter["Subject"] = page.partition("<title>")[2].partition("</title>")[0]
        letter["Message-ID"] = f"<{_digest(idempotency_key.encode())}@example.test>"
        letter.set_content(page, subtype="html")
        path = self._letter(idempotency_key)
        _replace(self.folder / path, bytes(letter))
        return Written(f"{path}, to {to}", path)

    def _sent(self, done: Performed) -> Done:
        path = self._letter(done.key)
        if not (self.folder / path).exists():
            raise NotDone
        return Done(Written(path, path))

    def _letter(self, key: str) -> str:
        return f"outbox/{_digest(key.encode())}.eml"


def _reads(function: Any) -> Tool:
    return tool(effect="read", name=f"demo.{function.__name__.lstrip('_')}")(function)


def _run(key: str) -> str:
    """The run that an attempt's key belongs to: it begins with its id."""
    return key.partition(":")[0]


def _named(key: str) -> str:
    """The end of its id, for the name of a file."""
    return _run(key).removeprefix("r-")[-NAMED:]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _replace(place: Path, data: bytes) -> None:
    """On the disk first, then under its name."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = place.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(place)
