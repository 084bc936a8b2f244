"""The index is derived: it follows the sessions, forgets what was erased, and is made anew at any time."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from halo_kernel import OPERATOR, Event, InputAdded, Principal, Session
from halo_kernel.testing import CrashPoints, Workbench, journal, running_kernel
from halo_search import entries, index, searching, upkeep

from .conftest import Desk, desk_of

SECRET = "geheimnis"


def holds(halo: Workbench, word: str) -> bool:
    """Tell whether the index's files hold a word; another process reads them, as ours has them open."""
    files = [str(path) for path in (halo.folder / ".halo").glob("search.db*")]
    return subprocess.run(["grep", "-qs", "--binary-files=text", "-e", word, *files], check=False).returncode == 0


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Return once `check` is true, within 10 s."""
    for _ in range(200):
        if await check():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come to pass")


async def rebuilt(desk: Desk) -> None:
    """Make the index anew, to the end."""
    reply = await desk.client.post("/search/index")
    assert (reply.status_code, reply.json()["busy"]) == (202, True)
    done = {"indexed": 1.0, "busy": False}

    async def is_done() -> bool:
        return bool((await desk.client.get("/search/index")).json() == done)

    await eventually(is_done)


async def erase(desk: Desk, session: Session, turn: int) -> None:
    """Erase a session's turn, the first one being 0."""
    events = await journal(session)
    names = list(dict.fromkeys(event.turn for event in events if event.turn))
    seqs = [event.seq for event in events if event.turn == names[turn]]
    where = {"workspace": session.info.workspace, "principal": OPERATOR}
    await desk.kernel.host.sessions.erase(session.info.id, **where, start=seqs[0], end=seqs[-1])


async def test_the_index_follows_without_being_asked(desk: Desk) -> None:
    """Some time after a turn what was said in it is indexed."""
    await desk.say(SECRET)
    await eventually(lambda: asyncio.to_thread(holds, desk.bench, SECRET))


async def test_a_search_does_not_wait_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While much is not indexed yet a search answers with what is, and says so; later it finds all."""
    await desk.say("needle")
    with monkeypatch.context() as patch:
        patch.setattr(searching, "_PATIENCE", 0)
        assert await desk.search("needle") == {"hits": [], "next": None, "complete": False, "indexed": 0.0}
    assert await desk.texts("needle") == ["needle"]


async def test_an_index_made_anew_finds_the_same(desk: Desk) -> None:
    """An index that was made bit by bit, with titles and erasures, finds what one that is made from nothing does."""
    first = await desk.say("needle one", "needle two", "needle three")
    await desk.search("needle")
    await erase(desk, first, 1)
    await desk.say("needle four", principal=Principal(name="anna", kind="person", access="full"))
    await desk.say("needle five")
    before = await desk.search("needle")
    await rebuilt(desk)
    assert await desk.search("needle") == before and len(before["hits"]) == 8


async def test_an_index_that_is_gone_is_made_anew(desk: Desk, halo: Workbench) -> None:
    """Who removes the index's files while nothing runs finds the same afterwards."""
    await desk.say("needle")
    before = await desk.search("needle")
    await halo.close()
    for path in (halo.folder / ".halo").glob("search.db*"):
        path.unlink()
    async with desk_of(halo) as again:
        assert await again.search("needle") == before and len(before["hits"]) == 3


