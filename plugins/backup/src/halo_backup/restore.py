"""Putting back what a backup holds: all of it is laid out beside what there is, then both change places as one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from halo_kernel import (
    BadInput,
    Conflict,
    StorageUnavailable,
    ensure_home,
)

from .archive import Archive, Damaged, Tell
from .databases import is_used, known_path, move_accounts, new_id, register, renew_registry, renew_workspace
from .disk import new_file, sync_folder
from .manifest import GLOBAL, REGISTRY, SETTINGS, Member, WorkspaceEntry
from .opened import check_schemas, open_secrets
from .sources import KEPT, STAGED, STAYS, file_of, is_lock, survey
from .swaps import Swap, alone, finish_swaps, is_cut, swap_all

_SPARE = 16 * 1024 * 1024
_CHANNELS = "channels/channels.db"


@dataclass(frozen=True, kw_only=True)
class Aim:
    """Where a backup goes: a home, or with `folder` the one workspace to that folder.

    `moves` gives folders that lie elsewhere now, by the former ones, what is below included. With no `passphrase` the
    home's secrets stay as they are.
    """

    home: Path
    folder: Path | None = None
    moves: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    passphrase: str = field(default="", repr=False)


class Restored(Struct, frozen=True, kw_only=True):
    """What was put back, and the folders that hold what was there before."""

    home: str
    whole: bool
    workspaces: tuple[str, ...]
    databases: int
    files: int
    secrets: bool
    kept: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Folder:
    """A folder that is restored: its new content, from the archive or, where that was sealed, from memory."""

    root: Path
    stamp: str
    members: Sequence[Member] = ()
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    adds: bool = False  # it replaces only what has the same name

    @property
    def staged(self) -> Path:
        return self.root / STAGED

    @property
    def kept(self) -> Path:
        return self.root / KEPT / self.stamp

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members) + sum(map(len, self.files.values()))


def restore(archive: Archive, aim: Aim, tell: Tell) -> Restored:
    """Put a backup back, after what was cut of another restore. Until everything is laid out nothing is changed; a cut
    later than that keeps the home shut until `finish`.

    Raises `ServerRunning`, `Conflict` for a database that somebody uses, `NewerData`, `BadInput` for a wrong
    passphrase or a place that cannot be, `StorageUnavailable`; nothing was changed then.
    """
    check_schemas(archive.manifest)
    sealed: Mapping[str, bytes] = open_secrets(archive, aim.passphrase) if aim.passphrase else {}
    places = _places(archive, aim)
    home = aim.home.absolute()
    if not is_cut(home):
        ensure_home(home)
    with alone(home):
        finish_swaps(home)
        return _Restoring(archive, home, places, sealed, tell).run()


def finish(home: Path) -> bool:
    """Do what is left of a restore that was cut, if one was, and tell. Raises `ServerRunning`, `StorageUnavailable`."""
    if not is_cut(home):
        return False
    with alone(home):
        finish_swaps(home)
    return True


def _places(archive: Archive, aim: Aim) -> Mapping[str, Path]:
    """Return where each workspace goes, by its id. Raises `BadInput`."""
    manifest, found = archive.manifest, dict[str, Path]()
    if aim.folder is not None and manifest.whole:
        raise BadInput("this is a backup of a whole home; --map says where folders lie now", field="workspace")
    for former in aim.moves:
        if not any(Path(entry.path).is_relative_to(former) for entry in manifest.workspaces):
            raise BadInput(f"--map names {former}, where no workspace of this backup was", field="map")
    for entry in manifest.workspaces:
        folder = (aim.folder or _moved(Path(entry.path), aim.moves)).resolve()
        if folder in found.values():
            raise BadInput(f"two workspaces would come to {folder}", field="map")
        if any(folder.is_relative_to(aim.home.resolve() / name) for name in ("global", "secrets")):
            raise BadInput(f"{folder} is no place for a workspace: Halo's own files are there", field="map")
        found[entry.id] = folder
    return found


def _moved(path: Path, moves: Mapping[Path, Path]) -> Path:
    """Return where a former path is now, by the longest of the moves that fits."""
    for former in sorted(moves, key=lambda each: len(each.parts), reverse=True):
        if path.is_relative_to(former):
            return moves[former] / path.relative_to(former)
    return path


class _Restoring:
    def __init__(
        self, archive: Archive, home: Path, places: Mapping[str, Path], sealed: Mapping[str, bytes], tell: Tell
    ) -> None:
        self._archive = archive
        self._manifest = archive.manifest
        self._home = home
        self._places = places
        self._sealed = sealed
        self._tell = tell
        self._done = 0
        roots = [home / "global", home / "secrets", *(folder / ".halo" for folder in places.values())]
        self._stamp = _free(roots, time.strftime("%Y%m%d-%H%M%S"))
        self._ids = {entry.id: self._id_of(entry) for entry in self._manifest.workspaces}

    def run(self) -> Restored:
        folders = [*self._folders()]
        with ExitStack() as stack:
            self._check_room(folders)
            for folder in folders:
                _check_unused(folder)
            for folder in folders:
                stack.callback(_remove_staged, folder)
                self._stage(folder, sum(each.size for each in folders))
            self._renew()
            for folder in folders:
                _check_unused(folder)
            swaps = [swap for folder in folders for swap in _swaps(folder)]
            for folder in folders:
                _sync_all(folder.staged)
            left = stack.pop_all()  # from here on `finish` may have to go on, and needs what is laid out
            try:
                swap_all(self._home, swaps)
            except OSError as error:  # of the list itself: nothing has begun
                left.close()
                raise _unwritable(self._home, error) from error
            left.close()
        self._register()
        return self._restored(folders)

    def _folders(self) -> Iterator[_Folder]:
        members = self._manifest.members
        if self._manifest.whole:
            ours = [each for each in members if each.name.startswith(GLOBAL)]
            yield _Folder(root=self._home / "global", stamp=self._stamp, members=ours)
            if self._sealed:
                yield _Folder(root=self._home / "secrets", stamp=self._stamp, files=self._sealed)
            elif any(each.name == SETTINGS for each in members) and not self._has_settings():
                plain = {"settings.yaml": self._archive.read(SETTINGS)}
                yield _Folder(root=self._home / "secrets", stamp=self._stamp, files=plain, adds=True)
        for entry in self._manifest.workspaces:
            ours = [each for each in members if each.name.startswith(entry.prefix)]
            yield _Folder(root=self._places[entry.id] / ".halo", stamp=self._stamp, members=ours)

    def _has_settings(self) -> bool:
        return (self._home / "secrets" / "settings.yaml").exists()

    def _check_room(self, folders: Sequence[_Folder]) -> None:
        """Make the folders, and refuse where what comes has no room."""
        needed: dict[int, int] = {}
        for folder in folders:
            try:
                folder.root.mkdir(parents=True, exist_ok=True)
                device = folder.root.stat().st_dev
                needed[device] = needed.get(device, _SPARE) + folder.size
                free = shutil.disk_usage(folder.root).free
            except OSError as error:
                said = f"{folder.root} cannot be made or used: {error.strerror}"
                raise StorageUnavailable(said, advice="say with --map where that folder is now") from error
            if needed[device] > free:
                said = f"there is no room where {folder.root} lies: {needed[device]} bytes are needed, {free} are free"
                raise StorageUnavailable(said, advice="free some; nothing was changed")

    def _stage(self, folder: _Folder, total: int) -> None:
        _remove_staged(folder)  # of one who was killed over it

        def counted(count: int) -> None:
            self._done += count
            self._tell("Restoring", self._done, total)

        try:
            folder.staged.mkdir(mode=0o700)
            for member in sorted(folder.members, key=lambda each: bool(each.link)):  # nothing is written through links
                target = folder.staged / member.place
                if member.link and target.parent.resolve() != folder.staged.resolve() / Path(member.place).parent:
                    raise Damaged([f"{member.name} lies below another link"])  # of the same name, to this file system
                self._archive.extract(member, target, counted)
            for name, data in folder.files.items():
                (folder.staged / name).parent.mkdir(parents=True, exist_ok=True)
                with new_file(folder.staged / name) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                counted(len(data))
        except OSError as error:
            raise _unwritable(folder.root, error) from error

    def _renew(self) -> None:
        """Let the databases go on from where and when they are now."""
        try:
            for entry in self._manifest.workspaces:
                database = self._places[entry.id] / ".halo" / STAGED / "halo.db"
                if database.exists():
                    fresh = self._ids[entry.id]
                    renew_workspace(database, fresh=fresh if fresh != entry.id else "")
            if any(member.name == REGISTRY for member in self._manifest.members):
                places = {each.id: (self._ids[each.id], self._places[each.id]) for each in self._manifest.workspaces}
                renew_registry(self._home / "global" / STAGED / "kernel.db", places)
            accounts = self._home / "secrets" / STAGED / _CHANNELS
            if accounts.exists():
                moved = {each.path: self._places[each.id] for each in self._manifest.workspaces}
                move_accounts(accounts, moved)
        except sqlite3.Error as error:
            said = f"a database of the backup cannot be used: {error}"
            raise StorageUnavailable(said, advice="`halo backup verify` says more; nothing was changed") from error

    def _id_of(self, entry: WorkspaceEntry) -> str:
        """Return which workspace it will be: another one, when its original lives elsewhere in this home."""
        if self._manifest.whole:
            return entry.id
        known = known_path(self._home / "global" / "kernel.db", entry.id)
        lives = known and Path(known) != self._places[entry.id] and (Path(known) / ".halo" / "halo.db").exists()
        return new_id() if lives else entry.id

    def _register(self) -> None:
        """Tell this home's registry of a single workspace; whoever opens its folder would do so too."""
        registry = self._home / "global" / "kernel.db"
        if not self._manifest.whole and registry.exists():
            for entry in self._manifest.workspaces:
                register(registry, self._ids[entry.id], self._places[entry.id])

    def _restored(self, folders: Sequence[_Folder]) -> Restored:
        return Restored(
            home=str(self._home),
            whole=self._manifest.whole,
            workspaces=tuple(str(self._places[entry.id]) for entry in self._manifest.workspaces),
            databases=len(self._manifest.databases),
            files=sum(len(folder.members) + len(folder.files) for folder in folders),
            secrets=bool(self._sealed),
            kept=tuple(str(folder.kept) for folder in folders if folder.kept.exists()),
            left_out=self._manifest.left_out,
        )


