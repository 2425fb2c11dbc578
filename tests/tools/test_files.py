"""The files of a workspace: what may be reached, what may be overwritten, and taking it back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from midflight.errors import InvalidTool
from midflight.tools.declaration import (
    REGISTRY,
    ChangedSince,
    Done,
    NotDone,
    Tool,
    ToolFailed,
    ToolRefused,
    Unclear,
)
from midflight.tools.files import FileChanged, Workspace
from midflight.tools.folder import KEEP, TEXT_MAX, version_of
from midflight.tools.options import EffectRecord

RACE_S = 1.5
RACE_MAX_S = 20.0  # where the other side was not given a turn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "space"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that no tool may see or touch."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret.txt").write_text("hush", encoding="utf-8")
    return path


@pytest.fixture
def space(folder: Path, request: pytest.FixtureRequest) -> Workspace:
    return Workspace(folder, name=f"files-{request.node.name}", file_bytes_max=2_000_000)


def undo(declared: Tool, key: str, result: Any = None, *args: Any, **kwargs: Any) -> None:
    assert declared.undo is not None
    declared.undo(EffectRecord(key, list(args), kwargs, result))


def check(declared: Tool, key: str, *args: Any, **kwargs: Any) -> Any:
    assert declared.check is not None
    return declared.check(EffectRecord(key, list(args), kwargs))


def leaves(declared: Tool, *args: Any, **kwargs: Any) -> Any:
    assert declared.fingerprint is not None
    return declared.fingerprint(EffectRecord("k", list(args), kwargs))


def visible(folder: Path) -> list[str]:
    """All that is there but what undo needs."""
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    return sorted(str(path) for path in found if path.parts[0] != KEEP)


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_with_the_version_of_its_bytes(space: Workspace, folder: Path) -> None:
    (folder / "a.txt").write_bytes("grün\r\n".encode())

    found = space.read_file("a.txt")

    assert (found.text, found.note) == ("grün\r\n", "")
    assert found.version == version_of("grün\r\n".encode())


def test_a_long_file_is_read_in_parts_with_the_version_of_the_whole(
    space: Workspace, folder: Path
) -> None:
    lines = [f"line {number}\n" for number in range(1, 101)]
    (folder / "long.txt").write_text("".join(lines), encoding="utf-8")

    part = space.read_file("long.txt", first_line=11, lines=2)
    past = space.read_file("long.txt", first_line=1000)

    assert part.text == "line 11\nline 12\n"
    assert part.note == "lines 11 to 12 of 100"
    assert part.version == version_of("".join(lines).encode())
    assert past.text == ""


def test_a_line_that_is_too_long_for_an_answer_is_cut_and_that_is_said(
    space: Workspace, folder: Path
) -> None:
    (folder / "one-line.json").write_text("x" * (TEXT_MAX + 5), encoding="utf-8")

    found = space.read_file("one-line.json")

    assert (len(found.text), found.note) == (TEXT_MAX, "lines 1 to 1 of 1; the last one is cut")


@pytest.mark.parametrize("data", [b"\x89PNG\x00\xff", "grün".encode("latin-1")])
def test_what_is_no_utf_8_text_is_not_shown_and_has_a_version_all_the_same(
    space: Workspace, folder: Path, data: bytes
) -> None:
    (folder / "x").write_bytes(data)

    found = space.read_file("x")

    assert (found.text, found.version) == ("", version_of(data))
    assert "not UTF-8" in found.note


def test_a_huge_file_is_refused_with_its_size(space: Workspace, folder: Path) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(5_000_000_000)

    with pytest.raises(ToolRefused, match="5,000,000,000 bytes, and this tool takes 2,000,000"):
        space.read_file("huge")


def test_listing_shows_folders_links_and_what_cannot_be_named(
    space: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "a.py").touch()
    (folder / "b.txt").touch()
    (folder / "way-out").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/bad-\xff")).touch()
    space.write_file("c.txt", "c", idempotency_key="key")  # makes the folder that undo needs

    assert space.list_files().paths == [
        "b.txt",
        "bad-�",
        "c.txt",
        "pipe (no file)",
        "src/",
        "way-out (link)",
        "src/deep/",
        "src/deep/a.py",
    ]
    assert space.list_files(pattern="*.py").paths == ["src/deep/a.py"]
    assert space.list_files("src/deep").paths == ["src/deep/a.py"]
    with pytest.raises(ToolRefused, match="is not in the workspace"):
        space.list_files("absent")


def test_searching_shows_lines_and_says_what_it_could_not_search(
    space: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "a.txt").write_text("one\ntwo (hush)\n", encoding="utf-8")
    (folder / "b.bin").write_bytes(b"\xff(hush)")
    (folder / "link").symlink_to(outside / "secret.txt")

    found = space.search_files("(hush)")

    assert found.lines == ["a.txt:2: two (hush)"]
    assert found.note == "not searched: 1 that are no text, too large or unreadable"
    assert space.search_files("hush", pattern="*.md").lines == []


def test_folders_within_each_other_without_end_do_not_end_a_walk(
    space: Workspace, folder: Path
) -> None:
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=handle)
        handle, before = os.open("d", os.O_RDONLY, dir_fd=handle), handle
        os.close(before)
    os.close(handle)

    assert len(space.list_files().paths) == 64


# ── nothing gets out ─────────────────────────────────────────────────────────────────────────

WAYS_OUT = [
    "../outside/secret.txt",
    "sub/../../outside/secret.txt",
    "link/secret.txt",
    "secret-link",
    "sub/loop/x",
    "fd-link/0",
    "",
    ".",
    "a\0b",
    "x/" * 70 + "y",
    "n" * 5000,
    "\ud800",
    ".midflight/x",
    "./.MIDFLIGHT/x",
]


@pytest.mark.parametrize("path", WAYS_OUT, ids=lambda path: ascii(path)[:30])
def test_no_path_leads_out(space: Workspace, folder: Path, outside: Path, path: str) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "secret-link").symlink_to(outside / "secret.txt")
    (folder / "sub" / "loop").symlink_to("loop")
    (folder / "fd-link").symlink_to("/proc/self/fd")
    (folder / "a.txt").write_text("a", encoding="utf-8")
    here = version_of(b"a")
    before = visible(folder)
    calls: list[Callable[[], object]] = [
        lambda: space.read_file(path),
        lambda: space.write_file(path, "x"),
        lambda: space.write_file(path, "x", version_of(b"hush")),
        lambda: space.edit_file(path, "hush", "x", version_of(b"hush")),
        lambda: space.delete_file(path, version_of(b"hush")),
        lambda: space.move_file(path, "stolen", version_of(b"hush")),
        lambda: space.move_file("a.txt", path, here),
    ]

    for call in calls:
        with pytest.raises(ToolRefused, match=r"Nothing was changed\.$"):
            call()

    assert visible(folder) == before
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "hush"


def test_an_absolute_path_is_refused_even_into_the_workspace(
    space: Workspace, folder: Path
) -> None:
    (folder / "a.txt").touch()

    with pytest.raises(ToolRefused, match="absolute"):
        space.read_file(str(folder / "a.txt"))
    with pytest.raises(ToolRefused, match="absolute"):
        space.read_file("/proc/self/environ")


def test_a_link_is_not_followed_to_list_or_to_search(
    space: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "link").symlink_to(outside)

    with pytest.raises(ToolRefused, match="symbolic link"):
        space.list_files("link")
    with pytest.raises(ToolRefused, match="symbolic link"):
        space.search_files("hush", "link")
    assert space.search_files("hush").lines == []


def test_a_pipe_or_a_folder_is_no_file_and_nobody_waits_for_it(
    space: Workspace, folder: Path
) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()

    for path in ("pipe", "sub"):
        with pytest.raises(ToolRefused, match="not an ordinary file"):
            space.read_file(path)
        with pytest.raises(ToolRefused, match="not an ordinary file"):
            space.write_file(path, "x")


def test_a_hard_link_to_a_file_elsewhere_is_replaced_and_never_written_through(
    space: Workspace, folder: Path, outside: Path
) -> None:
    os.link(outside / "secret.txt", folder / "a.txt")

    space.write_file("a.txt", "mine", version_of(b"hush"))

    assert (outside / "secret.txt").read_text(encoding="utf-8") == "hush"


def test_a_folder_put_in_place_of_the_workspace_is_not_entered(
    space: Workspace, folder: Path, outside: Path
) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(outside)

    with pytest.raises(ToolRefused, match="not in the workspace"):
        space.read_file("secret.txt")


@pytest.mark.slow
def test_somebody_who_swaps_a_folder_for_a_link_all_the_time_gets_nothing_out(
    space: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "secret.txt").write_text("mine", encoding="utf-8")
    (folder / "way-out").symlink_to(outside)
    seen: set[str] = set()
    listed: set[str] = set()
    refused = written = 0
    with swapping(folder / "sub", folder / "way-out"):
        began = time.monotonic()
        while time.monotonic() - began < (RACE_S if refused and written else RACE_MAX_S):
            try:
                seen.add(space.read_file("sub/secret.txt").text)
                listed |= set(space.list_files("sub").paths)
                space.write_file(f"sub/new-{written}", "x")
                written += 1
            except ToolRefused:
                refused += 1

    assert refused > 0
    assert written > 0
    assert seen == {"mine"}
    assert listed <= {"sub/secret.txt", *(f"sub/new-{number}" for number in range(written))}
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Another process lets two names change places all the time."""
    program = str(Path(__file__).with_name("swapper.py"))
    process = subprocess.Popen(
        [sys.executable, program, str(one), str(other)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"up\n"
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


# ── only over what was read ──────────────────────────────────────────────────────────────────


def test_a_new_file_is_written_with_the_folders_on_its_way(space: Workspace, folder: Path) -> None:
    done = space.write_file("notes/today/a.txt", "hello")

    assert (folder / "notes/today/a.txt").read_text(encoding="utf-8") == "hello"
    assert done.version == space.read_file("notes/today/a.txt").version


def test_a_file_that_is_there_is_not_overwritten_unread(space: Workspace, folder: Path) -> None:
    (folder / "a.txt").write_text("theirs", encoding="utf-8")

    with pytest.raises(ToolRefused, match="is there already; read it"):
        space.write_file("a.txt", "mine")
    with pytest.raises(ToolRefused, match=r"not at version 0123 \(any more\)"):
        space.write_file("a.txt", "mine", "0123")

    assert (folder / "a.txt").read_text(encoding="utf-8") == "theirs"


def test_a_change_by_others_since_the_read_is_not_overwritten(
    space: Workspace, folder: Path
) -> None:
    version = space.write_file("a.txt", "one").version
    (folder / "a.txt").write_text("theirs", encoding="utf-8")
    changes: list[Callable[[], object]] = [
        lambda: space.write_file("a.txt", "two", version),
        lambda: space.edit_file("a.txt", "theirs", "two", version),
        lambda: space.delete_file("a.txt", version),
        lambda: space.move_file("a.txt", "b.txt", version),
    ]

    for change in changes:
        with pytest.raises(ToolRefused, match="read it again"):
            change()

    assert visible(folder) == ["a.txt"]
    assert (folder / "a.txt").read_text(encoding="utf-8") == "theirs"


def test_a_file_that_is_gone_is_not_written_anew_by_one_who_does_not_know(
    space: Workspace, folder: Path
) -> None:
    version = space.write_file("a.txt", "one").version
    (folder / "a.txt").unlink()

    with pytest.raises(ToolRefused, match="is not there any more"):
        space.write_file("a.txt", "two", version)
    assert visible(folder) == []


def test_an_edit_replaces_a_text_that_is_there_exactly_once(space: Workspace, folder: Path) -> None:
    version = space.write_file("a.txt", "one\r\ntwo two\r\naaa\r\n").version

    for old, why in (("three", "does not hold"), ("two", "more than once"), ("aa", "more than")):
        with pytest.raises(ToolRefused, match=why):
            space.edit_file("a.txt", old, "x", version)
    with pytest.raises(ToolRefused, match="does not hold"):
        space.edit_file("a.txt", "", "x", version)
    after = space.edit_file("a.txt", "one", "1", version)

    assert (folder / "a.txt").read_bytes() == b"1\r\ntwo two\r\naaa\r\n"
    assert after.version == space.read_file("a.txt").version


def test_a_move_never_replaces_another_file_nor_loses_its_own(
    space: Workspace, folder: Path
) -> None:
    version = space.write_file("a.txt", "one").version
    space.write_file("b.txt", "two")

    with pytest.raises(ToolRefused, match="is there already"):
        space.move_file("a.txt", "b.txt", version)
    with pytest.raises(ToolRefused, match="is the path that it already has"):
        space.move_file("a.txt", "./a.txt", version)
    with pytest.raises(ToolRefused, match="no folder"):
        space.move_file("a.txt", "b.txt/c/d", version)
    space.move_file("a.txt", "new/c.txt", version)

    assert visible(folder) == ["b.txt", "new", "new/c.txt"]


def test_a_file_keeps_its_mode_and_is_never_half_written(space: Workspace, folder: Path) -> None:
    (folder / "run.sh").write_text("old", encoding="utf-8")
    (folder / "run.sh").chmod(0o4750)
    before = (folder / "run.sh").stat().st_ino

    space.write_file("run.sh", "new", version_of(b"old"))
    space.write_file("fresh", "new")

    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o750
    assert (folder / "run.sh").stat().st_ino != before  # another file was put in its place
    mask = os.umask(0o22)
    os.umask(mask)
    assert stat.S_IMODE((folder / "fresh").stat().st_mode) == 0o666 & ~mask
    assert visible(folder) == ["fresh", "run.sh"]


def test_what_does_not_fit_the_journal_or_the_disk_is_refused(
    space: Workspace, folder: Path
) -> None:
    with pytest.raises(ToolRefused, match="600,000 bytes at once; at most 500,000"):
        space.write_file("a.txt", "x" * 600_000)
    with pytest.raises(ToolRefused, match="not valid Unicode"):
        space.write_file("a.txt", "\ud800")
    assert visible(folder) == []


def test_two_who_have_read_the_same_version_do_not_both_write(
    space: Workspace, folder: Path
) -> None:
    twin = Workspace(folder, name=space.name)  # as in another process: it has its own handle
    (folder / "count").write_text("0", encoding="utf-8")
    won: list[int] = []

    def add(mine: Workspace) -> None:
        for _ in range(25):
            read = mine.read_file("count")
            try:
                mine.write_file("count", str(int(read.text) + 1), read.version)
            except ToolRefused:
                continue
            won.append(1)

    threads = [threading.Thread(target=add, args=(mine,)) for mine in (space, space, twin, twin)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (folder / "count").read_text(encoding="utf-8") == str(len(won))
    assert len(won) > 0


# ── taking it back ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("knows", [True, False], ids=["settled", "in doubt"])
def test_every_change_is_undone_exactly_also_by_a_later_process(
    space: Workspace, folder: Path, knows: bool
) -> None:
    (folder / "a.bin").write_bytes(b"\xff\x00old")
    (folder / "a.bin").chmod(0o640)
    (folder / "b.txt").write_text("one two", encoding="utf-8")
    before = version_of(b"\xff\x00old")
    changes: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"path": "a.bin", "text": "new", "version": before}),
        ("write_file", {"path": "x/y/new.txt", "text": "new"}),
        (
            "edit_file",
            {"path": "b.txt", "old": "one", "new": "1", "version": version_of(b"one two")},
        ),
        ("move_file", {"path": "b.txt", "to": "z/c.txt", "version": version_of(b"1 two")}),
        ("delete_file", {"path": "a.bin", "version": version_of(b"new")}),
    ]
    shape = {path: (folder / path).read_bytes() for path in visible(folder)}
    results = [
        getattr(space, name)(**given, idempotency_key=f"key {number}")
        for number, (name, given) in enumerate(changes)
    ]
    assert visible(folder) == ["x", "x/y", "x/y/new.txt", "z", "z/c.txt"]

    later = Workspace(folder, name=space.name)
    for number in reversed(range(len(changes))):
        name, given = changes[number]
        undo(getattr(later, name), f"key {number}", results[number] if knows else None, **given)
        undo(getattr(later, name), f"key {number}", None, **given)  # an undo may be repeated

    assert {path: (folder / path).read_bytes() for path in visible(folder)} == shape
    assert stat.S_IMODE((folder / "a.bin").stat().st_mode) == 0o640


