"""Where a database lies, which of this process's files nobody else may open, and what is wrong with one.

Closing any descriptor of a database's file drops the locks that SQLite holds on it in this process
(https://sqlite.org/howtocorrupt.html, 2.2), so every function that opens paths for others asks `is_own_file`.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

import apsw

from ..contracts import Place
from ..errors import BadInput, StorageUnavailable

OPEN: list[str] = []  # the databases that this process has open, one entry an opening; each change is one call
_ROOM = 65_536
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OTHERS = "See which process has it open; on a network file system only one can have it."
_OWNER = "Check the owner and the permissions of the file and its folder."
_RESTORE = "Restore it with `halo backup restore`, or move its files away."
_FAILURES: dict[type[Exception], tuple[str, str]] = {
    apsw.BusyError: ("is in use by another process and did not become free", _OTHERS),
    apsw.ProtocolError: ("cannot be locked", _OTHERS),
    apsw.FullError: ("cannot grow: the disk is full", "Free some space; nothing was written."),
    apsw.IOError: ("cannot be read or written: the disk reported an error", ""),
    apsw.ReadOnlyError: ("is not writable", _OWNER),
    apsw.CantOpenError: ("cannot be opened", _OWNER),
    apsw.CorruptError: ("is damaged", _RESTORE),
    apsw.NotADBError: ("is not a database", _RESTORE),
}
FAILURES = tuple(_FAILURES)
# f_type of statfs(2): linux/magic.h and the file systems' own headers
_SERVED = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x5346414F, 0x6B414653}  # NFS, SMB, CIFS, SMB2, AFS twice
# Ceph, Lustre, GPFS, BeeGFS, OCFS2, GFS2
_CLUSTER = {0x00C36400, 0x0BD00BD0, 0x47504653, 0x19830326, 0x7461636F, 0x01161970}
_GUEST = {0x65735546, 0x01021997, 0x786F4256, 0xBACBACBC, 0x7C7C6673}  # FUSE, 9P, VirtualBox, VMware, Parallels
NETWORK_TYPES = _SERVED | _CLUSTER | _GUEST
_MNT_LOCAL = 0x1000  # sys/mount.h of macOS
_FLAGS = 8  # the word with f_flags in the 64-bit struct statfs of macOS


def unavailable(path: Path, error: Exception) -> StorageUnavailable:
    """Return the error that callers see; the file's name is in the sentence, and what to do beside it."""
    kind = type(error)
    with suppress(OSError):  # a -shm that has no room is an error of the disk to SQLite
        kind = apsw.FullError if kind is apsw.IOError and disk_usage(path.parent).free < _ROOM else kind
    sentence, advice = _FAILURES.get(kind, ("cannot be used", ""))
    return StorageUnavailable(f"The database {path} {sentence} ({error}).", advice=advice)


def prepare(place: Place) -> Path:
    """Return the file of a place, its folder created; a new file is 0600, a secret one lies in a folder of 0700."""
    if not _NAME.fullmatch(place.name):
        raise BadInput(f"{place.name!r} is no name of a database: letters, digits, '.', '_', '-'.", field="name")
    secret = place.scope == "secret"
    path = Path(os.path.realpath(place.directory)) / f"{place.name}.db"
    try:
        path.parent.mkdir(mode=0o700 if secret else 0o777, parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise StorageUnavailable(f"{path} is a link or no file; move it away, and restore the database.")
        if not path.exists() and os.path.exists(f"{path}-wal"):  # which SQLite would empty
            raise StorageUnavailable(f"The database {path} is gone, but not its -wal.", advice=_RESTORE)
        with suppress(FileExistsError):  # an existing file may be open here: no descriptor of it is closed
            path.touch(0o600, exist_ok=False)
        if secret:
            path.parent.chmod(0o700)
            path.chmod(0o600)
    except OSError as error:
        raise unavailable(path, error) from error
    return path


def identity(path: str | Path | int) -> tuple[int, int] | None:
    """Return (device, inode) of what a path or descriptor leads to, None when there is nothing."""
    with suppress(OSError, ValueError):
        return (found := os.stat(path)).st_dev, found.st_ino
    return None


def is_own_file(path: str | Path | int) -> bool:
    """Tell whether a path or an open descriptor is a file of a database that this process has open.

    Files are compared by device and inode, so links of both kinds are seen through. `-wal`, `-shm` and `-journal` are
    included, whether they exist at this moment or not.
    """
    names = [name + suffix for name in set(OPEN) for suffix in ("", "-wal", "-shm", "-journal")]
    if (wanted := identity(path)) is not None:
        return any(identity(name) == wanted for name in names)
    name = "" if isinstance(path, int) else str(path)
    return "\0" not in name and os.path.realpath(name).casefold() in map(str.casefold, names)


def is_network(folder: Path) -> bool:
    """Tell whether the folder is on a network or shared file system; an unknown one counts as local."""
    words = (ctypes.c_long * 512)()
    library = ctypes.CDLL(None)
    statfs = getattr(library, "statfs$INODE64", None) or library.statfs  # macOS on Intel has an older one as well
    statfs(os.fsencode(folder), words)
    if sys.platform == "darwin":
        return not words[_FLAGS] & _MNT_LOCAL
    return words[0] & 0xFFFFFFFF in NETWORK_TYPES
