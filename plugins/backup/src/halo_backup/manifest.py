"""What a backup says of itself: a head for every version to read, and last the list of all that is in it."""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec import Struct

FORMAT = 1
HEAD = "halo-backup.json"
MANIFEST = "manifest.json"
SEALED = "secrets.sealed"
SETTINGS = "home/settings.yaml"
GLOBAL = "home/global/"
REGISTRY = f"{GLOBAL}kernel.db"


class Head(Struct, frozen=True, kw_only=True):
    """The first member: the format, and the Halo that wrote it."""

    format: int
    halo: str


class Member(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, or with `link` a symbolic link, and what must be in it; `mode` are its permissions."""

    name: str
    size: int = 0
    sha256: str = ""
    mode: int = 0o600
    link: str = ""

    @property
    def place(self) -> str:
        """Where it lies in its folder: of the home's `global`, or of a workspace's `.halo`."""
        return self.name.split("/", 2)[-1]


class DatabaseEntry(Struct, frozen=True, kw_only=True):
    """A member that is a database, its schema, and the oldest schema whose readers may open it."""

    name: str
    version: int
    min_reader: int


class WorkspaceEntry(Struct, frozen=True, kw_only=True):
    """A workspace: its id, its folder when it was copied, and the blobs that were named there and not found."""

    id: str
    path: str
    missing: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """How the names of its members begin."""
        return f"workspaces/{self.id}/"


class Seal(Struct, frozen=True, kw_only=True):
    """How the secrets are encrypted: scrypt with these costs and this salt gives the key of AES-256-GCM."""

    n: int
    r: int
    p: int
    salt: bytes
    nonce: bytes


class Manifest(Struct, frozen=True, kw_only=True):
    """All that is in a backup. `whole`: of a home, not of one workspace. `made_at` is UTC milliseconds."""

    format: int
    halo: str
    made_at: int
    home: str
    whole: bool
    workspaces: tuple[WorkspaceEntry, ...]
    databases: tuple[DatabaseEntry, ...]
    members: tuple[Member, ...]
    left_out: tuple[str, ...] = ()
    seal: Seal | None = None


def is_plain(path: str) -> bool:
    """Tell whether a relative path leads straight down, on every system."""
    parts = PurePosixPath(path).parts
    odd = path.startswith("/") or "\\" in path or "\0" in path or ".." in parts
    return bool(parts) and not odd and path == "/".join(parts)


def is_safe(name: str) -> bool:
    """Tell whether a member's name leads to a place below where it is put, and nowhere else."""
    return is_plain(name) and name.split("/")[0] in ("home", "workspaces", SEALED)


def leads_out(place: str, target: str) -> bool:
    """Tell whether a link at a place in a tree leads out of the tree, or is odd: `..` comes first or not at all."""
    parts = PurePosixPath(target).parts
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    odd = not parts or target.startswith("/") or "\\" in target or "\0" in target or ".." in parts[up:]
    return odd or up > len(PurePosixPath(place).parts) - 1
