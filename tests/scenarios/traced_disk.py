"""A disk as a power cut would leave it, built from every system call that a process made on it.

``strace`` writes down each write, truncation, creation, removal and sync of a folder's files, in
their order. ``TracedDisk`` repeats them. At any moment it can build the files as a disk may have
them when the power goes at that moment: all that was synced is there; of what was written since,
any sectors are there, each in any of the states that it has had, and the rest never was.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

CALLS = (
    "openat,open,creat,mknod,mknodat,link,linkat,rename,renameat,renameat2,unlink,unlinkat,"
    "truncate,ftruncate,fallocate,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,"
    "sync_file_range,copy_file_range,sendfile,splice,mmap"
)
STRING_MAX = 1 << 25
"""Longer than any one write; what ``strace`` cuts off would be noticed."""
STRACE = ("strace", "-f", "-y", "-s", str(STRING_MAX), "-e", f"trace={CALLS}", "-e", "signal=none")

LINE = re.compile(rb"(?P<thread>\d+) +(?P<what>.*)", re.DOTALL)
RESUMED = re.compile(rb"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)", re.DOTALL)
CALL = re.compile(rb"(?P<name>\w+)\((?P<rest>.*)", re.DOTALL)
UNFINISHED = b" <unfinished ...>"
KILLED = b"= ?"  # the process was killed in this call: nobody knows whether it was done
RESULT = re.compile(rb"\) += (?P<result>-?\d+)[^\"]*$")
HANDLE = re.compile(rb"-?\d+<(?P<path>[^>]*)>(?:\(deleted\))?")
STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"(\.\.\.)?', re.DOTALL)
NUMBER = re.compile(rb"-?\d+")
BY_PATH = {b"openat", b"open", b"creat", b"mknod", b"mknodat", b"link", b"linkat", b"rename"}
BY_PATH |= {b"renameat", b"renameat2", b"unlink", b"unlinkat", b"truncate"}

SECTORS = (512, 4096)


@dataclass
class Change:
    """Bytes written at a place, or a new size."""

    at: int
    data: bytes | None = None  # None: from ``at`` on there is nothing any more, or zeros
    over: bool = True  # its call has returned

    def of_sector(self, start: int, content: bytearray) -> None:
        """Make this change in the sector that begins at ``start``."""
        if self.data is None:
            gone = max(0, self.at - start)
            content[gone:] = bytes(max(0, len(content) - gone))
            return
        first, last = max(self.at, start), min(self.at + len(self.data), start + len(content))
        if first < last:
            content[first - start : last - start] = self.data[first - self.at : last - self.at]

    def size_after(self, size: int) -> int:
        return self.at if self.data is None else max(size, self.at + len(self.data))


@dataclass
class File:
    """What is surely on the disk, and the changes since then, in order."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)

    def sync(self, begun_after: int) -> None:
        """Keep the changes that had been made when the sync began, up to one still under way."""
        kept = self.since[:begun_after]
        kept = kept[: next((n for n, change in enumerate(kept) if not change.over), len(kept))]
        for change in kept:
            size = change.size_after(len(self.synced))
            self.synced[size:] = bytes(max(0, size - len(self.synced)))
            if change.data is not None:
                self.synced[change.at : change.at + len(change.data)] = change.data
        del self.since[: len(kept)]

    def whole(self, *, begun: bool = False) -> bytes:
        """What a process reads that has the file open; with ``begun`` calls that have not ended."""
        since = [replace(change, over=True) for change in self.since] if begun else self.since
        now = File(bytearray(self.synced), list(since))
        now.sync(len(now.since))
        return bytes(now.synced)

    def after_cut(self, chance: Random, sector: int, kept: float) -> bytes:
        """What the disk may have: ``kept`` is the share of what it has in the newest state."""
        sizes = [len(self.synced)]
        touching: dict[int, list[Change]] = {}
        for change in self.since:
            sizes.append(change.size_after(sizes[-1]))
            end = max(sizes) if change.data is None else change.at + len(change.data)
            for number in range(change.at // sector, -(-end // sector)):
                touching.setdefault(number * sector, []).append(change)
        size = sizes[-1] if chance.random() < kept else chance.choice(sizes)
        disk = self.synced + bytes(max(0, max(sizes) - len(self.synced)))
        for start, changes in touching.items():
            newest = chance.random() < kept
            reached = len(changes) if newest else chance.randrange(len(changes) + 1)
            content = disk[start : start + sector]
            if not reached and start >= len(self.synced) and chance.random() < 0.5:
                content[:] = chance.randbytes(len(content))  # what lay there before
            for change in changes[:reached]:
                change.of_sector(start, content)
            disk[start : start + sector] = content
        return bytes(disk[:size])


class TracedDisk:
    """The files of a folder whose names begin so, and what was said in another file meanwhile."""

    def __init__(self, first: Path, said_in: Path) -> None:
        self._first, self._folder, self._said_in = str(first), first.parent, str(said_in)
        self._names: dict[str, list[File | None]] = {}  # since the folder was synced
        self._removed: dict[str, File] = {}
        self._under_way: dict[bytes, bytes] = {}
        self._writing: dict[bytes, Change] = {}
        self._syncing: dict[bytes, int] = {}
        self._saying: set[bytes] = set()
        self.said: list[bytes] = []
        self.synced = 0

    def file(self, name: str) -> File | None:
        """Return the file under a name, as processes see it."""
        return self._names.get(name, [None])[-1]

    def repeat(self, line: bytes) -> None:
        """Repeat what a line of the trace says."""
        found = LINE.fullmatch(line)
        assert found is not None, line[:200]
        thread, what = found["thread"], found["what"]
        if resumed := RESUMED.fullmatch(what):
            begun = self._under_way.pop(thread, b"")
            if begun:
                self._call(thread, begun + resumed["rest"], ended=True)
        elif what.endswith(UNFINISHED):
            self._under_way[thread] = begun = what.removesuffix(UNFINISHED)
            self._call(thread, begun, ended=False)
        else:
            self._call(thread, what, ended=True)

    def _call(self, thread: bytes, what: bytes, *, ended: bool) -> None:
        call = CALL.match(what)
        assert call is not None, what[:200]
        ended = ended and not what.endswith(KILLED)
        path = subject_of(call)
        if path == self._said_in and call["name"] == b"write":
            self._hear(thread, call["rest"], ended=ended)
        if not (self._is_ours(path) or (path == str(self._folder) and b"sync" in call["name"])):
            return
        result = RESULT.search(what) if ended else None
        if ended and (result is None or int(result["result"]) < 0):
            self._writing.pop(thread, None)  # it has failed; nothing may have come of it
            return
        name = call["name"].decode().removesuffix("64").removesuffix("v2").removesuffix("v")
        done = int(result["result"]) if result is not None else -1
        getattr(self, f"_{name}")(thread, call["rest"], done, ended)

    def _hear(self, thread: bytes, rest: bytes, *, ended: bool) -> None:
        """Hear what the process says: when it begins to say it, it knows it."""
        if ended and thread in self._saying:
            self._saying.remove(thread)
        elif text := text_in(rest)[:1]:
            self.said += text
            if not ended:
                self._saying.add(thread)

    # ── one method for each call; others on these files are not known, and fail ────────────────

    def _openat(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        path = text_in(rest)[0].decode()
        if not ended:
            return
        if b"O_CREAT" in rest:
            self._create(path)
        if b"O_TRUNC" in rest:
            self._changed(path).since.append(Change(0))

    def _mknod(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        if ended:
            self._create(text_in(rest)[0].decode())

    _mknodat = _mknod

    def _unlink(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        path = text_in(rest)[0].decode()
        if ended:
            self._removed[path] = self._changed(path)
            self._names[Path(path).name].append(None)

    _unlinkat = _unlink

    def _rename(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        old, new = (text.decode() for text in text_in(rest)[:2])
        if ended:
            self._names.setdefault(Path(new).name, [None]).append(self._changed(old))
            self._names[Path(old).name].append(None)

    def _pwrite(self, thread: bytes, rest: bytes, done: int, ended: bool) -> None:
        if change := self._writing.pop(thread, None):
            assert change.data is not None
            change.data, change.over = change.data[:done], True
            return
        *_, at = NUMBER.findall(RESULT.sub(b"", STRING.sub(b"", HANDLE.sub(b"", rest))))
        data = b"".join(text_in(rest))
        change = Change(int(at), data[:done] if ended else data, over=ended)
        self._changed(path_in(rest)).since.append(change)
        if not ended:
            self._writing[thread] = change

    def _ftruncate(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        if ended:
            size = NUMBER.findall(RESULT.sub(b"", HANDLE.sub(b"", rest)))[0]
            self._changed(path_in(rest)).since.append(Change(int(size)))

    def _fallocate(self, _thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        if not ended:
            return
        mode, at, length = RESULT.sub(b"", HANDLE.sub(b"", rest)).strip(b", ").split(b", ")
        file, end = self._changed(path_in(rest)), int(at) + int(length)
        assert mode == b"0", rest[:200]
        if end > len(file.whole()):
            file.since.append(Change(end))

    def _fsync(self, thread: bytes, rest: bytes, _done: int, ended: bool) -> None:
        path = path_in(rest)
        if path == str(self._folder):
            if ended:
                self._names = {name: files[-1:] for name, files in self._names.items()}
            return
        file = self._changed(path)
        if not ended:
            self._syncing[thread] = len(file.since)
            return
        file.sync(self._syncing.pop(thread, len(file.since)))
        self.synced += 1

    _fdatasync = _fsync

    def _mmap(self, _thread: bytes, rest: bytes, _done: int, _ended: bool) -> None:
        """Only the index of the log is written through memory. No disk has to have it."""
        written = b"PROT_WRITE" in rest and b"MAP_SHARED" in rest
        assert not written or path_in(rest).endswith("-shm"), rest[:200]

    # ── files ────────────────────────────────────────────────────────────────────────────────

    def _is_ours(self, path: str) -> bool:
        return path.startswith(self._first) and Path(path).parent == self._folder

    def _create(self, path: str) -> None:
        files = self._names.setdefault(Path(path).name, [None])
        if files[-1] is None:
            files.append(File())

    def _changed(self, path: str) -> File:
        """The file under a path, or the one that was removed there."""
        file = self.file(Path(path).name) or self._removed.get(path)
        assert file is not None, f"nobody has made {path}"
        return file

    def cut_power(self, chance: Random, into: Path) -> None:
        """Build the files as a disk may have them after a cut at this moment."""
        sector, kept = chance.choice(SECTORS), chance.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        into.mkdir()
        for name, files in self._names.items():
            file = files[-1] if chance.random() < kept else chance.choice(files)
            if file is None or name.endswith("-shm"):
                continue
            (into / name).write_bytes(file.after_cut(chance, sector, kept))
        if chance.random() < 0.5:
            (into / f"{Path(self._first).name}-shm").write_bytes(chance.randbytes(32768))


def subject_of(call: re.Match[bytes]) -> str:
    """The file that a call is about, by its handle or by its path; none if by neither."""
    rest = call["rest"][:4096]
    if call["name"] in BY_PATH:
        return next(iter(text_in(rest)), b"").decode(errors="replace")
    found = HANDLE.match(rest) if call["name"] != b"mmap" else HANDLE.search(rest)
    return found["path"].decode(errors="replace").removesuffix(" (deleted)") if found else ""


def path_in(rest: bytes) -> str:
    """The path of the first handle of a call."""
    found = HANDLE.search(rest)
    assert found is not None, rest[:200]
    return found["path"].decode().removesuffix(" (deleted)")


def text_in(rest: bytes) -> Sequence[bytes]:
    """The texts among the arguments of a call, all of them whole."""
    found = STRING.findall(rest)
    assert all(not cut_off for _, cut_off in found), rest[:200]
    return [codecs.escape_decode(text)[0] for text, _ in found]


def lines_of(trace: Path) -> Iterator[bytes]:
    """The calls in a trace, in their order; not the ends of threads."""
    with trace.open("rb") as file:
        for line in file:
            if b" +++ " not in line[:40] and b" --- " not in line[:40]:
                yield line.rstrip(b"\n")
