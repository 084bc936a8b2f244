"""What is saved comes back: everything, in its place, and the home goes on with it."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from halo_backup.create import Made
from halo_backup.restore import Restored
from halo_kernel import BadInput, Conflict, HaloError, Incoming, Kernel, NotFound, ServerRunning, ServerSettings
from halo_kernel.testing import Hang, Postbox, ScriptedModel, a_session, running_kernel, until

Make = Callable[..., Awaitable[Made]]
PutBack = Callable[..., Restored]
Said = Callable[[Path, Path], Awaitable[list[str]]]
Run = Callable[..., Awaitable[int]]


async def test_every_acknowledged_message_is_in_a_backup_of_a_writing_server(
    home: Path, tmp_path: Path, serve: Any, run: Run, said: Said
) -> None:
    """While a real server takes messages, a backup has each that was acknowledged before it was begun, and is whole."""
    server, folder = serve(), tmp_path / "w"
    folder.mkdir()
    before = [f"before {number}" for number in range(30)]
    for key in before:
        await asyncio.to_thread(server.say, folder, key)
    later: list[str] = []
    over = asyncio.Event()

    async def go_on(name: str) -> None:
        number = 0
        while not over.is_set():
            number += 1
            await asyncio.to_thread(server.say, folder, f"{name} {number}")
            later.append(f"{name} {number}")

    writers = [asyncio.create_task(go_on(name)) for name in ("a", "b")]
    await until(lambda: len(later) > 5, 20)
    sure = [*before, *later]
    assert await run("create", tmp_path / "one.backup") == 0
    at_end = len(later)
    over.set()
    await asyncio.gather(*writers)
    assert at_end > 5, "nothing was written meanwhile"
    server.end()
    assert await run("verify", tmp_path / "one.backup") == 0

    assert await run("restore", tmp_path / "one.backup", "--map", f"{folder}={tmp_path / 'w2'}") == 0
    assert set(sure) <= set(await said(home, tmp_path / "w2"))


async def test_a_whole_home_comes_back_in_another_place(
    kernel: Kernel, tmp_path: Path, make: Make, put_back: PutBack, said: Said
) -> None:
    """Sessions, blobs, files with their modes, inner links, plugins' databases, settings and secrets are there."""
    made = await make(kernel, tmp_path / "one.backup", passphrase="correct horse")
    assert made.size == (tmp_path / "one.backup").stat().st_size
    assert stat.S_IMODE((tmp_path / "one.backup").stat().st_mode) == 0o600
    assert b"s3cr3t" not in (tmp_path / "one.backup").read_bytes()
    there = tmp_path / "h2"
    done = put_back(
        tmp_path / "one.backup", there, moves={tmp_path: tmp_path / "elsewhere"}, passphrase="correct horse"
    )
    folder = tmp_path / "elsewhere" / "w"
    assert done.workspaces == (str(folder),) and done.secrets and done.kept == ()
    assert (folder / ".halo" / "skills" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / ".halo" / "skills" / "again.json").readlink() == Path("server.json")
    assert (folder / ".halo" / "skills" / "uv.lock").read_text() == "locked"
    assert not (folder / "mine.txt").exists()
    assert (there / "global" / "agents" / "me.yaml").read_text() == "id: me\n"
    assert (there / "secrets").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in (there / "secrets").rglob("*") if path.is_file())
    texts = await said(there, folder)
    assert texts[0] == "first"
    async with running_kernel(there) as again:
        assert again.host.settings.of(ServerSettings).port == 1234
        assert again.host.seen_by("backup").secrets.get("key") is not None
        (info,) = await again.host.workspaces.list()
        assert info.path == str(folder)
        await again.host.workspaces.get(info.id)
        assert len(await again.host.blobs.get(info.id, texts[1].removeprefix("second, see "))) == 30_000
    assert rows(there / "global" / "notes.db", "SELECT text FROM notes") == [("noted",)]


