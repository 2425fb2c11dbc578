"""The figures of the demo's company, worked out a second time, by other means than the demo's."""

from __future__ import annotations

from typing import Any

from demo.theatre import Playing


def at_risk(playing: Playing, *, where: str = "NOT trial", top: int = 0) -> list[tuple[str, int]]:
    """Who may leave and what they pay, the likeliest first, by the rule that the memo states."""
    (now,), _, _, (before,) = playing.ask(
        "SELECT DISTINCT month FROM revenue ORDER BY month DESC LIMIT 4"
    )
    paid = {(customer, month): usd for customer, month, usd in playing.ask("SELECT * FROM revenue")}
    rows = playing.ask(
        "SELECT id, name, trial, logins, tickets FROM customers "
        f"WHERE status != 'churned' AND {where}"
    )
    found: list[tuple[int, int, str, int]] = []
    for number, name, trial, logins, tickets in rows:
        usd, earlier = paid.get((number, now), 0), paid.get((number, before), 0)
        quiet = 60 * (1 - min(logins, 20) / 20) + 40 * min(tickets, 5) / 5
        lost = min(1.0, 2 * max(0.0, (earlier - usd) / earlier)) if earlier else 0.0
        risk = round(quiet if trial else 50 * lost + quiet / 2)
        if risk >= 60:
            found.append((-risk, number, name, usd))
    ranked = sorted(found)[: top or None]
    return [(name, usd) for _, _, name, usd in ranked]


def churned_in(playing: Playing, month: str) -> tuple[int, str]:
    """How many left in the last month of that number, and which month that is."""
    rows: list[Any] = playing.ask(
        "SELECT churned_on, count(*) FROM customers WHERE churned_on LIKE ? GROUP BY 1",
        f"%-{month}",
    )
    named = playing.ask("SELECT max(month) FROM revenue WHERE month LIKE ?", f"%-{month}")[0][0]
    return dict(rows).get(named, 0), named
