"""Large values beside the journal: whole under their names, kept while something names them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halo_kernel import (
    AssistantMessage,
    BlobRef,
    Foreign,
    Kernel,
    NotFound,
    Place,
    StorageUnavailable,
    Text,
    Tx,
    WorkspaceUnusable,
)
from halo_kernel.blobs import _PLACES, KEPT_MS, Blobs, referenced
from halo_kernel.locks import locked
from halo_kernel.records import encode_body, kind_of
from halo_kernel.schema import WORKSPACE
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import until

NOW = time.time_ns() // 1_000_000
DAY = KEPT_MS


def blobs_in(folder: Path) -> Blobs:
    """Return blobs whose workspaces are subfolders by id."""
    return Blobs(lambda workspace: folder / workspace)


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    """The folder of the blobs of the workspace `w`."""
    (tmp_path / "w" / ".halo").mkdir(parents=True)
    return tmp_path / "w" / ".halo" / "assets"


@pytest.fixture
def blobs(assets: Path, tmp_path: Path) -> Blobs:
    return blobs_in(tmp_path)


def names(assets: Path) -> set[str]:
    return {path.name for path in assets.iterdir() if path.name != ".blobs.lock"}


def age(assets: Path, ref: BlobRef, ms: int) -> None:
    """Make a blob look as if it had been put `ms` before NOW."""
    os.utime(assets / ref.sha256, ns=((NOW - ms) * 10**6,) * 2)


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_blob_is_a_file_that_is_named_by_its_content(blobs: Blobs, assets: Path) -> None:
    """It lies under its sha256, its owner may only read it, and its reference says what it is."""
    ref = await blobs.put("w", b"hello", media_type="text/plain")
    digest = hashlib.sha256(b"hello").hexdigest()
    assert ref == BlobRef(uri=f"blob:{digest}", size=5, media_type="text/plain")
    assert ref.sha256 == digest
    assert names(assets) == {digest}
    assert stat.S_IMODE((assets / digest).stat().st_mode) == 0o400
    assert await blobs.get("w", ref.uri) == b"hello"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8))
@example([])
async def test_chunks_and_bytes_are_one_value(chunks: list[bytes]) -> None:
    """However a value comes, it gets one name, and comes back as it was."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "w" / ".halo").mkdir(parents=True)
        blobs = blobs_in(Path(folder))
        ref = await blobs.put("w", pieces(*chunks), media_type="x/y")
        assert ref == await blobs.put("w", b"".join(chunks), media_type="x/y")
        assert await blobs.get("w", ref.uri) == b"".join(chunks)
        assert names(Path(folder) / "w" / ".halo" / "assets") == {ref.sha256}


async def test_a_source_that_fails_leaves_nothing(blobs: Blobs, assets: Path) -> None:
    """Half a value has no name."""

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        await blobs.put("w", broken(), media_type="x/y")
    assert not assets.exists() or names(assets) == set()


@pytest.mark.parametrize("uri", ["", "blob:", "blob:../../secret", f"blob:{'A' * 64}", "a" * 64, f"blob:{'a' * 64}"])
async def test_what_is_no_blob_is_not_found(blobs: Blobs, uri: str) -> None:
    """A reference of another form, or to nothing, is one clear error."""
    with pytest.raises(NotFound, match="blob"):
        await blobs.get("w", uri)


@pytest.mark.parametrize("how", ["changed", "shorter", "folder", "pipe", "dangling"])
async def test_a_damaged_blob_is_never_handed_out(blobs: Blobs, assets: Path, how: str) -> None:
    """What no longer has its hash is refused, whatever it has become; putting the value again repairs it."""
    ref = await blobs.put("w", b"hello", media_type="x/y")
    path = assets / ref.sha256
    path.unlink()
    match how:
        case "changed":
            path.write_bytes(b"hallo")
        case "shorter":
            path.write_bytes(b"hell")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to("nowhere")
    with pytest.raises(NotFound, match="missing or damaged"):
        await blobs.get("w", ref.uri)
    if how != "folder":
        await blobs.put("w", b"hello", media_type="x/y")
        assert await blobs.get("w", ref.uri) == b"hello"


