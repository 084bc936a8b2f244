"""Many files and folders of a home replaced as one: all of them, or none, wherever a crash cuts it."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from halo_kernel import ServerRunning, StorageUnavailable, locked, write_secret

from .disk import sync_folder

_LIST = "swaps.json"  # the kernel opens no home that has one
_PATIENCE = 0.5


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """What is at `path` goes to `kept`, and `fresh` to its place; '' for what there is not. All is on one file system.

    `kept` is in a folder that exists, and nothing is there.
    """

    path: str
    kept: str = ""
    fresh: str = ""


def is_cut(home: Path) -> bool:
    """Tell whether swaps of a home were begun and are not done."""
    return (home / _LIST).exists()


@contextmanager
def alone(home: Path) -> Generator[None]:
    """Keep servers and others who restore out of a home. Raises `ServerRunning`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(home / "global" / "server.lock", patience=_PATIENCE))
        except BlockingIOError as error:
            said = f"a server of the home {home} runs, or another restore"
            raise ServerRunning(said, url="", advice="`halo stop` stops it; nothing was changed") from error
        yield


def swap_all(home: Path, swaps: Sequence[Swap]) -> None:
    """Do all of these, when everything `fresh` is on disk: from then on nobody opens the home until all is done.

    Only for who is `alone`. Raises `OSError` where nothing was begun, else `StorageUnavailable`.
    """
    write_secret(home / _LIST, msgspec.json.encode(swaps).decode())
    finish_swaps(home)


def finish_swaps(home: Path) -> None:
    """Do what is left of swaps that were cut; only for who is `alone`. Raises `StorageUnavailable`."""
    if not is_cut(home):
        return
    try:
        swaps = msgspec.json.decode((home / _LIST).read_bytes(), type=list[Swap])
        for swap in swaps:
            _swap(swap)
        for folder in {Path(name).parent for swap in swaps for name in (swap.path, swap.kept) if name}:
            sync_folder(folder)
        (home / _LIST).unlink()
        sync_folder(home)
    except (OSError, msgspec.DecodeError) as error:
        said = f"the home {home} is half replaced: {error}"
        advice = "correct what it names; then `halo backup restore --finish` goes on with it"
        raise StorageUnavailable(said, advice=advice) from error


def _swap(swap: Swap) -> None:
    """Do what is left of one; where nothing is `fresh` any more, it was done."""
    if swap.fresh and not os.path.lexists(swap.fresh):
        return
    if swap.kept and os.path.lexists(swap.path) and not os.path.lexists(swap.kept):
        os.rename(swap.path, swap.kept)
    if swap.fresh:
        os.rename(swap.fresh, swap.path)
