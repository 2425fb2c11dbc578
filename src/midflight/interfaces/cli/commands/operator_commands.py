"""For operators: the kill switch, and removing runs that ended long ago, with their folders."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
import typer

from midflight.audit.audit_record import NOTHING, deed
from midflight.control import Control
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.inputs import new_id
from midflight.interfaces.cli.arguments import confirmed
from midflight.interfaces.cli.console import print, print_json
from midflight.interfaces.cli.target import BEHIND, SHOWN, Desk, at_a_desk
from midflight.journal.phases import IN_MOTION
from midflight.stores.protocol import RUN_PREFIX, Purged, Query, Store


class RunFolders:
    """The folders under a workdir, and which of them are of runs that the store knew at first.

    Several stores may have one workdir. So a folder goes only if its run was in this store before
    the purge and is not any more; the others stay, and are named.
    """

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._known: list[Path] = []
        self.strangers: list[str] = []
        self.removed: list[str] = []
        self.left: list[str] = []

    @property
    def are_here(self) -> bool:
        """True if this machine has the working directory at all."""
        return self._workdir.is_dir()

    async def look(self, store: Store) -> None:
        """Note before the purge which folders belong to runs of this store."""
        for path in sorted(self._workdir.glob(f"{RUN_PREFIX}*")):
            if await _has(store, path.name):
                self._known.append(path)
            else:
                self.strangers.append(str(path))

    async def follow(self, store: Store) -> None:
        """Remove those whose runs are gone by now. No link is followed, neither to nor from."""
        for path in list(self._known):
            if await _has(store, path.name):
                continue
            self._known.remove(path)
            try:
                shutil.rmtree(path)
            except OSError:
                self.left.append(str(path))
            else:
                self.removed.append(str(path))


async def _has(store: Store, run: str) -> bool:
    try:
        await store.row(run)
    except JournalNotFound:
        return False
    return True


app = typer.Typer()
SCOPE = Annotated[str, typer.Argument(help="all, agent:NAME or thread:ID.")]
UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
BATCH: Final = 1_000
FOLLOW_S: Final = 10.0  # time for an interrupted purge to remove folders
STRANGERS: Final = 5  # so many folders are named, and the rest are counted


@at_a_desk(app)
async def kill(
    desk: Desk,
    scope: SCOPE,
    reason: Annotated[str, typer.Option(help="For the record.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Stop everything in a scope at once. No undo and no saving; cancel stops one run cleanly."""
    if not yes:
        await _ask(desk, scope)
    killing = await desk.control.kill(scope, reason=reason, **desk.named)
    seen = await _was_seen(desk, scope)
    if desk.as_json:
        print_json({**msgspec.structs.asdict(killing), "seen": seen})
        return 0
    number = len(killing.killed)
    print(f"Stopped {number} run{'s' * (number != 1)}. New ones are refused until the release.")
    for run, flying in killing.killed.items():
        print(f"  {run[:SHOWN]}" + (f"  in flight: {len(flying)}" if flying else ""))
    if not seen:
        print(f"No {scope.partition(':')[0]} of that name was ever seen here; the stop holds.")
    print(f"Release with: {desk.command('release', scope)}")
    return 0


async def _was_seen(desk: Desk, scope: str) -> bool:
    """Return whether anything was ever in this scope; a switch holds for later runs all the same.

    Ask after the switch is set, so that nothing can come in between.
    """
    kind, _, name = scope.partition(":")
    if kind == "agent":
        return bool(await desk.control.runs(Query(agent=name, limit=1)))
    if kind == "thread":
        rows = await desk.control.runs(Query(kind="thread", before=name + BEHIND, limit=1))
        return any(row.journal == name for row in rows) or bool(
            await desk.control.runs(Query(thread=name, limit=1))
        )
    return True


async def _ask(desk: Desk, scope: str) -> None:
    rows = await desk.control.in_scope(scope)
    number = sum(row.phase in IN_MOTION for row in rows)
    resting = len(rows) - number
    others = f", and keep {resting} queued, paused or waiting from moving" if resting else ""
    work = f"{number} run{'s' * (number != 1)} at work"
    question = f"Stop {work} now{others}? No undo and no saving."
    if not sys.stdin.isatty():
        raise InvalidRequest(f"{question} Confirm with --yes. Nothing was changed.")
    if not confirmed(question):
        raise InvalidRequest("not stopped. Nothing was changed.")


