"""What is removed is gone: journals, and the folders in which runs kept files of people."""

from __future__ import annotations

from pathlib import Path

import pytest
from typing_extensions import override

from cli.scene import Scene
from midflight.errors import StoreUnavailable
from midflight.interfaces.cli.commands.store_commands import RunFolders, remove
from midflight.stores.memory import MemoryStore
from midflight.stores.protocol import Purged
from stores.runs import ended

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def kept(scene: Scene) -> list[str]:
    return sorted(path.name for path in (scene.folder / ".midflight").glob("r-*"))


def write(scene: Scene, brief: str) -> str:
    before = set(kept(scene))
    scene.said("run", "cli.diarist:diarist", brief)
    (run,) = set(kept(scene)) - before
    return run


def test_the_folder_of_a_run_goes_with_its_journal(scene: Scene) -> None:
    run = write(scene, "what ann told us")

    removed = scene.json("purge", "--older-than", "0s", "--yes")

    assert (removed["runs"], removed["folders"], removed["left"]) == (1, 1, [])
    assert not (scene.folder / ".midflight" / run).exists()


def test_what_is_too_young_keeps_its_folder(scene: Scene) -> None:
    run = write(scene, "what ann told us")

    assert "0 folders" in scene.said("purge", "--older-than", "1d", "--yes")
    assert kept(scene) == [run]


def test_a_folder_of_another_store_stays_and_is_told_of(scene: Scene) -> None:
    other = Scene(scene.folder, "--store", "other.db")
    theirs = write(other, "what bob told them")
    write(scene, "what ann told us")

    told = scene.said("purge", "--older-than", "0s", "--yes")

    assert kept(scene) == [theirs]
    assert "1 folder" in told
    assert f"belong to no run of this store, and were left: .midflight/{theirs}" in told


def test_no_link_is_followed_out_of_the_folder_of_a_run(scene: Scene) -> None:
    run = write(scene, "what ann told us")
    outside = scene.folder / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine", encoding="utf-8")
    (scene.folder / ".midflight" / run / "link").symlink_to(outside)

    scene.said("purge", "--older-than", "0s", "--yes")

    assert kept(scene) == []
    assert (outside / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_link_in_the_place_of_a_folder_is_left_and_told_of(scene: Scene) -> None:
    run = write(scene, "what ann told us")
    place = scene.folder / ".midflight" / run
    outside = place.rename(scene.folder / "outside")
    place.symlink_to(outside)

    told = scene.said("purge", "--older-than", "0s", "--yes", status=1)

    assert f"could not be removed: .midflight/{run}" in told
    assert (outside / "private.txt").exists()


def test_where_runs_had_their_folders_elsewhere_it_says_so(scene: Scene) -> None:
    write(scene, "what ann told us")

    told = scene.said("purge", "--older-than", "0s", "--yes", "--workdir", "nowhere")

    assert "Removed 1 run," in told
    assert "There is no nowhere here" in told
    assert len(kept(scene)) == 1


def test_of_runs_that_had_no_folder_here_it_says_how_many(scene: Scene) -> None:
    """A workdir being here says nothing of runs that were driven with another one."""
    write(scene, "what ann told us")
    scene.said("run", "cli.diarist:diarist", "what bob told us", "--workdir", "elsewhere")

    told = scene.said("purge", "--older-than", "0s", "--yes")

    assert "Removed 2 runs," in told
    assert "1 folder." in told
    assert "1 of the removed runs had no folder under .midflight" in told


def test_where_every_run_had_its_folder_nothing_is_said_of_others(scene: Scene) -> None:
    write(scene, "what ann told us")

    assert "had no folder" not in scene.said("purge", "--older-than", "0s", "--yes")


def test_a_program_is_told_of_folders_elsewhere_and_of_strangers(scene: Scene) -> None:
    theirs = write(Scene(scene.folder, "--store", "other.db"), "what bob told them")
    scene.said("run", "cli.diarist:diarist", "what ann told us", "--workdir", "elsewhere")

    removed = scene.json("purge", "--older-than", "0s", "--yes")

    assert (removed["runs"], removed["folders"], removed["without_folder"]) == (1, 0, 1)
    assert removed["strangers"] == [f".midflight/{theirs}"]


class BreaksDown(MemoryStore):
    """A store that is lost after so many purges; the last one is done and not answered."""

    answers = 1

    @override
    async def purge(self, ended_before: float, limit: int = 1000) -> Purged:
        removed = await super().purge(ended_before, limit)
        if not self.answers:
            raise StoreUnavailable("the connection was lost")
        self.answers -= 1
        return removed


@pytest.mark.anyio
async def test_a_purge_that_is_cut_off_leaves_no_folder_whose_journal_is_gone(
    tmp_path: Path,
) -> None:
    """To the next purge it would be a stranger's."""
    store = BreaksDown()
    for run in ("r-1", "r-2", "r-3"):
        await ended(store, run)
        (tmp_path / run).mkdir()
    folders = RunFolders(tmp_path)
    await folders.look(store)

    with pytest.raises(StoreUnavailable):
        await remove(store, folders, await store.now() + 60, batch=1)

    assert [path.name for path in tmp_path.iterdir()] == ["r-3"]
