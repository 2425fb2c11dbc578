"""Two processes on one store, each by a way of its own, while something happens to its file.

``unshare -rm python two_names.py FOLDER`` reads one trial a line and answers with what was found.
All of it is in memory, mounted at the folder: no disk is waited for that others use, too. What
happens when is told by what the processes have been told by then, and not by a clock. The
processes are forked from an interpreter that has imported everything and has no store open, and are
really killed with -9. What they were told is in ``told``, a line each, written at once; what their
tools did is in ``done``.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import anyio

from midflight import Run, agent, tool
from midflight.control import Control
from midflight.engines.local_engine import LocalEngine
from midflight.errors import StoreError
from midflight.stores.sqlite import SqliteStore
from midflight.tools.declaration import Done, NotDone
from midflight.tools.options import EffectRecord
from stores.runs import open_thread, say

AT_ONCE: Final = 4  # they sleep for the most part
STEPS: Final = 6
SAID: Final = 12  # what each process writes to its thread
LIFE_MAX_S: Final = 20.0
MS_BIND: Final = 4096
HARMLESS: Final = ("nothing", "read", "copy", "backup", "vacuum", "look", "folder deleted")
HARMFUL: Final = ("replaced", "deleted", "moved", "log deleted", "index deleted")
SAYS: Final = re.compile(r'"([ab]) ([0-9]+)"')
_folder = Path()
_who = ""


def written(name: str, line: str) -> None:
    handle = os.open(_folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


async def is_done(performed: EffectRecord) -> object:
    """The check of ``act`` looks into the ledger.

    So a process that takes a run over from a living driver repeats the effect that the other is
    about to have, and asks nobody.
    """
    mine = [str(given) for given in performed.args]
    done = any(line.split()[:2] == mine for line in lines("done"))
    return Done(None) if done else NotDone()


@tool(effect="once", name="two_names.act", check=is_done, settles_within=0)
async def act(run: str, number: int) -> None:
    await asyncio.sleep(0.01)
    written("done", f"{run} {number} {_who} {time.monotonic()}")


@agent("two_names.clerk")
async def clerk(run: Run) -> None:
    for number in range(STEPS):
        await run.step(f"Act {number}", act, run.brief, number)


# ── a process ────────────────────────────────────────────────────────────────────────────────


def forked(work: Callable[[], None]) -> int:
    if (child := os.fork()) > 0:
        return child
    code = 1
    try:
        work()
        code = 0
    except StoreError as error:
        written("stopped", f"{os.getpid()} {type(error).__name__}: {error}")
        code = 3
    except BaseException:  # noqa: BLE001 - the end of a process: written down for who looks
        written("log", traceback.format_exc())
    finally:
        os._exit(code)


def _read(path: Path) -> None:
    for end in ("-shm", "-wal", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").read_bytes()


def _copy(path: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copy(path, _folder / f"copy-{os.getpid()}")


def way_in(name: str) -> str:
    """The path by which a process opens the store. A relative one is left at once."""
    return {
        "path": str(_folder / "place" / "m.db"),
        "symlink": str(_folder / "link.db"),
        "hard link": str(_folder / "place" / "hard.db"),
        "relative": "place/m.db",
        "folder mount": str(_folder / "mounted" / "m.db"),
        "file mount": str(_folder / "mounted.db"),
    }[name]


async def live(who: str, way: str, habit: str) -> None:
    """Drive what is to be driven, start a run, and write to a thread of our own."""
    global _who
    _who = who
    os.chdir(_folder)
    async with SqliteStore.open(way_in(way)) as store:
        os.chdir("/")
        written("opened", who)
        engine = LocalEngine.open(
            store, [clerk], workdir=_folder / "work", sweep_s=0.03, drain_s=0.05
        )
        async with engine as driving:
            with anyio.fail_after(LIFE_MAX_S):
                await Control(store, driving).start(clerk, who)
                await open_thread(store, f"t-{who}")
                for number in range(SAID):
                    if number % 3 == 2 and habit in {"read", "copy"}:
                        {"read": _read, "copy": _copy}[habit](_folder / "place" / "m.db")
                    asked = time.monotonic()
                    done = await say(store, f"{who} {number}", f"t-{who}")
                    written("told", f"{asked} t-{who} {done.position(f't-{who}')} {number}")
                    await asyncio.sleep(0.004)


# ── what happens to the file ─────────────────────────────────────────────────────────────────


def _look(path: Path) -> None:
    """As ``midflight runs`` does: open, look, close."""
    for _ in range(5):
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as db:
            db.execute("SELECT count(*) FROM events").fetchone()
        time.sleep(0.02)


def _back_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(f"{path}.b")) as there:
        here.backup(there)


def _vacuum(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM INTO ?", (f"{path}.v",))


def _replace(path: Path) -> None:
    fresh = path.with_name("fresh.db")
    with closing(sqlite3.connect(fresh)) as db:
        db.execute("CREATE TABLE other (x)")
    fresh.rename(path)


HARM: Final[dict[str, Callable[[Path], Any]]] = {
    "backup": _back_up,
    "vacuum": _vacuum,
    "look": _look,
    "folder deleted": lambda path: shutil.rmtree(f"{path}.d"),
    "replaced": _replace,
    "deleted": Path.unlink,
    "moved": lambda path: path.rename(path.with_name("moved.db")),
    "log deleted": lambda path: Path(f"{path}-wal").unlink(),
    "index deleted": lambda path: Path(f"{path}-shm").unlink(),
}


# ── a trial ──────────────────────────────────────────────────────────────────────────────────


def mount(source: Path | str, target: Path, kind: bytes | None = None) -> None:
    """Mount a file system of this kind; without one, a file or folder at a second place."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = MS_BIND if kind is None else 0
    if libc.mount(os.fsencode(source), os.fsencode(target), kind, how, None):
        raise OSError(ctypes.get_errno(), f"{target} cannot be mounted")


