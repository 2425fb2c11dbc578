"""What was done so far is not lost by a stop, and secrets are in none of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import DOTS, StepFailed
from midflight.journal import events as e
from midflight.journal.phases import Phase
from midflight.run import Run
from midflight.stores.protocol import Store
from midflight.tools.declaration import Done, Tool, tool
from midflight.tools.options import EffectRecord
from midflight.tools.progress import emit
from midflight.tools.secret import Secret
from midflight.tools.shell import shell
from scenarios.company import events, journal, said
from scenarios.conftest import Open
from scenarios.printing import counts, leaks
from scenarios.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def text_of(control: Control, run: str) -> str:
    """The text of the run's only step, put together as a screen would."""
    text = ""
    for part in await events(control.store, run, e.TextStreamed):
        text = text[: part.offset] + part.text
    return text


def writes(stage: Stage, kind: str) -> Tool:
    """Says three words, and is then silent until it is stopped."""

    async def in_a_task() -> str:
        for word in ("one ", "two ", "three"):
            emit(word)
        stage.note(stage.begun, "silent")
        await anyio.sleep_forever()
        return "never"

    def in_a_thread() -> str:
        for word in ("one ", "two ", "three"):
            emit(word)
        stage.begun.append("silent")
        while not stage.done:
            time.sleep(0.01)
        return "at last"

    function: Callable[..., Any] = in_a_thread if kind == "thread" else in_a_task
    return tool(effect="read", name=f"{stage.name}.write.{kind}")(function)


# ── said so far ──────────────────────────────────────────────────────────────────────────────


async def test_what_a_step_has_said_is_kept_by_a_pause(driving: Open) -> None:
    stage = Stage("partial-pause")
    write = writes(stage, "task")

    @agent("partial-pause")
    async def works(run: Run) -> None:
        await run.step("Write", write)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        assert await text_of(control, run) == ""
        await control.applied(await control.pause(run))
        assert await text_of(control, run) == "one two three"
        await control.cancel(run)
        await control.ended(run)


@pytest.mark.parametrize("kind", ["task", "thread"])
@pytest.mark.slow
async def test_it_is_in_the_journal_after_two_seconds_without_any_stop(
    driving: Open, kind: str
) -> None:
    stage = Stage("partial-timed")
    write = writes(stage, kind)

    @agent(f"partial-timed-{kind}")
    async def works(run: Run) -> None:
        await run.step("Write", write)

    async with driving(works) as control:
        run = await control.start(works, "work")
        with anyio.fail_after(20):
            async with control.watch(run) as news:
                async for record in news:
                    if isinstance(record.event, e.TextStreamed):
                        break
        assert await text_of(control, run) == "one two three"
        stage.done.append("enough")
        await control.cancel(run)
        await control.ended(run)


@pytest.mark.slow
async def test_the_parts_follow_one_another(driving: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midflight.runtime.steps.speech.KEEP_S", 0.2)
    stage = Stage("partial-offsets")

    async def write() -> None:
        for number in range(5):
            emit(f"{number}")
            await anyio.sleep(0.1)
        stage.note(stage.begun, "silent")
        await anyio.sleep_forever()

    slow = tool(effect="read", name="partial-offsets.write")(write)

    @agent("partial-offsets")
    async def works(run: Run) -> None:
        await run.step("Write", slow)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        await control.cancel(run)
        await control.ended(run)
        parts = await events(control.store, run, e.TextStreamed)
        offset = 0
        for part in parts:
            assert part.offset == offset
            offset += len(part.text)
        assert "".join(part.text for part in parts) == "01234"
        assert len(parts) > 1


async def test_a_repeated_attempt_speaks_from_the_beginning(driving: Open) -> None:
    stage = Stage("partial-again")
    write = writes(stage, "task")

    @agent("partial-again")
    async def works(run: Run) -> None:
        await run.step("Write", write)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        await control.applied(await control.pause(run))
        stage.begun.clear()
        await control.resume(run)
        await stage.until_begun("silent")
        await control.cancel(run)
        state = await control.ended(run)

        assert await text_of(control, run) == "one two three"
        assert state.saved == ["text so far of Write (13 characters)"]


async def test_a_flood_of_text_is_cut_and_says_so(driving: Open) -> None:
    stage = Stage("partial-flood")

    async def write() -> None:
        for _ in range(2000):
            emit("ä" * 1000)
        stage.note(stage.begun, "silent")
        await anyio.sleep_forever()

    flood = tool(effect="read", name="partial-flood.write")(write)

    @agent("partial-flood")
    async def works(run: Run) -> None:
        await run.step("Write", flood)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        text = await text_of(control, run)
        assert len(text) < 300_000
        assert text.endswith("[… the rest was not kept …]\n")


async def test_outside_a_step_it_does_nothing() -> None:
    emit("into the wind")


async def test_a_step_that_fails_leaves_what_it_has_said_in_the_journal(driving: Open) -> None:
    @tool(effect="read", name="partial-fails.write")
    async def write() -> None:
        emit("so far, so good")
        raise ValueError("no further")

    @agent("partial-fails")
    async def works(run: Run) -> str:
        try:
            await run.step("Write", write)
        except StepFailed as failed:
            return failed.error
        return ""

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert await control.result(run) == "ValueError: no further"
        assert await text_of(control, run) == "so far, so good"


# ── processes ────────────────────────────────────────────────────────────────────────────────


async def until_there(path: Path) -> None:
    with anyio.fail_after(20):
        while not path.exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.01)


