"""Files that Halo brings: written where they are missing, renewed while nobody touched them, else left alone."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from halo_kernel import HaloError, WorkspaceInfo

TEMPLATE_VERSION = 100
"""Grows with every change of a seed. Numbers below 100 stand in homes that Halo's earlier lines wrote."""

FOLDERS = ("agents", "skills", "memory", "logs", "assets")
_PERSONS = ""


@dataclass
class Manifest:
    """The sha256 of what was written last, by path, for the home and each workspace; '' for what was a person's."""

    home: dict[str, str] = field(default_factory=dict[str, str])
    workspaces: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def seed_home(home: Path) -> list[str]:
    """Bring a home's `global/` up to date and return the paths that were written.

    A home that a newer version seeded is left as it is. Raises `HaloError` when nothing can be written.
    """
    base = home / "global"
    with _seeding(home) as manifest:
        if _template_version(base) > TEMPLATE_VERSION:
            return []
        written = _seed(base, _seeds("home"), manifest.home)
        stamp = f"{TEMPLATE_VERSION}\n"
        if _template_version(base) < TEMPLATE_VERSION:
            _replace(base / ".template-version", stamp.encode())
    return written


def seed_workspace(workspace: WorkspaceInfo, home: Path) -> list[str]:
    """Make the folders of a workspace's `.halo/` and its `.gitignore`; return the paths that were written."""
    base = Path(workspace.path) / ".halo"
    if base.is_symlink():
        raise HaloError(f"{base} is a link, so nothing is written there", advice="make it a folder of its own")
    with _seeding(home) as manifest:
        for name in FOLDERS:
            (base / name).mkdir(parents=True, exist_ok=True)
        known = manifest.workspaces.setdefault(workspace.id, {})
        return _seed(base, {".gitignore": _seeds("workspace")["gitignore"]}, known)


def _seeds(name: str) -> dict[str, bytes]:
    return dict(_files(resources.files(__package__ or "halo_workspace") / "seeds" / name))


def _files(folder: Traversable, before: str = "") -> Iterator[tuple[str, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _files(item, f"{before}{item.name}/")
        else:
            yield f"{before}{item.name}", item.read_bytes()


def _seed(base: Path, seeds: Mapping[str, bytes], known: dict[str, str]) -> list[str]:
    return [name for name, data in seeds.items() if _seed_one(base / name, name, data, known)]


def _seed_one(path: Path, name: str, data: bytes, known: dict[str, str]) -> bool:
    """Write one seed if it may be written, and note what is there of ours; return whether it was."""
    new, old = _digest(data), known.get(name)
    there = _digest_of(path)
    if there is None:
        # A file that was there once and is gone was deleted by a person.
        if old is None and _create(path, data):
            known[name] = new
            return True
        known.setdefault(name, _PERSONS)
        return False
    if there == new:
        known[name] = new
    elif there == old and _digest_of(path) == old:
        _replace(path, data)
        known[name] = new
        return True
    else:
        known.setdefault(name, _PERSONS)
    return False


# Files


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(path: Path) -> str | None:
    """Return the hash of what is at a path, None for nothing; a link or a folder is a person's, whatever it holds."""
    if not os.path.lexists(path):
        return None
    return _digest(path.read_bytes()) if path.is_file() and not path.is_symlink() else _PERSONS


def _create(path: Path, data: bytes) -> bool:
    """Put a whole file where there is none; return False when somebody was faster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:
            # No hard links here, as on some memory cards: what is left is to look first.
            if os.path.lexists(path):
                return False
            os.replace(temporary, path)
    return True


def _replace(path: Path, data: bytes) -> None:
    with _temporary(path, data) as temporary:
        os.replace(temporary, path)


@contextmanager
def _temporary(path: Path, data: bytes) -> Generator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _template_version(base: Path) -> int:
    try:
        return int((base / ".template-version").read_text(encoding="utf-8").strip())
    except (FileNotFoundError, ValueError):
        return 0


# The manifest


@contextmanager
def _seeding(home: Path) -> Generator[Manifest]:
    """Give the manifest under its lock and write it when it has changed. Raises `HaloError` for a failed write."""
    path = home / "global" / ".seeds.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(".seeds.lock")):
            manifest = _load(path)
            before = _dump(manifest)
            yield manifest
            if _dump(manifest) != before:
                _replace(path, _dump(manifest))
    except OSError as error:
        raise HaloError(
            f"{error.filename or path} cannot be written: {error.strerror}",
            advice="change its permissions; Halo goes on without its own prompts and agents until then",
        ) from error


@contextmanager
def _locked(path: Path) -> Generator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: two first starts at once would at worst write the same files twice
        yield
        return
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _load(path: Path) -> Manifest:
    """Read the manifest; one that cannot be read says nothing, so that every file there is a person's."""
    try:
        found = json.loads(path.read_bytes())
        return Manifest(_texts(found["home"]), {str(id): _texts(of) for id, of in found["workspaces"].items()})
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Manifest()


def _texts(found: dict[str, object]) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in found.items()}


def _dump(manifest: Manifest) -> bytes:
    found = {"home": manifest.home, "workspaces": manifest.workspaces}
    return (json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
