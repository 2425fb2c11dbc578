"""What cannot be right is refused in words, and the run is unharmed."""

from __future__ import annotations

from typing import Any

import pytest

from midflight.agents import agent
from midflight.control import Control
from midflight.errors import (
    IllegalSignal,
    InvalidRequest,
    InvalidTool,
    JournalNotFound,
    KeyReused,
    NotAllowed,
    NotPlainData,
    StepFailed,
)
from midflight.journal.phases import Phase, Role
from midflight.journal.record import Actor, Limits
from midflight.run import Run
from midflight.tools.declaration import REGISTRY, tool
from midflight.tools.options import EffectRecord
from scenarios.conftest import Open
from scenarios.stage import Stage

pytestmark = pytest.mark.anyio


@agent("bad.asker")
async def asker(run: Run) -> object:
    return (await run.ask("Which?")).payload


async def waiting(control: Control) -> tuple[str, int]:
    run = await control.start(asker, "work")
    state = await control.until(run, lambda state: state.phase is Phase.WAITING)
    return run, next(iter(state.questions))


async def unharmed(control: Control, run: str, question: int) -> None:
    assert (await control.state(run)).phase is Phase.WAITING
    await control.answer(run, question, "fine")
    assert await control.result(run) == "fine"


@pytest.mark.parametrize(
    "verb", ["pause", "resume", "cancel", "preview", "receipt", "state", "undo", "recover"]
)
async def test_an_unknown_run_is_named(driving: Open, verb: str) -> None:
    async with driving(asker) as control:
        with pytest.raises(JournalNotFound, match=r"there is no run or thread r-nobody"):
            await getattr(control, verb)("r-nobody")


async def test_a_verb_that_is_not_accepted_now_says_what_is(driving: Open) -> None:
    async with driving(asker) as control:
        run, question = await waiting(control)
        with pytest.raises(IllegalSignal, match=r"is waiting and cannot take resume; it accepts"):
            await control.resume(run)
        with pytest.raises(InvalidRequest, match="not open"):
            await control.answer(run, 1, "what?")
        with pytest.raises(InvalidRequest, match="needs a text"):
            await control.redirect(run, "   ")
        await unharmed(control, run, question)
        with pytest.raises(IllegalSignal, match="is done and takes no cancel any more"):
            await control.cancel(run)


async def test_a_switch_that_is_neither_on_nor_off_is_refused_by_its_name(driving: Open) -> None:
    yes: Any = "yes"
    async with driving(asker) as control:
        run, question = await waiting(control)
        with pytest.raises(InvalidRequest, match=r"^now= is True or False, not 'yes'\. Nothing"):
            await control.cancel(run, now=yes)
        with pytest.raises(InvalidRequest, match=r"^resume= is True or False, not 'yes'"):
            await control.redirect(run, "Be quick", resume=yes)
        with pytest.raises(InvalidRequest, match=r"^no_caps= is True or False, not 'yes'"):
            await control.raise_limits(run, no_caps=yes)
        await unharmed(control, run, question)


async def test_nobody_does_what_is_not_theirs(driving: Open) -> None:
    viewer = Actor(by="vera", role=Role.VIEWER)
    async with driving(asker) as control:
        run, question = await waiting(control)
        with pytest.raises(NotAllowed, match="vera"):
            await control.cancel(run, who=viewer)
        with pytest.raises(NotAllowed, match="operator"):
            await control.kill("all", who=Actor(by="ann"))
        with pytest.raises(InvalidRequest, match="is not a scope"):
            await control.kill("everything", who=Actor(by="olga", role=Role.OPERATOR))
        await unharmed(control, run, question)


async def test_a_key_that_comes_with_another_body_is_refused(driving: Open) -> None:
    async with driving(asker) as control:
        run, question = await waiting(control)
        await control.redirect(run, "elsewhere", key="k")
        with pytest.raises(KeyReused, match="k"):
            await control.redirect(run, "somewhere else", key="k")
        again = await control.until(run, lambda state: question not in state.questions)
        await control.until(run, lambda state: bool(state.questions))
        assert again.alive


@pytest.mark.parametrize(
    "limits", [Limits(steps=-1), Limits(usd=-0.5), Limits(seconds=float("nan"))], ids=str
)
async def test_caps_that_cannot_be_meant_are_refused(driving: Open, limits: Limits) -> None:
    async with driving(asker) as control:
        with pytest.raises(InvalidRequest, match=r"is not a (whole )?number of zero or more"):
            await control.start(asker, "work", limits=limits)
        run, question = await waiting(control)
        with pytest.raises(InvalidRequest, match=r"is not a (whole )?number of zero or more"):
            await control.raise_limits(run, limits)
        await unharmed(control, run, question)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), r"'Look at it': its argument what is of type object, which is not plain data"),
        (
            {"a": [1, {2: lambda: None}]},
            r"its argument what\['a'\]\[1\] has the key 2 \(int\): keys must be text",
        ),
    ],
)
async def test_an_argument_that_cannot_be_stored_names_step_and_path(
    driving: Open, value: Any, path: str
) -> None:
    stage = Stage("bad-argument")
    look = stage.reader()

    @agent("bad.argument")
    async def clerk(run: Run) -> object:
        with pytest.raises(NotPlainData, match=path) as refused:
            await run.step("Look at it", look, value)
        assert refused.value.step == "Look at it"
        return await run.step("Look again", look, "fine")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "FINE"


