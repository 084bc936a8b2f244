"""A folder as the root of file operations: nothing outside it is opened, whatever paths, links and races say."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Literal, TypeVar

from .errors import Changed, FilesError, Missing, Refused, Unusable, WrongKind
from .trail import FOLDER, Refuse, Spot, Trail

T = TypeVar("T")
Kind = Literal["file", "folder", "link", "other"]
SUPPORTED = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_OPEN = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
)
_PERMISSIONS = 0o777
# Descriptors of files that must not be opened, caught after the fact: closing one would drop SQLite's locks on it.
_never_closed: list[int] = []


@dataclass(frozen=True)
class Entry:
    """Something in a folder; `path` is relative to the root, '/' between its parts, `size` in bytes.

    `kind` is `link` only for a link that leads out of the root or nowhere; any other has the kind of its target.
    `linked` tells that it is one: walks do not go through it.
    """

    path: str
    kind: Kind
    size: int = 0
    linked: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def refuse_nothing(where: str | int, status: os.stat_result | None) -> str:
    """Refuse no path."""
    return ""


def _never_stop() -> None:
    """Let a walk go on."""


def _keep_all(entry: Entry) -> bool:
    return False


class Root:
    """File operations below one folder. A context manager; usable in any thread, by one thread at a time.

    Paths are relative to it: a leading '/' says nothing, '..' and links are followed while they stay inside. `refuse`
    is asked about every folder and file on the way, see `Refuse`. Each method raises errors of this package only.
    """

    def __init__(self, path: str | os.PathLike[str], *, refuse: Refuse = refuse_nothing) -> None:
        if not SUPPORTED:
            raise Unusable("this system cannot open files relative to a folder.", path=str(path))
        self.path = os.path.realpath(path)
        self._refuse = refuse
        try:
            self._folder = os.open(self.path, os.O_RDONLY | FOLDER)
        except OSError as error:
            raise Unusable(f"{path}: {error.strerror}.", path=str(path)) from error

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder's descriptor back; harmless when repeated."""
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    # Looking

    def find(self, path: str) -> Entry | None:
        """Return what a path leads to, None when nothing is there. Raises `Outside`, `Refused`, `Unusable`."""
        try:
            with self._visit(path) as spot:
                return None if spot.status is None else Entry(spot.path, _kind(spot.status), spot.status.st_size)
        except (Missing, WrongKind):
            return None

    def entries(self, path: str = ".") -> list[Entry]:
        """Return a folder's entries by name, without those that are refused. Raises `Missing`, `WrongKind`."""
        with self._visit(path) as spot:
            if spot.status is None:
                raise Missing(f"{path} does not exist.", path=path)
            if not spot.is_folder:
                raise WrongKind(f"{path} is a file, not a folder.", path=path)
            found = [self._entry(spot.path, status, item) for item, status in _scan(spot, path)]
        return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.name)

    def walk(
        self,
        path: str = ".",
        *,
        skip: Callable[[Entry], bool] = _keep_all,
        check: Callable[[], None] = _never_stop,
    ) -> Iterator[Entry]:
        """Yield everything below a folder, depth first, by name; no link is walked through.

        `skip` leaves an entry and all below it out. `check` is called once a folder and may raise to stop the walk.
        Folders that cannot be read are passed over, the first one excepted.
        """
        waiting = [iter(self.entries(path))]
        while waiting:
            entry = next(waiting[-1], None)
            if entry is None:
                waiting.pop()
            elif not skip(entry):
                yield entry
                if entry.kind == "folder" and not entry.linked:
                    check()
                    with suppress(FilesError):
                        waiting.append(iter(self.entries(entry.path)))

    # Reading

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading. Raises `Missing`, `WrongKind`, `Refused`, `Outside`, `Unusable`."""
        with self._visit(path) as spot:
            return os.fdopen(self._open(path, spot), "rb")

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file's first `limit` bytes, or all of it."""
        with self.open(path) as file:
            return _guard(path, lambda: file.read() if limit is None else file.read(limit))

    # Writing

    def write(self, path: str, data: bytes) -> None:
        """Put `data` in place of a file at once or not at all, making the folders above it; mode and owner are kept."""
        with self._visit(path, make=True) as spot:
            _check_target(path, spot)
            self._replace(path, spot, data)

    def edit(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Put what `change` makes of a file in its place. Raises `Changed` when somebody else wrote it meanwhile."""
        with self._visit(path) as spot:
            with os.fdopen(self._open(path, spot), "rb") as file:
                before = os.fstat(file.fileno())
                data = change(_guard(path, file.read))
            now = _guard(path, lambda: os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False))
            if _version(now) != _version(before):
                raise Changed(f"{path} was changed by somebody else meanwhile; read it again.", path=path)
            self._replace(path, spot, data)

    # Inside

    @contextmanager
    def _visit(self, path: str, *, make: bool = False) -> Generator[Spot, None, None]:
        trail = Trail(self.path, self._refuse, path, [os.dup(self._folder)], make)
        try:
            yield trail.follow()
        finally:
            trail.close()

    def _entry(self, folder: str, status: os.stat_result, item: os.DirEntry[str]) -> Entry | None:
        path = item.name if folder == "." else f"{folder}/{item.name}"
        if self._refuse(os.path.join(self.path, path), status):
            return None
        if not stat.S_ISLNK(status.st_mode):
            return Entry(path, _kind(status), status.st_size)
        try:
            target = self.find(path)
        except Refused:
            return None
        except FilesError:
            target = None
        return Entry(path, target.kind if target else "link", target.size if target else 0, linked=True)

    def _open(self, path: str, spot: Spot) -> int:
        if spot.status is None:
            raise Missing(f"{path} does not exist.", path=path)
        _check_target(path, spot)
        opened = _guard(path, lambda: os.open(spot.name, os.O_RDONLY | _OPEN, dir_fd=spot.folder))
        status = os.fstat(opened)
        reason = self._refuse(opened, status)
        if reason:
            _never_closed.append(opened)
            raise Refused(f"{path} {reason}.", path=path)
        if not stat.S_ISREG(status.st_mode):
            os.close(opened)
            raise Changed(f"{path} was changed while it was being opened.", path=path)
        return opened

    def _replace(self, path: str, spot: Spot, data: bytes) -> None:
        temporary = f".{spot.name[:100]}.{secrets.token_hex(6)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
        opened = _guard(path, lambda: os.open(temporary, flags, 0o666, dir_fd=spot.folder))
        try:
            with os.fdopen(opened, "wb") as file:
                _keep_owner(file.fileno(), spot)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=spot.folder)
            if isinstance(error, OSError):
                raise Unusable(f"{path}: {error.strerror}.", path=path) from error
            raise


def _scan(spot: Spot, path: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    opened = _guard(path, lambda: os.open(spot.name, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=spot.folder))
    try:
        with os.scandir(opened) as items:
            for item in items:
                with suppress(FileNotFoundError):
                    yield item, item.stat(follow_symlinks=False)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}.", path=path) from error
    finally:
        os.close(opened)


def _kind(status: os.stat_result) -> Kind:
    if stat.S_ISREG(status.st_mode):
        return "file"
    return "folder" if stat.S_ISDIR(status.st_mode) else "other"


def _check_target(path: str, spot: Spot) -> None:
    if spot.is_folder:
        raise WrongKind(f"{path} is a folder, not a file.", path=path)
    if spot.status is not None and not stat.S_ISREG(spot.status.st_mode):
        raise WrongKind(f"{path} is a device, a socket or a pipe, not a file.", path=path)


def _version(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _keep_owner(opened: int, spot: Spot) -> None:
    """Give the new file the mode of the old one, and for root the owner of the old one or of the folder."""
    if os.geteuid() == 0:
        owner = spot.status or os.stat(".", dir_fd=spot.folder)
        os.fchown(opened, owner.st_uid, owner.st_gid)
    if spot.status is not None:
        os.fchmod(opened, stat.S_IMODE(spot.status.st_mode) & _PERMISSIONS)


def _guard(path: str, work: Callable[[], T]) -> T:
    """Do it, and turn the system's refusal into our error."""
    try:
        return work()
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}.", path=path) from error
