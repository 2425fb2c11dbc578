"""The memo and the figures in it: read from the database, its words by rules, its chart as SVG."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from html import escape
from pathlib import Path
from typing import Final

from msgspec import Struct

from midflight.demo.wishes import NAMES, Question, Scope, Wishes, counted, customers

BUSY_S: Final = 5.0
AT_RISK: Final = 60  # of a hundred
MONTHS_BACK: Final = 3  # revenue now is compared with that of so many months ago
LOGINS: Final = 20  # a month: a customer with so many is not silent at all
TICKETS: Final = 5

JOINED: Final = """
WITH paid AS (
    SELECT customer, sum(usd) FILTER (WHERE month = :now) AS now,
           sum(usd) FILTER (WHERE month = :before) AS before
    FROM revenue GROUP BY customer
)
SELECT id, name, region, plan, trial, ifnull(now, 0), ifnull(before, 0), logins, tickets
FROM customers LEFT JOIN paid ON customer = id
WHERE status != 'churned' AND (:trials OR NOT trial)
  AND :region IN ('', region) AND :plan IN ('', plan)
"""
BY_MONTH: Final = """
SELECT month, sum(usd) FROM revenue JOIN customers ON customer = id
WHERE :region IN ('', region) AND :plan IN ('', plan) GROUP BY month ORDER BY month
"""
CHURNED: Final = """
SELECT count(*) FROM customers
WHERE churned_on != '' AND :month IN ('', churned_on)
  AND :region IN ('', region) AND :plan IN ('', plan)
