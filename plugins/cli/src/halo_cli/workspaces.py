"""Which folder a command works in, and its workspace."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from halo_kernel import NotFound, WorkspaceUnusable, default_home
from halo_lib_client import Client, connect

from .progress import waiting
from .terminal import plain

_WELCOME = """# Your workspace

Everything an agent reads and writes lives here. Put files in this folder, or run `halo up` in a folder of your own.
"""


def choose_folder(named: str | None) -> Path:
    """Return the folder of a command: the one that is named, else where we are.

    A person's whole home directory or the root of the disk is no workspace: there a folder of our own is made instead.
    """
    if named is not None:
        return Path(named).expanduser()
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise WorkspaceUnusable("the current folder has been deleted", advice="change to another one") from error
    if here not in (Path.home(), Path(here.anchor)):
        return here
    folder = default_home(os.environ) / "workspaces" / "default"
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "README.md").write_text(_WELCOME, encoding="utf-8")
    except OSError as error:
        advice = "set HALO_HOME to a folder that you may write to"
        raise WorkspaceUnusable(f"the folder {folder} cannot be made: {error.strerror}", advice=advice) from error
    return folder


def reach(*, local: bool = False) -> Client:
    """Return a client of the home's server, else of a kernel in this process; `local` forces the latter."""
    with waiting("Waiting for the server"):
        return connect(local=local)


def open_workspace(client: Client, folder: Path, *, new_id: bool = False) -> tuple[str, str]:
    """Open a folder as a workspace; return its id, a new one if need be, and its path.

    Raises `WorkspaceUnusable`, `BadInput`, `NotFound`; with `new_id` also `Conflict`.
    """
    wanted = {"path": plain(str(folder.absolute()), "path of the workspace"), "new_id": new_id}
    with waiting("Opening the workspace"), needs(client, "api"):
        answer = client.post("/api/workspaces", wanted)
    return answer["id"], answer["path"]


def kept_workspace(client: Client, folder: Path, *, lists: bool) -> str:
    """Return the id of a folder's workspace for a command that begins none.

    Where there is none, what `lists` has an empty one, ''; others have a `NotFound`.
    """
    with needs(client, "api"):
        client.get("/api/workspaces")
    is_new = folder.is_dir() and not (folder / ".halo").is_dir()
    if is_new and not lists:
        said = f"{folder} is no workspace: nothing was said there yet"
        raise NotFound(said, advice="name another folder with -w, or begin with `halo run`")
    return "" if is_new else open_workspace(client, folder)[0]


@contextmanager
def needs(client: Client, plugin: str) -> Generator[None]:
    """Ask for routes of a plugin: where nothing is at them, raise a `NotFound` that says why, and what to do."""
    try:
        yield
    except NotFound as error:
        rows: list[dict[str, str]] = client.get("/api/server")["plugins"]
        missing = {
            "name": plugin,
            "state": "missing",
            "reason": "not installed",
            "advice": f"pip install halo-{plugin}",
        }
        row = next((each for each in rows if each["name"] == plugin), missing)
        if row["state"] in ("loaded", "degraded"):
            raise
        said = f"this needs the plugin {plugin}, which is {row['state']}: {row['reason']}"
        raise NotFound(said, advice=f"try: {row['advice']}") from error


def session_path(workspace: str, session: str = "") -> str:
    """Return the API path of a workspace's sessions, or of one of them."""
    base = f"/api/workspaces/{quote(workspace, safe='')}/sessions"
    return f"{base}/{quote(session, safe='')}" if session else base
