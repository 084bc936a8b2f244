"""The tables of a workspace, of the home's registry and of its channels: a file of SQL a version."""

from __future__ import annotations

from pkgutil import get_data

from ..contracts import Migration


def _step(name: str, version: int, *, min_reader: int = 1) -> Migration:
    sql = get_data(__name__, f"{name}_{version}.sql") or b""
    return Migration(version=version, sql=sql.decode(), min_reader=min_reader)


WORKSPACE = (_step("workspace", 1), *(_step("workspace", version, min_reader=2) for version in (2, 3, 4)))
HOME = (_step("home", 1),)
CHANNELS = (_step("channels", 1), _step("channels", 2))


def newest_schema(name: str) -> int | None:
    """Return the newest schema that this kernel knows of its database `name`, None for a plugin's."""
    steps = {"halo": WORKSPACE, "kernel": HOME, "channels": CHANNELS}.get(name)
    return steps[-1].version if steps else None
