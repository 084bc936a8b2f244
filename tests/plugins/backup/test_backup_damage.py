"""A backup that is partial, damaged, newer or forged is refused with a sentence, and nothing is changed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_backup.archive import Archive, Damaged, Writer
from halo_backup.create import Made
from halo_backup.manifest import (
    FORMAT,
    HEAD,
    DatabaseEntry,
    Head,
    Manifest,
    Member,
    WorkspaceEntry,
    is_safe,
    leads_out,
)
from halo_backup.restore import Restored
from halo_backup.sealed import seal, unseal
from halo_kernel import BadInput, HaloError, Kernel, NewerData

PutBack = Callable[..., Restored]
Run = Callable[..., Awaitable[int]]
Tree = Callable[[Path], dict[str, object]]


def silent(what: str, done: int, total: int) -> None:
    """Say nothing."""


def forged(path: Path, holds: list[tuple[str, bytes | str]], **more: Any) -> Path:
    """Write a backup, whole by its checksums, with these members: a file's bytes, or a link's target."""
    with path.open("wb") as file:
        writer = Writer(file, Head(format=more.get("format", FORMAT), halo="0.1.0"))
        for name, content in holds:
            if isinstance(content, bytes):
                writer.add_bytes(name, content)
            else:
                writer.add_link(name, content)
        facts: dict[str, Any] = {
            "format": FORMAT,
            "halo": "0.1.0",
            "made_at": 1,
            "home": "/h",
            "whole": True,
            "workspaces": (),
            "databases": (),
            "members": tuple(writer.members),
            **more,
        }
        writer.finish(Manifest(**facts))
    return path


@pytest.mark.parametrize("part", range(20))
async def test_a_backup_that_was_cut(
    saved: Path, home: Path, tmp_path: Path, run: Run, put_back: PutBack, tree: Tree, part: int
) -> None:
    """Cut at any twentieth of its length it is refused by verify and by restore, and the home stays as it was."""
    cut = tmp_path / "cut.backup"
    data = saved.read_bytes()
    cut.write_bytes(data[: len(data) * part // 20])
    before = tree(home), tree(tmp_path / "w")
    for attempt in (run("verify", cut), run("restore", cut, "--no-secrets")):
        with pytest.raises(BadInput, match=r"not complete|damaged|no backup") as refused:
            await attempt
        assert refused.value.message.startswith(str(cut))
    assert (tree(home), tree(tmp_path / "w")) == before


@pytest.mark.parametrize("part", range(1, 20))
async def test_a_backup_with_one_wrong_byte(saved: Path, tmp_path: Path, run: Run, part: int) -> None:
    """A single byte that changed, wherever it is, is found."""
    odd = tmp_path / "odd.backup"
    data = bytearray(saved.read_bytes())
    data[len(data) * part // 20] ^= 0x40
    odd.write_bytes(data)
    with pytest.raises(BadInput, match="damaged"):
        await run("verify", odd)


async def test_a_damaged_member_is_named(saved: Path, tmp_path: Path, run: Run) -> None:
    """What is damaged is said by its name."""
    odd = tmp_path / "odd.backup"
    data = saved.read_bytes()
    assert data.count(b"id: me") == 1
    odd.write_bytes(data.replace(b"id: me", b"id: xx"))
    with pytest.raises(Damaged, match=r"agents/me\.yaml is not what the manifest says"):
        await run("verify", odd)


async def test_a_newer_format(home: Path, tmp_path: Path, run: Run) -> None:
    """A backup of a later format is refused by that, whatever else is in it."""
    newer = forged(tmp_path / "newer.backup", [], format=FORMAT + 1)
    for verb in ("verify", "restore"):
        with pytest.raises(NewerData, match=f"format {FORMAT + 1} by Halo") as refused:
            await run(verb, newer)
        assert "nothing was changed" in refused.value.advice
    assert not home.exists()


async def test_a_newer_schema(home: Path, tmp_path: Path, run: Run) -> None:
    """A database that only later versions read is refused before anything is changed."""
    entry = DatabaseEntry(name="workspaces/w1/halo.db", version=99, min_reader=99)
    newer = forged(
        tmp_path / "newer.backup",
        [("workspaces/w1/halo.db", b"anything")],
        databases=(entry,),
        workspaces=(WorkspaceEntry(id="w1", path=str(tmp_path / "w1")),),
    )
    for verb in ("verify", "restore"):
        with pytest.raises(NewerData, match="needs schema 99"):
            await run(verb, newer)
    assert not home.exists() and not (tmp_path / "w1").exists()


ESCAPES: list[list[tuple[str, bytes | str]]] = [
    [("home/global/../../../out", b"x")],
    [("/home/global/out", b"x")],
    [("workspaces/../home/out", b"x")],
    [("elsewhere/out", b"x")],
    [("home/global/a\\..\\b", b"x")],
    [("home/global/link", "/etc")],
    [("home/global/link", "../out")],
    [("home/global/a/link", "../../out")],
    [("home/global/link", "sub/../../out")],
    [("home/global/link", "sub"), ("home/global/link/x", b"x")],
    [("home/global/d/e/link", "../.."), ("home/global/d/e/link/up", "../../..")],
    [("home/global/server.json", b"{}")],
    [("home/global/logs/x", b"x")],
]


@pytest.mark.parametrize("members", ESCAPES, ids=lambda members: members[-1][0])
def test_names_that_lead_out(home: Path, tmp_path: Path, put_back: PutBack, members: Any) -> None:
    """No name and no link of a backup leads out of where it belongs, or to what is none of its own: it is refused."""
    path = forged(tmp_path / "forged.backup", members)
    with pytest.raises(Damaged):
        put_back(path, home)
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("x"))
    assert not (home / "swaps.json").exists()


def test_what_the_manifest_does_not_name(tmp_path: Path) -> None:
    """A member beside the manifest, one that it names in vain, and a name that is there twice are refused."""
    member = Member(name="home/global/x", size=1, sha256=sha256(b"x").hexdigest())
    for members in ((), (member, member), (member, Member(name="home/global/y"))):
        path = forged(tmp_path / "forged.backup", [("home/global/x", b"x")], members=members)
        with pytest.raises(Damaged):
            Archive(path, silent)


@pytest.mark.parametrize("content", [b"", b"x" * 2000, b"PK\x03\x04" + b"\0" * 1000])
async def test_a_file_that_is_no_backup(tmp_path: Path, run: Run, content: bytes) -> None:
    """Any other file is said to be none; so is a tar of somebody else, a folder, and nothing at all."""
    other = tmp_path / "other"
    other.write_bytes(content)
    with pytest.raises(BadInput, match="no backup of Halo"):
        await run("verify", other)
    with pytest.raises(BadInput, match="cannot be read"):
        await run("verify", tmp_path / "nothing")
    with pytest.raises(BadInput, match="cannot be read"):
        await run("verify", tmp_path)
    with tarfile.open(other, "w") as tar:
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with pytest.raises(BadInput, match="no backup of Halo"):
        await run("verify", other)


async def test_a_wrong_passphrase(
    saved: Path, home: Path, tmp_path: Path, run: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused by verify and by restore, and nothing is changed; without any, secrets are not restored."""
    before = tree(home), tree(tmp_path / "w")
    with pytest.raises(BadInput, match="take its passphrase"):
        await run("restore", saved)
    monkeypatch.setenv("HALO_BACKUP_PASSPHRASE", "battery staple")
    for words in (("verify", saved, "--secrets"), ("restore", saved)):
        with pytest.raises(BadInput, match="the passphrase is wrong") as refused:
            await run(*words)
        assert "battery" not in str(refused.value) and "nothing was changed" in refused.value.advice
    assert (tree(home), tree(tmp_path / "w")) == before
    monkeypatch.delenv("HALO_BACKUP_PASSPHRASE")
    (tmp_path / "words").write_text("correct horse\n")
    monkeypatch.setenv("HALO_BACKUP_PASSPHRASE_FILE", str(tmp_path / "words"))
    assert await run("verify", saved, "--secrets") == 0
    assert await run("restore", saved) == 0


