"""Tools are found again by their names, however their file was loaded."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from cli.scene import Scene
from midflight.tools.declaration import REGISTRY, declared, find_tool, name_of, register

AGENT = """
import asyncio, sys
from pathlib import Path
from midflight import EffectRecord, Run, agent, tool
from midflight.control import local

HERE = Path(__file__).parent

def remove(made: EffectRecord) -> None:
    (HERE / made.args[0]).unlink()

@tool(effect="once", undo=remove, label="file")
async def create(name: str) -> str:
    (HERE / name).touch()
    return name

@agent()
async def clerk(run: Run) -> None:
    await run.step("Create", create, "made")
    await run.ask("May it stay?")

async def main() -> None:
    async with local(HERE / "midflight.db", clerk, workdir=HERE / "work") as control:
        run = await control.start(clerk, "")
        await control.until(run, lambda state: bool(state.questions))
        print(run, flush=True)
        await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "module"),
    [
        (["shop/office.py"], "office"),
        (["-m", "shop.office"], "office"),
        (["-m", "cProfile", "shop/office.py"], "shop.office"),
    ],
    ids=["run as a file", "run as a module", "run in a profiler"],
)
def test_what_a_program_has_done_is_undone_by_a_command_that_imports_it(
    tmp_path: Path, program: list[str], module: str
) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "office.py").write_text(AGENT, encoding="utf-8")
    scene = Scene(tmp_path, "--store", str(shop / "midflight.db"))
    life = subprocess.Popen(
        [sys.executable, *program], cwd=tmp_path, env=scene.env, stdout=subprocess.PIPE, text=True
    )
    with life:
        assert life.stdout is not None
        run = life.stdout.readline().strip()
        life.kill()
    assert (shop / "made").exists()

    scene.said("cancel", run, "--wait", "0")
    scene.folder = shop if module == "office" else tmp_path
    told = scene.said("run", f"{module}:clerk", "--continue", run, status=11)
    assert "file made: undone" in told
    assert not (shop / "made").exists()


def in_main(name: str, **program: Any) -> Any:
    """A function of a main program with these globals."""
    there = {"__name__": "__main__", **program}
    exec(f"def {name}(): pass", there)
    return there[name]


def test_a_function_of_the_main_program_is_named_as_it_is_when_that_is_imported() -> None:
    spec = ModuleSpec("shop.office", None)
    assert name_of(in_main("create", __file__="shop/office.py")) == "office.create"
    assert name_of(in_main("create", __file__="office.py", __spec__=spec)) == "shop.office.create"
    profiled = in_main("create", __file__="office.py", __spec__=ModuleSpec("__main__", None))
    assert name_of(functools.partial(profiled, 1)) == "office.create"
    assert name_of(in_main("create")) == "__main__.create", "typed in, so it is in no file"
    assert name_of(name_of) == "midflight.tools.declaration.name_of"


def test_a_program_that_is_run_and_imported_too_has_each_tool_once() -> None:
    run, imported = (in_main("create", __file__="office.py") for _ in range(2))
    imported.__module__ = "office"
    made = [register(declared(function)) for function in (run, imported)]
    assert find_tool("office.create") is made[1]


@pytest.mark.parametrize(
    ("wanted", "known", "found"),
    [
        ("office.create", ["office.create"], "office.create"),
        ("office.create", ["shop.office.create"], "shop.office.create"),
        ("shop.office.create", ["office.create"], "office.create"),
        ("__main__.create", ["shop.office.create"], "shop.office.create"),
        ("__main__.create", ["office.create", "desk.create"], None),
        ("office.create", ["shop.office.create", "home.office.create"], None),
        ("office.create", ["back_office.create"], None),
        ("office.create", ["office.recreate"], None),
        ("__main__.create", ["office.Clerk.create_all"], None),
    ],
)
def test_a_journal_means_the_one_tool_of_that_name_or_none(
    wanted: str, known: list[str], found: str | None
) -> None:
    REGISTRY.clear()
    for name in known:
        module, _, function = name.rpartition(".")
        made = in_main(function)
        made.__module__, made.__qualname__ = module, function
        register(declared(made))
    tool = find_tool(wanted)
    assert (tool.name if tool is not None else None) == found


def test_a_name_that_was_given_is_taken_at_its_word() -> None:
    REGISTRY.clear()
    register(declared(in_main("create"), name="shop.office.create"))
    assert find_tool("office.create") is None
    assert find_tool("__main__.create") is None


class Called:
    """An object that is called as an async function is."""

    async def __call__(self) -> None: ...


async def sent() -> None: ...


class Blocking:
    """Is called as any function is; the class itself is no async function because of that."""

    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "runs"),
    [
        (sent, "async"),
        (functools.partial(sent), "async"),
        (Called(), "async"),
        (functools.partial(Called()), "async"),
        (Called, "thread"),
        (Blocking(), "thread"),
        (lambda: sent(), "thread"),
    ],
)
def test_a_tool_that_can_be_seen_to_be_async_runs_on_the_loop(
    function: Callable[..., Any], runs: str
) -> None:
    assert declared(function, name="names.runs").runs == runs
