"""The tools of the demo: it reads its company, makes tasks, writes files and sends a memo.

The demo model's loop and, where there is a key, a real model get the same tools. The code that
notes, checks and undoes a change is in ``changes``.
"""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from typing_extensions import override

from midflight.demo import memo
from midflight.demo.company import FileChanges, TaskChanges, Tasks, Written, digest, replace, run_of
from midflight.demo.memo import Books, Overview, Revenue, Scored
from midflight.demo.wishes import Question, Scope, counted
from midflight.models.model import CHARACTERS_PER_TOKEN
from midflight.tools.declaration import Done, NotDone, Tool, ToolRefused, tool
from midflight.tools.options import EffectRecord
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


class AnalystTools:
    """Tools over one folder. ``pace`` stretches all that takes time; 0 is for tests."""

    def __init__(
        self, folder: Path, *, pace: float = 1.0, hold: float = HOLD_S, free: bool = True
    ) -> None:
        self.folder = folder
        self.books = Books(folder / "company.db")
        self._tasks = TaskChanges(self.books)
        self._files = FileChanges(folder, self.books)
        self._pace = pace
        self._free = free  # the demo model speaks, and costs nothing
        self.fetch_customers = _reads(self._fetch_customers)
        self.join_mrr = _reads(self._join_mrr)
        self.score_churn_risk = _reads(self._score_churn_risk)
        self.count = _reads(self._count)
        self.check_months = _reads(self._check_months)
        self.check_leavers = _reads(self._check_leavers)
        self.set_tasks = tool(
            effect="write",
            name="demo.set_tasks",
            label="follow-up tasks",
            check=self._tasks.check,
            settles_within=0,
            undo=self._tasks.undo,
            fingerprint=self._tasks.leaves,
        )(self._set_tasks)
        self.write_memo = self._writes(self._write_memo, "memo")
        self.draft_slide = self._writes(self._draft_slide, "slide")
        self.send_memo = tool(
            effect="once",
            name="demo.send_memo",
            label="email",
            describe="email to {to}",
            irreversible=True,
            approval=CANNOT_BE_UNSENT,
            undo_window=hold,
            check=self._sent,
            settles_within=0,
        )(self._send_memo)

    @property
    def for_a_model(self) -> tuple[Tool, ...]:
        """The tools that a real model gets."""
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
        """Return whether both are over the same folder: tools are equal after a reload."""
        return isinstance(other, AnalystTools) and self.folder == other.folder

    @override
    def __hash__(self) -> int:
        return hash(self.folder)

    def _writes(self, function: Any, noun: str) -> Tool:
        return tool(
            effect="write",
            name=f"demo.{function.__name__.lstrip('_')}",
            label=noun,
            describe=noun,  # a run makes one of each, and its title would be long on a button
            check=self._files.check,
            settles_within=0,
            undo=self._files.undo,
            fingerprint=self._files.leaves,
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

    async def _set_tasks(self, customers: list[int], idempotency_key: str = "") -> Tasks:
        """Have a follow-up task for each of these customers (ids) and for nobody else."""
        wanted = set(customers)
        await self._say(self._preparing(wanted), 1.0)
        return self._tasks.make(wanted, idempotency_key)

    def _preparing(self, customers: set[int]) -> str:
        with self.books.open() as db:
            names = dict(db.execute("SELECT id, name FROM customers").fetchall())
        calls = [f"Call {names[c]}" for c in sorted(customers & names.keys())]
        more = [f"and {len(calls) - TOLD} more"] if len(calls) > TOLD else []
        listed = "\n".join([*calls[:TOLD], *more])
        return f"Preparing {counted(len(calls), 'follow-up task')}:\n{listed}\n"

    # ── files ────────────────────────────────────────────────────────────────────────────────

    async def _write_memo(
        self,
        title: str,
        text: str,
        idempotency_key: str = "",
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
        self._files.put(idempotency_key, path, whole.encode())
        return Written(f"{path}, {counted(len(text.split()), 'word')}, with a chart", path)

    async def _draft_slide(
        self, title: str, points: list[str], idempotency_key: str = ""
    ) -> Written:
        """Draft one slide, as Markdown."""
        text = f"# {title}\n\n" + "".join(f"* {point}\n" for point in points)
        await self._say(text)
        path = f"slides/churn-{_named(idempotency_key)}.md"
        self._files.put(idempotency_key, path, text.encode())
        return Written(f"{path}, {counted(len(points), 'point')}", path)

    # ── sending ──────────────────────────────────────────────────────────────────────────────

    async def _send_memo(self, memo: str, to: Recipients, idempotency_key: str = "") -> Written:
        """Send the memo (its path, as it was written) to people. It cannot be unsent."""
        if memo not in {f"memos/{path.name}" for path in (self.folder / "memos").glob("*.html")}:
            raise ToolRefused(f"there is no memo {memo!r}. Nothing was sent.")
        page = (self.folder / memo).read_text(encoding="utf-8")
        letter = EmailMessage()
        letter["To"], letter["From"] = TO[to], "analyst@example.test"
        letter["Subject"] = page.partition("<title>")[2].partition("</title>")[0]
        letter["Message-ID"] = f"<{digest(idempotency_key.encode())}@example.test>"
        letter.set_content(page, subtype="html")
        path = self._letter(idempotency_key)
        replace(self.folder / path, bytes(letter))
        return Written(f"{path}, to {to}", path)

    def _sent(self, done: EffectRecord) -> Done:
        path = self._letter(done.key)
        if not (self.folder / path).exists():
            raise NotDone
        return Done(Written(path, path))

    def _letter(self, key: str) -> str:
        return f"outbox/{digest(key.encode())}.eml"


def _reads(function: Any) -> Tool:
    return tool(effect="read", name=f"demo.{function.__name__.lstrip('_')}")(function)


def _named(key: str) -> str:
    """Return the end of the run's id, for the name of a file."""
    return run_of(key).removeprefix("r-")[-NAMED:]
