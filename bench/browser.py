"""What the page costs a person: until it is seen, until a press is, and how long runs scroll.

Run by ``make bench-page``. A real Chromium on the real server, which is a process of its own with a
SQLite file. Times are taken inside the page, by its own clock.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from figures import ROOT, Load, machine, percentile, save, show, table
from playwright.sync_api import Browser, Page, sync_playwright

from page.conftest import CHROMIUM, FLAGS, come_in
from page.glass import Glass
from page.theatre import Stage, Theatre, soon

WHOLE = shutil.which("chromium") or CHROMIUM  # what people look through
LOADS = 5
PRESSES, CANCELS = 30, 5  # pauses and resumes in all; each run of them ends with a cancel
TABS = 8
MANY, VERY_MANY = 500, 5_000
STREAM_S = 8.0
WHEEL_PX, TURNS_MAX = 2_500, 400  # of rows of some 60 pixels each

WATCH_PAINT = """
window.paintedAt = 0;
new MutationObserver(() => {
    const there = document.querySelector(".steps li") && document.querySelector(".bar .what b");
    if (there && !window.paintedAt)
        requestAnimationFrame(() => setTimeout(() => { window.paintedAt ||= performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
ROWS_AND_STEP = """(index) => {
    const pane = document.querySelector(".steps-pane").getBoundingClientRect();
    const step = document.querySelector(`li.step[data-index="${index}"]`)?.getBoundingClientRect();
    const seen = step !== undefined && step.bottom > pane.top && step.top < pane.bottom;
    return [document.querySelectorAll("li.step").length, seen];
}"""
WATCH_PRESSES = """
window.presses = [];
const bare = window.fetch;
window.fetch = async (...given) => {
    const asked = performance.now();
    const answer = await bare(...given);
    const url = String(given[0]?.url ?? given[0]);
    const verb = /\\/(pause|resume|cancel)$/.exec(url)?.[1];
    if (verb) {
        const press = { verb, asked, answered: performance.now(), seen: null };
        window.presses.push(press);
        const word = () => document.querySelector(".status .what b")?.textContent;
        const wanted = { pause: /^Paus/, resume: /^Running/, cancel: /^Cancel/ }[verb];
        const look = () => {
            if (wanted.test(word() ?? "")) press.seen = performance.now();
            else requestAnimationFrame(look);
        };
        look();
    }
    return answer;
};
"""


class Desk:
    """Tabs of one person."""

    def __init__(self, browser: Browser, theatre: Theatre, known: Any) -> None:
        self.browser, self.theatre, self.known = browser, theatre, known

    @contextmanager
    def tab(self, *scripts: str) -> Iterator[Page]:
        context = self.browser.new_context(
            storage_state=self.known, viewport={"width": 1280, "height": 800}
        )
        for script in scripts:
            context.add_init_script(script)
        yield context.new_page()
        context.close()

    def counted(self, steps: int, **more: Any) -> Stage:
        """A run that has made many steps, and holds still."""
        stage = self.theatre.begin("counter", f"Count {steps}", input={"steps": steps, **more})
        until = time.monotonic() + 120
        while stage.view["spent"]["steps"] < steps:
            assert time.monotonic() < until
            time.sleep(0.2)
        return stage


@contextmanager
def tasks(desk: Desk, page: Page, name: str, into: dict[str, float]) -> Iterator[None]:
    """The longest task of the page's main thread: by the clock, and of that on a core."""
    desk.browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    yield
    traced = json.loads(desk.browser.stop_tracing())["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in traced
        if one.get("name") == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    found = [
        (one["dur"] / 1_000, one.get("tdur", one["dur"]) / 1_000)
        for one in traced
        if (one["pid"], one["tid"]) in mains and one.get("ph") == "X" and "RunTask" in one["name"]
    ]
    into[f"{name}_longest_task_ms"] = max(wall for wall, _ in found)
    into[f"{name}_longest_task_cpu_ms"] = max(core for _, core in found)


def first_load(desk: Desk) -> dict[str, float]:
    """JavaScript that is loaded before a run is seen, packed."""
    stage = desk.theatre.begin()
    with desk.tab() as page:
        tab = Glass(page, desk.theatre.url)
        with tab.weighed() as scripts:
            tab.look_at(stage.run).says("Running")
    return {"first_load_js_kb": sum(scripts.values()) / 1000}


def paints(desk: Desk) -> dict[str, float]:
    """From the address to the steps and the bar on the screen, each time in a new browser."""
    found = {}
    for steps, name in ((MANY, "paint_500_ms"), (VERY_MANY, "paint_5000_ms")):
        stage, times = desk.counted(steps), []
        for _ in range(LOADS):
            with desk.tab(WATCH_PAINT) as page:
                Glass(page, desk.theatre.url).look_at(stage.run)
                times.append(soon(partial(page.evaluate, "window.paintedAt"), "the picture"))
        found[name] = statistics.median(times)
        if steps == VERY_MANY:
            found |= scrolls(desk, stage)
    return found


def scrolls(desk: Desk, stage: Stage) -> dict[str, float]:
    """Up and down through five thousand steps; only what is on the screen is in the document."""
    found: dict[str, float] = {}
    with desk.tab() as page:
        Glass(page, desk.theatre.url).look_at(stage.run)
        page.wait_for_timeout(1_000)
        page.locator(".steps-pane").hover()
        with tasks(desk, page, "scroll_5000", found):
            rows = max(wheel(page, -WHEEL_PX, to=1), wheel(page, WHEEL_PX, to=VERY_MANY))
    return {**found, "scroll_5000_rows_in_document": rows}


def wheel(page: Page, by: int, *, to: int) -> int:
    """Turn it until this step is seen; gives how many rows were in the document, at most."""
    rows = 0
    for _ in range(TURNS_MAX):
        page.mouse.wheel(0, by)
        page.wait_for_timeout(16)
        there, seen = page.evaluate(ROWS_AND_STEP, to - 1)
        rows = max(rows, int(there))
        if seen:
            return rows
    raise AssertionError(f"step {to} was not reached by {TURNS_MAX} turns of the wheel")


def streams(desk: Desk) -> dict[str, float]:
    """While a step of a long run says a hundred words a second."""
    stage = desk.counted(MANY, recite=STREAM_S + 4)
    found: dict[str, float] = {}
    with desk.tab() as page:
        Glass(page, desk.theatre.url).look_at(stage.run)
        page.wait_for_timeout(1_000)
        said = page.locator(".step-saying")
        before = said.inner_text()
        with tasks(desk, page, "stream", found):
            page.wait_for_timeout(int(STREAM_S * 1_000))
        assert said.inner_text() != before, "nothing was said meanwhile"
    return found


def presses(desk: Desk) -> dict[str, float]:
    """Pause, resume and cancel: until the server has answered, and from then until it is seen."""
    made: list[dict[str, Any]] = []
    for _ in range(CANCELS):
        stage = desk.theatre.begin()
        with desk.tab(WATCH_PRESSES) as page:
            tab = Glass(page, desk.theatre.url).look_at(stage.run)
            for number in range(PRESSES // CANCELS):
                tab.says("Paused" if number % 2 else "Running")
                tab.press(1)
            tab.says("Running")
            tab.press(3)
            tab.says("Cancelled")
            made += page.evaluate("window.presses")
    seen = [seen_after(one) for one in made]
    heard = [one["answered"] - one["asked"] for one in made]
    cancels = [after for after, one in zip(seen, made, strict=True) if one["verb"] == "cancel"]
    assert (len(made), len(cancels)) == (PRESSES + CANCELS, CANCELS), made
    return {
        "presses": len(made),
        "press_answered_p50_ms": percentile(heard, 50),
        "press_seen_after_answer_p50_ms": percentile(seen, 50),
        "press_seen_after_answer_p95_ms": percentile(seen, 95),
        "press_seen_after_answer_max_ms": max(seen),
        "cancel_seen_after_answer_max_ms": max(cancels),
    }


def seen_after(press: dict[str, Any]) -> float:
    """From the answer on; 0 if the news were quicker. What was never seen is no measurement."""
    assert press["seen"] is not None, f"{press['verb']} was answered and never seen"
    return max(0.0, float(press["seen"]) - float(press["answered"]))


def eight_tabs(desk: Desk) -> dict[str, float]:
    """Eight tabs of one browser on eight running runs: a cancel in each, one after another."""
    stages = [desk.theatre.begin(brief=f"Run {n}") for n in range(TABS)]
    times = []
    with desk.tab() as first:
        pages = [first, *(first.context.new_page() for _ in range(TABS - 1))]
        tabs = [
            Glass(page, desk.theatre.url).look_at(stage.run)
            for page, stage in zip(pages, stages, strict=True)
        ]
        for tab in tabs:
            tab.says("Running")
        for tab in tabs:
            tab.page.bring_to_front()
            tab.page.wait_for_timeout(450)
            tab.slot(3).click()
            tab.says("Cancelled")
            times.append(tab.acknowledged_ms)
    return {"eight_tabs_cancel_max_ms": max(times)}


ROWS = {
    "first_load_js_kb": ("JavaScript at first load, with its worker, packed, kB", "≤ 200"),
    "paint_500_ms": ("a run of 500 steps until it is seen, ms", "≤ 1500"),
    "paint_5000_ms": ("a run of 5,000 steps until it is seen, ms", "no goal"),
    "scroll_5000_longest_task_ms": (
        "longest task while 5,000 steps scroll up and down, ms",
        "no goal",
    ),
    "scroll_5000_longest_task_cpu_ms": ("the same, of its own time on a core", "no goal"),
    "scroll_5000_rows_in_document": ("rows in the document meanwhile, at most", "no goal"),
    "stream_longest_task_ms": ("longest task while a step of 500 streams, ms", "≤ 100"),
    "stream_longest_task_cpu_ms": ("the same, of its own time on a core", "no goal"),
    "press_answered_p50_ms": ("a press until the server has answered, p50, ms", "no goal"),
    "press_seen_after_answer_p50_ms": ("from the answer until it is seen, p50, ms", "≤ 100"),
    "press_seen_after_answer_p95_ms": ("the same, p95, ms", "≤ 100"),
    "press_seen_after_answer_max_ms": ("the same, the slowest of 35, ms", "≤ 100"),
    "cancel_seen_after_answer_max_ms": ("of these the slowest cancel, ms", "≤ 100"),
    "eight_tabs_cancel_max_ms": ("eight tabs: the slowest acknowledged cancel, ms", "≤ 1000"),
}
PAGE = """\
# The page, measured

Made by `make bench-page`; the figures are in `bench/results/page.json`. A real Chromium on a real
server with SQLite, both on this machine. A task by the clock also waits for other programs; what it
takes of a core is the page's own.

| what | measured | wanted |
|---|---|---|
{table}

Machine: {machine}; other programs used {load:.0f} % of it meanwhile.
"""


def report(results: dict[str, Any]) -> str:
    return PAGE.format(
        table=table(results, ROWS),
        machine=results["machine"],
        load=results["load_of_others_pct"],
    )


def main() -> None:
    began, load = time.perf_counter(), Load()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        theatre = Theatre(Path(folder))
        theatre.open()
        theatre.come_in()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=WHOLE, args=FLAGS)
            desk = Desk(browser, theatre, come_in(browser, theatre))
            for part in (first_load, presses, eight_tabs, paints, streams):
                results |= part(desk)
                theatre.clear()
                show(results)
            browser.close()
        theatre.kill()  # its runs are not meant to end
    results["load_of_others_pct"] = load.of_others_pct()
    results = {name: round(value, 4) for name, value in results.items()}
    results["machine"], results["seconds"] = machine(), round(time.perf_counter() - began, 1)
    save("page", results)
    (ROOT / "docs/benchmarks-page.md").write_text(report(results), encoding="utf-8")
    print(f"Done in {results['seconds']} s.")


if __name__ == "__main__":
    main()
