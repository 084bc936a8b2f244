"""Write the small home that this version leaves to later ones: `python tests/data/homes/write.py`, once a version."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from halo_kernel import OPERATOR, Incoming, __version__
from halo_kernel.testing import Answer, Calls, Fail, NoteTool, ScriptedModel, running_kernel

HERE = Path(__file__).parent


async def write(folder: Path) -> None:
    """Hold one conversation with a tool, a failed attempt and two turns, and end cleanly."""
    (folder / "workspace").mkdir(parents=True)
    steps = [Calls([("note", {"text": "remember"})], text="I note it."), Fail("throttle"), Answer("Noted: heron.")]
    async with running_kernel(folder / "home", model=ScriptedModel(steps), tools=[NoteTool()]) as kernel:
        workspace = await kernel.host.workspaces.open(folder / "workspace")
        session = await kernel.host.sessions.open("kept", workspace=workspace.id, principal=OPERATOR, create=True)
        await session.prompt(Incoming(text="Remember the heron.", key="first")).result
        await session.prompt(Incoming(text="What did you note?", key="second")).result


def main() -> None:
    """Write `<version>/` beside this file, without what is made anew at every start."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(Path(folder) / "kept"))
        target = HERE / __version__
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(folder) / "kept", target, ignore=shutil.ignore_patterns("*.members", "logs", "*.lock"))


if __name__ == "__main__":
    main()
