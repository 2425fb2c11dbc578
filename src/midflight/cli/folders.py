"""The folders of runs, removed with their journals; folders of another store's runs stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from midflight.errors import JournalNotFound
from midflight.stores.protocol import RUN_PREFIX, Store


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
