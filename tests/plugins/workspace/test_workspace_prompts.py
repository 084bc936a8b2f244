"""The system prompt from files: what is in it, in which order, and that it stays the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halo_kernel import OPERATOR, AgentSpec, BadFile, Incoming, Text
from halo_kernel.testing import ScriptedModel
from halo_workspace.catalog import Catalog
from halo_workspace.prompts import compose, texts_for

FILES = {
    "home/USER.md": "---\nuser_name: Mara\nai_name: 'Heron'\n---\nHome profile.",
    "home/INSTRUCTIONS.md": "Home rules.",
    "home/prompts/root/A.md": "Home root A.",
    "home/prompts/all/A.md": "Home all A.",
    "workspace/.halo/agents/x/agent.yaml": "name: Xena",
    "workspace/.halo/agents/x/AGENT.md": (
        "I am {{agent_name}} for {{user_name}} ({{ai_name}}) in {{workspace_root}}. {{other}}"
    ),
    "workspace/.halo/INDEX.md": "Index text.",
    "workspace/.halo/USER.md": "Workspace profile.",
    "workspace/.halo/INSTRUCTIONS.md": "Workspace rules.",
    "workspace/.halo/prompts/root/B.md": "Workspace root B.",
    "workspace/.halo/prompts/root/A.md": "Workspace root A.",
}


def texts(parts: list[Any]) -> dict[str, str]:
    assert len({part.slot for part in parts}) == len(parts)
    return {part.slot: part.text for part in parts}


async def test_a_root_session_has_everything(site: Any, running: Any) -> None:
    """Each slot holds its file, the workspace's over the home's, prompts sorted by name, placeholders filled."""
    site.write(FILES)
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x"))
    assert found["profile"] == "## User Profile\n\nWorkspace profile."
    assert found["agent"] == f"I am Xena for Mara (Heron) in {site.folder}. {{{{other}}}}"
    assert found["instructions"] == "## User Instructions\n\nWorkspace rules."
    assert found["knowledge"].startswith("## Project Knowledge\n\n") and found["knowledge"].endswith("Index text.")
    assert found["place"] == f"The project workspace is at: {site.folder}"
    assert found["root"] == "Workspace root A.\n\nWorkspace root B."
    assert found["all"].startswith("Home all A.")


async def test_a_sub_session_has_no_profile_and_no_root_prompts(site: Any, running: Any) -> None:
    """A sub-session gets the agent, the rules, the index and `prompts/all`."""
    site.write(FILES)
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x", parent="s"))
    assert set(found) == {"agent", "instructions", "knowledge", "place", "all"}
    assert found["place"] == f"The workspace root is: {site.folder}"


async def test_an_internal_agent_has_its_own_text_alone(site: Any, running: Any) -> None:
    """No rules, no index, no prompt files and no place for an internal agent, but the rules of its directory."""
    site.write(FILES | {"workspace/.halo/agents/x/agent.yaml": "internal: true"})
    site.write({"workspace/a/.halo/INSTRUCTIONS.md": "A."})
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x"))
        assert {slot for slot, text in found.items() if text} == {"agent"}
        found = texts(await site.parts(kernel, "x", directory="a"))
    assert found["instructions"] == "## User Instructions\n\n### a\n\nA."


async def test_rules_of_the_directory_come_outer_first(site: Any, running: Any) -> None:
    """Each level of the working directory adds its rules, the workspace itself only once."""
    site.write(FILES | {"workspace/a/.halo/INSTRUCTIONS.md": "Outer.", "workspace/a/b/.halo/INSTRUCTIONS.md": "Inner."})
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x", directory="a/b"))
    assert found["instructions"] == "## User Instructions\n\nWorkspace rules.\n\n### a\n\nOuter.\n\n### a/b\n\nInner."
    assert found["place"].endswith(f"\nWorking directory: {site.folder}/a/b")


async def test_an_empty_prompts_folder_silences_the_homes(site: Any, running: Any) -> None:
    """A folder of the workspace stands for the home's of that name, even when it is empty."""
    site.write(FILES)
    (site.folder / ".halo/prompts/all").mkdir()
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x"))
    assert found["all"] == ""


async def test_without_any_text_the_system_prompt_stands_alone(site: Any, running: Any) -> None:
    """`system_prompt` counts only where no file says anything, and then nothing else does; else a default sentence."""
    site.write({"workspace/.halo/agents/x/agent.yaml": "name: Xena\nsystem_prompt: You are {{agent_name}}."})
    site.write({"workspace/.halo/agents/y/agent.yaml": ""})
    site.write({"home/INSTRUCTIONS.md": "", "home/USER.md": ""})
    async with running() as kernel:
        assert texts(await site.parts(kernel, "x")) == {"agent": "You are Xena."}
        found = texts(await site.parts(kernel, "y"))
        assert found["agent"].startswith("You are a helpful agent") and found["place"]
        site.write({"workspace/.halo/INSTRUCTIONS.md": "Rules."})
        assert "Xena" not in str(texts(await site.parts(kernel, "x")))