async def test_an_effect_whose_result_cannot_be_stored_has_happened_all_the_same(
    driving: Open,
) -> None:
    @tool(effect="once", name="bad.result", label="thing")
    async def make() -> object:
        return {"rows": [object()]}

    @agent("bad.result.agent")
    async def clerk(run: Run) -> str:
        with pytest.raises(
            StepFailed, match=r"it was done, but .*\['rows'\]\[0\] is of type object"
        ):
            await run.step("Make", make)
        return "went on"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "went on"
        (line,) = (await control.receipt(run)).lines
        assert line.text == "thing: kept (no undo)"


async def test_a_result_of_the_whole_run_that_cannot_be_stored_fails_it_in_words(
    driving: Open,
) -> None:
    @agent("bad.end")
    async def clerk(run: Run) -> object:
        return {"handle": object()}

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        state = await control.ended(run)
        assert state.phase is Phase.FAILED
        assert "its result['handle'] is of type object" in state.error


async def test_input_and_answers_that_are_not_plain_data_are_refused(driving: Open) -> None:
    async with driving(asker) as control:
        with pytest.raises(
            InvalidRequest, match="the input is of type object, which is not plain data"
        ):
            await control.start(asker, "work", input=object())
        run, question = await waiting(control)
        with pytest.raises(
            InvalidRequest, match="the answer is of type object, which is not plain data"
        ):
            await control.answer(run, question, object())
        await unharmed(control, run, question)


async def test_an_undo_that_is_registered_nowhere_is_said_in_the_receipt(driving: Open) -> None:
    async def unmake(_: EffectRecord) -> None:
        raise AssertionError("nobody can find it")

    @tool(effect="once", name="bad.gone", label="thing", undo=unmake)
    async def make() -> str:
        return "made"

    @agent("bad.undo")
    async def clerk(run: Run) -> None:
        await run.step("Make", make)
        del REGISTRY["bad.gone"]  # as in a program that does not know the tool any more
        await run.ask("Go on?")

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        await control.until(run, lambda state: bool(state.questions))
        await control.cancel(run)
        assert (await control.ended(run)).phase is Phase.CANCELLED
        (line,) = (await control.receipt(run)).lines
        assert line.word == "could not be undone"
        assert "no tool bad.gone with an undo is registered here" in line.why


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"effect": "once", "retry": 2}, "needs check="),
        ({"effect": "read", "undo": print}, "undo= is not for a read"),
        ({"effect": "once", "irreversible": True, "undo": print}, "exclude each other"),
        ({"effect": "once", "always_undo": True}, "needs undo="),
        ({"effect": "read", "runs": "somewhere"}, "runs= has to be one of"),
        ({"effect": "read", "timeout": 0}, "timeout= must be more than zero"),
        ({"effect": "once", "undo_window": -1}, "undo_window= must not be negative"),
        ({"effect": "once", "max_age": 3}, "max_age= is for reads only"),
    ],
)
def test_a_tool_that_could_do_harm_is_refused_where_it_is_declared(
    options: dict[str, Any], why: str
) -> None:
    def function() -> None: ...

    with pytest.raises(InvalidTool, match=why):
        tool(name="bad.tool", **options)(function)
    assert "bad.tool" not in REGISTRY


def test_a_word_that_an_agent_cannot_be_declared_with_is_refused() -> None:
    word: Any = "sometimes"
    with pytest.raises(InvalidRequest, match="mode= must be one of immediate, boundary"):
        agent(mode=word)
    with pytest.raises(InvalidRequest, match="on_disconnect= must be one of continue, pa"):
        agent(on_disconnect=word)


async def test_a_schema_that_cannot_be_used_is_refused_before_anybody_is_asked(
    driving: Open,
) -> None:
    @agent("bad.schema")
    async def clerk(run: Run) -> str:
        for schema, why in (
            ({"$ref": "http://example.com/schema"}, "refers to"),
            ({"type": "nonsense"}, "is not valid at"),
            ({"enum": ["x" * 70_000]}, "bytes, and 65,536 are allowed"),
        ):
            with pytest.raises(InvalidRequest, match=why):
                await run.ask("Which?", schema=schema)
        return "nobody was asked"

    async with driving(clerk) as control:
        run = await control.start(clerk, "work")
        assert await control.result(run) == "nobody was asked"
