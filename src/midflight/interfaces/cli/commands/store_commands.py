"""For operators of a store: remove runs that ended long ago; export the audit, and check it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
import typer

from midflight.audit import (
    CUT,
    NOTHING,
    OTHER_CHAIN,
    Checker,
    Fault,
    Head,
    Link,
    deed,
    exported,
    imported,
    parse_head,
)
from midflight.control import Control
from midflight.errors import InvalidRequest, JournalNotFound
from midflight.inputs import new_id
from midflight.interfaces.cli.arguments import confirm
from midflight.interfaces.cli.console import (
    CHAIN_BROKEN,
    CHAIN_NOT_TO_HEAD,
    DONE,
    answering,
    print,
    print_json,
)
from midflight.interfaces.cli.target import (
    Desk,
    JsonOption,
    StoreOption,
    Where,
    at_a_desk,
    opened,
    store_of,
)
from midflight.stores.protocol import RUN_PREFIX, Purged, Store


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
            if await _has(store, path.name):  # layer folder-goes-only-if-this-store
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
UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
BATCH: Final = 1_000
FOLLOW_S: Final = 10.0  # time for an interrupted purge to remove folders
STRANGERS: Final = 5  # so many folders are named, and the rest are counted


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
    if (seconds := _seconds(older_than)) is None:
        raise InvalidRequest(
            f"{older_than!r} is not an age: write 30d, 12h, 90m or 0s. Nothing was changed."
        )
    if not isinstance(desk.control, Control):
        raise InvalidRequest(
            "a server cannot be asked to purge: run this command with --store, where the store "
            "is. Nothing was removed."
        )
    if not yes:
        question = f"Remove all that ended more than {older_than} ago, for good?"
        confirm(question, "nothing was removed.")
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
            await folders.follow(store)  # layer folders-go-with-each-batch-also
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


audit = typer.Typer(help="Export the audit, and check that it is whole.", no_args_is_help=True)
app.add_typer(audit, name="audit")

FAULTS_SHOWN: Final = 20
LINE_MAX: Final = 64 * 1024  # bytes of an exported line; a record has less than ten thousand
Time = Annotated[str, typer.Option(metavar="TIME", help="As 2026-11-18T06:00Z, or 24h ago.")]


@at_a_desk(audit)
async def export(desk: Desk, since: Time = "", until: Time = "") -> int:
    """Write the records as lines of JSON, oldest first; all of them, or those of a time."""
    store = _store(desk)
    now = await store.now()
    begin, end = _time(since, now, "--since"), _time(until, now, "--until")
    begun = begin is None
    async for link in _links(store):
        at = msgspec.json.decode(link.record)["at"] if begin or end else 0.0
        begun = begun or at >= (begin or 0.0)
        if end is not None and at > end:
            break
        if begun:
            with answering():
                sys.stdout.write(exported(link).decode("ascii") + "\n")
    return DONE


@at_a_desk(audit)
async def head(desk: Desk) -> int:
    """Say where the chain ends. Keep it elsewhere: verify --head compares with it."""
    found = await _store(desk).audit_head()
    if desk.as_json:
        print_json({"number": found.number, "digest": found.digest, "head": found.text})
    else:
        print(found.text)
    return DONE


@audit.command()
def verify(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An export; without it, the store.")
    ] = "",
    head: Annotated[
        str, typer.Option(metavar="NUMBER:DIGEST", help="A head that was kept elsewhere.")
    ] = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Check that no record is missing, changed or out of order."""
    checking = _Checking(_anchor(head) if head else None, in_part=bool(file))
    if file:
        anyio.run(checking.take_all, _in_file(Path(file)))
    else:
        anyio.run(_check_store, checking, Where(store=store_of(store)))
    return checking.told(as_json=as_json)


async def _check_store(checking: _Checking, where: Where) -> None:
    async with opened(where) as desk:
        await checking.take_all(_links(_store(desk)))


class _Checking:
    """Checks a chain and collects its faults; of very many faults the first are kept."""

    def __init__(self, anchor: Head | None, *, in_part: bool) -> None:
        self._checker = Checker(anchor)
        self._anchor = anchor
        self._in_part = in_part
        self._faults: list[Fault] = []
        self._number = 0
        self._kinds: set[str] = set()

    async def take_all(self, links: AsyncIterator[Link]) -> None:
        """Check a chain; an export may begin anywhere in it."""
        async for link in links:
            if self._in_part and not self._checker.records:
                start = Head(link.number - 1, link.previous)
                self._checker = Checker(self._anchor, start=start)
            self._note(self._checker.take(link))
        self._note(self._checker.end())

    def _note(self, found: list[Fault]) -> None:
        self._number += len(found)
        self._kinds |= {fault.kind for fault in found}
        self._faults += found[: max(0, FAULTS_SHOWN - len(self._faults))]

    def told(self, *, as_json: bool) -> int:
        """Say what was found, and give the exit status."""
        _tell(self._checker, self._faults, self._number, as_json=as_json)
        if self._kinds - {CUT, OTHER_CHAIN}:
            return CHAIN_BROKEN
        return CHAIN_NOT_TO_HEAD if self._kinds else DONE


def _tell(checker: Checker, faults: list[Fault], number: int, *, as_json: bool) -> None:
    if as_json:
        told = {"whole": not number, "records": checker.records, "head": checker.head.text}
        print_json({**told, "faults": faults, "number_of_faults": number})
        return
    records = f"{checker.records:,} record{'s' * (checker.records != 1)}"
    if not number:
        print(f"The audit is whole: {records}, head {checker.head.text}")
        return
    for fault in faults:
        print(f"{fault.says}.")
    if number > len(faults):
        print(f"And {number - len(faults):,} more.")
    print(f"The audit is not whole: {records} are there, head {checker.head.text}")


def _store(desk: Desk) -> Store:
    if not isinstance(desk.control, Control):
        raise InvalidRequest(
            "a server does not give out the audit: run this command with --store, where the "
            "store is. Nothing was read."
        )
    return desk.control.store


async def _links(store: Store) -> AsyncIterator[Link]:
    """Give the whole chain, a page at a time."""
    after = 0
    while page := await store.audit_page(after):
        for link in page:
            yield link
        after = page[-1].number


async def _in_file(path: Path) -> AsyncIterator[Link]:
    """Give the chain in an exported file, a line at a time."""
    with path.open("rb") as lines:
        place = 0
        while line := lines.readline(LINE_MAX):
            place += 1
            try:
                yield imported(line)
            except msgspec.MsgspecError:
                told = f"line {place} of {path} is no exported record of an audit."
                raise InvalidRequest(f"{told} Nothing after it was checked.") from None


def _anchor(text: str) -> Head:
    found = parse_head(text)
    if found is None:
        raise InvalidRequest(
            f"--head {text[:80]!r} is not a head: give the one that `midflight audit head` "
            "printed, which is a number, a colon and 64 digits from 0 to f. Nothing was "
            "checked."
        )
    return found


def _time(text: str, now: float, option: str) -> float | None:
    """Return the time that somebody means: how long ago, or a date."""
    if not text:
        return None
    if (age := _seconds(text)) is not None:
        return now - age
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{option} {text[:80]!r} is not a time: write 2026-11-18T06:00Z, or 24h for a day "
            "ago. Nothing was exported."
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _seconds(age: str) -> float | None:
    """Return the seconds of an age such as ``30d``; None if it is none."""
    found = re.fullmatch(r"(\d{1,6})([dhms])", age)
    return int(found[1]) * UNITS[found[2]] if found is not None else None
