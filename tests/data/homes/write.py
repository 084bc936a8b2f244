"""Write the small home that this version leaves to later ones: `python tests/data/homes/write.py`, once a schema.

A home that was left is never written again: it is what some release wrote. It is added with `git add -f`, since it
has a `.halo`.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from halo_kernel import OPERATOR, DataScope, Incoming, Migration, __version__
from halo_kernel.schema import WORKSPACE
from halo_kernel.testing import Answer, Calls, Fail, NoteTool, ScriptedModel, running_kernel

HERE = Path(__file__).parent
PLUGIN = (Migration(version=1, sql="CREATE TABLE birds(name TEXT PRIMARY KEY)"),)
SCOPES: tuple[DataScope, ...] = ("global", "secret", "workspace")


async def write(folder: Path) -> None:
    """Hold one conversation with a tool, a failed attempt and two turns, keep a plugin's rows, and end cleanly."""
    (folder / "workspace").mkdir(parents=True)
    steps = [Calls([("note", {"text": "remember"})], text="I note it."), Fail("throttle"), Answer("Noted: heron.")]
    async with running_kernel(folder / "home", model=ScriptedModel(steps), tools=[NoteTool()]) as kernel:
        workspace = await kernel.host.workspaces.open(folder / "workspace")
        session = await kernel.host.sessions.open("kept", workspace=workspace.id, principal=OPERATOR, create=True)
        await session.prompt(Incoming(text="Remember the heron.", key="first")).result
        await session.prompt(Incoming(text="What did you note?", key="second")).result
        for scope in SCOPES:
            database = await kernel.host.data.open("birds", scope, PLUGIN, workspace=workspace.id)
            await database.write(lambda tx: tx.execute("INSERT INTO birds(name) VALUES ('heron')"))


def main() -> None:
    """Write `<version>-schema<n>/` beside this file, without what is made anew at every start."""
    target = HERE / f"{__version__}-schema{WORKSPACE[-1].version}"
    if target.exists():
        sys.exit(f"{target} has been left already")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(Path(folder) / "kept"))
        shutil.copytree(Path(folder) / "kept", target, ignore=shutil.ignore_patterns("*.members", "logs", "*.lock"))


if __name__ == "__main__":
    main()