async def test_the_default_agent_of_a_new_home_has_a_prompt(site: Any, running: Any) -> None:
    """The seeds alone make a prompt that names the workspace, and an agent with the file tools."""
    async with running() as kernel:
        found = texts(await site.parts(kernel))
        agent = kernel.workspaces.agent(await kernel.workspaces.open(site.folder))
    assert "You are Halo" in found["agent"] and "{{" not in found["agent"]
    assert all(found[slot] for slot in ("instructions", "place", "root", "all"))
    assert agent.id == "default" and agent.model is None
    assert agent.tools == ("file_read", "file_write", "file_edit", "file_list", "glob", "grep", "shell_exec")


@pytest.mark.parametrize("name", ["INSTRUCTIONS.md", "USER.md", "INDEX.md", "prompts/all/A.md", "agents/x/AGENT.md"])
async def test_no_prompt_file_leads_out_of_the_workspace(site: Any, running: Any, tmp_path: Path, name: str) -> None:
    """A link out of the workspace ends the prompt with an error that names the file and shows nothing of it."""
    (tmp_path / "secret.txt").write_text("hidden text")
    site.write({"workspace/.halo/agents/x/agent.yaml": ""})
    link = site.folder / ".halo" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "secret.txt")
    async with running() as kernel:
        with pytest.raises(BadFile) as caught:
            await site.parts(kernel, "x")
    assert name in caught.value.message and "hidden text" not in caught.value.message


async def test_links_inside_the_workspace_and_in_the_home_are_followed(site: Any, running: Any, tmp_path: Path) -> None:
    """A person's own home may be made of links; a workspace's may lead to its other files."""
    (tmp_path / "dotfiles.md").write_text("From my dotfiles.")
    site.write(FILES | {"workspace/docs/index.md": "Linked index."})
    (site.home / "global/USER.md").unlink()
    (site.home / "global/USER.md").symlink_to(tmp_path / "dotfiles.md")
    (site.folder / ".halo/USER.md").unlink()
    (site.folder / ".halo/INDEX.md").unlink()
    (site.folder / ".halo/INDEX.md").symlink_to("../docs/index.md")
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x"))
    assert "From my dotfiles." in found["profile"] and "Linked index." in found["knowledge"]


def test_windows_prompts_stand_for_the_others_there() -> None:
    """`x.windows.md` replaces `x.md` on Windows and is nothing elsewhere; other files are no prompts."""
    names = ("a.md", "a.windows.md", "b.md", "c.txt")
    assert texts_for(names, "linux") == ["a.md", "b.md"]
    assert texts_for(names, "win32") == ["a.windows.md", "b.md"]


async def test_a_very_long_file_is_cut_and_says_so(site: Any, running: Any) -> None:
    """A prompt file has at most 200,000 bytes in the prompt."""
    site.write(FILES | {"workspace/.halo/INDEX.md": "é" * 150_000})
    async with running() as kernel:
        found = texts(await site.parts(kernel, "x"))
    assert found["knowledge"].endswith("[cut after 200000 bytes]") and len(found["knowledge"]) < 101_000


NAMES = st.sampled_from(
    [
        *FILES,
        "workspace/.halo/prompts/all/Z.md",
        "workspace/.halo/prompts/all/Ä.md",
        "home/prompts/all/B.md",
        "workspace/a/.halo/INSTRUCTIONS.md",
        "home/prompts/root/Z.txt",
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.text(max_size=30), max_size=10), sub=st.booleans(), data=st.data())
def test_the_same_files_give_the_same_bytes(
    new_site: Any, files: dict[str, str], sub: bool, data: st.DataObject
) -> None:
    """Files written in another order, at another time, give a prompt that is equal byte by byte."""
    order = data.draw(st.permutations(sorted(files)))
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as name:
        for names in (sorted(files), order):
            site = new_site(Path(name) / "home", Path(name).resolve() / "workspace")
            shutil.rmtree(site.folder, ignore_errors=True)
            shutil.rmtree(site.home, ignore_errors=True)
            site.folder.mkdir()
            site.write({each: files[each] for each in names} | {"workspace/.halo/agents/x/agent.yaml": "name: Xena"})
            agent = AgentSpec(id="x", name="Xena", source=f"{site.folder}/.halo/agents/x")
            seen = site.session("w", agent, directory="a", parent="s" if sub else None)
            found.append(compose(seen.info, agent, Catalog(site.home, structlog.get_logger())))
    assert found[0] == found[1]


async def test_two_turns_have_one_prefix_and_stamped_messages(site: Any, running: Any) -> None:
    """Through the kernel: the second turn's prompt and first messages are those of the first, byte by byte."""
    model = ScriptedModel()
    async with running(model) as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        session = await kernel.sessions.create(workspace=workspace.id, principal=OPERATOR)
        for text in ("one", "two"):
            result = await session.prompt(Incoming(text=text)).result
            assert result.outcome == "succeeded", result.error
    first, second = model.requests
    assert first.system == second.system and "You are Halo" in first.system
    assert second.messages[: len(first.messages)] == first.messages
    block = first.messages[0].content[0]
    assert isinstance(block, Text) and block.text.endswith("Z] one") and block.text.startswith("[20")
