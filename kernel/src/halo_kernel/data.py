"""Databases of the home: the storage engine that was chosen, and where each scope lives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from .contracts import Database, DataScope, Migration, Place, Storage
from .errors import BadInput, HaloError, StorageUnavailable
from .schema import CHANNELS, HOME
from .supervisor import given

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_RESERVED = {"halo", "kernel", "channels"}


class Data:
    """Databases for plugins. Each place is opened once; `folder_of` gives a workspace's path by id."""

    def __init__(self, storage: Storage, home: Path, folder_of: Callable[[str], Path]) -> None:
        self.engine: str = storage.name  # The storage engine's name; SQLite's is `sqlite`.
        self._storage = storage
        self._home = home
        self._folder_of = folder_of
        self._open: dict[Place, asyncio.Task[Database]] = {}

    async def open(
        self, name: str, scope: DataScope, migrations: Sequence[Migration], *, workspace: str = ""
    ) -> Database:
        """Open a database of one's own, or return it as it was opened first, without a look at `migrations`.

        The kernel closes it. One that a plugin has closed stays closed until the next start. Raises `BadInput` for the
        name, `NewerData`, `StorageUnavailable`.
        """
        if not _NAME.fullmatch(name) or name in _RESERVED:
            why = f"{name!r} cannot name a database: a-z, 0-9, '_', '-', and none of the kernel's"
            raise BadInput(why, field="name")
        place = Place(name=name, scope=scope, directory=self._directory(name, scope, workspace))
        return await self.open_place(place, migrations)

    def places(self) -> Sequence[Place]:
        """Return where the databases lie that are open."""
        return [place for place in self._open if self._found(place)]

    async def backup(self, place: Place, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Copy a database, one that is not open too, to the file `path`; see `Database.backup`."""
        task = self._found(place)
        if task is None:
            await self._storage.copy(place, path)
        else:
            await (await asyncio.shield(task)).backup(path, progress=progress)

    async def open_home(self) -> Database:
        """Open the registry of workspaces: the first that a storage engine is asked for."""
        place = Place(name="kernel", scope="global", directory=self._home / "global")
        try:
            return await self.open_place(place, HOME)
        except HaloError:
            raise
        except Exception as error:
            raise StorageUnavailable(f"the storage engine {self.engine!r} failed: {error!r}") from error

    async def open_channels(self) -> Database:
        """Open the accounts of channels."""
        place = Place(name="channels", scope="secret", directory=self._home / "secrets" / "channels")
        return await self.open_place(place, CHANNELS)

    async def open_place(self, place: Place, migrations: Sequence[Migration]) -> Database:
        """Open a place, or share the database that is open there."""
        task = self._found(place)
        if task is None:
            task = self._open[place] = asyncio.create_task(given(self._storage.open, place, migrations))
        return await asyncio.shield(task)

    def _found(self, place: Place) -> asyncio.Task[Database] | None:
        """Return the opening of a place, None when there is none or it has failed."""
        task = self._open.get(place)
        failed = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        return None if failed else task

    async def forget(self, place: Place) -> None:
        """Close one place."""
        task = self._open.pop(place, None)
        if task is not None:
            await (await task).close()

    async def close(self) -> None:
        """Close all, each after what it had accepted."""
        tasks = [task for task in self._open.values() if not task.cancelled()]
        self._open.clear()
        databases = await asyncio.gather(*tasks, return_exceptions=True)
        closing = [database.close() for database in databases if not isinstance(database, BaseException)]
        await asyncio.gather(*closing, return_exceptions=True)

    def _directory(self, name: str, scope: DataScope, workspace: str) -> Path:
        if scope == "workspace":
            return self._folder_of(workspace) / ".halo"
        return self._home / "global" if scope == "global" else self._home / "secrets" / name
