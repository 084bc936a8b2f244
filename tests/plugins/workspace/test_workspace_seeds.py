"""Seeds: brought once, renewed while nobody touched them, and a person's file never overwritten."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from halo_kernel import HaloError, WorkspaceInfo
from halo_workspace import seeds

NAMES = [
    "INSTRUCTIONS.md",
    "agents/default/AGENT.md",
    "agents/default/agent.yaml",
    "prompts/all/TOOL_GUIDELINES.md",
    "prompts/all/TOOL_SHELL.md",
    "prompts/all/WORKSPACE_CONVENTIONS.md",
    "prompts/root/WORKSPACE_MEMORY.md",
]
# The seeds of each template version: a change of a seed needs a new version and a new line here.
VERSIONS = {100: "a388ceb2c87cc5f0"}


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_new_home_gets_everything_once(tmp_path: Path) -> None:
    """The first time writes every seed and the version, the second time nothing at all."""
    assert sorted(seeds.seed_home(tmp_path)) == NAMES
    before = tree(tmp_path)
    assert (tmp_path / "global/.template-version").read_text() == f"{seeds.TEMPLATE_VERSION}\n"
    assert seeds.seed_home(tmp_path) == []
    assert tree(tmp_path) == before


def test_a_changed_seed_has_a_new_version() -> None:
    """Every change of a seed comes with a higher template version, so that an older server leaves it alone."""
    digest = hashlib.sha256(repr(sorted(seeds._seeds("home").items())).encode()).hexdigest()[:16]
    assert VERSIONS[seeds.TEMPLATE_VERSION] == digest
    assert max(VERSIONS) == seeds.TEMPLATE_VERSION


class Seeding(RuleBasedStateMachine):
    """A person edits, deletes and makes files while versions of the seeds come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.held = tempfile.TemporaryDirectory()
        self.home = Path(self.held.name)
        self.given = {"a.md": b"a1", "b/c.md": b"c1"}
        self.persons: dict[str, bytes | None] = {}
        self.seeded = False
        self.known: set[str] = set()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(seeds, "_seeds", lambda _: self.given)

    def path(self, name: str) -> Path:
        return self.home / "global" / name

    @rule(name=st.sampled_from(["a.md", "b/c.md", "d.md"]), text=st.sampled_from([b"mine", b"", b"a1", b"c2"]))
    def edit(self, name: str, text: bytes) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        same = self.path(name).is_file() and self.path(name).read_bytes() == text
        self.path(name).write_bytes(text)
        if not same:
            self.persons[name] = text

    @precondition(lambda self: self.seeded)
    @rule(name=st.sampled_from(["a.md", "b/c.md", "d.md"]))
    def delete(self, name: str) -> None:
        if self.path(name).is_file():
            self.path(name).unlink()
            if name in self.known:
                self.persons[name] = None
            else:  # it was no seed's place yet: one that comes later is new
                self.persons.pop(name, None)

    @rule(change=st.sampled_from([("a.md", b"a2"), ("b/c.md", b"c2"), ("d.md", b"d1"), ("a.md", b"a3")]))
    def upgrade(self, change: tuple[str, bytes]) -> None:
        self.given = self.given | dict([change])

    @rule()
    def seed(self) -> None:
        seeds.seed_home(self.home)
        self.seeded = True
        self.known |= set(self.given)
        for name, data in self.given.items():
            held = self.persons.get(name, data)
            found = self.path(name).read_bytes() if self.path(name).exists() else None
            # A person who wrote exactly what we bring has no file that differs from ours.
            if held == data:
                self.persons.pop(name, None)
            assert found == held, name

    @invariant()
    def nothing_of_a_persons_is_lost(self) -> None:
        for name, text in self.persons.items():
            found = self.path(name).read_bytes() if self.path(name).exists() else None
            assert found == text
        assert not list(self.home.rglob("*.tmp"))

    def teardown(self) -> None:
        self.patch.undo()
        self.held.cleanup()


TestSeeding = Seeding.TestCase
TestSeeding.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)


@pytest.mark.parametrize("writes", range(9))
def test_a_crash_in_the_middle_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Cut after any number of writes, the next start brings the rest, and a later version still renews all of it."""
    left = iter(range(writes))
    real = os.link

    def link(source: Any, target: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    with suppress(KeyboardInterrupt):
        seeds.seed_home(tmp_path)
    monkeypatch.setattr(os, "link", real)
    seeds.seed_home(tmp_path)
    monkeypatch.setattr(seeds, "_seeds", lambda _: dict.fromkeys(NAMES, b"newer"))
    assert sorted(seeds.seed_home(tmp_path)) == NAMES


def test_a_newer_home_is_left_alone(tmp_path: Path) -> None:
    """A home that a newer version seeded is not touched by this one."""
    seeds.seed_home(tmp_path)
    (tmp_path / "global/.template-version").write_text(f"{seeds.TEMPLATE_VERSION + 1}\n")
    (tmp_path / "global/INSTRUCTIONS.md").unlink()
    (tmp_path / "global/.seeds.json").unlink()
    before = tree(tmp_path)
    assert seeds.seed_home(tmp_path) == []
    assert tree(tmp_path) == before


def test_links_and_folders_are_a_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the place of a seed stays a link, whatever it leads to, and so does a folder."""
    seeds.seed_home(tmp_path)
    ours = tmp_path / "global/INSTRUCTIONS.md"
    ours.rename(tmp_path / "dotfiles.md")
    ours.symlink_to(tmp_path / "dotfiles.md")
    other = tmp_path / "global/prompts/all/TOOL_SHELL.md"
    other.unlink()
    other.mkdir()
    before = (tmp_path / "dotfiles.md").read_bytes()
    monkeypatch.setattr(seeds, "_seeds", lambda _: dict.fromkeys(NAMES, b"newer"))
    seeds.seed_home(tmp_path)
    assert ours.is_symlink() and (tmp_path / "dotfiles.md").read_bytes() == before and other.is_dir()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"home": 3}', '{"home": {}, "workspaces": {"a": 1}}'])
