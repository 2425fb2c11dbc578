"""What a step says is seen at once by who watches: nothing missing, nothing twice."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.journal import events as e
from midflight.journal.record import Recorded
from midflight.run import Run
from midflight.stores.hints import Delta
from midflight.stores.protocol import LiveWatch, Store
from midflight.tools.declaration import Tool, tool
from midflight.tools.options import EffectName
from midflight.tools.progress import emit
from midflight.tools.secret import Secret
from scenarios.conftest import Open
from scenarios.hours import Hours
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Screen:
    """Puts text together by the one rule, as a page does."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.seen: list[Recorded | Delta] = []

    def show(self, item: Recorded | Delta) -> None:
        self.seen.append(item)
        if isinstance(item, Delta):
            step, offset, piece = item.step, item.offset, item.text
        elif isinstance(item.event, e.TextStreamed):
            step, offset, piece = item.event.step, item.event.offset, item.event.text
        else:
            return
        before = self.text.get(step, "")
        assert offset <= len(before), "a piece is missing"
        self.text[step] = before[:offset] + piece

    @property
    def all(self) -> str:
        return "".join(self.text.values())

    async def watch(self, news: LiveWatch, until: Callable[[Screen], bool]) -> None:
        with anyio.fail_after(25):
            async for item in news:
                self.show(item)
                if until(self):
                    return


def teller(stage: Stage, *, effect: EffectName = "read") -> Tool:
    """Says each word when its cue comes, and ends with the cue ``end``."""

    async def tell(words: list[str]) -> str:
        for word in words:
            await stage.gate(word).wait()
            emit(word)
            stage.note(stage.begun, word)
        await stage.gate("end").wait()
        return "told"

    return tool(effect=effect, name=f"{stage.name}.tell")(tell)


def ended(screen: Screen) -> bool:
    last = screen.seen[-1]
    return isinstance(last, Recorded) and isinstance(last.event, e.RunFinished)


@pytest.mark.parametrize("effect", ["read", "once"])
async def test_a_watcher_sees_each_word_before_the_journal_has_it(
    driving: Open, effect: EffectName
) -> None:
    stage = Stage(f"live-{effect}")
    tell = teller(stage, effect=effect)

    @agent(f"live-{effect}")
    async def speaks(run: Run) -> None:
        await run.step("Tell", tell, ["one ", "two"])

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            stage.gate("one ").set()
            await screen.watch(news, lambda s: s.all == "one ")
            stage.gate("two").set()
            await screen.watch(news, lambda s: s.all == "one two")
            assert not any(
                isinstance(item.event, e.TextStreamed)
                for item in screen.seen
                if isinstance(item, Recorded)
            )
            stage.gate("end").set()
            await screen.watch(news, ended)
        begun = [i for i, x in enumerate(screen.seen) if _is(x, e.AttemptStarted)]
        words = [i for i, x in enumerate(screen.seen) if isinstance(x, Delta)]
        assert all(first < words[0] for first in begun)
        assert words[-1] < next(
            i
            for i, x in enumerate(screen.seen)
            if _is(x, e.StepSettled) or _is(x, e.AttemptSettled)
        )


def _is(item: Recorded | Delta, kind: type) -> bool:
    return isinstance(item, Recorded) and isinstance(item.event, kind)


async def test_who_comes_late_first_gets_what_was_said_so_far(driving: Open) -> None:
    stage = Stage("live-late")
    tell = teller(stage)

    @agent("live-late")
    async def speaks(run: Run) -> None:
        await run.step("Tell", tell, ["one ", "two ", "three"])

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        stage.gate("one ").set()
        stage.gate("two ").set()
        await stage.until_begun("two ")
        head = (await control.state(run)).head
        async with control.watch_live({run: head}) as news:
            await screen.watch(news, lambda s: s.all == "one two ")
            stage.gate("three").set()
            await screen.watch(news, lambda s: s.all == "one two three")
        assert [item.offset for item in screen.seen if isinstance(item, Delta)] == [0, 8]
        stage.gate("end").set()
        await control.ended(run)


