"""Making a backup, while everything goes on: databases by the kernel's own copies, the rest file by file."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Event
from typing import IO, TypeVar

from msgspec import Struct

from halo_kernel import (
    BadInput,
    Conflict,
    HaloError,
    Host,
    Place,
    StorageUnavailable,
    WorkspaceInfo,
    __version__,
    is_own_file,
    locked,
)

from .archive import CHUNK, Writer
from .databases import look
from .disk import give_name, new_file
from .manifest import FORMAT, GLOBAL, SEALED, SETTINGS, DatabaseEntry, Head, Manifest, Seal, WorkspaceEntry
from .plain_settings import plain_settings
from .sealed import SHORTEST, seal
from .sources import WORK, Tree, file_of, roots, survey

T = TypeVar("T")
_IN_MEMORY = 8 * CHUNK
_NO_SECRETS = "settings that are secret, accounts of channels, tokens and keys (`--secrets` takes them, encrypted)"
_PLUGINS = "plugins that were installed into the home (`halo plugins install` brings them again)"


class Stopped(Exception):
    """Somebody stopped the backup."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is wanted: a file at `path`, of the whole home or of one workspace, with secrets under a passphrase."""

    path: Path
    workspace: str = ""
    passphrase: str = field(default="", repr=False)


class Made(Struct, frozen=True, kw_only=True):
    """What was made: `size` in bytes, how many workspaces, databases and files, and what was left out."""

    path: str
    size: int
    workspaces: int
    databases: int
    files: int
    left_out: tuple[str, ...]


