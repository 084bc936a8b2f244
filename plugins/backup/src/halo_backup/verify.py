"""Telling whether a backup can be restored: all of the file, every database, every blob, and the secrets."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from .archive import Archive, Damaged, Tell
from .databases import fault, look
from .manifest import DatabaseEntry, Member
from .opened import check_schemas, open_secrets

_BLOB = re.compile(r"assets/([0-9a-f]{64})")


class Verified(Struct, frozen=True, kw_only=True):
    """What is in a backup that can be restored; `secrets` are `opened`, `sealed` (without passphrase), or `none`."""

    path: str
    size: int
    format: int
    halo: str
    made_at: int
    home: str
    whole: bool
    workspaces: tuple[str, ...]
    databases: int
    files: int
    secrets: str
    left_out: tuple[str, ...]


def verify(archive: Archive, path: Path, passphrase: str, tell: Tell) -> Verified:
    """Look at everything. Raises `Damaged` with all that is wrong, `NewerData`, `BadInput` for a wrong passphrase."""
    manifest = archive.manifest
    check_schemas(manifest)
    if faults := [*_wrong_blobs(manifest.members), *_wrong_databases(archive, tell)]:
        raise Damaged([f"{path} is damaged: {each}" for each in faults])
    if passphrase:
        open_secrets(archive, passphrase)
    return Verified(
        path=str(path),
        size=path.stat().st_size,
        format=manifest.format,
        halo=manifest.halo,
        made_at=manifest.made_at,
        home=manifest.home,
        whole=manifest.whole,
        workspaces=tuple(entry.path for entry in manifest.workspaces),
        databases=len(manifest.databases),
        files=len(manifest.members),
        secrets="none" if manifest.seal is None else "opened" if passphrase else "sealed",
        left_out=manifest.left_out,
    )


def _wrong_blobs(members: tuple[Member, ...]) -> Iterator[str]:
    for member in members:
        named = _BLOB.fullmatch(member.place)
        if named and named[1] != member.sha256:
            yield f"the blob {member.name} is not what its name says"


def _wrong_databases(archive: Archive, tell: Tell) -> Iterator[str]:
    """Say what SQLite finds in a copy of each."""
    members = {member.name: member for member in archive.manifest.members}
    entries = archive.manifest.databases
    total = sum(members[entry.name].size for entry in entries if entry.name in members)
    done = 0
    with tempfile.TemporaryDirectory(prefix="halo-") as folder:
        for entry in entries:
            if entry.name not in members:
                yield f"the database {entry.name} is missing"
                continue
            copied = Path(folder) / "copy.db"
            archive.extract(members[entry.name], copied)
            wrong = fault(copied, partial(tell, "Checking databases", done, total))
            yield from [f"the database {entry.name} is damaged: {wrong}"] if wrong else _other_schema(entry, copied)
            copied.unlink()
            done += members[entry.name].size


def _other_schema(entry: DatabaseEntry, copied: Path) -> Iterator[str]:
    found = look(copied)
    if (found.version, found.min_reader) != (entry.version, entry.min_reader):
        yield f"the database {entry.name} has another schema than the manifest says"
