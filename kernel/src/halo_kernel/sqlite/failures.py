"""What SQLite's errors mean for a caller."""

from __future__ import annotations

from pathlib import Path

import apsw

from ..errors import StorageUnavailable

_SENTENCES: dict[type[apsw.Error], tuple[str, str]] = {
    apsw.BusyError: ("is in use by another process and did not become free", "See which process has it open."),
    apsw.LockedError: ("is locked", "See which process has it open."),
    apsw.FullError: ("cannot grow: the disk is full", "Free some space; nothing was written."),
    apsw.IOError: ("cannot be read or written: the disk reported an error", "Check the disk."),
    apsw.ReadOnlyError: ("is not writable", "Check the owner and the permissions of the file and its folder."),
    apsw.PermissionsError: ("may not be used", "Check the owner and the permissions of the file and its folder."),
    apsw.CantOpenError: ("cannot be opened", "Check the owner and the permissions of the file and its folder."),
    apsw.CorruptError: ("is damaged", "Restore it from a backup."),
    apsw.NotADBError: ("is not a database", "Move the file away, or restore it from a backup."),
    apsw.ProtocolError: ("cannot be locked", "See which process has it open."),
    apsw.InterruptError: ("was interrupted", ""),
}
UNAVAILABLE = tuple(_SENTENCES)


def unavailable(path: Path, error: BaseException) -> StorageUnavailable:
    """Return the error that callers see, with its cause; the file's name is in the sentence."""
    sentence, advice = "cannot be used", ""
    for kind, (words, hint) in _SENTENCES.items():
        if isinstance(error, kind):
            sentence, advice = words, hint
    found = StorageUnavailable(f"The database {path} {sentence} ({error}).", advice=advice)
    found.__cause__ = error
    return found