async def test_a_home_goes_back_and_keeps_what_it_had(
    home: Path, saved: Path, tmp_path: Path, put_back: PutBack, said: Said
) -> None:
    """What a restore replaces is kept beside, databases included, and its place is told."""
    async with running_kernel(home) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="after the backup")).result
    (tmp_path / "w" / ".halo" / "skills" / "later").write_text("later")
    done = put_back(saved, home, passphrase="correct horse")
    assert len(done.kept) == 3
    assert "after the backup" not in await said(home, tmp_path / "w")
    assert not (tmp_path / "w" / ".halo" / "skills" / "later").exists()
    (kept,) = [Path(folder) for folder in done.kept if ".halo" in folder]
    assert (kept / "skills" / "later").read_text() == "later"
    found = rows(kept / "halo.db", "SELECT text FROM inbox ORDER BY id")
    assert found[-1] == ("after the backup",)
    again = put_back(saved, home, passphrase="correct horse")
    assert not set(again.kept) & set(done.kept) and all(Path(folder).exists() for folder in done.kept)


async def test_without_secrets_there_are_none(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack
) -> None:
    """Secrets come along on request alone; a restore without leaves those of the home."""
    (home / "secrets" / "settings.yaml").write_text("server:\n  port: 1234\n  password: scrypt-or-whatever-it-is\n")
    made = await make(kernel, tmp_path / "plain.backup")
    data = (tmp_path / "plain.backup").read_bytes()
    assert b"scrypt-or" not in data and b"s3cr3t" not in data
    assert any("secret" in each for each in made.left_out)
    put_back(tmp_path / "plain.backup", tmp_path / "h2", moves={tmp_path / "w": tmp_path / "w2"})
    assert not (tmp_path / "h2" / "secrets" / "backup.secrets").exists()
    assert "1234" in (tmp_path / "h2" / "secrets" / "settings.yaml").read_text()
    await kernel.close()
    before = (home / "secrets" / "settings.yaml").read_bytes()
    assert not put_back(tmp_path / "plain.backup", home).secrets
    assert (home / "secrets" / "settings.yaml").read_bytes() == before
    assert (home / "secrets" / "backup.secrets").exists()


async def test_one_workspace_comes_back_alone(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack, said: Said
) -> None:
    """A workspace's backup has that one; beside its living original it becomes one of its own."""
    await a_session(kernel, tmp_path / "other")
    made = await make(kernel, tmp_path / "w.backup", workspace=str(tmp_path / "w"))
    assert (made.workspaces, made.databases) == (1, 1)
    await kernel.close()
    put_back(tmp_path / "w.backup", home, folder=tmp_path / "copy")
    put_back(tmp_path / "w.backup", home)
    assert (await said(home, tmp_path / "copy"))[0] == (await said(home, tmp_path / "w"))[0] == "first"
    async with running_kernel(home) as again:
        paths = {info.path: info.id for info in await again.host.workspaces.list()}
    assert len(set(paths.values())) == len(paths) == 3


async def test_a_restored_journal_is_another_one(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack
) -> None:
    """A cursor from before a restore is gone: it may be of what came after the backup."""
    await make(kernel, tmp_path / "one.backup")
    before = rows(tmp_path / "w" / ".halo" / "halo.db", "SELECT journal FROM sessions")
    await kernel.close()
    put_back(tmp_path / "one.backup", home)
    after = rows(tmp_path / "w" / ".halo" / "halo.db", "SELECT journal FROM sessions")
    assert len(after) == len(before) == 1 and after != before


async def test_what_waited_goes_on(home: Path, tmp_path: Path, make: Make, put_back: PutBack) -> None:
    """A message whose answer was being made, and one that waited, are answered after the restore."""
    async with running_kernel(home, model=ScriptedModel([Hang("it begins")])) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="cut in the middle"))
        await until(lambda: session.info.state == "running")
        await session.submit(Incoming(text="queued", mode="follow_up"))
        await make(kernel, tmp_path / "one.backup")
    put_back(tmp_path / "one.backup", tmp_path / "h2", moves={tmp_path / "w": tmp_path / "w2"})
    model = ScriptedModel()
    async with running_kernel(tmp_path / "h2", model=model) as kernel:
        await until(lambda: any("queued" in str(request) for request in model.requests))
        await until(lambda: not model.active)


