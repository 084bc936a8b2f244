"""`halo init`: make a folder a workspace without starting a server."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from halo_kernel import WorkspaceUnusable

from .terminal import answer
from .workspaces import open_workspace, reach


def command(argv: Sequence[str]) -> int:
    """Set up the home and a workspace; nothing that a person wrote is changed."""
    parser = argparse.ArgumentParser(prog="halo init", description="Make a folder a workspace, and set up the home.")
    parser.add_argument("folder", nargs="?", default=".", help="the folder, made if it is missing (default: here)")
    options = parser.parse_args(list(argv))
    folder = Path(options.folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceUnusable(f"the folder {folder} cannot be made: {error.strerror}") from error
    with reach() as client:
        _, path = open_workspace(client, folder)
        answer(f"{path} is a workspace. Its own files are in {path}/.halo; `halo up` opens it in the browser.")
    return 0
