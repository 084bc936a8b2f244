"""Files that survive a power cut, under a name that nobody had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from halo_kernel import BadInput


def new_file(path: Path) -> IO[bytes]:
    """Open a file, that was not there and that only its owner can read, for writing."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def give_name(draft: Path, path: Path) -> None:
    """Give a file that is on disk its name, if nobody has it. Raises `BadInput`."""
    try:
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            raise
        except OSError:  # a file system without links, as on many sticks: for an instant an empty file has the name
            path.touch(exist_ok=False)
            draft.replace(path)
    except FileExistsError as error:
        raise BadInput(f"{path} is there already", field="path", advice="name another file") from error
    sync_folder(path.parent)
