"""What is written down about a home's supervisor: its lock, which dies with it, its record, and the stop marker."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_PATIENCE = 0.5
_STEP = 0.02


@dataclass(frozen=True, kw_only=True)
class Supervision:
    """A supervisor, and the server that it started last (0: none yet). Times are UTC milliseconds, 0 for none.

    `next_start` is when it starts the server again, `gave_up` when it stopped doing so.
    """

    pid: int
    server: int = 0
    restarts: int = 0
    reason: str = ""
    next_start: int = 0
    gave_up: int = 0


def take_over(home: Path) -> int | None:
    """Become the one supervisor of a home, for as long as the descriptor that is returned is open in any process.

    None when there is one. What a former one left is removed.
    """
    import fcntl

    descriptor = os.open(_lock_file(home), os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:  # one who only looks holds the lock for an instant
                os.close(descriptor)
                return None
            time.sleep(_STEP)
        else:
            forget(home)
            return descriptor


def is_supervised(home: Path) -> bool:
    """Tell whether the supervisor of a home lives."""
    try:
        import fcntl

        with _lock_file(home).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except (ImportError, OSError):  # Windows, where there is none; no home
        pass
    return False


def read_supervision(home: Path) -> Supervision | None:
    """Return what the last supervisor of a home wrote, or None; it may have been killed since."""
    try:
        return Supervision(**json.loads(_record_file(home).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_supervision(home: Path, record: Supervision) -> None:
    """Replace the record of a home's supervisor."""
    _replace(_record_file(home), asdict(record))


def forget(home: Path) -> None:
    """Remove the record and the stop marker; for whoever has the lock."""
    for file in (_record_file(home), _marker_file(home)):
        with suppress(OSError):
            file.unlink(missing_ok=True)


def clear(home: Path) -> None:
    """Remove what the supervisor of a home left, if it has ended."""
    with suppress(ImportError, OSError):
        lock = take_over(home)
        if lock is not None:
            os.close(lock)


def mark_stop(home: Path, server: int) -> None:
    """Write the stop marker: the server with this process id, or this home's supervisor, was told to stop."""
    supervision = read_supervision(home)
    marker = {"server": server, "supervisor": supervision.pid if supervision else 0}
    if _read_marker(home) != marker:
        _replace(_marker_file(home), marker)


def is_told_to_stop(home: Path, record: Supervision) -> bool:
    """Tell whether the stop marker names a supervisor or its server."""
    marker = _read_marker(home)
    return marker.get("supervisor") == record.pid or (record.server != 0 and marker.get("server") == record.server)


def _read_marker(home: Path) -> dict[str, int]:
    try:
        return dict(json.loads(_marker_file(home).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _replace(path: Path, value: object) -> None:
    """Write a file at once: a reader sees the old one or the new one, on a disk that is full the old one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(value), encoding="utf-8")
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _lock_file(home: Path) -> Path:
    return home / "global" / "supervisor.lock"


def _record_file(home: Path) -> Path:
    return home / "global" / "supervisor.json"


def _marker_file(home: Path) -> Path:
    return home / "global" / "server.stop"
