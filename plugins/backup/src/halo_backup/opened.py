"""What a backup may be used for here: its schemas are known, its secrets open."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from halo_kernel import BadInput, NewerData, newest_schema

from .archive import Archive, Damaged
from .databases import fault, look
from .manifest import REGISTRY, SEALED, Manifest, is_plain
from .sealed import unseal


def check_schemas(manifest: Manifest) -> None:
    """Refuse a backup with a database that only later versions read. Raises `NewerData`.

    A plugin's databases are its own: it refuses a newer one itself, unchanged.
    """
    for entry in manifest.databases:
        ours = {REGISTRY: "kernel", f"workspaces/{entry.name.split('/')[1]}/halo.db": "halo"}
        _check(entry.name, entry.min_reader, newest_schema(ours.get(entry.name, "")), manifest.halo)


def _check(name: str, needed: int, known: int | None, halo: str) -> None:
    if known is not None and needed > known:
        said = f"the database {name} needs schema {needed}, this Halo knows {known}: it was written by Halo {halo}"
        raise NewerData(said, advice="use that version, or a later one; nothing was changed")


def open_secrets(archive: Archive, passphrase: str) -> Mapping[str, bytes]:
    """Return the secrets' files by their place. Raises `BadInput` for a wrong passphrase, `NewerData`, `Damaged`."""
    how = archive.manifest.seal
    if how is None:
        raise BadInput("there are no secrets in this backup", field="passphrase", advice="leave the passphrase out")
    files = unseal(how, archive.read(SEALED), passphrase)
    for name, data in files.items():
        if not is_plain(name):
            raise Damaged([f"the secret {name!r} leads out of where it belongs"])
        if name.endswith(".db"):
            _check_database(name, data, archive.manifest.halo)
    return files


def _check_database(name: str, data: bytes, halo: str) -> None:
    with tempfile.TemporaryDirectory(prefix="halo-") as folder:
        path = Path(folder) / "copy.db"
        path.write_bytes(data)
        try:
            if wrong := fault(path, lambda: None):
                raise Damaged([f"the database {name} is damaged: {wrong}"])
            _check(name, look(path).min_reader, newest_schema(PurePosixPath(name).stem), halo)
        except sqlite3.Error as error:
            raise Damaged([f"the database {name} cannot be read: {error}"]) from error