def test_arguments_given_by_position_are_undone_too(space: Workspace, folder: Path) -> None:
    space.write_file("a.txt", "one", idempotency_key="key")

    undo(space.write_file, "key", None, "a.txt", "one")

    assert visible(folder) == []


def test_what_others_have_changed_since_is_not_touched(space: Workspace, folder: Path) -> None:
    old = space.write_file("a.txt", "one").version
    space.write_file("a.txt", "two", old, idempotency_key="write")
    gone = space.write_file("b.txt", "three").version
    space.delete_file("b.txt", gone, idempotency_key="delete")
    moved = space.write_file("c.txt", "four").version
    space.move_file("c.txt", "d.txt", moved, idempotency_key="move")
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text("theirs", encoding="utf-8")

    with pytest.raises(ChangedSince):
        undo(space.write_file, "write", path="a.txt", text="two", version=old)
    with pytest.raises(ChangedSince):
        undo(space.delete_file, "delete", path="b.txt", version=gone)
    with pytest.raises(ChangedSince):
        undo(space.move_file, "move", path="c.txt", to="d.txt", version=moved)

    for name in ("a.txt", "b.txt", "c.txt"):
        assert (folder / name).read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("damage", ["gone", "forged"])
def test_an_undo_whose_earlier_content_is_not_kept_touches_nothing(
    space: Workspace, folder: Path, damage: str
) -> None:
    old = space.write_file("a.txt", "one").version
    space.edit_file("a.txt", "one", "two", old, idempotency_key="key")
    for kept in (folder / KEEP).iterdir():
        data = kept.read_bytes()
        kept.unlink() if damage == "gone" else kept.write_bytes(data.replace(b"one", b"bad"))

    with pytest.raises(ToolFailed, match="not kept any more"):
        undo(space.edit_file, "key", path="a.txt", old="one", new="two", version=old)

    assert (folder / "a.txt").read_text(encoding="utf-8") == "two"