async def test_a_linked_folder_is_refused(blobs: Blobs, assets: Path, tmp_path: Path) -> None:
    """A link in the folder's place leads nowhere: nothing is written, read or removed behind it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    name = hashlib.sha256(b"theirs").hexdigest()
    (outside / name).write_bytes(b"theirs")
    os.utime(outside / name, (0, 0))
    assets.symlink_to(outside)
    with pytest.raises(WorkspaceUnusable, match="link"):
        await blobs.put("w", b"hello", media_type="x/y")
    with pytest.raises(WorkspaceUnusable, match="link"):
        await blobs.get("w", f"blob:{name}")
    with pytest.raises(WorkspaceUnusable, match="link"):
        await blobs.collect("w", set(), NOW)
    with pytest.raises(WorkspaceUnusable, match="link"), blobs.hold("w"):
        pass
    assert names(outside) == {name}


async def test_an_open_database_under_a_blob_s_name_is_not_opened(blobs: Blobs, assets: Path) -> None:
    """A hard link to our database is not read: closing it would drop the database's locks."""
    database = await SqliteStorage().open(Place(name="halo", scope="workspace", directory=assets.parent), WORKSPACE)
    await blobs.put("w", b"", media_type="x/y")  # makes the folder
    name = "a" * 64
    os.link(assets.parent / "halo.db", assets / name)
    opened: set[str] = set()
    watching = [opened.add]

    def watch(event: str, args: tuple[object, ...]) -> None:  # it stays for the life of the process
        if event == "open" and watching:
            watching[0](str(args[0]))

    sys.addaudithook(watch)
    with pytest.raises(NotFound):
        await blobs.get("w", f"blob:{name}")
    ref = await blobs.put("w", b"x", media_type="x/y")
    await blobs.get("w", ref.uri)
    watching.clear()
    assert str(assets / ref.sha256) in opened
    assert str(assets / name) not in opened
    await database.close()


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let this process write files of at most `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 5000, 99_999])
async def test_a_write_that_fails_leaves_nothing(blobs: Blobs, assets: Path, room: int) -> None:
    """When a file cannot be finished, there is neither a blob nor a draft, and the next put works."""
    kept = await blobs.put("w", b"kept", media_type="x/y")
    with room_for(room), pytest.raises(StorageUnavailable, match="assets"):
        await blobs.put("w", b"x" * 100_000, media_type="x/y")
    assert names(assets) == {kept.sha256}
    assert await blobs.put("w", b"x" * 100_000, media_type="x/y")


FILL = """
import asyncio, os, subprocess, sys
from pathlib import Path
from halo_kernel import StorageUnavailable
from halo_kernel.blobs import Blobs
root = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", root], check=True)
(root / "w" / ".halo").mkdir(parents=True)
blobs, kept = Blobs(lambda workspace: root / workspace), []
async def main():
    try:
        for number in range(100):
            kept.append((await blobs.put("w", bytes([number]) * 50_000, media_type="x/y")).uri)
    except StorageUnavailable as error:
        assert "No space left" in error.message, error.message
    assert 5 < len(kept) < 100
    for number, uri in enumerate(kept):
        assert await blobs.get("w", uri) == bytes([number]) * 50_000
    assert len(os.listdir(root / "w" / ".halo" / "assets")) == len(kept) + 1
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk of Linux")
@pytest.mark.needs("unshare")
def test_a_full_disk_costs_nothing_that_was_put(tmp_path: Path) -> None:
    """On a real disk of 1 MB the put that no longer fits fails, leaves nothing, and the others stay readable."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a disk of his own")
    done = subprocess.run([*alone, sys.executable, "-c", FILL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


POUR = """
import asyncio, os, random, sys
from pathlib import Path
from halo_kernel.blobs import Blobs
blobs = Blobs(lambda workspace: Path(sys.argv[1]) / workspace)
async def pour():
    while True:
        data = os.urandom(8) * random.choice([1, 100, 50_000])
        print((await blobs.put("w", data, media_type="x/y")).uri, flush=True)
async def main():
    await asyncio.gather(*(pour() for _ in range(4)))
asyncio.run(main())
"""


async def test_kill_9_leaves_no_half_blob(blobs: Blobs, assets: Path, tmp_path: Path) -> None:
    """After a kill at any moment, what was acknowledged is whole, and so is whatever has a blob's name."""
    acknowledged: set[str] = set()
    for _ in range(3):
        peer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", POUR, tmp_path, stdout=subprocess.PIPE, limit=1 << 20
        )
        assert peer.stdout is not None
        said = [await peer.stdout.readline() for _ in range(8)]
        await asyncio.sleep(random.uniform(0, 0.15))
        peer.send_signal(signal.SIGKILL)
        said += [line async for line in peer.stdout]
        await peer.wait()
        acknowledged |= {line.decode().strip() for line in said if line.endswith(b"\n")}
    assert len(acknowledged) >= 20
    whole = {name for name in names(assets) if re.fullmatch(r"[0-9a-f]{64}", name)}
    assert acknowledged <= {f"blob:{name}" for name in whole}
    for name in whole:
        assert hashlib.sha256(await blobs.get("w", f"blob:{name}")).hexdigest() == name
    drafts = names(assets) - whole
    assert await blobs.collect("w", whole, NOW * 2) == len(drafts)
    assert names(assets) == whole


async def test_what_nothing_names_goes_after_a_day(blobs: Blobs, assets: Path) -> None:
    """A blob stays for 24 hours, for as long as it is named, and from the day it was put again; strangers stay."""
    old, named, young, again = [await blobs.put("w", bytes([each]), media_type="x/y") for each in range(4)]
    for ref in (old, named, again):
        age(assets, ref, DAY + 1)
    age(assets, young, DAY - 1000)
    (assets / "notes.txt").write_text("a person's own")
    os.utime(assets / "notes.txt", (0, 0))
    assert await blobs.put("w", bytes([3]), media_type="x/y") == again
    assert await blobs.collect("w", {named.sha256}, NOW) == 1
    assert names(assets) == {named.sha256, young.sha256, again.sha256, "notes.txt"}
    assert await blobs.collect("w", {named.sha256}, NOW) == 0


async def test_what_was_erased_goes_at_once(blobs: Blobs, assets: Path) -> None:
    """An erased blob does not wait, unless something else names it."""
    first, second, third = [await blobs.put("w", bytes([each]), media_type="x/y") for each in range(3)]
    erased = {first.sha256, second.sha256}
    assert await blobs.collect("w", {second.sha256}, NOW, erased=erased) == 1
    assert names(assets) == {second.sha256, third.sha256}


HOLD = """
import sys
from pathlib import Path
from halo_kernel.blobs import Blobs
with Blobs(lambda workspace: Path(sys.argv[1]) / workspace).hold("w"):
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_nothing_goes_during_a_backup(blobs: Blobs, assets: Path, tmp_path: Path) -> None:
    """While any process holds the blobs, a collection removes none and puts go on; a holder's death frees them."""
    ref = await blobs.put("w", b"old", media_type="x/y")
    age(assets, ref, 2 * DAY)
    with blobs.hold("w"), blobs.hold("w"):
        assert await blobs.collect("w", set(), NOW) == 0
        new = await blobs.put("w", b"new", media_type="x/y")
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    assert await blobs.collect("w", set(), NOW, erased={new.sha256}) == 0
    holder.kill()
    await holder.wait()
    assert await blobs.collect("w", set(), NOW, erased={new.sha256}) == 2
    assert names(assets) == set()


async def test_a_put_waits_for_a_collection(blobs: Blobs, assets: Path) -> None:
    """A value is not put while its old file is being collected, so that the new one cannot go with it."""
    ref = await blobs.put("w", b"again", media_type="x/y")
    with locked(assets / ".blobs.lock"):
        put = asyncio.create_task(blobs.put("w", b"again", media_type="x/y"))
        done, _ = await asyncio.wait({put}, timeout=0.1)
        assert not done
        (assets / ref.sha256).unlink()
    assert await put == ref
    assert await blobs.get("w", ref.uri) == b"again"


HASH = st.binary(min_size=32, max_size=32).map(bytes.hex)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def events(draw: st.DrawFn) -> tuple[str, set[str]]:
    """Draw an event's body as it is stored, of ours or of a plugin, and the hashes that it names."""
    hashes = draw(st.lists(HASH, max_size=3))
    uris = [f"blob:{each}" for each in hashes]
    text = draw(st.text(max_size=5)) + draw(st.sampled_from(["", "\b", "\f", "\n", '"', "é", "\\"])).join(uris)
    if draw(st.booleans()):
        body: AssistantMessage | Foreign = AssistantMessage(reply="r", content=(Text(text),), stop="end", model="m")
    else:
        refs = [msgspec.to_builtins(BlobRef(uri=uri, size=1, media_type="x/y")) for uri in uris]
        data = {"x": draw(JSON), **dict.fromkeys(uris[:1], 1), "deep": [{"refs": refs}]}
        body = Foreign(kind="plugin.noun", data=data)
    assert kind_of(body)
    return encode_body(body), set(hashes)


@settings(max_examples=30, deadline=None)
@given(st.lists(events(), max_size=6), st.lists(HASH, max_size=2), st.text(max_size=20))
async def test_references_are_found_wherever_they_stand(
    journal: list[tuple[str, set[str]]], waiting: list[str], noise: str
) -> None:
    """Every `blob:<sha256>` in an event of any kind, a waiting input or an undelivered part is found, and no other."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(name="halo", scope="workspace", directory=Path(folder))
        database = await SqliteStorage().open(place, WORKSPACE)
        rows = [*(body for body, _ in journal), json.dumps({"text": f"{noise} blob:{'A' * 64} blob:12 {'b' * 64}"})]

        def write(tx: object) -> None:
            for seq, body in enumerate(rows):
                tx.execute(  # type: ignore[attr-defined]
                    "INSERT INTO events(session, seq, at, kind, turn, body) VALUES ('s', ?, 0, 'odd.kind', '', ?)",
                    (seq, body),
                )
            for number, each in enumerate(waiting):
                tx.execute(  # type: ignore[attr-defined]
                    "INSERT INTO parts(delivery, number, text) VALUES (?, 0, ?)", (number, f"see blob:{each}")
                )

        await database.write(write)
        found = await database.read(referenced)
        await database.close()
    assert found == set().union(*(hashes for _, hashes in journal), waiting)


# Columns of text that no blob can be named in: ids, kinds, states, names and what others derive from.
ELSEWHERE = {
    "sessions": {"*"},
    "events": {"session", "kind", "turn"},
    "partials": {"session", "turn", "reply"},
    "inbox": {"session", "key", "mode", "access", "principal", "principal_kind", "route", "cause", "state", "turn"},
    "outbox": {"key", "dispatcher", "target", "debt", "reason", "session"},
    "parts": {"state", "sent_id", "error"},
    "plugin_state": {"session", "plugin"},
    "questions": {"session", "turn", "asker", "call", "tool", "options", "access", "state", "answered_by"},
    "snapshots": {"*"},
    "runs": {"*"},
    "chats": {"*"},
    "meta": {"*"},
}


async def test_every_column_of_text_is_looked_at_or_is_known_to_name_none(tmp_path: Path) -> None:
    """Whoever adds a column of text to a workspace's tables decides whether a blob may be named there."""
    database = await SqliteStorage().open(Place(name="halo", scope="workspace", directory=tmp_path), WORKSPACE)

    def columns(tx: Tx) -> dict[str, set[str]]:
        names = [name for (name,) in tx.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = {name: list(tx.execute(f"PRAGMA table_info({name})")) for name in names}
        return {name: {row[1] for row in rows if row[2] == "TEXT"} for name, rows in found.items()}

    unknown = {
        f"{table}.{column}"
        for table, found in (await database.read(columns)).items()
        if not table.startswith(("sqlite_", "lease", "member", "schema", "halo_"))
        for column in found - ELSEWHERE.get(table, set())
        if "*" not in ELSEWHERE.get(table, set()) and column not in _PLACES.get(table, "").split(" || ")
    }
    await database.close()
    assert unknown == set()


@pytest.mark.parametrize("embedded", [True, False])
async def test_a_server_collects_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: bool) -> None:
    """A blob of yesterday that no row names goes, a named one stays; a kernel for one command collects none."""
    monkeypatch.setattr("halo_kernel.blobs.SOON_SECONDS", 0.05)
    kernel = await Kernel.start(tmp_path / "home", embedded=embedded, discover=False, env={})
    folder = tmp_path / "w"
    folder.mkdir()
    workspace = await kernel.host.workspaces.open(folder)
    assets = folder / ".halo" / "assets"
    named, nameless = [await kernel.host.blobs.put(workspace.id, each, media_type="x/y") for each in (b"1", b"2")]
    age(assets, named, 2 * DAY)
    age(assets, nameless, 2 * DAY)
    partial = "INSERT INTO partials(session, turn, reply, text) VALUES ('s', 't', 'r', ?)"
    database = kernel.workspaces.seats[workspace.id].database
    await database.write(lambda tx: tx.execute(partial, (named.uri,)))
    if embedded:
        await asyncio.sleep(0.2)
        assert names(assets) == {named.sha256, nameless.sha256}
    else:
        await until(lambda: nameless.sha256 not in names(assets))
        assert names(assets) == {named.sha256}
    await kernel.close()
