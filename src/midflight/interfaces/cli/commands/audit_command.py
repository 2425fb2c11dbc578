"""``midflight audit``: export the audit of a store, say where it ends, check that it is whole."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
import typer

from midflight.audit.chain import (
    CUT,
    OTHER_CHAIN,
    Checker,
    Fault,
    Head,
    Link,
    exported,
    imported,
    parse_head,
)
from midflight.control import Control
from midflight.errors import InvalidRequest
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
from midflight.stores.protocol import Store

app = typer.Typer()
audit = typer.Typer(help="Export the audit, and check that it is whole.", no_args_is_help=True)
app.add_typer(audit, name="audit")

UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
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
            "store is."
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
    if (age := re.fullmatch(r"(\d{1,6})([dhms])", text)) is not None:
        return now - int(age[1]) * UNITS[age[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{option} {text[:80]!r} is not a time: write 2026-11-18T06:00Z, or 24h for a day "
            "ago. Nothing was exported."
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