"""
THERE: Final = """
SELECT count(*), ifnull(sum(trial), 0) FROM customers
WHERE status != 'churned' AND :region IN ('', region) AND :plan IN ('', plan)
"""


class Overview(Struct, frozen=True):
    """The customer list in figures."""

    text: str
    customers: int
    trials: int
    churned: int


class Revenue(Struct, frozen=True):
    """The customer list joined with what each of them pays."""

    text: str
    customers: int
    mrr: int
    months: int


class Account(Struct, frozen=True):
    """A customer who may leave, and why we think so."""

    id: int
    name: str
    region: str
    plan: str
    mrr: int
    risk: int
    why: str


class Scored(Struct, frozen=True):
    """The customers who may leave, the likeliest first."""

    text: str
    customers: int
    mrr: int
    at_risk: int
    mrr_at_risk: int
    accounts: list[Account]


class Books:
    """Reads figures from the database. Each question takes a millisecond or two."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection; its changes are kept unless the block raises."""
        with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as db, db:
            yield db

    def months(self) -> list[str]:
        """Return the months that there are figures for, oldest first."""
        with self.open() as db:
            return [m for (m,) in db.execute("SELECT DISTINCT month FROM revenue ORDER BY month")]

    def overview(self) -> Overview:
        """Return the customer list in figures."""
        with self.open() as db:
            there = "SELECT region, count(*) FROM customers WHERE status != 'churned' GROUP BY 1"
            regions = dict(db.execute(f"{there} ORDER BY 1").fetchall())
            everybody = {"month": "", "region": "", "plan": ""}
            (there_now, trials) = db.execute(THERE, everybody).fetchone()
            (churned,) = db.execute(CHURNED, everybody).fetchone()
        listed = ", ".join(f"{count} {region}" for region, count in regions.items())
        summary = f"{counted(there_now, 'customer')}: {listed}; {trials} on trial, {churned} left"
        return Overview(summary, there_now, trials, churned)

    def revenue(self) -> Revenue:
        """Return the monthly revenue from all customers."""
        rows, months = self._joined(Scope(trials=True)), self.months()
        mrr = sum(row[5] for row in rows)
        summary = (
            f"${mrr:,} a month from {counted(len(rows), 'customer')}, {len(months)} months back"
        )
        return Revenue(summary, len(rows), mrr, len(months))

    def scored(self, scope: Scope) -> Scored:
        """Return the customers in a scope who may leave, with the risk of each."""
        rows = self._joined(scope)
        accounts = [_account(*row) for row in rows]
        risky = sorted((a for a in accounts if a.risk >= AT_RISK), key=lambda a: (-a.risk, a.id))
        risky = risky[: scope.top] if scope.top else risky
        losing = sum(account.mrr for account in risky)
        summary = f"{len(risky)} at risk, ${losing:,} a month ({scope.words()})"
        mrr = sum(account.mrr for account in accounts)
        return Scored(summary, len(accounts), mrr, len(risky), losing, risky)

    def by_month(self, scope: Scope) -> list[tuple[str, int]]:
        """Return the revenue of each month."""
        with self.open() as db:
            asked = {"region": scope.region, "plan": scope.plan}
            return [(month, usd) for month, usd in db.execute(BY_MONTH, asked)]

    def answer(self, question: Question) -> str:
        """Answer a question that can be counted, in one sentence."""
        asked = {"region": question.region, "plan": question.plan}
        who = customers(question.region, question.plan)
        month = self._latest(question.month)
        if question.month and not month:
            return f"There are no figures for {question.month}."
        with self.open() as db:
            if question.kind == "churned":
                (left,) = db.execute(CHURNED, asked | {"month": month}).fetchone()
                when = (
                    f"in {spelled(month)}" if month else f"in the last {len(self.months())} months"
                )
                return f"{left} {who} churned {when}."
            if question.kind == "revenue":
                paid = dict(self.by_month(Scope(question.region, question.plan)))
                month = month or max(paid, default="")
                return (
                    f"{who[0].upper()}{who[1:]} paid ${paid.get(month, 0):,} in {spelled(month)}."
                )
            (there, trials) = db.execute(THERE, asked).fetchone()
        return f"There are {there:,} {who}, {trials} of them on trial."

    def _latest(self, name: str) -> str:
        """Return the last month of that name: ``2026-03`` for ``March``."""
        number = f"-{NAMES.index(name) + 1:02d}" if name else "-"
        named = [month for month in self.months() if name and month.endswith(number)]
        return named[-1] if named else ""

    def _joined(self, scope: Scope) -> list[tuple[int, str, str, str, int, int, int, int, int]]:
        months = self.months()
        asked = {
            "now": months[-1],
            "before": months[-1 - MONTHS_BACK],
            "trials": scope.trials,
            "region": scope.region,
            "plan": scope.plan,
        }
        with self.open() as db:
            return db.execute(JOINED, asked).fetchall()


def _account(
    number: int, name: str, region: str, plan: str, trial: int, mrr: int, before: int,
    logins: int, tickets: int,
) -> Account:  # fmt: skip
    """Score a customer: half of the risk is lost revenue, the rest silence and complaints."""
    drop = max(0.0, 1 - mrr / before) if before else 0.0
    silence = 1 - min(logins, LOGINS) / LOGINS
    trouble = min(tickets, TICKETS) / TICKETS
    paid = 0.0 if trial else 0.5 * min(1.0, 2 * drop)  # a trial pays nothing, and cannot pay less
    risk = round(100 * (paid + (1.0 if trial else 0.5) * (0.6 * silence + 0.4 * trouble)))
    reasons = (
        f"pays {drop:.0%} less" if drop >= 0.05 else "",
        counted(logins, "login") if silence > 0.5 else "",
        counted(tickets, "ticket") if trouble > 0.5 else "",
        "on trial" if trial else "",
    )
    return Account(number, name, region, plan, mrr, risk, ", ".join(filter(None, reasons)))


def spelled(month: str) -> str:
    """Return ``2026-03`` as people say it: ``March 2026``."""
    year, _, number = month.partition("-")
    return f"{NAMES[int(number) - 1]} {year}" if number else "no month"


WIDTH, HEIGHT, FOOT, HEAD = 720, 220, 24, 20
ROWS_MAX: Final = 50
STYLE: Final = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem;
       color: #1d1c1a; background: #fffefc }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid #e4e1da }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto }
