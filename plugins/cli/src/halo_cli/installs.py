"""Changing the set of distributions in `HALO_HOME/plugins`: a new set is laid out beside the former one and tried.

It counts from the moment when the file that names the sets is replaced. What ends a change before that, an error,
Ctrl-C or a crash, leaves the former set, which is kept for a way back. No path is stored, so a home may be moved.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from halo_kernel import (
    BadFile,
    BadInput,
    Conflict,
    HaloError,
    NotFound,
    ensure_home,
    is_served,
    locked,
    read_sets,
    write_secret,
)

_FOLDER = "plugins"
_POINTER = "current"  # see `read_sets`
_LOCK = f".{_POINTER}.lock"
_FROZEN = bool(getattr(sys, "frozen", False))
_STAYS = "the plugins stay as they were: "


def install(home: Path, words: Sequence[str]) -> Sequence[str]:
    """Add or update what `words` name, distributions, wheels or project folders; return what was laid out for that.

    What the environment has stays as it is, and what does not fit to it is refused. Raises `HaloError`, after the
    words of pip or uv on stderr.
    """
    with _new_set(home) as new, laid_out(home, words, parent=new) as folder:
        fresh = _versions([folder])
        if twice := fresh.keys() & _environment(home).keys():
            raise Conflict(_STAYS + f"the environment has {' '.join(twice)}, and comes first", advice="use pip there")
        _take_out(fresh, new)
        shutil.copytree(folder, new, dirs_exist_ok=True)
        _try_out(home, fresh, new)
    return [f"{name} {version}" for name, version in fresh.items()]


def remove(home: Path, names: Sequence[str]) -> None:
    """Take out distributions that were installed here. Raises `NotFound`, and `Conflict` when others need them."""
    with _new_set(home) as new:
        for name in names:
            if canonicalize_name(name) not in _versions([str(new)]):
                advice = f"`pip uninstall {name}` takes it out of the environment, if it is there"
                raise NotFound(f"{_STAYS}`halo plugins` has installed no {name}", advice=advice)
            _take_out([canonicalize_name(name)], new)


def roll_back(home: Path) -> Sequence[str]:
    """Let the former set count again, and this one be the former; return what is in it. Raises `NotFound`.

    Where the file that names them is damaged, the newest set counts, and the one before it is the former.
    """
    folder = home / _FOLDER
    try:
        now, former = read_sets(home)
    except BadFile:
        now, former = [0, 0, *sorted(_numbers(folder))][-2:]
    else:
        if now == former:
            raise NotFound("there is no former set of plugins to go back to")
    with locked(folder / _LOCK):
        write_secret(folder / _POINTER, f"{former} {now}\n")
    return [f"{name} {version}" for name, version in _versions([str(folder / str(former))]).items()]


@contextmanager
def laid_out(home: Path, words: Sequence[str], *, parent: Path | None = None) -> Generator[str]:
    """Lay out what `words` name, and what that needs beside the environment, in a folder that ends with the context.

    Raises `HaloError` when pip or uv fails, `BadInput` when there is no plugin in it, or no such file.
    """
    from halo_kernel import Plugins

    for word in words:
        if is_path(word) and not re.search(r"://|[@\[]", word) and not os.path.exists(word):
            raise BadInput(f"there is no file or folder {word}")
    environment, command = _environment(home), _installer(words)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".") as room:
        fixed, folder = Path(room, "constraints.txt"), Path(room, "site")
        fixed.write_text("".join(f"{name}=={version}\n" for name, version in environment.items()), encoding="utf-8")
        told = _run([*command, "--dry-run", "--constraint", str(fixed), *words])
        pins = re.findall(r"^ \+ (\S+)==(\S+)", told, re.MULTILINE)  # uv's words; pip's are `Would install a-1 b-2`
        for line in re.findall(r"^Would install (.+)", told, re.MULTILINE):
            pins += [each.rpartition("-")[::2] for each in line.split() if "-" in each]
        exact = [f"{name}=={version}" for name, version in pins if canonicalize_name(name) not in environment]
        _run([*command, "--no-deps", "--target", str(folder), *words, *exact])
        shutil.rmtree(folder / "bin", ignore_errors=True)  # this, and the next, would hold absolute paths
        for origin in folder.glob("*.dist-info/direct_url.json"):
            origin.unlink()
        if not Plugins(path=[str(folder)]).discover():
            raise BadInput(f"there is no plugin in {' '.join(words)}", advice="Halo's own are named halo-…")
        yield str(folder)


def is_path(word: str) -> bool:
    """Tell whether a word says where something is, such as `./x`, `.` or `x.whl`, and is no name of it."""
    return os.sep in word or word.startswith(".") or word.endswith(".whl")


def is_project(path: str) -> bool:
    """Tell whether a path leads to the folder of a project."""
    return os.path.isfile(os.path.join(path, "pyproject.toml"))


def _numbers(folder: Path) -> set[int]:
    """Return the numbers of the sets that are laid out."""
    return {int(each.name) for each in folder.iterdir() if each.name.isdecimal()}


def _environment(home: Path) -> Mapping[str, str]:
    """Return the versions of the distributions of the environment, which come before those of a home."""
    return _versions([each for each in sys.path if home / _FOLDER not in (Path(each), Path(each).parent)])


def _versions(path: Sequence[str]) -> Mapping[str, str]:
    found = [(canonicalize_name(each.name), each.version) for each in Distribution.discover(path=list(path))]
    return dict(reversed(found))  # of two copies the first counts


def _installer(words: Sequence[str]) -> Sequence[str]:
    """Return the command that installs: this interpreter's pip, else uv, which must look at a folder anew."""
    if find_spec("pip") is not None and not _FROZEN:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is None:
        raise HaloError("there is neither pip nor uv here", advice="install uv, then repeat this")
    python = ["--python-version", "{}.{}".format(*sys.version_info)] if _FROZEN else ["--python", sys.executable]
    return [uv, "pip", "install", *python, *(["--refresh"] if any(map(os.path.isdir, words)) else [])]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        print(done.stdout, done.stderr, sep="", file=sys.stderr)
        raise HaloError(f"{_STAYS}the reason is above")
    return done.stdout + done.stderr


