"""The memo: its words by rules, its chart as SVG, all in one page that any browser opens."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from midflight.demo.figures import Account, Scored, spelled
from midflight.demo.wishes import Wishes, counted

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