async def test_what_a_process_has_printed_up_to_the_abort_is_kept(
    driving: Open, tmp_path: Path
) -> None:
    started = tmp_path / "started"

    @agent("partial-process")
    async def works(run: Run) -> None:
        await run.step("Count", counts, str(started))

    async with driving(works) as control:
        run = await control.start(works, "work")
        await until_there(started)
        await control.cancel(run)
        state = await control.ended(run)
        text = await text_of(control, run)

        assert "one\ntwo\n" in text
        assert "careful\n" in text
        assert state.saved == ["text so far of Count (16 characters)"]


async def test_what_a_command_has_printed_up_to_the_abort_is_kept(
    driving: Open, tmp_path: Path
) -> None:
    started = tmp_path / "started"

    @tool(effect="read", name="partial-shell.count")
    async def count(where: str) -> str:
        command = f"printf 'zwölf '; touch {started}; sleep 600"
        return (await shell(command, cwd=where)).stdout

    @agent("partial-shell")
    async def works(run: Run) -> None:
        await run.step("Count", count, str(tmp_path))

    async with driving(works) as control:
        run = await control.start(works, "work")
        await until_there(started)
        await control.applied(await control.pause(run))
        assert await text_of(control, run) == "zwölf "
        await control.cancel(run)
        await control.ended(run)


@pytest.mark.slow
async def test_a_letter_that_comes_in_two_pieces_is_one_letter(
    driving: Open, tmp_path: Path
) -> None:
    started = tmp_path / "started"

    @tool(effect="read", name="partial-letter.count")
    async def count(where: str) -> str:
        command = f"printf '\\303'; sleep 0.2; printf '\\266'; touch {started}; sleep 600"
        return (await shell(command, cwd=where)).stdout

    @agent("partial-letter")
    async def works(run: Run) -> None:
        await run.step("Count", count, str(tmp_path))

    async with driving(works) as control:
        run = await control.start(works, "work")
        await until_there(started)
        await control.applied(await control.pause(run))
        assert await text_of(control, run) == "ö"
        await control.cancel(run)
        await control.ended(run)


# ── saved by a cancel ────────────────────────────────────────────────────────────────────────


