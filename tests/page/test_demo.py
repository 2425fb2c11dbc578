"""The demo as people meet it: the printed link, a few presses, and what is left afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from forks import Forked
from page.glass import WAIT_MS, Glass

pytestmark = [pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def demo(tmp_path: Path, browser: Browser) -> Iterator[Glass]:
    """The real command, and a browser on the link that it prints."""
    options = ["--no-open", "--port", "0", "--pace", "0.3", "--hold", "1"]
    command = [sys.executable, "-m", "midflight", "demo", "--folder", str(tmp_path), *options]
    with Forked(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = None
        while found is None:
            printed = process.stdout.readline()
            assert printed, "the demo ended before it printed its link"
            found = re.search(r"http://\S+", printed)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(found.group(0))
        tab = Glass(page, "")
        expect(tab.bar).to_be_visible(timeout=WAIT_MS)
        yield tab
        context.close()
        process.terminate()


@pytest.mark.picture
def test_what_is_put_off_is_listed_while_the_work_goes_on(demo: Glass) -> None:
    demo.page.get_by_label("Message the agent").fill("later: draft a slide")
    demo.page.keyboard.press("Enter")

    card = demo.page.locator(".todo-card")
    expect(card).to_contain_text("Draft a slide", timeout=WAIT_MS)
    demo.picture("demo")


@pytest.mark.picture
def test_from_the_printed_link_to_the_outbox(demo: Glass, tmp_path: Path) -> None:
    demo.says("Waiting for you", "Who shall get the memo?")
    demo.page.get_by_role("button", name="Sales leads").click()
    demo.says("Waiting for you", "May this be done")
    demo.page.get_by_role("button", name=re.compile("^Approve")).click()

    demo.says("Done")
    assert list((tmp_path / "outbox").iterdir())
    demo.page.get_by_role("button", name="Timeline").click()
    expect(demo.page.locator(".timeline svg")).to_be_visible(timeout=WAIT_MS)
    demo.picture("demo-timeline")
    assert demo.violations() == []


@pytest.mark.picture
def test_redirected_to_the_eu_then_cancelled(demo: Glass, tmp_path: Path) -> None:
    demo.press(2)
    demo.rewrite.fill("only EU")
    demo.page.locator(".layer").get_by_role("button", name=re.compile("^Redirect")).click()
    expect(demo.changed).to_contain_text("only EU", timeout=WAIT_MS)
    demo.says("Waiting for you", "Who shall get the memo?")
    expect(demo.step("Score churn risk").last).to_contain_text("EU")

    demo.press(3)
    demo.says("Cancelled")
    receipt = demo.page.get_by_role("region", name="Receipt")
    expect(receipt).to_contain_text("memo")
    expect(receipt).to_contain_text("Undone")
    demo.picture("demo-receipt")
    assert not list((tmp_path / "outbox").glob("*"))
