"""`halo sessions`: the conversations of a workspace, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime

from .terminal import answer, note
from .workspaces import choose_folder, open_workspace, reach, session_path


def command(argv: Sequence[str]) -> int:
    """Print one line a session: id, time of its last change, title."""
    parser = argparse.ArgumentParser(
        prog="halo sessions", description="List the sessions of a workspace, newest first."
    )
    parser.add_argument("-w", "--workspace", metavar="DIR", help="folder of the workspace (default: the current one)")
    options = parser.parse_args(list(argv))
    with reach() as client:
        workspace, _ = open_workspace(client, choose_folder(options.workspace))
        rows = client.get(f"{session_path(workspace)}?limit=200")["sessions"]
    for row in rows:
        when = datetime.fromtimestamp(row["updated_at"] / 1000).strftime("%Y-%m-%d %H:%M:%S")
        answer(f"{row['id']}  {when}  {row['title'][:40]}")
    if not rows:
        note("No sessions found.")
    return 0
