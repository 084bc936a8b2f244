"""Create or restore in a process that dies by SIGKILL at its n-th change of the disk, a child for each n.

Arguments: `create` or `restore`, the home, the file, and for each point a folder that is a copy of what it works on.
Prints for each point `<n> died` or `<n> ended`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from halo_backup import sealed
from halo_backup.archive import Archive, Writer
from halo_backup.create import Progress, Wish, create, prepare
from halo_backup.restore import Aim, restore
from halo_kernel.testing import running_kernel


def dying(point: int) -> None:
    """Let this process die instead of its n-th change of the disk."""
    left = [point]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return stand_in

    for name in ("rename", "replace", "unlink", "mkdir", "link", "symlink", "fsync", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    Writer._write = counted(Writer._write)  # type: ignore[method-assign]


def silent(what: str, done: int, total: int) -> None:
    """Say nothing."""


async def make(home: Path, path: Path, point: int) -> None:
    """Make a backup, and die at a point of that."""
    async with running_kernel(home, recover=False) as kernel:
        sealed.COST = 1 << 10
        wish = Wish(path=path, passphrase="correct horse")
        infos = await prepare(kernel.host, wish)
        dying(point)
        await create(kernel.host, wish, infos, Progress())
        os._exit(0)


def put_back(home: Path, path: Path, folder: Path, point: int) -> None:
    """Restore a backup, and die at a point of that."""
    with Archive(path, silent) as archive:
        old = Path(archive.manifest.workspaces[0].path)
        aim = Aim(home=home, moves={old: folder}, passphrase="correct horse")
        dying(point)
        restore(archive, aim, silent)


def main(verb: str, path: str, *places: str) -> None:
    """Do it at each point: a place is `<point>:<folder>`, in which are `home` and `w`."""
    for place in places:
        number, _, folder = place.partition(":")
        child = os.fork()
        if child == 0:
            home = Path(folder) / "home"
            if verb == "create":
                asyncio.run(make(home, Path(folder) / path, int(number)))
            else:
                put_back(home, Path(path), Path(folder) / "w", int(number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(number, "died" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