async def test_a_cancel_saves_results_text_and_files_and_the_receipt_says_so(
    driving: Open,
) -> None:
    stage = Stage("partial-cancel")
    look, write = stage.reader(), writes(stage, "task")

    @agent("partial-cancel")
    async def works(run: Run) -> None:
        await run.step("Read list", look, "customers")
        (run.workdir / "memo.md").write_text("# Draft")
        await run.step("Write", write)

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        await control.cancel(run)
        await control.ended(run)
        receipt = await control.receipt(run)
        assert receipt.saved == (
            "results of 1 step: Read list",
            "text so far of Write (13 characters)",
            "file in its folder: memo.md",
        )
        (told,) = await said(control, run, "partial")

        assert "Read list: CUSTOMERS\n" in told
        assert "Write, so far:\none two three" in told
        folder = Path(told.partition("The folder is ")[2].partition(".\n")[0])
        assert (folder / "memo.md").read_text() == "# Draft"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"text": "2 of 3 at risk", "rows": [1, 2]}, "2 of 3 at risk"),
        ({"customers": 412, "new": True}, "customers 412, new yes"),
        ([{"name": "Ana", "city": None}, {"name": "Bo"}], "city nothing, name Ana; name Bo"),
    ],
    ids=["its text", "by name", "a list"],
)
async def test_a_result_is_saved_in_words_and_not_as_code(
    driving: Open, result: Any, told: str
) -> None:
    stage = Stage("partial-worded")
    look = stage.reader()
    stage.gate("slow")

    @tool(effect="read", name="partial-worded.count")
    async def count() -> Any:
        return result

    @agent("partial-worded")
    async def works(run: Run) -> None:
        await run.step("Count", count)
        await run.step("Read", look, "slow")

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)
        (saved,) = await said(control, run, "partial")
        assert saved.endswith(f"\n\nCount: {told}")


async def test_a_cancel_with_nothing_done_saves_nothing(driving: Open) -> None:
    stage = Stage("partial-nothing")
    look = stage.reader()
    stage.gate("slow")

    @agent("partial-nothing")
    async def works(run: Run) -> None:
        await run.step("Read", look, "slow")

    async with driving(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)
        assert (await control.receipt(run)).saved == ()
        assert await said(control, run, "partial") == []


