"""`@file` in messages: what the model gets, what it never gets, and the stamp before it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halo_workspace
from halo_kernel import OPERATOR, Incoming, InputAdded, PreparedInput, Text
from halo_kernel.testing import Answer, Fail, ScriptedModel, journal
from halo_workspace.references import LONGEST, MOST, expand, prepare


@pytest.fixture
def ask(site: Any) -> Any:
    """Expand a text in the site's workspace."""

    def expanded(text: str, access: Any = "full") -> str:
        return expand(text, folder=str(site.folder), home=str(site.home), access=access)

    return expanded


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("look at @file {}", "notes.txt"),
        ("@file {}, please", "notes.txt"),
        ("what is in @file {}?", "docs/a.md"),
        ("（@file {}）", "notes.txt"),
        ('@file "{}" and more', "my notes, v2.txt"),
        ("@file '{}'", "it has spaces.txt"),
        ("@file `{}`", 'with "quotes".txt'),
        ("@file {}。", "数据.md"),
        ("@file\t./{}", "notes.txt"),
    ],
)
def test_a_reference_becomes_the_files_text(site: Any, ask: Any, text: str, name: str) -> None:
    """Bare and quoted names, and punctuation around them, lead to the file; the sentence around it stays."""
    site.write({f"workspace/{name}": "first\nsecond\n"})
    shown = name.replace("&", "&amp;").replace('"', "&quot;")
    before, _, after = text.partition("@file")
    answer = ask(text.format(name))
    assert f'<file path="{shown}">\nfirst\nsecond\n</file>' in answer
    assert answer.startswith(before) and answer.endswith(after.rpartition("}")[2].lstrip("\"'`"))


def test_an_absolute_path_inside_is_fine(site: Any, ask: Any) -> None:
    """An absolute path into the workspace is the file's."""
    site.write({"workspace/a.txt": "Alpha."})
    assert ask(f"@file {site.folder}/a.txt") == '<file path="a.txt">\nAlpha.\n</file>'


def test_what_cannot_be_read_says_why(site: Any, ask: Any, tmp_path: Path) -> None:
    """Missing files, folders, paths and links out of the workspace, pipes and binaries are named, never opened up."""
    site.write({"workspace/docs/a.md": "x"})
    (tmp_path / "secret.txt").write_text("hidden text")
    (site.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (site.folder / "folder").symlink_to(tmp_path)
    (site.folder / "image.png").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(site.folder / "pipe")
    assert ask("@file gone.txt, ok?") == "[not found: gone.txt], ok?"
    assert ask('@file "gone with spaces"') == "[not found: gone with spaces]"
    assert ask("@file docs") == "[not a file: docs]"
    assert ask("@file pipe") == "[not a file: pipe]"
    assert ask("@file image.png") == "[not text: image.png]"
    for path in ("link.txt", "folder/secret.txt", "../secret.txt", f"{tmp_path}/secret.txt", "/etc/hostname"):
        answer = ask(f"@file {path}")
        assert answer == f"[outside the workspace: {path}]" and "hidden text" not in answer


@pytest.mark.parametrize("name", ["halo.db", "halo.db-wal", "HALO.DB-SHM", "cron.db"])
async def test_a_database_is_never_opened(site: Any, running: Any, ask: Any, name: str) -> None:
    """Halo's databases are refused by name and, through any link, by what they are."""
    async with running() as kernel:
        await kernel.workspaces.open(site.folder)
        assert ask(f"@file .halo/{name}").startswith(("[not readable here:", "[not found:"))
        os.link(site.folder / ".halo/halo.db", site.folder / "innocent.txt")
        assert ask("@file innocent.txt") == "[not readable here: innocent.txt]"
        (site.folder / "also.txt").symlink_to(".halo/halo.db")
        assert ask("@file also.txt") == "[not readable here: also.txt]"


def test_secrets_and_hidden_files_stay_shut(site: Any, tmp_path: Path) -> None:
    """The home's secrets are never read, even where the workspace holds the home; below `full` no hidden file is."""
    home = tmp_path / ".halo"
    (home / "secrets").mkdir(parents=True)
    (home / "secrets/settings.yaml").write_text("key")
    (tmp_path / ".env").write_text("token")
    (tmp_path / "plain.txt").write_text("plain")
    for access in ("full", "workspace", "readonly"):
        at: Any = {"folder": str(tmp_path), "home": str(home), "access": access}
        assert expand("@file .halo/secrets/settings.yaml", **at) == "[not readable here: .halo/secrets/settings.yaml]"
        assert ("token" in expand("@file .env", **at)) == (access == "full")
        assert "plain" in expand("@file plain.txt", **at)


@pytest.mark.parametrize("size", [LONGEST - 1, LONGEST, LONGEST + 1, 3 * LONGEST])
@pytest.mark.parametrize("sign", ["a", "é", "数"])
def test_a_long_file_is_cut_at_the_byte(site: Any, ask: Any, size: int, sign: str) -> None:
    """At most 100 KB of a file are shown, in whole characters, and the cut says of how many bytes."""
    text = (sign * size).encode()[:size].decode("utf-8", "ignore")
    (site.folder / "long.txt").write_text(text)
    answer = ask("@file long.txt")
    body = answer.split(">\n", 1)[1].rsplit("\n</file>", 1)[0]
    shown, _, note = body.partition("\n[cut:")
    assert text.startswith(shown) and len(shown.encode()) <= LONGEST
    assert len(shown.encode()) > min(len(text.encode()), LONGEST) - 4
    assert bool(note) == (len(text.encode()) > LONGEST)
    assert not note or f"of {len(text.encode())} bytes]" in note


def test_only_so_many_files_are_read(site: Any, ask: Any) -> None:
    """From the twenty-first on, a reference is named and not read."""
    site.write({"workspace/a.txt": "Alpha."})
    answer = ask(" ".join(["@file a.txt"] * (MOST + 2)))
    assert answer.count("Alpha.") == MOST and answer.count("[not read: a.txt") == 2


@settings(deadline=None)
@given(st.text(max_size=60).filter(lambda text: "@file" not in text))
def test_other_text_is_left_alone(text: str) -> None:
    """A text without a reference comes back as it is, and no folder is opened for it."""
    assert expand(text, folder="/nowhere", home="/nowhere", access="full") == text


@pytest.mark.parametrize("text", ["mail@file a.txt", "@file", "@files a.txt", "@filea.txt"])
def test_what_is_no_reference_stays(site: Any, ask: Any, text: str) -> None:
    """Only the word `@file` with a path after it is a reference."""
    site.write({"workspace/a.txt": "Alpha."})
    assert ask(text) == text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=200))
