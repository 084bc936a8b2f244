"""Prompts that are kept between turns: never wrong, and no file is opened for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halo_workspace
from halo_kernel import AgentSpec, BadFile, PreparedInput, WorkspaceInfo
from halo_workspace.catalog import Catalog
from halo_workspace.prompts import MOST_KEPT, Prompts, compose
from halo_workspace.versions import is_settled

SETTLED = 0.08
NAMES = [
    *(f"{place}/{name}" for place in ("home", "workspace/.halo") for name in ("USER.md", "INSTRUCTIONS.md")),
    *(f"{place}/prompts/{slot}/A.md" for place in ("home", "workspace/.halo") for slot in ("root", "all")),
    *(f"{place}/agents/x/{name}" for place in ("home", "workspace/.halo") for name in ("agent.yaml", "AGENT.md")),
    *("workspace/.halo/INDEX.md", "workspace/.halo/prompts/all/B.md", "workspace/a/.halo/INSTRUCTIONS.md"),
]
TEXTS = {False: ["one", "two"], True: ["system_prompt: 1st", "system_prompt: 2nd", "priority: 1"]}
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 1)),
    st.tuples(st.just("link"), st.sampled_from(NAMES), st.integers(0, 1)),
    st.tuples(st.sampled_from(["delete", "empty", "delete folder"]), st.sampled_from(NAMES), st.just(0)),
)


def agent_of(site: Any, place: str = "workspace") -> AgentSpec:
    folder = site.folder / ".halo" if place == "workspace" else site.home / "global"
    return AgentSpec(id="x", name="Xena", source=f"{folder}/agents/x")


def prompts_of(site: Any) -> Prompts:
    return Prompts(Catalog(site.home, structlog.get_logger()))


def change(site: Any, step: tuple[str, str, int]) -> None:
    """Change one file of the site in place, replace it by a link, or take it or its folder away."""
    what, name, number = step
    text = TEXTS[name.endswith(".yaml")][number]
    place, _, rest = name.partition("/")
    path: Path = (site.home / "global" if place == "home" else site.folder) / rest
    if what == "write":
        site.write({name: text})
    elif what == "empty" and path.exists():
        path.write_text("")
    elif what == "link":
        target = site.folder / f"target-{number}"
        target.write_text(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))
    elif what == "delete":
        path.unlink(missing_ok=True)
    elif path.parent not in (site.folder, site.folder / ".halo", site.home / "global"):
        shutil.rmtree(path.parent, ignore_errors=True)


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except BadFile as error:
        return error.message


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    before=st.lists(STEPS, max_size=8),
    after=st.lists(STEPS, min_size=1, max_size=4),
    place=st.sampled_from(["home", "workspace"]),
    sub=st.booleans(),
    settled=st.booleans(),
)
def test_a_kept_prompt_is_what_the_files_say(
    new_site: Any, before: list[Any], after: list[Any], place: str, sub: bool, settled: bool
) -> None:
    """After any change to any file, the first answer is the one that reading everything anew gives."""
    with tempfile.TemporaryDirectory() as name:
        site = new_site(Path(name) / "home", Path(name).resolve() / "workspace")
        site.folder.mkdir()
        (site.home / "global").mkdir(parents=True)
        info = site.session("w", agent_of(site), directory="a", parent="s" if sub else None).info
        agent, prompts = agent_of(site, place), prompts_of(site)
        for step in before:
            change(site, step)
        if settled:
            time.sleep(SETTLED)
        for step in (None, *after):
            if step:
                change(site, step)
            fresh = outcome(lambda: compose(info, agent, Catalog(site.home, structlog.get_logger())))
            for _ in range(2):
                kept = prompts.kept(info, agent)
                assert fresh == (kept if kept is not None else outcome(lambda: prompts.compose(info, agent)))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("place", ["home", "workspace"])
def test_each_single_change_is_seen(new_site: Any, tmp_path: Path, full: bool, place: str) -> None:
    """Every file may appear, change, become a link, lose its text, or vanish alone or with its folder."""
    steps = [(what, name, 1) for what in ("write", "link", "empty", "delete", "delete folder") for name in NAMES]
    sites = [new_site(tmp_path / f"home-{number}", tmp_path / f"workspace-{number}") for number in range(len(steps))]
    for site in sites:
        (site.home / "global").mkdir(parents=True)
        site.folder.mkdir()
        if full:
            site.write(
                {name: TEXTS[name.endswith(".yaml")][0] for name in NAMES if name != "workspace/.halo/prompts/all/B.md"}
            )
    time.sleep(SETTLED)
    for site, step in zip(sites, steps, strict=True):
        agent, prompts = agent_of(site, place), prompts_of(site)
        info = site.session("w", agent, directory="a").info
        first = prompts.compose(info, agent)
        assert prompts.kept(info, agent) is first
        change(site, step)
        kept = prompts.kept(info, agent)
        fresh = outcome(lambda: compose(info, agent, Catalog(site.home, structlog.get_logger())))  # noqa: B023
        assert fresh == (outcome(lambda: prompts.compose(info, agent)) if kept is None else kept), step  # noqa: B023


def test_what_was_just_written_is_read_again(site: Any) -> None:
    """A file that changed a moment ago is not taken for unchanged: a second change in the same tick would not show."""
    site.write({"workspace/.halo/agents/x/agent.yaml": "name: Xena"})
    agent, prompts = agent_of(site), prompts_of(site)
    info = site.session("w", agent).info
    prompts.compose(info, agent)
    assert prompts.kept(info, agent) is None
    second = 1_000_000_000
    now = time.time_ns() // second * second
    assert [is_settled((now - ago, now - ago, 1, 1, 1)) for ago in (0, second, 4 * second)] == [False, False, True]
    assert is_settled((now - second + 1, now - second + 1, 1, 1, 1)) and is_settled((-2,))


def test_an_agent_that_was_just_written_is_read_again(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of an agent that the file system's clock cannot tell apart are told apart."""
    now = time.time_ns()
    monkeypatch.setattr("halo_workspace.files.version", lambda _: (now, now, 1, 1, 1))
    catalog = Catalog(site.home, structlog.get_logger())
    found = list[str]()
    for name in ("One", "Two"):
        site.write({"workspace/.halo/agents/x/agent.yaml": f"name: {name}"})
        spec = catalog.find(WorkspaceInfo(id="w", path=str(site.folder)), "x")
        found.append(spec.name if spec else "")
    assert found == ["One", "Two"]


