"""What a person sees and does in the user interfaces, under the same names for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from playwright.sync_api import Locator, Page, expect

from page.theatre import Theatre, soon

COPILOTKIT, ASSISTANT_UI, CLIENT_1 = "copilotkit", "assistant", "assistant-client-1"
"""The pages; the last is assistant-ui with ``@ag-ui/client`` 1.0.0 in place of what it carries."""
SHOWS_MS = 20_000  # for what takes milliseconds, on a machine that does much else
expect.set_options(timeout=SHOWS_MS)

REMEMBER = """pattern => {
  const wanted = new RegExp(pattern);
  window.remembered = false;
  new MutationObserver(() => {
    for (const shown of document.querySelectorAll("p")) {
      if (wanted.test(shown.textContent)) window.remembered = true;
    }
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


class Screen:
    """One browser tab with one thread in it."""

    def __init__(self, page: Page, ui: str, theatre: Theatre, pages: str, token: str) -> None:
        self.page, self._theatre = page, theatre
        self._copilotkit, self._client_1 = ui == COPILOTKIT, ui == CLIENT_1
        self.name = str(uuid4())
        self.thread = f"t-{self.name}"
        self._url = f"{pages}/{ui}.html#server={theatre.url}&token={token}&thread={self.name}"
        page.set_default_timeout(SHOWS_MS)

    def open(self, **options: str) -> Screen:
        """Open the page and wait until it has found its thread."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        self.page.goto("about:blank")
        with self.page.expect_response("**/agui"):
            self.page.goto(self._url + more)
        expect(self._box).to_be_visible()
        self.rests()
        return self

    def reload(self) -> None:
        with self.page.expect_response("**/agui"):
            self.page.reload()

    def close(self) -> None:
        self.page.goto("about:blank")

    @property
    def _box(self) -> Locator:
        return self.page.get_by_placeholder("Type a message...")

    @property
    def _button(self) -> Locator:
        """The button at the composer: it sends, or it stops what is under way."""
        if self._copilotkit:
            return self.page.get_by_test_id("copilot-send-button")
        return self.page.get_by_role("button", name="Stop")

    def say(self, text: str) -> None:
        self._box.fill(text)
        self._box.press("Enter")

    def stop(self) -> None:
        """Press what the interface has for stopping."""
        self._button.click()

    def rests(self) -> None:
        """Wait until the interface says that nothing is under way."""
        if self._copilotkit:
            expect(self.page.locator("[data-copilot-running=true]")).to_have_count(0)
        else:
            expect(self._button).to_have_count(0)

    @property
    def said(self) -> Locator:
        """Each message of the agent that has words."""
        if self._copilotkit:
            return self.page.get_by_test_id("copilot-assistant-message")
        return self.page.get_by_role("article", name="assistant")

    @property
    def heard(self) -> Locator:
        """Each message of a person."""
        if self._copilotkit:
            return self.page.get_by_test_id("copilot-user-message")
        return self.page.get_by_role("article", name="user")

    def shows(self, text: str, times: int = 1) -> None:
        """Wait until the agent's words hold this, as often as that."""
        expect(self.said.get_by_text(text)).to_have_count(times)

    def shows_cancelled(self, by: str) -> None:
        """Wait until the page says, once, that the run was cancelled.

        Who has cancelled it is told to clients of version 0 only, in place of the outcome that
        they do not take. A client of version 1 shows what the agent's ending says.
        """
        words = "Cancelled. Kept: " if self._client_1 else f"Cancelled by {by}."
        self.shows(words)
        expect(self.page.get_by_text(words)).to_be_visible()
        if self._client_1:
            self.rests()
            expect(self.page.get_by_text("Cancelled by")).to_have_count(0)

    def remember(self, pattern: str) -> Callable[[], bool]:
        """Return a question: has a paragraph ever read like this, from now on?"""
        self.page.evaluate(REMEMBER, pattern)
        return lambda: bool(self.page.evaluate("window.remembered"))

    def hears(self, text: str) -> None:
        """Wait until a person's message is there, once."""
        expect(self.heard.get_by_text(text)).to_have_count(1)

    @property
    def tools(self) -> Locator:
        if self._copilotkit:
            return self.page.get_by_test_id("copilot-tool-render")
        return self.page.get_by_role("region", name="tool")

    def tool(self, name: str) -> Locator:
        """Wait for the one call of this tool."""
        shown = self.tools.filter(has=self.page.get_by_text(name, exact=True))
        expect(shown).to_have_count(1)
        if (
            self._copilotkit
            and shown.get_by_role("button").get_attribute("aria-expanded") != "true"
        ):
            shown.get_by_role("button").click()
        return shown

    @property
    def questions(self) -> Locator:
        return self.page.get_by_role("button", name="Deny").or_(
            self.page.get_by_role("region", name="question")
        )

    @property
    def asked(self) -> Locator:
        """What is drawn around the buttons: nothing of what is approved has to be opened first."""
        name = "question" if self._copilotkit else "tool"
        return self.page.get_by_role("region", name=name).filter(
            has=self.page.get_by_role("button", name="Approve")
        )

    def asks(self, text: str) -> None:
        expect(self.page.get_by_text(text)).to_have_count(1)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def write(self, text: str) -> None:
        """Fill the line of an open question."""
        self.page.get_by_role("textbox", name="Reason").or_(
            self.page.get_by_role("textbox", name="Words")
        ).fill(text)

    # what others do, through the HTTP API

    @property
    def run(self) -> dict[str, Any]:
        """The newest run of this thread."""
        rows = self._theatre.get("/v1/runs", thread=self.thread)["rows"]
        return dict(rows[0]) if rows else {}

    def until(self, phase: str) -> None:
        soon(lambda: self.run.get("phase") == phase, phase)

    def bar(self, verb: str) -> None:
        """Press a verb as Midflight's own bar does; ``ours`` is the bar itself."""
        self._theatre.post(f"/v1/runs/{self.run['journal']}/{verb}", {})

    def somebody_writes(self, text: str) -> None:
        self._theatre.post(f"/v1/threads/{self.thread}/messages", {"text": text})

    def cue(self, name: str) -> None:
        """Let the tool go on that waits for this."""
        Path(self._theatre.folder, "cues", name).touch()

    def somebody_answers(self, payload: Any) -> None:
        """Answer the one open question of the run."""
        run = self._theatre.get(f"/v1/runs/{self.run['journal']}")
        body = {"question": run["questions"][0]["question"], "payload": payload}
        self._theatre.post(f"/v1/runs/{self.run['journal']}/answer", body)
