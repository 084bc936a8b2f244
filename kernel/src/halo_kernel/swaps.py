"""Many files and folders of a home replaced as one: all of them, or none, wherever a crash cuts it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .errors import StorageUnavailable
from .locks import locked
from .secrets import PRIVATE_FILE, replace_file, sync_folder

_LIST = "swaps.json"


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """What is at `path` goes to `kept`, and `fresh` to its place; '' for what there is not. All is on one file system.

    `kept` is in a folder that exists, and nothing is there.
    """

    path: str
    kept: str = ""
    fresh: str = ""


def swap_all(home: Path, swaps: Sequence[Swap]) -> None:
    """Do all of these, when everything `fresh` is on disk: once their list is, any start of the home finishes it."""
    replace_file(home / _LIST, msgspec.json.encode(swaps), mode=PRIVATE_FILE)
    finish_swaps(home)


def finish_swaps(home: Path) -> None:
    """Do what is left of swaps that were cut, before anything of the home is opened. Raises `StorageUnavailable`."""
    if not (home / _LIST).exists():
        return
    try:
        with locked(home / f".{_LIST}.lock"):
            if not (home / _LIST).exists():  # another process was faster
                return
            swaps = msgspec.json.decode((home / _LIST).read_bytes(), type=list[Swap])
            for swap in swaps:
                _swap(swap)
            for folder in {Path(name).parent for swap in swaps for name in (swap.path, swap.kept) if name}:
                sync_folder(folder)
            (home / _LIST).unlink()
            sync_folder(home)
    except (OSError, msgspec.DecodeError) as error:
        said = f"the home {home} is half replaced: {error}"
        raise StorageUnavailable(said, advice="correct what it names; the next start goes on with it") from error


def _swap(swap: Swap) -> None:
    """Do what is left of one; where nothing is `fresh` any more, it was done."""
    if swap.fresh and not os.path.lexists(swap.fresh):
        return
    if swap.kept and os.path.lexists(swap.path) and not os.path.lexists(swap.kept):
        os.rename(swap.path, swap.kept)
    if swap.fresh:
        os.rename(swap.fresh, swap.path)