@pytest.mark.parametrize(
    ("guarantee", "state", "again"), [("keyed", "sent", 1), ("queryable", "sent", 0), ("none", "uncertain", 0)]
)
async def test_what_was_owed_is_not_sent_twice(
    home: Path, tmp_path: Path, make: Make, put_back: PutBack, guarantee: Any, state: str, again: int
) -> None:
    """What was sent after the backup arrives once: with its key, or it is looked for; else it is shown as uncertain.

    A copy beside the living original owes nothing at all.
    """
    owing, gate = Incoming(text="owed", route="post:me:here"), asyncio.Event()
    slow = Postbox(guarantee=guarantee, before=lambda part: gate.wait(), file=tmp_path / "arrived")
    async with running_kernel(home, extra={"post": slow}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(owing).result
        await until(lambda: slow.attempts)
        await make(kernel, tmp_path / "one.backup")
        await make(kernel, tmp_path / "w.backup", workspace=str(tmp_path / "w"))
        gate.set()
        await until(lambda: slow.arrived)
        await _settled(kernel, tmp_path / "w")
    put_back(tmp_path / "one.backup", home)
    post = Postbox(guarantee=guarantee, file=tmp_path / "arrived")
    async with running_kernel(home, extra={"post": post}) as kernel:
        assert await _settled(kernel, tmp_path / "w") == [state]
    assert (len(post.attempts), len(post.arrived)) == (again, 1)
    put_back(tmp_path / "w.backup", home, folder=tmp_path / "copy")
    async with running_kernel(home, extra={"post": post}) as kernel:
        assert await _settled(kernel, tmp_path / "copy") == ["failed"]
    assert len(post.arrived) == 1


async def _settled(kernel: Kernel, folder: Path) -> list[str]:
    """Return the states of all that is owed in a workspace once nothing is on its way."""
    workspace = (await kernel.host.workspaces.open(folder)).id
    for _ in range(500):
        if not await kernel.host.outbox.list(workspace=workspace, unsettled=True):
            break
        await asyncio.sleep(0.02)
    return [part.state for each in await kernel.host.outbox.list(workspace=workspace) for part in each.parts]


async def test_a_home_that_is_served_is_not_restored(
    home: Path, saved: Path, serve: Any, run: Run, tree: Callable[[Path], object], tmp_path: Path
) -> None:
    """While a server holds the home, restore refuses, and changes nothing."""
    server = serve()
    before = tree(tmp_path / "w"), tree(home / "secrets")
    with pytest.raises(ServerRunning, match="a server of the home"):
        await run("restore", saved, "--no-secrets")
    assert (tree(tmp_path / "w"), tree(home / "secrets")) == before
    server.end()
    assert await run("restore", saved, "--no-secrets") == 0


async def test_a_database_in_use_is_not_restored(
    home: Path, saved: Path, serve: Any, tree: Callable[[Path], object], tmp_path: Path, put_back: PutBack
) -> None:
    """Where another home's server has the workspace open, restore refuses before it changes anything."""
    server = serve()
    await asyncio.to_thread(server.say, tmp_path / "w", "it is mine")
    before = tree(tmp_path / "w" / ".halo" / "skills")
    with pytest.raises(Conflict, match="in use by another process"):
        put_back(saved, tmp_path / "h2")
    assert tree(tmp_path / "w" / ".halo" / "skills") == before
    assert not (tmp_path / "w" / ".halo" / ".replaced").exists()
    assert not (tmp_path / "h2" / "global" / "kernel.db").exists()
    await asyncio.to_thread(server.say, tmp_path / "w", "it still is")


async def test_two_processes_write_while_it_is_made(
    home: Path, tmp_path: Path, serve: Any, make: Make, put_back: PutBack, said: Said
) -> None:
    """A server and a second kernel write to the same workspace; a backup by the second has what both acknowledged."""
    server = serve()
    folder = tmp_path / "w"
    folder.mkdir()
    await asyncio.to_thread(server.say, folder, "by the server")
    async with running_kernel(home, recover=False) as kernel:
        session = await a_session(kernel, folder)
        await session.prompt(Incoming(text="by the other")).result
        writing = asyncio.create_task(_say_many(server, folder))
        await make(kernel, tmp_path / "one.backup")
        await writing
    server.end()
    put_back(tmp_path / "one.backup", tmp_path / "h2", moves={folder: tmp_path / "w2"})
    assert {"by the server", "by the other"} <= set(await said(tmp_path / "h2", tmp_path / "w2"))


async def _say_many(server: Any, folder: Path) -> None:
    for number in range(10):
        await asyncio.to_thread(server.say, folder, f"meanwhile {number}")


async def test_one_at_a_time(kernel: Kernel, tmp_path: Path, make: Make) -> None:
    """Of two backups of a home that are begun together, one is refused, and leaves nothing."""
    paths = [tmp_path / "1.backup", tmp_path / "2.backup"]
    done = await asyncio.gather(*(make(kernel, path) for path in paths), return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["Conflict", "Made"]
    assert isinstance(next(each for each in done if isinstance(each, Exception)), Conflict)
    assert sum(path.exists() for path in paths) == 1
    assert not list(tmp_path.glob(".halo-*"))


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"path": "relative.backup"}, "path"),
        ({"path": "{}/nowhere/one.backup"}, "path"),
        ({"path": "{}/home/global/one.backup"}, "path"),
        ({"path": "{}/w/.halo/one.backup"}, "path"),
        ({"path": "{}/w/mine.txt"}, "path"),
        ({"path": "{}/one.backup", "passphrase": "short"}, "passphrase"),
        ({"path": "{}/one.backup", "workspace": "{}/w", "passphrase": "correct horse"}, "passphrase"),
        ({"path": "{}/one.backup", "workspace": "{}/home/global"}, "workspace"),
    ],
)
async def test_a_wish_that_cannot_be(
    kernel: Kernel, tmp_path: Path, make: Make, wish: dict[str, str], field: str
) -> None:
    """Each is refused by the field that is wrong, and nothing is written."""
    given = {name: text.format(tmp_path) for name, text in wish.items()}
    path = Path(given.pop("path"))
    before = (tmp_path / "w" / "mine.txt").read_text()
    with pytest.raises(BadInput) as refused:
        await make(kernel, path, **given)
    assert refused.value.field == field
    assert (tmp_path / "w" / "mine.txt").read_text() == before
    assert not list(tmp_path.rglob("*.backup"))