def prepare(names: set[str]) -> Path:
    """A folder with a store, and every name by which the trial reaches it."""
    place = _folder / "place"
    place.mkdir(parents=True)
    path = place / "m.db"
    (_folder / "link.db").symlink_to("place/m.db")

    async def made() -> None:
        async with SqliteStore.open(path):
            pass

    os.waitpid(forked(lambda: asyncio.run(made())), 0)
    if "folder mount" in names:
        (_folder / "mounted").mkdir()
        mount(place, _folder / "mounted")
    if "file mount" in names:
        (_folder / "mounted.db").touch()
        mount(path, _folder / "mounted.db")
    return path


def until_ended(children: Iterable[int]) -> dict[int, int]:
    ends, deadline = {}, time.monotonic() + 20
    for child in children:
        while not (found := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
        ends[child] = os.waitstatus_to_exitcode(found[1])
    return ends


def begun(who: str, path: Path, way: str, habit: str = "nothing") -> int:
    """A process that has opened the store, or has been refused."""
    if way == "hard link":
        with suppress(FileExistsError, FileNotFoundError):
            os.link(path, path.with_name("hard.db"))
    child = forked(lambda: asyncio.run(live(who, way, habit)))
    while who not in lines("opened") and not has_ended(child):
        time.sleep(0.002)
    return child


def has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def until_told(number: int, lives: list[int]) -> None:
    """Wait until the processes have been told so often that something was taken."""
    while len(lines("told")) < number and not all(map(has_ended, lives)):
        time.sleep(0.002)


def trial(spec: dict[str, Any]) -> dict[str, Any]:
    global _folder
    _folder = Path(spec["folder"])
    ways, what = spec["ways"], spec["what"]
    path = prepare(set(ways))
    lives = [begun("a", path, ways[0], what)]
    if not spec["late"]:
        lives.append(begun("b", path, ways[1]))
    together = are_together(lives)
    until_told(spec["at"], lives)
    harmed_at, helper = float("inf"), 0
    with suppress(FileNotFoundError):
        if what in {"backup", "vacuum", "look"}:
            helper = forked(lambda: HARM[what](path))
        elif what in {"read", "copy"}:  # who reads may lose SQLite's locks: others then find none
            helper = forked(lambda: _look(path))
        elif what in HARM:
            HARM[what](path)
    if what in HARMFUL:
        harmed_at = time.monotonic()
        for who in lines("opened"):
            written("opened before", who)
    if spec["late"]:
        lives.append(begun("b", path, ways[1]))
    together = together or are_together(lives)
    if spec["kills"]:
        until_told(len(lines("told")) + spec["at"], lives)
        with suppress(ProcessLookupError):
            os.kill(lives[0], signal.SIGKILL)
    ends = until_ended([*lives, *filter(None, [helper])])
    ends.pop(helper, None)
    about = {"spec": spec, "ends": list(ends.values()), "together": together}
    return {**about, **found(path, what, harmed_at)}


def are_together(lives: list[int]) -> bool:
    """Return whether two processes have the store open and live."""
    return len(lines("opened")) == 2 and not any(map(has_ended, lives))


def lines(name: str) -> list[str]:
    with suppress(FileNotFoundError):
        return (_folder / name).read_text(encoding="utf-8").splitlines()
    return []


def found(path: Path, what: str, harmed_at: float) -> dict[str, Any]:
    """What went wrong: effects twice, what was acknowledged and is lost, what broke."""
    done = [line.split() for line in lines("done")]
    twice = [key for key, n in Counter((run, step) for run, step, _, _ in done).items() if n > 1]
    told = [line.split() for line in lines("told")]
    held = lines("opened before")
    after = [line for line in told if float(line[0]) > harmed_at and line[1][-1] in held]
    late = Counter(who for *_, who, at in done if float(at) > harmed_at and who in held)
    lost: list[Any] = []
    whole = "ok"
    if what not in HARMFUL or what == "moved":
        lost, whole = missing(moved(path) if what == "moved" else [path], told, len(done))
    return {
        "twice": twice,
        "lost": lost,
        "after": after,
        "late": {who: n for who, n in late.items() if n > 2},
        "whole": whole,
        "told": len(told),
        "done": len(done),
        "taken over": sum(run != who for run, _, who, _ in done),
        "stopped": lines("stopped"),
        "log": lines("log"),
    }


def moved(path: Path) -> list[Path]:
    """Return the store that was moved, and any that a late process has made at the old place.

    A log that no process has closed in good order still lies at the old place: it is put beside
    the moved file, as a person would.
    """
    if not path.exists() and (log := Path(f"{path}-wal")).exists():
        log.rename(path.with_name("moved.db-wal"))
    return list(path.parent.glob("*.db"))


def missing(paths: list[Path], told: list[list[str]], done: int) -> tuple[list[Any], str]:
    """Return what was acknowledged and is in none of these stores, and whether all are whole."""
    kept: list[tuple[str, int, str]] = []
    whole = "ok"
    for path in paths:
        with closing(sqlite3.connect(path)) as db:
            kept += db.execute("SELECT journal, position, body FROM events")
            (said,) = db.execute("PRAGMA integrity_check").fetchone()
            whole = whole if said == "ok" else said
    said_at = {
        (journal, position, who, number)
        for journal, position, body in kept
        for who, number in SAYS.findall(body)
    }
    lost: list[Any] = [
        line for line in told if (line[1], int(line[2]), line[1][-1], line[3]) not in said_at
    ]
    begun = [body for _, _, body in kept if '"two_names.act"' in body and "Act " in body]
    if done > len(begun):
        lost.append(f"{done} effects and {len(begun)} attempts on record")
    return lost, whole


def main(folder: Path) -> None:
    mount("tmpfs", folder, b"tmpfs")
    going: set[int] = set()
    for line in sys.stdin:
        while len(going) >= AT_ONCE:
            going.discard(os.wait()[0])
        spec = json.loads(line)

        def tell(spec: dict[str, Any] = spec) -> None:
            os.write(1, (json.dumps(trial(spec)) + "\n").encode())

        global _folder
        _folder = Path(spec["folder"])
        _folder.mkdir(parents=True)
        going.add(forked(tell))
    for _ in range(len(going)):
        os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