def test_what_undo_needs_is_for_its_owner_alone_and_not_for_git(
    space: Workspace, folder: Path
) -> None:
    space.write_file("a.txt", "one", idempotency_key="key")

    assert stat.S_IMODE((folder / KEEP).stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (folder / KEEP).iterdir())
    assert (folder / KEEP / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_check_tells_from_the_file_whether_it_happened(space: Workspace, folder: Path) -> None:
    old = space.write_file("a.txt", "one").version
    write = {"path": "a.txt", "text": "two", "version": old}
    edit = {"path": "a.txt", "old": "one", "new": "two", "version": old}

    assert isinstance(check(space.write_file, "w", **write), NotDone)
    assert isinstance(check(space.edit_file, "e", **edit), NotDone)
    assert isinstance(check(space.delete_file, "d", path="a.txt", version=old), NotDone)

    new = space.edit_file(**edit, idempotency_key="e")
    assert check(space.edit_file, "e", **edit) == Done(new)
    assert check(space.write_file, "w", **write) == Done(new)  # it is what it would have written

    (folder / "a.txt").write_text("theirs", encoding="utf-8")
    assert isinstance(check(space.write_file, "w", **write), Unclear)
    assert isinstance(check(space.edit_file, "e", **edit), Unclear)

    theirs = version_of(b"theirs")
    gone = space.delete_file("a.txt", theirs, idempotency_key="d")
    assert check(space.delete_file, "d", path="a.txt", version=theirs) == Done(gone)
    unsure = check(space.delete_file, "another", path="a.txt", version=theirs)
    assert isinstance(unsure, Unclear)  # somebody has deleted it; nothing says that it was us


def test_a_check_that_cannot_look_does_not_say_that_it_was_not_done(
    space: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "a.txt").symlink_to(outside / "secret.txt")

    found = check(space.write_file, "k", path="a.txt", text="x", version=version_of(b"hush"))

    assert isinstance(found, Unclear)


def test_a_move_that_was_cut_off_between_its_two_names_is_finished_or_taken_back(
    space: Workspace, folder: Path
) -> None:
    version = space.write_file("a.txt", "one").version
    given = {"path": "a.txt", "to": "b.txt", "version": version}
    os.link(folder / "a.txt", folder / "b.txt")  # as a crash leaves it
    assert isinstance(check(space.move_file, "k", **given), NotDone)

    space.move_file(**given)
    assert visible(folder) == ["b.txt"]
    assert check(space.move_file, "k", **given) == Done(FileChanged("b.txt", version))

    os.link(folder / "b.txt", folder / "a.txt")
    undo(space.move_file, "k", **given)
    assert visible(folder) == ["a.txt"]


def test_what_a_crash_has_left_beside_a_file_is_used_up_by_the_next_try(
    space: Workspace, folder: Path, outside: Path
) -> None:
    space.write_file("a.txt", "one")
    (name,) = {path.name for path in _beside(space, folder)}
    (folder / name).symlink_to(outside / "secret.txt")

    space.write_file("a.txt", "two", version_of(b"one"))

    assert visible(folder) == ["a.txt"]
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "hush"


def _beside(space: Workspace, folder: Path) -> list[Path]:
    """Where the next content of ``a.txt`` is written before it is put in place."""
    from midflight.tools import file_replacement
    from midflight.tools.folder import Content

    handle = os.open(folder, os.O_RDONLY)
    try:
        with file_replacement._written_beside(handle, "a.txt", "a.txt", Content(b"")) as beside:
            return [folder / beside]
    finally:
        os.close(handle)


def test_what_was_left_is_seen(space: Workspace, folder: Path) -> None:
    version = space.write_file("a.txt", "one").version

    assert leaves(space.write_file, "a.txt", "one") == [version]
    assert leaves(space.move_file, path="a.txt", to="b.txt", version=version) == [version, ""]


def test_two_workspaces_do_not_share_a_name(space: Workspace, tmp_path: Path) -> None:
    Workspace(tmp_path / "space", name=space.name)  # the same again, as after a reload

    with pytest.raises(InvalidTool, match="another tool has this name"):
        Workspace(tmp_path, name=space.name)

    assert REGISTRY[f"{space.name}.write_file"].function.__self__ == space  # type: ignore[attr-defined]