def test_a_broken_manifest_makes_every_file_a_persons(tmp_path: Path, monkeypatch: Any, text: str) -> None:
    """When nobody knows what was ours, nothing that differs is overwritten."""
    seeds.seed_home(tmp_path)
    (tmp_path / "global/.seeds.json").write_text(text)
    (tmp_path / "global/INSTRUCTIONS.md").write_text("mine")
    monkeypatch.setattr(seeds, "_seeds", lambda _: dict.fromkeys(NAMES, b"newer"))
    assert seeds.seed_home(tmp_path) == []
    assert (tmp_path / "global/INSTRUCTIONS.md").read_text() == "mine"


def test_a_home_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """The error names the path and what to do."""
    (tmp_path / "global").write_text("a file")
    with pytest.raises(HaloError, match="cannot be written"):
        seeds.seed_home(tmp_path)


def test_many_first_starts_at_once_make_one_home(tmp_path: Path) -> None:
    """Processes that seed one home at the same time bring each file once and agree on the manifest."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        written = pool.map(seeds.seed_home, [tmp_path] * 6)
    assert sorted(name for names in written for name in names) == NAMES
    manifest = json.loads((tmp_path / "global/.seeds.json").read_text())
    assert sorted(manifest["home"]) == NAMES and not list(tmp_path.rglob("*.tmp"))


@pytest.fixture
def workspace(site: Any) -> WorkspaceInfo:
    return WorkspaceInfo(id="w1", path=str(site.folder))


def test_a_workspace_gets_its_folders_and_a_gitignore(site: Any, workspace: WorkspaceInfo) -> None:
    """Folders and `.gitignore` are made once; one that a person changed or deleted stays so."""
    assert seeds.seed_workspace(workspace, site.home) == [".gitignore"]
    assert {path.name for path in (site.folder / ".halo").iterdir()} == {*seeds.FOLDERS, ".gitignore"}
    for name in ("prompts", "INSTRUCTIONS.md"):
        assert not (site.folder / ".halo" / name).exists()
    ignore = site.folder / ".halo/.gitignore"
    ignore.write_text("mine")
    assert seeds.seed_workspace(workspace, site.home) == [] and ignore.read_text() == "mine"
    ignore.unlink()
    assert seeds.seed_workspace(workspace, site.home) == [] and not ignore.exists()
    # Another workspace in the same place, such as a clone of this one, has a history of its own.
    assert seeds.seed_workspace(WorkspaceInfo(id="w2", path=workspace.path), site.home) == [".gitignore"]


def test_a_linked_halo_folder_is_not_written_to(site: Any, workspace: WorkspaceInfo, tmp_path: Path) -> None:
    """A `.halo` that leads elsewhere gets no folders and no files."""
    (tmp_path / "elsewhere").mkdir()
    (site.folder / ".halo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HaloError, match="is a link"):
        seeds.seed_workspace(workspace, site.home)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def untracked(folder: Path) -> list[str]:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    shown = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return sorted(line[3:] for line in shown.splitlines())


@pytest.mark.needs("git")
async def test_git_sees_the_agents_and_none_of_the_data(site: Any, running: Any) -> None:
    """In a repository the databases, their companions, assets and logs are ignored; agents and prompts are not."""
    async with running() as kernel:
        await kernel.workspaces.open(site.folder)
        site.write(
            {
                "workspace/.halo/agents/x/agent.yaml": "name: x",
                "workspace/.halo/prompts/all/a.md": "x",
                "workspace/.halo/memory/2026-11-30.md": "x",
                "workspace/.halo/assets/blob": "x",
                "workspace/.halo/logs/a.log": "x",
                "workspace/.halo/cron.db": "x",
            }
        )
        assert (site.folder / ".halo/halo.db").exists() and list((site.folder / ".halo").glob("halo.db-*"))
        seen = await asyncio.to_thread(untracked, site.folder)
    assert seen == [
        ".halo/.gitignore",
        ".halo/agents/x/agent.yaml",
        ".halo/memory/2026-11-30.md",
        ".halo/prompts/all/a.md",
    ]