class Progress:
    """How far a backup is, told from threads too: `what` happens, and `done` of about `total` bytes."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "Looking", 0, 0
        self.stop = Event()

    def add(self, count: int) -> None:
        """Count bytes. Raises `Stopped`."""
        self.done += count
        if self.stop.is_set():
            raise Stopped


async def prepare(host: Host, wish: Wish) -> Sequence[WorkspaceInfo]:
    """Return the workspaces that are wanted. Raises `BadInput`, `WorkspaceUnusable`, `Conflict`.

    What another storage engine than SQLite keeps is in no file of the home: a backup without it would be none.
    """
    if host.data.engine != "sqlite":
        said = f"this home is kept by the storage engine {host.data.engine!r}, whose data no backup of files holds"
        raise Conflict(said, advice="save it by that engine's own means")
    if wish.workspace and not (Path(wish.workspace) / ".halo" / "halo.db").exists():
        raise BadInput(f"{wish.workspace} is no workspace: nothing was said there yet", field="workspace")
    infos = [await host.workspaces.open(wish.workspace)] if wish.workspace else await host.workspaces.list()
    _check(wish, roots(host.settings.home, (Path(info.path) for info in infos)))
    return infos


async def create(host: Host, wish: Wish, infos: Sequence[WorkspaceInfo], progress: Progress) -> Made:
    """Make a backup of what `prepare` returned. A failure, or a cancel, leaves nothing.

    Raises `Conflict` while another one is made, `StorageUnavailable`, and `Stopped` when `progress` was told to.
    """
    home = host.settings.home
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home / "global" / ".backup.lock", patience=0))
        except BlockingIOError as error:
            raise Conflict("a backup of this home is being made already", advice="wait until it is done") from error
        work = stack.enter_context(_workshop(wish.path, home))
        return await _Creation(host, wish, progress, work).run(infos)


def _check(wish: Wish, parts: Sequence[Path]) -> None:
    path = wish.path
    if not path.is_absolute() or not path.parent.is_dir():
        raise BadInput(f"{path} must be a file in a folder that exists", field="path")
    if os.path.lexists(path):
        raise BadInput(f"{path} is there already", field="path", advice="name another file; it was not touched")
    real = path.parent.resolve()
    for part in parts:
        if real.is_relative_to(part.resolve()):
            raise BadInput(f"{path} lies in what is to be saved", field="path", advice="name a file outside")
    if wish.workspace and wish.passphrase:
        raise BadInput("a workspace has no secrets; those of the home go with the whole home", field="passphrase")
    if wish.passphrase and len(wish.passphrase) < SHORTEST:
        raise BadInput(f"a passphrase has at least {SHORTEST} characters", field="passphrase")


@contextmanager
def _workshop(path: Path, home: Path) -> Generator[Path]:
    """Give a private folder beside the target, and remove it in the end, with any that was left by a killed one."""
    mark = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]
    secret = home / "secrets" / WORK
    for old in [*path.parent.glob(f".halo-{mark}-*.part"), secret]:
        shutil.rmtree(old, ignore_errors=True)
    work = path.with_name(f".halo-{mark}-{os.getpid()}.part")
    try:
        work.mkdir(mode=0o700)
        yield work
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", advice="nothing was left") from error
    finally:
        for folder in (work, secret):
            shutil.rmtree(folder, ignore_errors=True)


class _Creation:
    """One backup on its way. What blocks runs in a thread, one piece at a time."""

    def __init__(self, host: Host, wish: Wish, progress: Progress, work: Path) -> None:
        self._host = host
        self._wish = wish
        self._progress = progress
        self._work = work
        self._databases: list[DatabaseEntry] = []
        self._workspaces: list[WorkspaceEntry] = []
        self._left_out: list[str] = []
        self._writer: Writer

    async def run(self, infos: Sequence[WorkspaceInfo]) -> Made:
        home, draft = self._host.settings.home, self._work / "backup"
        self._progress.total = await self._in_thread(self._estimate, infos)
        with new_file(draft) as file:
            self._writer = Writer(file, Head(format=FORMAT, halo=__version__), self._progress.add)
            # The home first: what it has marked as done in a workspace must be in the workspace's later copy.
            how = None if self._wish.workspace else await self._add_home(home)
            for info in infos:
                await self._add_workspace(info)
            await self._in_thread(self._finish, file, how)
        await self._in_thread(give_name, draft, self._wish.path)
        return Made(
            path=str(self._wish.path),
            size=self._wish.path.stat().st_size,
            workspaces=len(self._workspaces),
            databases=len(self._databases),
            files=len(self._writer.members),
            left_out=tuple(self._left_out),
        )

    def _estimate(self, infos: Sequence[WorkspaceInfo]) -> int:
        trees = [survey(Path(info.path) / ".halo", "", "workspace") for info in infos]
        trees += [] if self._wish.workspace else [survey(self._host.settings.home / "global", "", "global")]
        return sum(tree.size() for tree in trees)

    def _finish(self, file: IO[bytes], how: Seal | None) -> None:
        manifest = Manifest(
            format=FORMAT,
            halo=__version__,
            made_at=self._host.clock.now(),
            home=str(self._host.settings.home),
            whole=not self._wish.workspace,
            workspaces=tuple(self._workspaces),
            databases=tuple(self._databases),
            members=tuple(self._writer.members),
            left_out=tuple(self._left_out),
            seal=how,
        )
        self._writer.finish(manifest)
        file.flush()
        os.fsync(file.fileno())

    async def _add_workspace(self, info: WorkspaceInfo) -> None:
        """Add a workspace; one that cannot be opened is left out of a whole home, and named.

        Its blobs are held from before its database is copied until they are.
        """
        try:
            info = await self._host.workspaces.get(info.id)
        except HaloError as error:
            if self._wish.workspace:
                raise
            self._left_out.append(f"the workspace {info.path}: {error.message}")
            return
        entry = WorkspaceEntry(id=info.id, path=info.path)
        root = Path(info.path) / ".halo"
        with ExitStack() as stack:
            await self._in_thread(stack.enter_context, self._host.blobs.hold(info.id))
            named: set[str] = set()
            before = await self._in_thread(survey, root, entry.prefix, "workspace")
            for name, place in before.databases.items():
                named |= await self._add_database(name, place)
            tree = await self._in_thread(survey, root, entry.prefix, "workspace")
            await self._in_thread(self._add_files, tree)
        there = {member.name.rpartition("/")[2] for member in self._writer.members}
        missing = tuple(sorted(named - there))
        self._workspaces.append(WorkspaceEntry(id=info.id, path=info.path, missing=missing))
        if missing:
            self._left_out.append(f"large values that {info.path} names and has not: {', '.join(missing[:3])}")

    async def _add_home(self, home: Path) -> Seal | None:
        tree = await self._in_thread(survey, home / "global", GLOBAL, "global")
        for name, place in tree.databases.items():
            await self._add_database(name, place)
        await self._in_thread(self._add_files, tree)
        found = {file_of(place) for place in tree.databases.values()}
        for place in self._host.data.places():
            if place.scope == "global" and file_of(place) not in found:
                self._left_out.append(f"the database {place.name}, which its storage engine keeps elsewhere")
        self._left_out.append(_PLUGINS)
        if not self._wish.passphrase:
            self._left_out.append(_NO_SECRETS)
            text = await self._in_thread(plain_settings, self._host.settings)
            self._writer.add_bytes(SETTINGS, text.encode())
            return None
        files = await self._secrets(home / "secrets")
        how, data = await self._in_thread(seal, files, self._wish.passphrase)
        await self._in_thread(self._writer.add_bytes, SEALED, data)
        return how

    async def _secrets(self, root: Path) -> dict[str, bytes]:
        """Return all that is secret, by its path; copies of its databases lie for a moment among them."""
        self._progress.what = "Encrypting the secrets"
        tree, files = await self._in_thread(survey, root, "", "secret"), dict[str, bytes]()
        (root / WORK).mkdir(mode=0o700)
        for name, place in tree.databases.items():
            copied = root / WORK / "copy.db"
            await self._host.data.backup(place, copied)
            files[name] = copied.read_bytes()
            copied.unlink()
        for name, path in tree.files.items():
            with suppress(FileNotFoundError):  # it went while we looked
                files[name] = path.read_bytes()
        self._left_out += [f"{root / name} is a link" for name in tree.links]
        self._left_out += tree.left_out
        return files

    async def _add_database(self, name: str, where: Place) -> frozenset[str]:
        """Copy a database and add it; return the blobs that it names."""
        copied, path = self._work / "copy.db", file_of(where)
        self._progress.what = f"Copying {path}"
        await self._copy(where, copied)

        def add() -> frozenset[str]:
            try:
                found = look(copied)
            except sqlite3.Error as error:
                raise StorageUnavailable(f"the database {path} cannot be read: {error}") from error
            self._databases.append(DatabaseEntry(name=name, version=found.version, min_reader=found.min_reader))
            with copied.open("rb") as file:
                self._writer.add(name, file, mode=0o600)
            copied.unlink()
            return found.blobs

        return await self._in_thread(add)

    async def _copy(self, where: Place, copied: Path) -> None:
        """Let the kernel copy a database, and count that as it goes."""
        before, size = self._progress.done, file_of(where).stat().st_size

        def tell(done: int, pages: int) -> None:
            self._progress.done = before + size * done // max(pages, 1)

        await self._host.data.backup(where, copied, progress=tell)
        self._progress.done = before
        self._progress.add(size)

    def _add_files(self, tree: Tree) -> None:
        self._left_out += tree.left_out
        for name, path in tree.files.items():
            self._progress.what = f"Copying {path}"
            try:
                self._add_file(name, path)
            except FileNotFoundError:
                pass  # it went while we looked
            except PermissionError as error:
                self._left_out.append(f"{path} cannot be read: {error.strerror}")
        for name, target in tree.links.items():
            self._writer.add_link(name, target)

    def _add_file(self, name: str, path: Path) -> None:
        """Add a file as it is at one moment, or nearly: it is read once, as quickly as it can be."""
        if is_own_file(path):
            return
        with path.open("rb") as file, SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(self._work)) as held:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                shutil.copyfileobj(file, held, CHUNK)
                self._writer.add(name, held, mode=stat.S_IMODE(mode))

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        """Do what blocks; when we are cancelled, it ends at its next piece, and only then do we."""
        task = asyncio.ensure_future(asyncio.to_thread(work, *args))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._progress.stop.set()
            with suppress(BaseException):
                await task
            raise
