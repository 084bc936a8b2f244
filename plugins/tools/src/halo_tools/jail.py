"""bubblewrap: whether it works here, and the command line that confines a program (https://github.com/containers/bubblewrap)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from halo_kernel import HaloError
from halo_lib_files import below

from .hidden import hidden_paths, workspace_masks
from .work import Work

PROBE_SECONDS = 5.0
EMPTY = ".sandbox-empty"
SHARED = "/dev/shm"
NOBODY = "65534"
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")


def confinement() -> list[str]:
    """Return the options that take rights away; root becomes nobody inside, and writes as root outside."""
    if os.geteuid() != 0:
        return [*_NAMESPACES]
    return ["--unshare-user", "--uid", NOBODY, "--gid", NOBODY, *_NAMESPACES]


def private_folder() -> str:
    """Return where /tmp is, by its real name: nothing can be mounted on a link."""
    return os.path.realpath("/tmp")


class Bubblewrap:
    """Whether bubblewrap works on this machine, found out by running it. Threads may share one."""

    def __init__(self, program: str = "bwrap") -> None:
        self.program = program
        self._reason: str | None = None
        self._probing = threading.Lock()

    async def reason(self) -> str:
        """Return why there is no sandbox here, or ''."""
        return await asyncio.to_thread(self.probe)

    def probe(self) -> str:
        """Return the same, blocking; the answer is kept unless the probe itself could not run just now."""
        with self._probing:
            if self._reason is None:
                reason, lasting = self._try()
                self._reason = reason if lasting else None
                return reason
            return self._reason

    def _try(self) -> tuple[str, bool]:
        if not sys.platform.startswith("linux"):
            return "there is no sandbox for this system yet", True
        if shutil.which(self.program) is None:
            return "bubblewrap (the program bwrap) is not installed", True
        mounts = ["--ro-bind", "/", "/", "--tmpfs", private_folder(), "--proc", "/proc", "--dev", "/dev"]
        argv = [self.program, *mounts, *confinement(), "--die-with-parent", "--", "true"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap could not be tried: {error}", False
        if done.returncode == 0:
            return "", True
        return f"bubblewrap does not work here: {done.stderr.strip() or done.returncode}", True


sandbox = Bubblewrap()
"""The machine's, tried once for all workspaces."""


@dataclass(frozen=True, kw_only=True)
class Jail:
    """What a confined program sees. All paths are absolute and exist; only those of `readable` may be links.

    `writable` are folders, the workspace among them; `readable` is what a program needs although it may lie in `tmp` or
    `SHARED`, which are empty for it; `hidden` and `masks` (in the workspace) are replaced by nothing.
    Raises `ValueError` for a relative path.
    """

    program: str
    workspace: str
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    hidden: tuple[str, ...]
    masks: tuple[str, ...]
    empty: str
    network: bool = True
    tmp: str = field(default_factory=private_folder)

    def __post_init__(self) -> None:
        for path in (self.workspace, *self.writable, *self.readable, *self.hidden, *self.masks, self.empty):
            if not os.path.isabs(path):
                raise ValueError(f"the path {path!r} is not absolute")

    def argv(self, command: Sequence[str], *, cwd: str, setenv: Mapping[str, str]) -> list[str]:
        """Return the command line. The program that `command` begins with is `readable` too."""
        # What is mounted later covers what is below it: folders come before what is in them.
        mounts = sorted(self._mounts(command[0]), key=lambda mount: len(mount[-1].rstrip("/").split("/")))
        return [
            *(self.program, *(word for mount in mounts for word in mount)),
            *confinement(),
            *(() if self.network else ("--unshare-net",)),
            *("--clearenv", *(word for name, value in setenv.items() for word in ("--setenv", name, value))),
            *("--chdir", cwd, "--die-with-parent", "--", *command),
        ]

    def _mounts(self, program: str) -> Iterator[tuple[str, ...]]:
        """Yield the options of every mount, its place last. Of two at one place the later counts."""
        yield from (("--ro-bind", "/", "/"), ("--tmpfs", self.tmp), ("--proc", "/proc"), ("--dev", "/dev"))
        given = self.writable or (self.workspace,)
        shown = list(self._shown((*self.readable, *filter(os.path.isabs, [program])), given))
        yield from (("--ro-bind", *each) for each in shown)
        yield from (("--bind" if self.writable else "--ro-bind", path, path) for path in given)
        # A mount point cannot be renamed: the folder that holds our database stays where it is.
        yield from (("--bind", path, path) for path in self._own_folder())
        seen = (*given, *(place for _, place in shown))
        for path in (*self.hidden, *self.masks):
            if path not in given and (not self._covers(path) or _within(path, *seen)):
                yield ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", self.empty, path)

    def _shown(self, paths: Iterable[str], given: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield source and place of what would be covered; what is a link there is found by its own name as well."""
        seen = [*given]
        for path in paths:
            real = os.path.realpath(path)
            source = self.tmp if _within(self.tmp, real) else real
            for place in (source, path):
                if self._covers(place) and not _within(place, *seen):
                    seen.append(place)
                    yield source, place

    def _covers(self, path: str) -> bool:
        return _within(path, self.tmp, SHARED)

    def _own_folder(self) -> Iterator[str]:
        folder = os.path.join(self.workspace, ".halo")
        if self.writable and os.path.isdir(folder) and not os.path.islink(folder):
            yield folder


def _within(path: str, *folders: str) -> bool:
    return any(below(folder, path) is not None for folder in folders)


async def jail_for(work: Work[Any], sandbox: Bubblewrap, *, write: bool = False, readable: Sequence[str] = ()) -> Jail:
    """Return the jail of a call; `readable` is absolute. Raises `HaloError` when the workspace is gone."""
    others = await work.place.others()
    return await asyncio.to_thread(_jail, work, sandbox, write, readable, others)


def _jail(work: Work[Any], sandbox: Bubblewrap, write: bool, readable: Sequence[str], others: Sequence[str]) -> Jail:
    place = work.place
    if not os.path.isdir(place.folder):
        raise HaloError(f"the workspace {place.folder} is not there any more.")
    extra = [os.path.realpath(os.path.expanduser(folder)) for folder in place.settings.writable_dirs]
    return Jail(
        program=sandbox.program,
        workspace=place.folder,
        writable=(place.folder, *filter(os.path.isdir, extra)) if write else (),
        readable=tuple(readable),
        hidden=tuple(hidden_paths(place.home, place.settings)),
        masks=tuple(workspace_masks(place.folder, others)),
        empty=_empty_file(place.home),
        network=place.settings.sandbox_network,
    )


def _empty_file(home: str) -> str:
    """Return the file that stands for hidden ones; /dev/null would make git fail."""
    path = os.path.join(home, EMPTY)
    with open(path, "ab"):
        return path