async def test_a_database_that_is_damaged_inside(tmp_path: Path, kernel: Kernel, make: Any, run: Run) -> None:
    """verify looks into databases: what SQLite finds wrong is said, though all checksums are right."""
    made: Made = await make(kernel, tmp_path / "one.backup")
    assert made.databases == 3
    with Archive(tmp_path / "one.backup", silent) as archive:
        manifest = archive.manifest
        data = {member.name: archive.read(member.name) for member in manifest.members if not member.link}
    name = next(entry.name for entry in manifest.databases if entry.name.endswith("halo.db"))
    broken = bytearray(data[name])
    broken[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    content: list[tuple[str, bytes | str]] = [(each, bytes(broken) if each == name else data[each]) for each in data]
    facts = {each: getattr(manifest, each) for each in ("workspaces", "databases", "whole", "home")}
    forged(tmp_path / "odd.backup", content, **facts)
    with pytest.raises(Damaged, match=r"halo\.db is damaged"):
        await run("verify", tmp_path / "odd.backup")


def test_a_blob_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    """verify compares each blob with its name."""
    from halo_backup.verify import verify

    path = forged(tmp_path / "odd.backup", [(f"workspaces/w1/assets/{'0' * 64}", b"x")])
    with Archive(path, silent) as archive, pytest.raises(Damaged, match="not what its name says"):
        verify(archive, path, "", silent)


NAMES = st.text(alphabet="ab./\\\0é", max_size=12)


@given(st.builds(lambda top, rest: f"{top}/{rest}", st.sampled_from(["home", "workspaces", "x", "", ".."]), NAMES))
def test_a_safe_name_stays_inside(name: str) -> None:
    """Whatever is_safe lets through is a plain path below one of the folders, resolved already."""
    import posixpath

    if is_safe(name):
        assert posixpath.normpath(f"/top/{name}") == f"/top/{name}"
        assert name.split("/")[0] in ("home", "workspaces")
        assert "\0" not in name and "\\" not in name


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    st.lists(st.sampled_from(["..", "a", "b"]), min_size=0, max_size=5),
    st.booleans(),
)
def test_a_link_that_stays_inside(place: list[str], target: list[str], absolute: bool) -> None:
    """A link that is let through resolves to a place below the root, lexically and by its leading `..` alone."""
    import posixpath

    link = "/" * absolute + "/".join(target)
    if not leads_out("/".join(place), link):
        resolved = posixpath.normpath(posixpath.join("/top", *place[:-1], link))
        assert resolved == "/top" or resolved.startswith("/top/")


def test_what_is_sealed_opens_again() -> None:
    """The secrets come out as they went in, with the passphrase alone, and not when a bit of them has changed."""
    files = {"a": b"x", "b/c": b"", "é": bytes(range(256))}
    how, data = seal(files, "correct horse")
    assert unseal(how, data, "correct horse") == files
    for changed in (bytes([data[0] ^ 1]) + data[1:], data[:-1], b""):
        with pytest.raises(BadInput):
            unseal(how, changed, "correct horse")


def test_a_seal_that_would_take_all_memory(tmp_path: Path) -> None:
    """Costs that are not ours are refused before they are paid."""
    how, data = seal({"a": b"x"}, "correct horse")
    with pytest.raises(BadInput, match="not ours"):
        unseal(msgspec.structs.replace(how, n=1 << 30), data, "correct horse")


def test_the_head_is_first_and_small(saved: Path) -> None:
    """Any version can read the format from the first kilobyte, with a plain tar."""
    with tarfile.open(saved) as tar:
        first = tar.next()
        assert first is not None and first.name == HEAD
        file = tar.extractfile(first)
        assert file is not None and msgspec.json.decode(file.read())["format"] == FORMAT
    assert issubclass(Damaged, HaloError)
