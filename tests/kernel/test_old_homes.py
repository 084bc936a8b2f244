"""Homes of every version so far are opened by this one: what they hold is there, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from halo_kernel import OPERATOR, AssistantDiscarded, Incoming, InputAdded, ToolFinished, ToolResult
from halo_kernel.testing import Answer, ScriptedModel, running_kernel

HOMES = Path(__file__).parents[1] / "data" / "homes"


@pytest.mark.parametrize(
    "version", sorted(path.name for path in HOMES.iterdir() if path.is_dir() and path.name[0].isdigit())
)
async def test_a_home_of_an_older_version_opens_and_goes_on(tmp_path: Path, version: str) -> None:
    """Its sessions, their journals and their keys are there, and the next turn is shown all of it."""
    kept = tmp_path / "kept"
    shutil.copytree(HOMES / version, kept)
    model = ScriptedModel([Answer("Still here.")])
    async with running_kernel(kept / "home", model=model) as kernel:
        workspace = await kernel.host.workspaces.open(kept / "workspace")
        session = await kernel.host.sessions.open("kept", workspace=workspace.id, principal=OPERATOR)
        bodies = [update.event.body async for update in session.events() if update.event]
        assert [body.text for body in bodies if isinstance(body, InputAdded)] == [
            "Remember the heron.",
            "What did you note?",
        ]
        assert [body.text for body in bodies if isinstance(body, ToolFinished)] == ["noted remember"]
        assert len([body for body in bodies if isinstance(body, AssistantDiscarded)]) == 1
        again = session.prompt(Incoming(text="Remember the heron.", key="first"))
        assert (await again.result).text == "Noted: heron." and model.requests == []
        assert (await session.prompt(Incoming(text="And now?")).result).text == "Still here."
        results = [b for m in model.requests[0].messages for b in m.content if isinstance(b, ToolResult)]
        assert [result.text for result in results] == ["noted remember"]


def test_this_version_has_left_a_home() -> None:
    """The version in the source is among the homes."""
    from halo_kernel import __version__

    assert (HOMES / __version__ / "workspace" / ".halo" / "halo.db").exists()