async def test_a_folder_that_cannot_be_made(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack
) -> None:
    """A workspace whose folder is not to be had here is named, with what to do, and nothing is changed."""
    await make(kernel, tmp_path / "one.backup")
    await kernel.close()
    with pytest.raises(HaloError, match="cannot be made or used") as refused:
        put_back(tmp_path / "one.backup", home, moves={tmp_path / "w": Path("/proc/nowhere")})
    assert "--map" in refused.value.advice
    assert not (home / "global" / ".replaced").exists() and not (home / "swaps.json").exists()


async def test_a_workspace_comes_to_one_place(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack
) -> None:
    """Where a map would bring two workspaces to one folder, or one among Halo's own files, it is refused."""
    await a_session(kernel, tmp_path / "other")
    await make(kernel, tmp_path / "one.backup")
    await kernel.close()
    both = {tmp_path / "w": tmp_path / "x", tmp_path / "other": tmp_path / "x"}
    for moves in (both, {tmp_path / "w": home / "global" / "w"}):
        with pytest.raises(BadInput) as refused:
            put_back(tmp_path / "one.backup", home, moves=moves)
        assert refused.value.field == "map"
    with pytest.raises(BadInput, match="where no workspace of this backup was") as refused:
        put_back(tmp_path / "one.backup", home, moves={tmp_path / "typo": tmp_path / "x"})
    assert refused.value.field == "map" and not (tmp_path / "x").exists()
    with pytest.raises(BadInput, match="whole home"):
        put_back(tmp_path / "one.backup", home, folder=tmp_path / "x")