def test_another_workspace_behind_the_same_name(new_site: Any, tmp_path: Path) -> None:
    """A workspace's folder that is a link and is led elsewhere gives the other folder's prompt."""
    for name in ("one", "two"):
        new_site(tmp_path / "home", tmp_path / name).folder.mkdir()
        new_site(tmp_path / "home", tmp_path / name).write({"workspace/.halo/USER.md": name})
    (tmp_path / "link").symlink_to("one")
    time.sleep(SETTLED)
    site = new_site(tmp_path / "home", tmp_path / "link")
    agent, prompts = agent_of(site), prompts_of(site)
    info = site.session("w", agent).info
    prompts.compose(info, agent)
    assert prompts.kept(info, agent) is not None
    (tmp_path / "other").symlink_to("two")
    (tmp_path / "other").rename(tmp_path / "link")
    assert prompts.kept(info, agent) is None


async def test_a_second_turn_opens_no_file(site: Any, running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing changes, a turn's prompt is the same object and comes without a thread; any change is seen."""
    site.write({"workspace/.halo/agents/x/agent.yaml": "", "workspace/.halo/USER.md": "One."})
    async with running() as kernel:
        await site.parts(kernel, "x")
        await asyncio.sleep(SETTLED)
        first = await site.parts(kernel, "x")
        workspace = await kernel.workspaces.open(site.folder)
        seen = site.session(workspace.id, kernel.workspaces.agent(workspace, "x"))
        monkeypatch.setattr(asyncio, "to_thread", None)
        for _ in range(2):
            again: Any = await halo_workspace.prepare_context(seen)
            assert all(one is other for one, other in zip(first, again, strict=True))
        monkeypatch.undo()
        site.write({"workspace/.halo/USER.md": "Two."})
        changed: Any = await halo_workspace.prepare_context(seen)
    assert [part.text for part in changed if part.slot == "profile"] == ["## User Profile\n\nTwo."]


async def test_a_message_without_a_reference_needs_no_thread(
    site: Any, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch without `@` is only stamped; one with it is read in a thread."""
    row = PreparedInput(row=1, text="hello", content="hello", sender="x", stamp="2026-11-30T12:00:00.000Z")
    async with running() as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        seen = site.session(workspace.id, kernel.workspaces.agent(workspace))
        monkeypatch.setattr(asyncio, "to_thread", None)
        (found,) = await halo_workspace.prepare_input([row], seen)
        assert found.content == "[2026-11-30T12:00:00.000Z] hello"
        with pytest.raises(TypeError):
            await halo_workspace.prepare_input(
                [row, PreparedInput(row=2, text="", content="@file a", sender="x")], seen
            )


def test_only_so_many_prompts_are_kept(site: Any) -> None:
    """However many folders sessions work in, the number of prompts in memory is bounded; the latest are there."""
    site.write({"workspace/.halo/USER.md": "One."})
    time.sleep(SETTLED)
    agent, prompts = agent_of(site), prompts_of(site)
    infos = [site.session("w", agent, directory=f"d{number}").info for number in range(MOST_KEPT + 3)]
    for info in infos:
        prompts.compose(info, agent)
    assert [prompts.kept(info, agent) is None for info in infos] == [True] * 3 + [False] * MOST_KEPT
