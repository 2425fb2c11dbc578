"""What a person sees and presses, in the words of the tests."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Locator, Page, Request, Response, expect

if TYPE_CHECKING:
    from page.theatre import Stage

PICTURES = Path(__file__).resolve().parent.parent.parent / "docs/pictures"
LOOK = ["color-contrast", "link-in-text-block", "target-size"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WITHOUT_FADE = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(".work::after { display: none !important; }");
    document.adoptedStyleSheets = [sheet];
}"""
"""A fade under the phone's bar lies over no words, but axe judges no colour where there is one."""
VIOLATIONS = "([most, wanted]) => axe.run(most, wanted).then((found) => found.violations)"
"""Of all that axe tells, most is what it found to be right: that stays in the page."""
WAIT_MS = 30_000
MEANT_MS = 450  # nobody means what has turned up under their finger just now: the page ignores it


PLACES = """(elements) => elements.map((element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const top = document.elementFromPoint(x + width / 2, y + height / 2);
    return { x, y, width, height, covered: !(top && element.contains(top)) };
})"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Place(NamedTuple):
    """Where something is on the screen, and whether something else lies over its middle."""

    x: float
    y: float
    width: float
    height: float
    covered: bool


class Glass:
    """One tab on a run."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url

    def look_at(self, run: str) -> Glass:
        """Go to a run's own address, and wait until it is shown."""
        self.page.goto(f"{self.url}/runs/{run}")
        expect(self.bar).to_be_visible(timeout=WAIT_MS)
        return self

    def go_on_to(self, journal: str) -> Glass:
        """To another run or thread without loading the page anew, as by a link in the rail."""
        self.page.evaluate(
            """(path) => {
                history.pushState(null, "", path);
                dispatchEvent(new PopStateEvent("popstate"));
            }""",
            f"{'threads' if journal.startswith('t-') else 'runs'}/{journal}",
        )
        expect(self.bar).to_be_visible(timeout=WAIT_MS)
        return self

    def turn_to(self, stage: Stage) -> Glass:
        """To another run, and wait until it is this one that is shown."""
        self.go_on_to(stage.run)
        shown = self.page.locator(f'main[data-run="{stage.run}"]')
        expect(shown).to_be_visible(timeout=WAIT_MS)
        return self

    @property
    def bar(self) -> Locator:
        return self.page.locator(".bar")

    @property
    def slots(self) -> Locator:
        return self.page.locator("#controls [data-slot]")

    def slot(self, number: int) -> Locator:
        return self.page.locator(f'#controls [data-slot="{number}"]')

    def slots_read(self, *labels: str) -> None:
        """Each slot begins with this label."""
        for number, label in enumerate(labels, 1):
            expect(self.slot(number).locator(".label")).to_contain_text(label, timeout=WAIT_MS)

    def slots_are(self, *labels: str) -> None:
        """These and no others, in this order."""
        shown = self.page.locator("#controls [data-slot] .label")
        expect(shown).to_have_text([re.compile(f"^{label}") for label in labels], timeout=WAIT_MS)

    def says(self, word: str, detail: str = "") -> None:
        """The status line."""
        what = self.page.locator(".status .what")
        expect(what.locator("b")).to_have_text(word, timeout=WAIT_MS)
        if detail:
            expect(what).to_contain_text(detail, timeout=WAIT_MS)

    def press(self, number: int) -> None:
        self.page.wait_for_timeout(MEANT_MS)
        self.slot(number).click()

    def stop_clock(self) -> None:
        """Whatever counts on this page stands still, however long the machine takes."""
        self.page.evaluate("(now => { window.ticks = Date.now; Date.now = () => now })(Date.now())")

    def start_clock(self) -> None:
        self.page.evaluate("Date.now = window.ticks")

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Whatever is pressed meanwhile, the server is told nothing, nor a moment later."""
        told: list[str] = []

        def note(asked: Request) -> None:
            if asked.method == "POST":
                told.append(asked.url)

        self.page.on("request", note)
        yield
        self.page.wait_for_timeout(300)
        self.page.remove_listener("request", note)
        assert told == []

    @property
    def changed(self) -> Locator:
        """The line over the steps that says what a redirect has changed."""
        return self.page.get_by_role("region", name="Steps").locator(".change-line")

    @property
    def rewrite(self) -> Locator:
        """The field of a redirect."""
        return self.page.get_by_role("textbox", name="Rewrite the brief")

    @property
    def note(self) -> Locator:
        """The field of a hand-back."""
        return self.page.get_by_role("textbox", name="What should it know?")

    def step(self, name: str) -> Locator:
        return self.page.locator("li.step", has=self.page.locator(".step-name", has_text=name))

    def step_is(self, name: str, word: str) -> None:
        expect(self.step(name).last.locator(".step-word")).to_have_text(word, timeout=WAIT_MS)

    @property
    def acknowledged_ms(self) -> float:
        """How long the last cancel took, by the browser's clock, with its wait for a connection."""
        return float(
            self.page.evaluate(
                """() => performance.getEntriesByType("resource")
                    .filter((one) => one.name.endsWith("/cancel")).at(-1).duration"""
            )
        )

    @contextmanager
    def weighed(self) -> Iterator[dict[str, int]]:
        """How much each script weighs, packed, that is loaded meanwhile; the worker's, too."""
        weights: dict[str, int] = {}
        answers: list[Response] = []

        def note(answer: Response) -> None:
            answers.append(answer)

        self.page.on("response", note)
        yield weights
        self.page.wait_for_load_state("load")
        self.page.remove_listener("response", note)
        scripts = {one.url: one.body() for one in answers if one.url.endswith(".js")}
        named = re.search(rb"worker-[\w-]+\.js", b"".join(scripts.values()))
        assert named, "who has the worker's name?"  # the browser tells nobody that it is loaded
        worker = f"{self.url}/assets/{named.group().decode()}"
        scripts[worker] = self.page.request.get(worker).body()
        weights |= {url: len(gzip.compress(script)) for url, script in scripts.items()}

    def violations(self, *, of_the_look: bool = False) -> list[str]:
        """What axe finds wrong; by all rules, or by those alone that colours and borders break."""
        rules = (
            {"type": "rule", "values": LOOK} if of_the_look else {"type": "tag", "values": RULES}
        )
        wanted: dict[str, Any] = {"runOnly": rules, "resultTypes": ["violations"]}
        wanted |= {"preload": False, "iframes": False}  # no rule of these needs either
        self.page.evaluate(WITHOUT_FADE)
        if not self.page.evaluate("'axe' in window"):  # half a megabyte, which is not sent twice
            self.page.evaluate(AXE_SCRIPT)
        most = {"exclude": [[".runs li:nth-child(n+4)"]]}  # the runs of other tests are all alike
        found = self.page.evaluate(VIOLATIONS, [most, wanted])
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary']}"
            for one in found
        ]

    def picture(self, name: str) -> None:
        """Keep what is to be seen, when it is asked for."""
        if os.environ.get("MIDFLIGHT_PICTURES"):
            PICTURES.mkdir(exist_ok=True)
            self.page.mouse.move(0, 0)
            self.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    def box(self, what: Locator) -> dict[str, float]:
        found: Any = what.bounding_box()
        assert found is not None
        return dict(found)

    def covered(self, what: Locator) -> bool:
        """Whether something else lies over the middle of it."""
        (found,) = self.places(what)
        return found.covered

    def places(self, what: Locator) -> list[Place]:
        """Where each of them is, in one look."""
        return [Place(**found) for found in what.evaluate_all(PLACES)]

    def drawn(self) -> None:
        """Wait until what is there now was drawn, and what followed from how large it is."""
        self.page.evaluate(DRAWN)

    def small_print(self) -> list[str]:
        """What is written in letters of less than 12 pixels."""
        found: list[str] = self.page.evaluate(
            """() => {
                const small = [], seen = document.createTreeWalker(document.body, 4);
                for (let text = seen.nextNode(); text; text = seen.nextNode())
                    if (text.data.trim() && text.parentElement.checkVisibility()
                        && parseFloat(getComputedStyle(text.parentElement).fontSize) < 12)
                        small.push(text.data.trim());
                return small;
            }"""
        )
        return found

    def filled(self) -> list[str]:
        """The buttons that stand out."""
        found: list[str] = self.page.evaluate(
            """() => {
                const sample = document.body.appendChild(document.createElement("i"));
                sample.style.color = "var(--fill)";
                const fill = getComputedStyle(sample).color;
                sample.remove();
                const paint = (one, part) => getComputedStyle(one, part).backgroundColor;
                return [...document.querySelectorAll(".slot, .button")]
                    .filter((one) => one.checkVisibility())
                    .filter((one) => [null, "::after"].some((part) => paint(one, part) === fill))
                    .map((one) => one.innerText);
            }"""
        )
        return found

    def overflows(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )
