"""`halo workspaces`: the folders that this home knows as workspaces, forgetting one, and a new id for a copy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from halo_kernel import NotFound

from .progress import waiting
from .terminal import answer, note, plain
from .workspaces import choose_folder, needs, open_workspace, reach

_PATH = "/api/workspaces"


def command(argv: Sequence[str]) -> int:
    """List workspaces, forget one, or give one a new id; no folder is touched, but for the id in it."""
    options = _options(argv)
    with reach() as client, needs(client, "api"):
        rows: list[dict[str, str]] = client.get(_PATH)["workspaces"]
        if options.action == "new-id":
            workspace, path = open_workspace(client, _own_folder(options.name), new_id=True)
            answer(f"{path} is the workspace {workspace} now.")
        elif options.action == "forget":
            row = _named(rows, options.name)
            client.request("DELETE", f"{_PATH}/{row['id']}")
            answer(f"{row['path']} is forgotten. Its folder is as it was; to open it makes it known again.")
        else:
            with waiting("Looking"):
                for row in rows:
                    answer(f"{row['id']}  {row['path']}{'' if Path(row['path']).is_dir() else '  (not there)'}")
            if not rows:
                note("No workspace is known; `halo up` or `halo init` in a folder makes it one.")
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo workspaces",
        description="List the workspaces of this home, forget one, or give a copy of one an id of its own.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "forget", "new-id"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the folder of the workspace; to forget it, or its id")
    options = parser.parse_args(list(argv))
    if (options.name is None) != (options.action == "list"):
        parser.error(f"{options.action} needs a NAME" if options.name is None else "list takes no name")
    return options


def _own_folder(name: str) -> Path:
    """Return the folder of a workspace. Raises `NotFound` for one that never was one."""
    folder = choose_folder(plain(name, "name"))
    if not (folder / ".halo" / "halo.db").exists():
        raise NotFound(f"{folder} is no workspace yet", advice="`halo up` or `halo init` in it makes it one")
    return folder


def _named(rows: Sequence[dict[str, str]], name: str) -> dict[str, str]:
    """Return the workspace of an id or a folder, which may be gone. Raises `NotFound`."""
    wanted = (plain(name, "name"), str(Path(name).expanduser().resolve()))
    for row in rows:
        if row["id"] == wanted[0] or row["path"] == wanted[1]:
            return row
    raise NotFound(f"no workspace {name} is known", advice="`halo workspaces` lists them")