async def test_what_was_said_last_comes_before_the_end_of_its_step(driving: Open) -> None:
    stage = Stage("live-last")

    async def tell() -> str:
        await stage.gate("go").wait()
        for number in range(100):
            emit(f"{number} ")
        return "told"

    quick = tool(effect="read", name="live-last.tell")(tell)

    @agent("live-last")
    async def speaks(run: Run) -> None:
        await run.step("Tell", quick)

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            stage.gate("go").set()
            await screen.watch(news, ended)
        assert screen.all == "".join(f"{number} " for number in range(100))
        (delta,) = (item for item in screen.seen if isinstance(item, Delta))
        settled = next(x for x in screen.seen if _is(x, e.StepSettled))
        assert screen.seen.index(delta) < screen.seen.index(settled)


async def test_a_watcher_who_does_not_look_costs_nothing_and_misses_nothing(driving: Open) -> None:
    stage = Stage("live-slow")

    async def tell() -> str:
        for number in range(3000):
            emit(f"{number} ")
            if not number % 100:
                await anyio.lowlevel.checkpoint()
        stage.note(stage.begun, "said")
        await stage.gate("end").wait()
        return "told"

    talker = tool(effect="read", name="live-slow.tell")(tell)

    @agent("live-slow")
    async def speaks(run: Run) -> None:
        await run.step("Tell", talker)

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            await stage.until_begun("said")
            said = "".join(f"{number} " for number in range(3000))
            await screen.watch(news, lambda s: s.all == said)
            assert len([item for item in screen.seen if isinstance(item, Delta)]) == 1
            stage.gate("end").set()
            await screen.watch(news, ended)


@pytest.mark.slow
async def test_text_on_record_and_text_said_meanwhile_make_one_text(
    driving: Open, hours: Hours
) -> None:
    async def tell() -> str:
        for number in range(450):
            emit(f"{number} ")
            hours.skip(0.01)
            await anyio.sleep(0.001)
        return "told"

    slow = tool(effect="read", name="live-kept.tell")(tell)

    @agent("live-kept")
    async def speaks(run: Run) -> None:
        await run.step("Tell", slow)

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            await screen.watch(news, ended)
        assert any(_is(item, e.TextStreamed) for item in screen.seen)
        assert screen.all == "".join(f"{number} " for number in range(450))


async def test_a_read_that_is_repeated_speaks_from_the_beginning(driving: Open) -> None:
    stage = Stage("live-again")
    tell = teller(stage)

    @agent("live-again")
    async def speaks(run: Run) -> None:
        await run.step("Tell", tell, ["one ", "two"])

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            stage.gate("one ").set()
            await screen.watch(news, lambda s: s.all == "one ")
            await control.applied(await control.pause(run))
            await control.resume(run)
            stage.gate("two").set()
            await screen.watch(news, lambda s: s.all == "one two")
            stage.gate("end").set()
            await screen.watch(news, ended)
        assert screen.all == "one two"


async def test_no_part_of_a_secret_is_told(driving: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_TOKEN", "sesame-open")
    stage = Stage("live-secret")

    async def tell(token: Secret) -> str:
        value = token.reveal()
        for piece in ("the word is ", value[:6], value[6:], ", said he: ses"):
            emit(piece)
            await anyio.lowlevel.checkpoint()
        await stage.gate("end").wait()
        return "told"

    leaky = tool(effect="read", name="live-secret.tell")(tell)

    @agent("live-secret")
    async def speaks(run: Run) -> None:
        await run.step("Tell", leaky, Secret("LIVE_TOKEN"))

    async with driving(speaks) as control:
        run, screen = await control.start(speaks, "speak"), Screen()
        async with control.watch_live({run: 0}) as news:
            await screen.watch(news, lambda s: s.all == "the word is •••, said he: ")
            stage.gate("end").set()
            await screen.watch(news, ended)
        assert screen.all == "the word is •••, said he: ses"
        assert "sesame" not in repr(screen.seen)


async def test_nothing_is_remembered_of_steps_that_have_ended(store: Store, driving: Open) -> None:
    stage = Stage("live-over")
    tell = teller(stage)

    @agent("live-over")
    async def speaks(run: Run) -> None:
        await run.step("Tell", tell, ["one"])

    async with driving(speaks) as control:
        run = await _told(control, stage, speaks)
        assert [voice.since(0) for voice in store.voices.of(run)] == ["one"]
        stage.gate("end").set()
        await control.ended(run)
        assert not store.voices.of(run)


async def _told(control: Control, stage: Stage, speaks: object) -> str:
    run = await control.start(speaks, "speak")  # type: ignore[arg-type]
    stage.gate("one").set()
    await stage.until_begun("one")
    return run