def _free(roots: Sequence[Path], stamp: str) -> str:
    """Return a name for what is kept, that is free in all of the folders."""
    names = (stamp, *(f"{stamp}-{number}" for number in range(2, 1000)))
    return next(name for name in names if not any((root / KEPT / name).exists() for root in roots))


def _remove_staged(folder: _Folder) -> None:
    shutil.rmtree(folder.staged, ignore_errors=True)


def _check_unused(folder: _Folder) -> None:
    """Refuse where another process has a database open; its own way out of the folder would be lost."""
    for place in survey(folder.root, "", "global").databases.values():
        if is_used(file_of(place)):
            said = f"{file_of(place)} is in use by another process"
            raise Conflict(said, advice="end it, or put this elsewhere with --map; nothing was changed")


def _swaps(folder: _Folder) -> list[Swap]:
    """Return what changes places, and make the folder for what leaves."""
    fresh = {path.name: path for path in folder.staged.iterdir()}
    if odd := STAYS & {*fresh}:
        raise Damaged([f"this backup would replace {folder.root / min(odd)}, which is no part of one"])
    there = [path for path in folder.root.iterdir() if path.name not in STAYS]
    leaving = [path for path in there if path.name in fresh or not (folder.adds or is_lock(path))]
    for path in leaving:
        if os.path.ismount(path):
            raise BadInput(f"{path} is a file system of its own, and cannot be replaced", field="home")
    if leaving:
        _make_kept(folder)
    old = {path.name: str(folder.kept / path.name) for path in leaving}
    return [
        Swap(path=str(folder.root / name), kept=old.get(name, ""), fresh=str(fresh.get(name, "")))
        for name in {**fresh, **old}
    ]


def _make_kept(folder: _Folder) -> None:
    try:
        folder.kept.mkdir(parents=True, mode=0o700)
        folder.kept.parent.chmod(0o700)
        (folder.kept.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        sync_folder(folder.kept.parent)
    except OSError as error:
        raise _unwritable(folder.root, error) from error


def _sync_all(folder: Path) -> None:
    for here, _, _ in os.walk(folder):
        sync_folder(Path(here))
    sync_folder(folder.parent)


def _unwritable(path: Path, error: OSError) -> StorageUnavailable:
    return StorageUnavailable(f"{path} cannot be written: {error.strerror}", advice="nothing was changed")