"""


def composed(scored: Scored, wishes: Wishes, *, tasks: int, checked: str) -> str:
    """Write the memo's text: as many sentences as are wished, or all of them in paragraphs."""
    who = wishes.scope.words()
    share = scored.mrr_at_risk / scored.mrr if scored.mrr else 0.0
    worst = scored.accounts[0] if scored.accounts else None
    sentences = [
        f"{scored.at_risk} of {counted(scored.customers, 'customer')} may leave ({who}).",
        f"They pay ${scored.mrr_at_risk:,} a month, {share:.1%} of ${scored.mrr:,}.",
        f"The first to call is {worst.name}: {worst.why}." if worst else "Nobody needs a call.",
        f"There {'is' if tasks == 1 else 'are'} {counted(tasks, 'follow-up task')} in the CRM.",
        "The risk is half revenue lost within three months, and half silence and tickets.",
        f"A background run has checked the revenue: {checked}." if checked else "",
    ]
    told = [sentence for sentence in sentences if sentence]
    if wishes.sentences:
        return " ".join(told[: wishes.sentences])
    return "\n\n".join((" ".join(told[:2]), " ".join(told[2:4]), " ".join(told[4:])))


def page(title: str, text: str, months: Sequence[tuple[str, int]], rows: Sequence[Account]) -> str:
    """Return the memo as one HTML page, which loads nothing from elsewhere."""
    paragraphs = "\n".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{paragraphs}\n<h2>Revenue by month</h2>\n{chart(months)}\n"
        f"{_table(rows)}\n</body>\n</html>\n"
    )


def chart(months: Sequence[tuple[str, int]]) -> str:
    """Return an SVG with a bar for each month, the first and the last with their figures."""
    top = max((usd for _, usd in months), default=0) or 1
    room = WIDTH / max(len(months), 1)
    bars = []
    for number, (month, usd) in enumerate(months):
        tall = round((HEIGHT - FOOT - HEAD) * usd / top, 1)
        x, y = round(number * room + room * 0.15, 1), HEIGHT - FOOT - tall
        last = number == len(months) - 1
        bars.append(
            f'<rect x="{x}" y="{y:.1f}" width="{room * 0.7:.1f}" height="{tall}" rx="2" '
            f'fill="{"#2f5fd0" if last else "#b9c6e8"}"><title>{month}: ${usd:,}</title></rect>'
        )
        if number in {0, len(months) - 1}:
            anchor = "end" if last else "start"
            at = WIDTH if last else 0
            bars.append(
                f'<text x="{at}" y="{HEIGHT - 6}" text-anchor="{anchor}">{month}</text>'
                f'<text x="{at}" y="12" text-anchor="{anchor}">${usd:,}</text>'
            )
    ends = f"{spelled(months[0][0])} to {spelled(months[-1][0])}" if months else "nothing"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12" fill="#56534d" '
        f'xmlns="http://www.w3.org/2000/svg"><title>Revenue by month, {ends}</title>'
        f"{''.join(bars)}</svg>"
    )


def _table(rows: Sequence[Account]) -> str:
    if not rows:
        return "<p>Nobody is at risk.</p>"
    head = "<tr><th>Customer</th><th>Region</th><th>Plan</th>"
    head += '<th class="n">MRR</th><th class="n">Risk</th><th>Why</th></tr>'
    lines = [
        f"<tr><td>{escape(row.name)}</td><td>{row.region}</td><td>{row.plan}</td>"
        f'<td class="n">${row.mrr:,}</td><td class="n">{row.risk}</td>'
        f"<td>{escape(row.why)}</td></tr>"
        for row in rows[:ROWS_MAX]
    ]
    left_out = f"<p>And {len(rows) - ROWS_MAX} more.</p>" if len(rows) > ROWS_MAX else ""
    return "<h2>At risk</h2>\n<table>\n" + "\n".join([head, *lines]) + f"\n</table>\n{left_out}"