def _try_out(home: Path, fresh: Collection[str], new: Path) -> None:
    """Load the plugins of a set in a process of its own. Raises `HaloError` when one of `fresh` does not load."""
    from .trials import tried

    for each in tried(home, [str(new)]):
        if each.faults and canonicalize_name(each.distribution) in fresh:
            raise HaloError(f"{_STAYS}{each.distribution} {each.version}: {each.faults[0]}")


@contextmanager
def _new_set(home: Path) -> Generator[Path]:
    """Yield a copy of the set that counts, to be changed; it counts when the context ends well."""
    folder = ensure_home(home) / _FOLDER
    folder.mkdir(exist_ok=True)
    with locked(folder / _LOCK):
        now, former = read_sets(home)
        present = _numbers(folder)
        new = folder / str(max(now, former, *present) + 1)
        try:
            new.mkdir()
            if now in present:
                shutil.copytree(folder / str(now), new, dirs_exist_ok=True)
            yield new
            _refuse_gaps(new, {**_versions([str(new)]), **_environment(home)})
            if hasattr(os, "sync"):
                os.sync()  # what is named must be there after a power cut
            write_secret(folder / _POINTER, f"{new.name} {now}\n")
        finally:
            kept = {*read_sets(home), *(present if is_served(home) else ())}  # a server may import from an older one
            for each in {*present, int(new.name)} - kept:
                shutil.rmtree(folder / str(each), ignore_errors=True)


def _refuse_gaps(new: Path, present: Mapping[str, str]) -> None:
    """Raise `Conflict` when a distribution of a set does not find what it needs."""
    for each in Distribution.discover(path=[str(new)]):
        for wanted in map(Requirement, each.requires or ()):
            found = present.get(canonicalize_name(wanted.name), "")
            applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            if applies and not (found and wanted.specifier.contains(found, prereleases=True)):
                raise Conflict(f"{_STAYS}{each.name} {each.version} needs {wanted}, and there is {found or 'none'}")


def _take_out(names: Collection[str], folder: Path) -> None:
    """Delete the files of distributions, and the folders that this leaves empty."""
    for distribution in Distribution.discover(path=[str(folder)]):
        files = (distribution.files or ()) if canonicalize_name(distribution.name) in names else ()
        for path in [Path(os.path.normpath(folder / each)) for each in files]:
            if folder in path.parents:
                path.unlink(missing_ok=True)
                shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
                with suppress(OSError):  # another file is in it still
                    for parent in path.relative_to(folder).parents[:-1]:
                        (folder / parent).rmdir()