@at_a_desk(app)
async def release(
    desk: Desk,
    scope: SCOPE = "",
) -> int:
    """Let a scope move again. Without one: list what is stopped."""
    if not scope:
        return await _switches(desk)
    released = await desk.control.release(scope, **desk.named)
    if desk.as_json:
        print_json({"scope": scope, "released": released})
    else:
        print(f"{scope} may move again." if released else f"{scope} was not stopped.")
    return 0 if released else 1


async def _switches(desk: Desk) -> int:
    found = await desk.control.switches()
    if desk.as_json:
        print_json({"switches": found})
        return 0
    for switch in found:
        why = f": {switch.reason}" if switch.reason else ""
        print(f"{switch.scope}  stopped by {switch.by}{why}")
    if not found:
        print("Nothing is stopped.")
    return 0


@at_a_desk(app)
async def purge(
    desk: Desk,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="30d", help="Ended so long ago: 30d, 12h, 0s.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    workdir: Annotated[str, typer.Option(help="Where runs have their folders.")] = ".midflight",
) -> int:
    """Remove runs that ended long ago, with their folders, and threads that hold nothing else."""
    seconds = _seconds(older_than)
    if not isinstance(desk.control, Control):
        raise InvalidRequest(
            "a server cannot be asked to purge: run this command with --store, where the store "
            "is. Nothing was removed."
        )
    if not yes:
        question = f"Remove all that ended more than {older_than} ago, for good?"
        if not sys.stdin.isatty():
            raise InvalidRequest(f"{question} Confirm with --yes. Nothing was changed.")
        if not confirmed(question):
            raise InvalidRequest("nothing was removed.")
    store, folders = desk.control.store, RunFolders(Path(workdir))
    await folders.look(store)
    before = await store.now() - seconds
    gone = await remove(store, folders, before)
    if not gone.runs and not gone.threads:
        about = {"ended_before": before}
        await store.audit(deed("purge", id=new_id(), outcome=NOTHING, about=about))
    without = gone.runs - len(folders.removed) - len(folders.left)
    if desk.as_json:
        print_json(
            {
                **msgspec.structs.asdict(gone),
                "folders": len(folders.removed),
                "left": folders.left,
                "without_folder": without,
                "strangers": folders.strangers,
            }
        )
    else:
        numbers = {"run": gone.runs, "thread": gone.threads, "large value": gone.blobs}
        numbers["folder"] = len(folders.removed)
        told = [f"{number} {noun}{'s' * (number != 1)}" for noun, number in numbers.items()]
        print(f"Removed {', '.join(told)}.")
        _tell_of_folders(folders, workdir, without)
    return 1 if folders.left else 0


async def remove(store: Store, folders: RunFolders, before: float, batch: int = BATCH) -> Purged:
    """Purge in batches until nothing is left to remove; a run may go once its last fork has gone.

    Folders are removed after each batch. One that were left behind would belong to no known run,
    and no later purge would remove it.
    """
    gone = Purged(0, 0, 0)
    try:
        while True:
            removed = await store.purge(before, batch)
            if not removed.runs and not removed.threads:
                return gone
            gone = Purged(
                gone.runs + removed.runs, gone.threads + removed.threads, gone.blobs + removed.blobs
            )
            await folders.follow(store)
    except BaseException:  # its answer may be lost, or somebody has interrupted us on the way
        with anyio.move_on_after(FOLLOW_S, shield=True):
            await folders.follow(store)
        raise


def _tell_of_folders(folders: RunFolders, workdir: str, without: int) -> None:
    """Say which folders may still hold files of people, and where."""
    if not folders.are_here:
        print(f"There is no {workdir} here: what runs kept in files is where they were driven.")
    elif without:
        print(
            f"{without} of the removed runs had no folder under {workdir}: what they may have kept "
            "in files is where they were driven (--workdir)."
        )
    if folders.left:
        print(f"These could not be removed: {', '.join(folders.left)}")
    if folders.strangers:
        some = ", ".join(folders.strangers[:STRANGERS])
        more = len(folders.strangers) - STRANGERS
        some += f" and {more} more" if more > 0 else ""
        print(f"These belong to no run of this store, and were left: {some}")


def _seconds(age: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([dhms])", age)
    if found is None:
        raise InvalidRequest(
            f"{age!r} is not an age: write 30d, 12h, 90m or 0s. Nothing was changed."
        )
    return int(found[1]) * UNITS[found[2]]
