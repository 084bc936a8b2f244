"""What there is to save in a folder: databases, which the kernel copies, and files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from halo_kernel import DataScope, Place, is_own_file

from .databases import is_database
from .manifest import is_plain, leads_out

STAGED = ".restoring"  # in a folder: what is about to come to it
KEPT = ".replaced"  # in a folder: what was there before a restore
WORK = ".backup"  # among the secrets: copies of their databases, for a moment
STAYS = frozenset(
    {STAGED, KEPT, WORK, "logs", "server.json", "server.stop", "supervisor.json"}
)  # at the top of a folder
_BESIDE = re.compile(r"\.?.+\.db(-wal|-shm|-journal|\.members|\.backup-.*)|\.[0-9a-f]{64}\..+")


@dataclass(kw_only=True)
class Tree:
    """What was found, by its name in the backup; `left_out` are sentences about what cannot be saved."""

    databases: dict[str, Place] = field(default_factory=dict[str, Place])
    files: dict[str, Path] = field(default_factory=dict[str, Path])
    links: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[str] = field(default_factory=list[str])

    def size(self) -> int:
        """Return how many bytes are to be moved, about: a database is copied, then added."""
        databases = [file_of(place) for place in self.databases.values()]
        return sum(map(_size, (*self.files.values(), *databases, *databases)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it went while we looked
        return 0


def file_of(place: Place) -> Path:
    """Return the file of a database."""
    return place.directory / f"{place.name}.db"


def survey(root: Path, prefix: str, scope: DataScope) -> Tree:
    """Find all that is to be saved below `root`; members are named `prefix` and their path.

    No link is followed. Left out are logs, locks, what is half written, what a database has beside it, and links that
    lead out of `root`.
    """
    tree = Tree()
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and not is_skipped(root, here / name))
        for path in (here / name for name in sorted([*names, *links])):
            if not is_skipped(root, path):
                _take(tree, path, prefix, path.relative_to(root).as_posix(), scope)
    return tree


def is_skipped(root: Path, path: Path) -> bool:
    """Tell whether something belongs to the running Halo alone, such as a lock."""
    top = path.parent == root and path.name in STAYS
    return top or bool(_BESIDE.fullmatch(path.name)) or is_lock(path)


def is_lock(path: Path) -> bool:
    """Tell whether a file is one of our locks: they are empty, which others of that name are not."""
    try:
        return path.suffix == ".lock" and path.lstat().st_size == 0
    except OSError:
        return False


def _take(tree: Tree, path: Path, prefix: str, place: str, scope: DataScope) -> None:
    name = prefix + place
    try:
        name.encode()
        if not is_plain(place):
            tree.left_out.append(f"{path} has a name that not every system takes")
        elif path.is_symlink():
            _take_link(tree, path, prefix, place)
        elif not path.is_file():
            tree.left_out.append(f"{path} is no file")
        elif path.suffix == ".db" and (is_own_file(path) or is_database(path)):
            tree.databases[name] = Place(name=path.stem, scope=scope, directory=path.parent)
        elif not is_own_file(path):
            tree.files[name] = path
    except UnicodeEncodeError:
        tree.left_out.append(f"{os.fsencode(path)!r} has a name that is no text")
    except OSError as error:
        tree.left_out.append(f"{path} cannot be read: {error.strerror}")


def _take_link(tree: Tree, path: Path, prefix: str, place: str) -> None:
    target = os.readlink(path)
    target.encode()
    if leads_out(place, target):
        tree.left_out.append(f"{path} is a link that leads elsewhere")
    else:
        tree.links[prefix + place] = target


def roots(home: Path, folders: Iterable[Path]) -> list[Path]:
    """Return the folders that a backup is made of, in none of which it can lie."""
    return [home / "global", home / "secrets", *(folder / ".halo" for folder in folders)]