async def test_a_workspace_comes_back_by_any_way_to_its_place(
    kernel: Kernel, home: Path, tmp_path: Path, make: Make, put_back: PutBack
) -> None:
    """Where the place is named with `..` or behind a link, the workspace is opened there by every way."""
    await a_session(kernel, tmp_path / "w")
    await make(kernel, tmp_path / "one.backup", workspace=str(tmp_path / "w"))
    await kernel.close()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    put_back(tmp_path / "one.backup", home, folder=tmp_path / "real" / ".." / "link" / "back")
    async with running_kernel(home) as again:
        one = await again.host.workspaces.open(tmp_path / "link" / "back")
        assert (await again.host.workspaces.open(tmp_path / "real" / "back")).id == one.id
    assert not (tmp_path / "x").exists()


async def test_what_cannot_be_saved_is_named(kernel: Kernel, tmp_path: Path, make: Make, put_back: PutBack) -> None:
    """A link that leads elsewhere, a workspace that is gone and a missing blob are left out, by name."""
    (tmp_path / "w" / ".halo" / "skills" / "out").symlink_to("/etc")
    (tmp_path / "w" / ".halo" / "skills" / "odd\\name").write_text("odd")
    (tmp_path / "w" / ".halo" / "Skills").symlink_to("skills")
    os.mkfifo(tmp_path / "w" / ".halo" / "skills" / "pipe")
    await a_session(kernel, tmp_path / "gone")
    seat = kernel.workspaces.seats.popitem()
    assert seat[1].workspace.path == str(tmp_path / "gone")
    kernel.workspaces._opening.clear()
    (tmp_path / "gone").rename(tmp_path / "moved away")
    for blob in (tmp_path / "w" / ".halo" / "assets").glob("?" * 64):
        blob.unlink()
    made = await make(kernel, tmp_path / "one.backup")
    said = "\n".join(made.left_out)
    assert "skills/out is a link that leads elsewhere" in said
    assert f"the workspace {tmp_path / 'gone'}" in said
    assert "odd\\name has a name" in said and "pipe is no file" in said
    assert "large values that" in said
    assert made.workspaces == 1
    put_back(tmp_path / "one.backup", tmp_path / "h2", moves={tmp_path / "w": tmp_path / "w2"})
    assert (tmp_path / "w2" / ".halo" / "Skills").readlink() == Path("skills")


async def test_json_for_programs(kernel: Kernel, home: Path, tmp_path: Path, run: Run, capsys: Any, make: Make) -> None:
    """Each command prints one JSON value with `--json`."""
    await make(kernel, tmp_path / "one.backup")
    await kernel.close()
    assert await run("create", tmp_path / "two.backup", "--json") == 0
    assert json.loads(capsys.readouterr().out)["workspaces"] == 1
    assert await run("verify", tmp_path / "one.backup", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["whole"], found["secrets"]) == (1, True, "none")
    assert await run("restore", tmp_path / "one.backup", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["kept"]) == 2


async def test_an_unknown_backup_is_not_found(kernel: Kernel, tmp_path: Path) -> None:
    """The routes say so of one that is not known."""
    import httpx

    from halo_kernel.testing import front

    face = front(kernel)
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(face.app), base_url="http://localhost:9527", headers=face.headers
    )
    async with client:
        assert (await client.get("/api/backups/none")).json()["type"] == NotFound.__name__
        begun = await client.post("/api/backups", json={"path": str(tmp_path / "one.backup")})
        assert begun.status_code == 202
        one = f"/api/backups/{begun.json()['id']}"
        for _ in range(500):
            state = (await client.get(one)).json()
            if state["state"] != "running":
                break
            await asyncio.sleep(0.02)
        assert state["state"] == "done" and state["made"]["path"] == str(tmp_path / "one.backup")
        assert state["done"] == state["total"] > 0
        refused = await client.post("/api/backups", json={"path": str(tmp_path / "one.backup")})
        assert (refused.status_code, refused.json()["field"]) == (400, "path")
        odd = await client.post("/api/backups", json={"path": "x", "more": 1})
        assert odd.status_code == 400


def rows(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
