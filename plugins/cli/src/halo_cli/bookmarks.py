"""Bookmarks: where `halo run` goes on in a workspace, once a command such as `/session switch` has said so."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from .terminal import note


def bookmark(home: Path, workspace: str) -> str:
    """Return the session that a workspace's conversation goes on in, '' when none was named."""
    with suppress(OSError, UnicodeDecodeError):
        return _path(home, workspace).read_text(encoding="utf-8").strip()
    return ""


def set_bookmark(home: Path, workspace: str, session: str) -> None:
    """Remember a session, or with '' forget the one that was; what cannot be written is only said."""
    path = _path(home, workspace)
    try:
        if not session:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(f"{session}\n", encoding="utf-8")
        os.replace(fresh, path)
    except OSError as error:
        note(f"halo: {path} cannot be written, so name the session with -s next time: {error.strerror}")


def _path(home: Path, workspace: str) -> Path:
    return home / "global" / "cli" / quote(workspace, safe="")