async def test_text_kept_before_a_crash_is_saved_by_a_cancel_after_it(
    driving: Open, crashing: Open
) -> None:
    stage = Stage("partial-crash")
    write = writes(stage, "task")

    @agent("partial-crash")
    async def works(run: Run) -> None:
        await run.step("Write", write)

    async with crashing(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("silent")
        await control.applied(await control.pause(run))
    await control.cancel(run)
    async with driving(works) as control:
        assert (await control.ended(run)).saved == ["text so far of Write (13 characters)"]


# ── secrets ──────────────────────────────────────────────────────────────────────────────────

VALUE = "tok-7f3a\"9c2e'1b"


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Secret:
    monkeypatch.setenv("CRM_TOKEN", VALUE)
    return Secret("CRM_TOKEN")


async def everything_written(control: Control, run: str) -> str:
    """Journals, receipt, preview and status, as text."""
    state = await control.state(run)
    records = [*await journal(control.store, run), *await journal(control.store, state.thread)]
    shown = [await control.receipt(run), await control.preview(run), state]
    written = [msgspec.json.encode(record.event).decode() for record in records]
    return "\n".join([*written, *map(str, shown)]).replace("\\", "")


async def test_the_tool_gets_the_value_and_nothing_that_is_written_does(
    driving: Open, token: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str] = []

    @tool(effect="once", name="secret.send", label="letter")
    async def send(secret: Secret, more: dict[str, Secret]) -> dict[str, list[str]]:
        got.extend([secret.reveal(), more["again"].reveal()])
        emit(f"sending with {secret.reveal()}")
        return {"echo": [f"sent with {secret.reveal()}"]}

    @tool(effect="read", name="secret.fails")
    async def fails(secret: Secret) -> None:
        emit(f"trying {secret.reveal()[:6]}")
        emit(secret.reveal()[6:])
        raise ValueError(f"{secret.reveal()} is not a token")

    @agent("secret")
    async def works(run: Run) -> object:
        sent = await run.step("Send", send, token, {"again": token})
        try:
            await run.step("Try", fails, token)
        except StepFailed as failed:
            return [sent, failed.error]
        return None

    async with driving(works) as control:
        run = await control.start(works, "work")
        result = await control.result(run)
        assert got == [VALUE, VALUE]
        assert result == [
            {"echo": [f"sent with {DOTS}"]},
            f"ValueError: {DOTS} is not a token",
        ]
        written = await everything_written(control, run) + caplog.text
        assert VALUE not in written
        assert "CRM_TOKEN" in written


@pytest.mark.slow
async def test_a_secret_that_is_spoken_in_pieces_is_hidden_whole(
    driving: Open, token: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midflight.runtime.steps.speech.KEEP_S", 0.2)
    stage = Stage("secret-pieces")
    kept = stage.gate("kept")

    @tool(effect="read", name="secret-pieces.speak")
    async def speak(secret: Secret) -> None:
        emit(f"it is {secret.reveal()[:5]}")
        await kept.wait()
        emit(f"{secret.reveal()[5:]}, as you know")
        stage.note(stage.begun, "spoken")
        await anyio.sleep_forever()

    @agent("secret-pieces")
    async def works(run: Run) -> None:
        await run.step("Speak", speak, token)

    async with driving(works) as control:
        run = await control.start(works, "work")
        with anyio.fail_after(20):
            while not await text_of(control, run):  # noqa: ASYNC110 - on record, and not only said
                await anyio.sleep(0.01)
        kept.set()
        await stage.until_begun("spoken")
        await control.cancel(run)
        await control.ended(run)
        assert await text_of(control, run) == f"it is {DOTS}, as you know"
        assert VALUE not in "".join(await said(control, run, "partial"))


async def test_a_process_that_prints_and_raises_it_gives_nothing_away(
    driving: Open, token: Secret
) -> None:
    @agent("secret-process")
    async def works(run: Run) -> str:
        try:
            await run.step("Leak", leaks, token)
        except StepFailed as failed:
            return failed.error
        return ""

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert await control.result(run) == f"ValueError: refused: {DOTS}"
        assert DOTS in await text_of(control, run)
        assert VALUE not in await everything_written(control, run)


@pytest.mark.slow
async def test_undo_and_check_get_it_too_after_a_restart(
    driving: Open, crashing: Open, token: Secret, store: Store
) -> None:
    stage = Stage("secret-undo")
    got: list[str] = []

    async def unmake(performed: EffectRecord) -> None:
        got.append(f"undo {performed.args[0].reveal()}")
        raise OSError(f"no undo with {performed.args[0].reveal()}")

    async def check(performed: EffectRecord) -> object:
        got.append(f"check {performed.args[0].reveal()}")
        return Done(f"found with {performed.args[0].reveal()}")

    @tool(
        effect="once",
        name="secret-undo.make",
        label="row",
        undo=unmake,
        check=check,
        settles_within=0,
    )
    async def make(secret: Secret) -> str:
        stage.note(stage.begun, "making")
        await anyio.sleep_forever()
        return "never"

    look = stage.reader()
    stage.gate("slow")

    @agent("secret-undo")
    async def works(run: Run) -> None:
        await run.step("Make", make, token)
        await run.step("Read", look, "slow")

    async with crashing(works) as control:
        run = await control.start(works, "work")
        await stage.until_begun("making")

    async with driving(works) as control:
        await stage.until_begun("slow")
        await control.cancel(run)
        await control.ended(run)
        assert got == [f"check {VALUE}", *[f"undo {VALUE}"] * 3]
        (line,) = (await control.receipt(run)).lines
        assert line.text == f"row: could not be undone (OSError: no undo with {DOTS})"
        assert VALUE not in await everything_written(control, run)


async def test_a_person_who_approves_sees_the_name_and_may_edit_around_it(
    driving: Open, token: Secret
) -> None:
    got: list[str] = []

    @tool(effect="once", name="secret-approve.send", approval=True)
    async def send(secret: Secret, text: str) -> None:
        got.append(f"{secret.reveal()} {text}")

    @agent("secret-approve")
    async def works(run: Run) -> None:
        await run.step("Send", send, token, "hello")

    async with driving(works) as control:
        run = await control.start(works, "work")
        state = await control.until(run, lambda state: bool(state.questions))
        edited = {"edit": {"args": [{"$secret": "CRM_TOKEN"}, "good morning"]}}
        await control.answer(run, next(iter(state.questions)), edited)
        await control.ended(run)

        assert got == [f"{VALUE} good morning"]
        assert VALUE not in await everything_written(control, run)


async def test_a_secret_that_is_not_set_fails_the_step_and_names_it(driving: Open) -> None:
    @tool(effect="read", name="secret-unset.read")
    async def read(secret: Secret) -> str:
        return secret.reveal()

    @agent("secret-unset")
    async def works(run: Run) -> str:
        try:
            await run.step("Read", read, Secret("NOT_SET_ANYWHERE"))
        except StepFailed as failed:
            return failed.error
        return ""

    async with driving(works) as control:
        run = await control.start(works, "work")
        assert "NOT_SET_ANYWHERE is not in the environment" in await control.result(run)