def test_a_files_text_is_shown_as_it_is(tmp_path_factory: Any, text: str) -> None:
    """Whatever the file says, its text stands in the message once and unchanged."""
    folder = tmp_path_factory.getbasetemp() / "verbatim"
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(text, encoding="utf-8")
    answer = expand("see @file a.txt now", folder=str(folder), home="/nowhere", access="readonly")
    ended = text.rstrip("\n")
    assert answer == f'see <file path="a.txt">\n{ended}\n</file> now'


def test_each_row_gets_its_own_stamp(site: Any) -> None:
    """The stamp stands before what the model sees; what people see is untouched; a row without a stamp gets none."""
    site.write({"workspace/a.txt": "Alpha."})
    rows = [
        PreparedInput(row=n, text="@file a.txt", content="@file a.txt", sender="x", stamp=stamp)
        for n, stamp in enumerate(["2026-11-30T12:00:00.000Z", "2026-11-30T12:00:00.001Z", ""])
    ]
    found = prepare(rows, folder=str(site.folder), home=str(site.home), access="full")
    block = '<file path="a.txt">\nAlpha.\n</file>'
    assert [row.content for row in found] == [f"[{rows[0].stamp}] {block}", f"[{rows[1].stamp}] {block}", block]
    assert [(row.row, row.text, row.stamp) for row in found] == [(row.row, row.text, row.stamp) for row in rows]


async def test_a_turn_sees_the_file(site: Any, running: Any) -> None:
    """Through the kernel: the model gets the stamped text with the file in it."""
    model = ScriptedModel()
    site.write({"workspace/a.txt": "Alpha."})
    async with running(model) as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        session = await kernel.sessions.create(workspace=workspace.id, principal=OPERATOR)
        await session.prompt(Incoming(text="read @file a.txt")).result
    block = model.requests[0].messages[0].content[0]
    assert isinstance(block, Text)
    assert block.text.partition("] ")[2] == 'read <file path="a.txt">\nAlpha.\n</file>'


async def test_a_retried_call_has_its_stamp_once(site: Any, running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """30: the arrival stamp stands once before a message, however often its call is made again, and later too."""
    monkeypatch.setattr("halo_kernel.models.call._wait_before_next", lambda error, number: 0.0)
    model = ScriptedModel([*[Fail("network")] * 3, Answer("at last")])
    async with running(model) as kernel:
        workspace = await kernel.workspaces.open(site.folder)
        session = await kernel.sessions.create(workspace=workspace.id, principal=OPERATOR)
        assert (await session.prompt(Incoming(text="hello")).result).text == "at last"
        (stamp,) = [event.body.stamp for event in await journal(session) if isinstance(event.body, InputAdded)]
        await session.prompt(Incoming(text="more")).result
    assert len(model.requests) == 5
    for request in model.requests:
        assert request.messages[0].content == (Text(f"[{stamp}] hello"),)


async def test_a_closed_kernel_leaves_nothing_behind(site: Any, running: Any) -> None:
    """What the hooks keep of a home is gone when its kernel is."""
    async with running() as kernel:
        await kernel.workspaces.open(site.folder)
        assert halo_workspace._prompts
    assert not halo_workspace._prompts
