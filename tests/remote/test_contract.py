"""What ``Control`` promises, ``RemoteControl`` keeps: one suite, both doors."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midflight import errors
from midflight.agents import Agent, agent
from midflight.control import Ack
from midflight.control.any_control import AnyControl
from midflight.control.remote import RemoteControl
from midflight.journal.phases import Cause, Phase, Role
from midflight.journal.record import Actor, Limits, Recorded
from midflight.run import Run
from midflight.stores.hints import Delta
from midflight.stores.protocol import Query
from midflight.tools.declaration import tool
from midflight.tools.progress import emit
from remote.doors import DOORS, through
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def worker(stage: Stage, name: str = "worker", **declared: Any) -> Agent:
    """Looks, then makes something that can be undone."""
    look, make = stage.reader(), stage.writer()

    @agent(name, **declared)
    async def works(run: Run) -> str:
        await run.plan("Look", "Make")
        await run.step("Look", look, "shop")
        made: str = await run.step("Make", make, run.brief)
        return made

    return works


def asker(name: str = "asker") -> Agent:
    @agent(name)
    async def asks(run: Run) -> str:
        answer = await run.ask("How many?", schema={"type": "integer", "minimum": 1})
        return f"{answer.payload} by {answer.by}"

    return asks


async def reaches(control: AnyControl, run: str, phase: Phase) -> None:
    with anyio.fail_after(10):
        await control.until(run, lambda state: state.phase is phase)


async def test_a_run_is_started_once_under_its_key_and_gives_its_result(
    driving: Open, door: str
) -> None:
    works = worker(Stage(f"contract-start-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start("worker", "tea", key="once", title="Tea", input={"n": 1})
        again = await control.start("worker", "tea", key="once", title="Tea", input={"n": 1})

        assert again == run
        assert await control.result(run) == "made tea"
        state = await control.ended(run)
        assert (state.phase, state.brief, state.title) == (Phase.DONE, "tea", "Tea")
        (row,) = await control.runs(Query(agent="worker"))
        assert (row.journal, row.phase, row.steps) == (run, "done", 2)
        (line,) = (await control.receipt(run)).lines
        assert (line.noun, line.word) == ("thing", "kept")


async def test_runs_are_listed_newest_first_whoever_has_started_them(
    driving: Open, door: str
) -> None:
    works = worker(Stage(f"contract-order-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        first = await control.start("worker", "one")
        await anyio.sleep(0.01)  # ids are in the order of their milliseconds
        second = await driver.start("worker", "two")
        await anyio.sleep(0.01)
        third = await control.start("worker", "three")

        found = [row.journal for row in await control.runs()]
        assert found == [third, second, first]
        page = await control.runs(Query(before=third, limit=1))
        assert [row.journal for row in page] == [second]


async def test_runs_are_found_by_words_and_by_all_else_that_is_asked(
    driving: Open, door: str
) -> None:
    works = worker(Stage(f"contract-search-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        tea = await control.start("worker", "tea", title="Buy green tea")
        await control.start("worker", "milk", title="Buy milk")
        await control.ended(tea)

        assert [row.journal for row in await control.runs(Query(search="green BUY"))] == [tea]
        assert await control.runs(Query(search="coffee")) == []
        wanted = Query(search="tea", agent="worker", phases=(Phase.DONE,), limit=1)
        assert [row.journal for row in await control.runs(wanted)] == [tea]
        assert await control.runs(Query(search="tea", agent="else")) == []


async def test_threads_are_listed_and_never_as_if_a_condition_were_not_there(
    driving: Open, door: str
) -> None:
    works = worker(Stage(f"contract-threads-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start("worker", "tea", title="Buy tea")
        thread = (await control.ended(run)).thread

        assert [row.journal for row in await control.runs(Query(kind="thread"))] == [thread]
        for wanted in (
            Query(kind="thread", agent="else"),
            Query(kind="thread", phases=(Phase.PAUSED,)),
            Query(kind="thread", thread="t-else"),
            Query(kind="thread", parent="r-else"),
            Query(kind="thread", search="coffee"),
        ):
            if door == "here":
                assert await control.runs(wanted) == []
            else:
                with pytest.raises(
                    errors.InvalidRequest, match="the threads of a server cannot be filtered by"
                ):
                    await control.runs(wanted)


async def test_pause_resume_redirect_and_cancel_are_answered_with_their_receipts(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-verbs-{door}")
    gate = stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        offers = await control.preview(run)
        assert offers["pause"].enabled
        assert not offers["resume"].enabled

        paused = await control.pause(run)
        assert (paused.run, paused.verb) == (run, "pause")
        assert (await control.applied(paused)).status == "applied"
        assert (await control.state(run)).holds == {Cause.USER}
        assert (await control.preview(run))["resume"].enabled

        turned = await control.redirect(run, "coffee", resume=True)
        await stage.until_begun("shop", times=2)
        gate.set()
        assert (await control.applied(turned)).status == "applied"
        assert await control.result(run) == "made coffee"


async def test_a_cancel_undoes_and_the_receipt_says_so(driving: Open, door: str) -> None:
    stage = Stage(f"contract-cancel-{door}")
    make = stage.writer()
    look = stage.reader()
    stage.gate("end")

    @agent("maker")
    async def makes(run: Run) -> None:
        await run.step("Make", make, "tea")
        await run.step("Look", look, "end")

    async with driving(makes) as driver, through(door, driver, makes) as control:
        run = await control.start("maker", "")
        await stage.until_begun("end")
        assert (await control.preview(run))["cancel"].consequence.startswith("Undoes thing")
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        assert "undone tea" in stage.done
        (line,) = (await control.receipt(run)).lines
        assert line.text == "thing: undone"


async def test_the_same_key_is_answered_as_before_and_another_body_under_it_is_refused(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-keys-{door}")
    stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        first = await control.redirect(run, "coffee", key="k")
        assert await control.redirect(run, "coffee", key="k") == first
        with pytest.raises(errors.KeyReused) as refused:
            await control.redirect(run, "milk", key="k")
        assert refused.value.key == "k"
        assert refused.value.position == first.position
        await control.cancel(run)
        await control.ended(run)


async def test_what_is_refused_says_how_the_run_really_is(driving: Open, door: str) -> None:
    works = worker(Stage(f"contract-refused-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await control.ended(run)
        with pytest.raises(errors.IllegalSignal) as refused:
            await control.pause(run)
        assert (refused.value.run, refused.value.phase) == (run, "done")
        assert refused.value.accepts == ("undo",)
        assert "The run was not changed." in str(refused.value)
        if isinstance(control, RemoteControl):
            assert refused.value.state["phase"] == "done"  # type: ignore[attr-defined]
        with pytest.raises(errors.InvalidRequest, match=r"nowhere"):
            await control.fork(run, "nowhere")


async def test_a_decision_on_an_older_state_is_refused(driving: Open, door: str) -> None:
    stage = Stage(f"contract-expect-{door}")
    stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        with pytest.raises(errors.Outdated) as refused:
            await control.redirect(run, "coffee", expect=1)
        assert refused.value.expected == 1
        await control.cancel(run)
        await control.ended(run)


async def test_what_is_not_there_is_said_by_its_name(driving: Open, door: str) -> None:
    works = worker(Stage(f"contract-missing-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        with pytest.raises(errors.JournalNotFound, match="r-nowhere"):
            await control.state("r-nowhere")
        with pytest.raises(errors.JournalNotFound, match="r-nowhere"):
            await control.pause("r-nowhere")
        with pytest.raises(errors.JournalNotFound, match="t-nowhere"):
            await control.todos("t-nowhere")
        with pytest.raises(errors.JournalNotFound):
            await control.store.row("r-nowhere")


async def test_a_question_takes_what_fits_it_once(driving: Open, door: str) -> None:
    asks = asker()
    async with driving(asks) as driver, through(door, driver, asks) as control:
        run = await control.start("asker", "")
        await reaches(control, run, Phase.WAITING)
        (question,) = (await control.state(run)).questions
        with pytest.raises(errors.InvalidRequest, match="still open"):
            await control.answer(run, question, "many")
        await control.answer(run, question, 3)
        assert await control.result(run) == "3 by the-controller"


async def test_a_question_can_be_left_unanswered(driving: Open, door: str) -> None:
    asks = asker()
    async with driving(asks) as driver, through(door, driver, asks) as control:
        run = await control.start("asker", "")
        await reaches(control, run, Phase.WAITING)
        (question,) = (await control.state(run)).questions
        await control.decline(run, question)
        assert (await control.result(run)).startswith("None by")


async def test_a_run_at_its_cap_goes_on_when_that_is_raised(driving: Open, door: str) -> None:
    works = worker(Stage(f"contract-cap-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea", limits=Limits(steps=1))
        with anyio.fail_after(10):
            await control.until(run, lambda state: Cause.CAP in state.holds)
        await control.raise_limits(run, Limits(steps=9))
        assert await control.result(run) == "made tea"


async def test_caps_are_taken_away_only_by_saying_so(driving: Open, door: str) -> None:
    works = worker(Stage(f"contract-no-cap-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea", limits=Limits(steps=1))
        with anyio.fail_after(10):
            held = await control.until(run, lambda state: Cause.CAP in state.holds)
        with pytest.raises(errors.InvalidRequest, match="names no cap"):
            await control.raise_limits(run, Limits())
        with pytest.raises(errors.InvalidRequest, match="names caps and takes all away"):
            await control.raise_limits(run, Limits(steps=9), no_caps=True)
        assert (await control.state(run)).limits == held.limits

        await control.raise_limits(run, no_caps=True)
        assert await control.result(run) == "made tea"
        assert (await control.state(run)).limits == Limits()


async def test_a_resume_is_answered_with_what_was_changed_meanwhile(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-diff-{door}")
    stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "green tea")
        await stage.until_begun("shop")
        await control.applied(await control.pause(run))
        await control.redirect(run, "black tea")
        resumed = await control.resume(run, key="on")
        assert resumed.status == "~green~ =black= tea"
        assert await control.resume(run, key="on") == resumed
        await stage.until_begun("shop", times=2)
        await control.applied(await control.pause(run))
        assert (await control.resume(run)).status == "nothing changed"
        stage.gate("shop").set()
        assert await control.result(run) == "made black tea"


async def test_a_message_is_waited_for_as_a_verb_is(driving: Open, door: str) -> None:
    stage = Stage(f"contract-delivered-{door}")
    gate = stage.gate("shop")
    talks = talker_of(stage)
    async with driving(talks) as driver, through(door, driver, talks) as control:
        run = await control.start("talks", "shop")
        await stage.until_begun("shop")
        sent = await control.send(run, "also the yard")
        aside = await control.ask_aside(run, "how far?")
        assert (await control.applied(aside)).status == "applied"
        with anyio.move_on_after(0.3) as waiting:
            await control.applied(sent)
        assert waiting.cancelled_caught  # nobody has read it
        gate.set()
        with anyio.fail_after(10):
            assert (await control.applied(sent)).status == "read"
        await control.ended(run)


async def test_a_person_takes_a_run_over_and_hands_it_back(driving: Open, door: str) -> None:
    stage = Stage(f"contract-human-{door}")
    gate = stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        await control.take_over(run)
        await reaches(control, run, Phase.PAUSED)
        assert (await control.state(run)).human == "the-controller"
        gate.set()
        await control.hand_back(run, "as before")
        assert await control.result(run) == "made tea"


async def test_a_run_that_has_ended_is_undone_and_forked(driving: Open, door: str) -> None:
    stage = Stage(f"contract-fork-{door}")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await control.ended(run)
        undone = await control.undo(run)
        with anyio.fail_after(10):
            await control.until(run, lambda s: all(a.undone for a in s.effects.values()))
        assert undone.verb == "undo"
        new = await control.fork(run, "Make", brief="coffee", key="again")
        assert await control.fork(run, "Make", brief="coffee", key="again") == new
        assert await control.result(new) == "made coffee"


async def test_an_effect_that_a_pause_waits_for_can_be_stopped(driving: Open, door: str) -> None:
    stage = Stage(f"contract-stop-{door}")
    stage.gate("tea")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("tea")
        assert (await control.pause(run)).in_flight == ("thing",)
        (attempt,) = (await control.state(run)).open
        await control.stop_effect(run, attempt)
        with anyio.fail_after(15):
            await control.until(run, lambda state: not state.open)
        (line,) = (await control.receipt(run)).lines
        assert line.word == "unknown"
        await control.cancel(run, now=True)
        await control.ended(run)


async def test_watching_tells_records_in_order_and_what_steps_say_in_between(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-watch-{door}")
    begin, end = stage.gate("begin"), stage.gate("end")
    odd = "one\u2028two\x85three\r\nfour\n\nfive"

    async def tell() -> str:
        await begin.wait()
        emit(odd)
        await end.wait()
        return odd

    speak = tool(effect="read", name=f"{stage.name}.tell")(tell)

    @agent("talker")
    async def talks(run: Run) -> str:
        told: str = await run.step("Tell", speak)
        return told

    async with driving(talks) as driver, through(door, driver, talks) as control:
        run = await control.start("talker", "")
        positions, text = [], ""
        begin.set()
        with anyio.fail_after(10):
            async with control.watch_live(run) as news:
                async for item in news:
                    if isinstance(item, Delta):
                        text = text[: item.offset] + item.text
                        end.set()
                    else:
                        positions.append(item.position)
                        if item.event.stored_name() == "run.finished":
                            break
        assert positions == list(range(1, len(positions) + 1))
        assert text == odd
        async with control.watch(run, after=len(positions) - 1) as rest:
            async for record in rest:
                assert isinstance(record, Recorded)
                assert record.position == positions[-1]
                break


@pytest.mark.parametrize("live", [False, True])
async def test_one_run_or_several_are_watched_from_where_the_watcher_is(
    driving: Open, door: str, live: bool
) -> None:
    works = worker(Stage(f"contract-watch-{door}-{live}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        one, two = [await control.start(works, brief) for brief in ("tea", "coffee")]
        for run in (one, two):
            await control.ended(run)

        async def first(watched: str | dict[str, int], after: int = 0) -> dict[str, int]:
            seen: dict[str, int] = {}
            watch = control.watch_live if live else control.watch
            with anyio.fail_after(10):
                async with watch(watched, after) as news:
                    async for item in news:
                        assert isinstance(item, Recorded)
                        seen.setdefault(item.journal, item.position)
                        if isinstance(watched, str) or len(seen) == len(watched):
                            break
            return seen

        assert await first(one) == {one: 1}
        assert await first(one, 2) == {one: 3}
        assert await first({one: 1, two: 2}) == {one: 2, two: 3}


async def test_a_watch_takes_another_journal_in_while_it_waits(driving: Open, door: str) -> None:
    stage = Stage(f"contract-add-{door}")
    stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        one, two = [await control.start(works, brief) for brief in ("tea", "coffee")]
        await stage.until_begun("shop", times=2)
        seen: set[str] = set()
        with anyio.fail_after(10):
            async with control.watch_live({one: 0}) as news, anyio.create_task_group() as tasks:

                async def join_later() -> None:
                    await anyio.sleep(0.3)
                    news.add(two, 0)

                tasks.start_soon(join_later)
                async for item in news:
                    seen.add(item.journal)
                    if seen == {one, two}:
                        break
        for run in (one, two):
            await control.cancel(run)
            await control.ended(run)


def talker_of(stage: Stage) -> Agent:
    """Converses: looks at what it is told to, and says when it has."""
    look = stage.reader()

    @agent("talks", converses=True)
    async def talks(run: Run) -> str:
        heard = [message.text for message in await run.inbox()]
        await run.step("Look", look, run.brief or " ".join(heard))
        heard += [message.text for message in await run.inbox()]
        await run.say(f"looked at {run.brief or heard}")
        return " ".join(heard)

    return talks


async def test_messages_are_kept_edited_withdrawn_overruled_and_become_todos(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-talk-{door}")
    gate = stage.gate("shop")
    talks = talker_of(stage)
    async with driving(talks) as driver, through(door, driver, talks) as control:
        run = await control.start("talks", "shop")
        thread = (await control.state(run)).thread
        await stage.until_begun("shop")
        await control.pause(run)
        await reaches(control, run, Phase.PAUSED)
        kept = await control.send(run, "also the yard")
        assert "kept until you resume" in kept.status
        await control.edit_message(thread, kept.position, "also the garden")
        gone = await control.send(thread, "never mind")
        await control.withdraw_message(thread, gone.position)
        with pytest.raises(errors.InvalidRequest):
            await control.edit_message(thread, gone.position, "?")

        await control.overrule(thread, kept.position, "defer")
        (todo,) = await control.todos(thread)
        assert (todo.kind, todo.text) == ("deferred", "also the garden")
        (offer,) = await control.preview_todos(thread)
        assert (offer.todo, offer.remove) == (todo.position, "It will not be done")
        await control.reorder(thread, [todo.position])
        await control.remove_todo(thread, todo.position)
        assert await control.todos(thread) == []
        gate.set()
        await control.resume(run)
        await control.ended(run)
        lines = await control.transcript(thread)
        assert [line.status for line in lines if line.kind == "message"] == ["put off", "withdrawn"]


async def test_a_deferred_message_is_done_when_it_is_wanted(driving: Open, door: str) -> None:
    stage = Stage(f"contract-now-{door}")
    gate = stage.gate("shop")
    talks = talker_of(stage)
    async with driving(talks) as driver, through(door, driver, talks) as control:
        run = await control.start("talks", "shop")
        thread = (await control.state(run)).thread
        await stage.until_begun("shop")
        await control.send(thread, "later: the yard")
        with anyio.fail_after(10):
            while not (found := await control.todos(thread)):  # noqa: ASYNC110 - no event says it
                await anyio.sleep(0.05)
        done = await control.do_now(thread, found[0].position)
        assert done.target not in {"", run}
        gate.set()
        await control.ended(run)
        await control.ended(done.target)


async def test_a_side_question_is_answered_without_touching_the_run(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-aside-{door}")
    stage.gate("shop")
    works = worker(stage)
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        asked = await control.ask_aside(run, "how far?")
        assert asked.status.startswith("working: Look, step 1 of 2")
        await control.cancel(run)
        await control.ended(run)


async def test_a_turn_of_a_conversation_is_said_once(driving: Open, door: str) -> None:
    stage = Stage(f"contract-turn-{door}")
    talks = talker_of(stage)
    async with driving(talks) as driver, through(door, driver, talks) as control:
        first = await control.converse(talks, "t-talk", [("m1", "the shop")], key="turn-1")
        assert first.started
        again = await control.converse(talks, "t-talk", [("m1", "the shop")], key="turn-1")
        assert again.run == first.run
        await control.ended(first.run)
        said = [x.text for x in await control.transcript("t-talk") if x.kind == "message"]
        assert said == ["the shop"]


async def test_an_operator_stops_everything_lets_it_go_and_brings_a_run_back(
    driving: Open, door: str
) -> None:
    stage = Stage(f"contract-kill-{door}")
    stage.gate("shop")
    works = worker(stage)
    who = {"who": Actor(by="the-operator", role=Role.OPERATOR)} if door == "here" else {}
    async with (
        driving(works) as driver,
        through(door, driver, works, role=Role.OPERATOR) as control,
    ):
        run = await control.start(works, "tea")
        await stage.until_begun("shop")
        killing = await control.kill("agent:worker", reason="wrong shop", **who)
        assert list(killing.killed) == [run]
        (switch,) = await control.switches()
        assert (switch.scope, switch.by) == ("agent:worker", "the-operator")
        with pytest.raises(errors.ScopeStopped) as stopped:
            await control.start(works, "more")
        assert stopped.value.scope == "agent:worker"
        assert await control.release("agent:worker", **who)
        assert await control.switches() == []
        await control.recover(run)
        assert (await control.state(run)).phase is Phase.PAUSED
        await control.cancel(run)
        await control.ended(run)


async def test_what_is_not_plain_data_is_refused_before_it_is_sent(
    driving: Open, door: str
) -> None:
    works = worker(Stage(f"contract-plain-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        with pytest.raises(errors.InvalidRequest, match="not plain data"):
            await control.start(works, "tea", input=object())


async def test_a_place_where_nothing_was_asked_is_named_in_words(driving: Open, door: str) -> None:
    works = worker(Stage(f"contract-nothing-{door}"))
    async with driving(works) as driver, through(door, driver, works) as control:
        run = await control.start("worker", "tea")
        thread = (await control.ended(run)).thread
        for journal in (run, thread):
            words = f"there is no request at position 41 of {journal}: give the position"
            with pytest.raises(errors.JournalNotFound, match=words):
                await control.applied(Ack(journal, "pause", 41))