async def test_another_edition_makes_the_index_anew(
    desk: Desk, halo: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that was made by another edition of the cutter is emptied when it is opened, and filled again."""
    await desk.say("needle")
    before = await desk.search("needle")
    monkeypatch.setattr(index, "EDITION", index.EDITION + 1)
    async with desk_of(halo) as again:
        store = (await index.Index.open(again.kernel.host, again.workspace)).database
        assert await store.read(lambda tx: tx.one("SELECT count(*) FROM entries")) == (0,)
        assert await again.search("needle") == before


async def test_an_index_of_another_time_is_made_anew(desk: Desk, halo: Workbench) -> None:
    """After an older copy of the database is put in place, what came after it is not found, and what comes then is."""
    session = await desk.say("old needle")
    await halo.close()
    folder = halo.folder / ".halo"
    shutil.copy(folder / "halo.db", halo.home / "copy")
    async with desk_of(halo) as later:
        session = await halo.session(session.info.id)
        await later.say("new needle", session=session)
        assert len(await later.texts("needle")) == 2
    await halo.close()
    shutil.copy(halo.home / "copy", folder / "halo.db")
    async with desk_of(halo) as restored:
        assert await restored.texts("needle") == ["old needle"]
        await restored.say("other needle", session=await halo.session(session.info.id))
        assert sorted(await restored.texts("needle")) == ["old needle", "other needle"]


async def test_a_title_that_was_erased_is_not_found(desk: Desk) -> None:
    """A session has one title, the last one: with the message that gave it the title is gone too."""
    session = await desk.say("needle", "other needle")
    assert await desk.texts("needle", kind="title") == ["needle"]
    await erase(desk, session, 0)
    hits = (await desk.search("needle"))["hits"]
    assert [(hit["kind"], hit["title"]) for hit in hits] == [("user", ""), ("assistant", "")]


async def test_what_was_erased_is_nowhere(desk: Desk, halo: Workbench) -> None:
    """Once erasing has returned its words are not found, nor are they in the index's files; the rest is found."""
    session = await desk.say("needle", f"needle {SECRET}")
    assert await desk.texts(SECRET) == [f"needle {SECRET}"] and holds(halo, SECRET)
    await erase(desk, session, 1)
    assert not holds(halo, SECRET)
    assert await desk.texts(SECRET) == [] and await desk.texts("needle") == ["needle"]


async def test_what_was_erased_while_nobody_looked_is_nowhere(desk: Desk, halo: Workbench) -> None:
    """What was erased without the plugin, or in a crash before it was told, is gone with the first look."""
    session = await desk.say("needle", SECRET)
    await desk.search(SECRET)
    await halo.close()
    async with running_kernel(halo.home) as kernel:
        bare = Desk(halo, kernel, desk.client)
        await kernel.host.workspaces.open(halo.folder)
        where = {"workspace": session.info.workspace, "principal": OPERATOR}
        await erase(bare, await kernel.host.sessions.open(session.info.id, **where), 1)
    async with desk_of(halo) as again:
        assert await again.texts(SECRET) == [] and await again.texts("needle") == ["needle"]
        assert not holds(halo, SECRET)


async def test_a_deleted_session_is_nowhere(desk: Desk, halo: Workbench) -> None:
    """A session that was deleted is not found at once, nor those below it; soon their words are not in the files."""
    gone = await desk.say(SECRET)
    child = await gone.start_child("default")
    await desk.say(f"{SECRET} too", session=child)
    await desk.say("needle")
    assert len(await desk.texts(SECRET)) == 2
    where = {"workspace": desk.workspace, "principal": OPERATOR}
    await desk.kernel.host.sessions.delete(gone.info.id, **where)
    assert (await desk.search(SECRET))["hits"] == [] and await desk.texts("needle") == ["needle"]
    await eventually(lambda: asyncio.to_thread(lambda: not holds(halo, SECRET)))


async def test_a_deleted_exchange_is_not_found(desk: Desk) -> None:
    """What is shown no more is not found once deleting has returned, nor by an index that is made anew."""
    session = await desk.say("needle one", "needle two")
    await desk.search("needle")
    bodies = [event.body for event in await journal(session)]
    row = next(body.row for body in bodies if isinstance(body, InputAdded) and "two" in body.text)
    where = {"workspace": desk.workspace, "principal": OPERATOR}
    await desk.kernel.host.sessions.delete_exchange(session.info.id, **where, row=row)
    assert (await desk.texts("two"), await desk.texts("needle")) == ([], ["needle one"])
    await rebuilt(desk)
    assert (await desk.texts("two"), await desk.texts("needle")) == ([], ["needle one"])


async def test_a_session_is_found_by_the_title_it_has(desk: Desk) -> None:
    """A new title is found and shown with every hit, the former one is not; a fork has its own, and the same texts."""
    session = await desk.say("needle")
    where = {"workspace": desk.workspace, "principal": OPERATOR}
    sessions = desk.kernel.host.sessions
    assert await desk.texts("needle", kind="title") == ["needle"]
    await sessions.rename(session.info.id, **where, title="haystack")
    copy = await sessions.fork(session.info.id, **where, title="barn")
    assert await desk.texts("needle", kind="title") == []
    assert [hit["session"] for hit in (await desk.search("haystack"))["hits"]] == [session.info.id]
    hits = [hit for hit in (await desk.search("needle"))["hits"] if hit["kind"] == "user"]
    assert {hit["session"]: hit["title"] for hit in hits} == {session.info.id: "haystack", copy.info.id: "barn"}


async def test_a_session_that_cannot_be_indexed_keeps_no_other_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that cannot be read is logged once, the others are found, and the answer says that it is not all."""
    broken = await desk.say("needle broken")
    whole = await desk.say("needle whole")
    said = entries.said

    def failing(event: Event) -> tuple[str, str]:
        if event.session == broken.info.id:
            raise ValueError("unheard of")
        return said(event)

    with monkeypatch.context() as patch:
        patch.setattr(entries, "said", failing)
        for _ in range(2):
            answer = await desk.search("needle")
            assert not answer["complete"]
            assert {hit["session"] for hit in answer["hits"] if hit["kind"] != "title"} == {whole.info.id}
    assert caplog.text.count("session not indexed") == 1
    assert len(await desk.texts("needle")) == 2


async def test_two_processes_index_once(desk: Desk, halo: Workbench) -> None:
    """Two kernels at one index, each with its own upkeep, find everything once."""
    for _ in range(3):
        await desk.say(*("needle" for _ in range(4)))
    host = desk.kernel.host
    workspace = await host.workspaces.get(desk.workspace)
    both = [upkeep.Upkeep(host, workspace) for _ in range(2)]
    await asyncio.gather(*(each.caught_up() for each in both))
    hits = (await desk.search("needle", limit=100))["hits"]
    places = [(hit["session"], hit["seq"]) for hit in hits]
    assert len(places) == len(set(places)) == 3 * (1 + 4 + 4)


async def test_events_are_added_where_the_index_ends(desk: Desk) -> None:
    """Who read events that somebody else has added meanwhile adds none of them."""
    session = await desk.say("needle")
    (info,) = await desk.kernel.host.sessions.changed(workspace=desk.workspace, since=0)
    (portion,) = entries.portions(await journal(session))
    ours = await index.Index.open(desk.kernel.host, desk.workspace)
    assert await ours.enter(info) == 0
    assert [await ours.store(info.id, 0, portion) for _ in range(2)] == [True, False]
    assert await desk.texts("needle") == ["needle"]


async def test_the_plugin_is_swapped_while_the_server_runs(tmp_path: Path) -> None:
    """A new import of the plugin goes on with the index: it finds what was said before, indexes, and takes out."""
    halo = Workbench(tmp_path)
    async with desk_of(halo, installed=True) as desk:
        session = await desk.say("needle one", "needle two")
        await desk.search("needle")
        await desk.kernel.reload("search")
        await erase(desk, session, 1)
        assert not holds(halo, "two")
        await desk.say("needle three", session=session)
        assert sorted(await desk.texts("needle")) == ["needle one", "needle three"]
    await halo.close()


async def _say_all(halo: Workbench) -> None:
    async with running_kernel(halo.home) as kernel:
        bare = Workbench(halo.home.parent, workspace=halo.folder)
        bare.kernel = kernel
        for number in range(2):
            session = await bare.session(f"talk_{number}")
            for text in ("needle one", "世界 needle two"):
                await bare.ask(text, session=session)


async def _search(halo: Workbench) -> None:
    async with desk_of(halo) as desk:
        await desk.search("needle")


async def _check(halo: Workbench) -> None:
    async with desk_of(halo) as desk:
        found = await desk.search("needle", limit=100)
        places = [(hit["session"], hit["seq"]) for hit in found["hits"]]
        assert found["complete"] and len(places) == len(set(places)) == 2 * (1 + 2 + 2)
        await rebuilt(desk)
        assert await desk.search("needle", limit=100) == found
        assert await desk.texts("世界") == ["世界 needle two"] * 2


def test_a_crash_while_indexing_loses_nothing(crash_points: CrashPoints) -> None:
    """Wherever the process is killed, the next one finds everything once, as an index made from nothing does."""
    died = crash_points(_search, _check, prepare=_say_all)
    assert any("search" in point.what and "store" in point.what for point in died)
