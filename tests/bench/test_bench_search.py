"""How long it takes to index many events and to find some of them: figures, never an assertion on them."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import apsw
import httpx
import pytest

import halo_search
from halo_kernel.testing import a_session, front, running_kernel
from halo_search.cutter import cut, tokens
from halo_search.query import parse_query

from .table import Row, print_table, print_title

SESSIONS, EVENTS, ROUNDS = 100, 50_000, 5
TABLE = "CREATE VIRTUAL TABLE words USING fts5(tokens, content='', tokenize=\"ascii tokenchars '_'\")"
ASK = "SELECT rowid, bm25(words) AS fit FROM words WHERE words MATCH ? ORDER BY fit LIMIT 20"
RAW = (
    "one connection, the same tokens in an FTS5 table, 64 texts a transaction; its twenty best matches, no text beside"
)
QUERIES = {
    "search, a word of every third text": "common",
    "search, a word of fifty texts": "rare",
    "search, two words and a beginning": "common word1 word2",
    "search, a Chinese word": "天气",
}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Seconds that indexing took, and that each search took, at the median."""

    index: float
    each: dict[str, float]


def texts() -> list[str]:
    """Return texts of about 440 bytes whose words are as unevenly frequent as those of a language."""
    random = Random(1)
    words = [f"word{number}" for number in range(20_000)]
    weights = [1 / (number + 1) for number in range(20_000)]
    found = [" ".join(random.choices(words, weights, k=random.choice((10, 30, 60, 150)))) for _ in range(EVENTS)]
    for number in range(EVENTS):
        found[number] += (" common" if number % 3 == 0 else "") + (" rare" if number % 1000 == 0 else "")
        found[number] += "，今天天气很好" if number % 10 == 0 else ""
    return found


def raw(said: Sequence[str]) -> Figures:
    """Index and search with nothing around it."""
    rows = [" ".join(f"1_{token}" for token in tokens(cut(text))) for text in said]
    connection = apsw.Connection(":memory:")
    connection.execute(TABLE)
    began = time.perf_counter()
    for at in range(0, EVENTS, 64):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO words(tokens) VALUES (?)", [(row,) for row in rows[at : at + 64]])
        connection.execute("COMMIT")
    index = time.perf_counter() - began
    each: dict[str, float] = {}
    for name, q in QUERIES.items():
        spent = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            assert list(connection.execute(ASK, (parse_query(q).expression(1),)))
            spent.append(time.perf_counter() - start)
        each[name] = median(spent)
    connection.close()
    return Figures(index=index, each=each)


def write(file: Path, said: Sequence[str]) -> None:
    """Write all into the journals of the sessions that a closed database has."""
    connection = apsw.Connection(str(file))
    with connection:
        names = [name for (name,) in connection.execute("SELECT id FROM sessions ORDER BY id")]
        for number, name in enumerate(names):
            some = [json.dumps({"text": text}, ensure_ascii=False) for text in said[number :: len(names)]]
            ((head,),) = connection.execute("SELECT head FROM sessions WHERE id = ?", (name,))
            rows = [(name, seq, 1, "bench.note", "", body) for seq, body in enumerate(some, head + 1)]
            connection.executemany("INSERT INTO events(session, seq, at, kind, turn, body) VALUES (?,?,?,?,?,?)", rows)
            connection.execute("UPDATE sessions SET head = head + ? WHERE id = ?", (len(rows), name))
    connection.close()


async def halo(folder: Path, said: Sequence[str]) -> tuple[Figures, float, int]:
    """Index and search through the routes; return also how long a search after a new message takes, and bytes."""
    async with running_kernel(folder / "home") as kernel:
        for _ in range(SESSIONS):
            await a_session(kernel, folder / "w")
    write(folder / "w" / ".halo" / "halo.db", said)
    began = time.perf_counter()
    async with running_kernel(folder / "home", extra={"search": halo_search}) as kernel:
        session = await a_session(kernel, folder / "w")
        face, base = front(kernel), f"http://localhost:9527/api/workspaces/{session.info.workspace}"
        transport = httpx.ASGITransport(face.app)
        async with httpx.AsyncClient(transport=transport, base_url=base, headers=face.headers) as client:

            async def search(q: str) -> bool:
                page = (await client.get("/search", params={"q": q}, timeout=60)).json()
                return bool(page["hits"] and page["complete"])

            while not await search("rare"):
                pass
            index = time.perf_counter() - began
            each = {name: await _median(lambda q=q: search(q)) for name, q in QUERIES.items()}  # type: ignore[misc]
            await session.append("bench.note", {"text": "said just now"})
            start = time.perf_counter()
            assert await search("just now")
            tail = time.perf_counter() - start
    return Figures(index=index, each=each), tail, (folder / "w" / ".halo" / "search.db").stat().st_size


async def _median(work: Callable[[], Awaitable[bool]]) -> float:
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        assert await work()
        spent.append(time.perf_counter() - start)
    return median(spent)


@pytest.mark.timeout(300)
async def test_search(tmp_path: Path) -> None:
    """Print what indexing 50,000 events takes, and searching them, and a search right after something was said."""
    said = texts()
    floor = raw(said)
    figures, tail, size = await halo(tmp_path, said)
    print_title(f"Search over {EVENTS:,} events of {SESSIONS} sessions, plugin `search`, medians of {ROUNDS}")
    rows = [Row(name="index made from nothing", figure=figures.index, floor=floor.index, unit="s")]
    for name, seconds in figures.each.items():
        rows.append(Row(name=name, figure=seconds * 1e3, floor=floor.each[name] * 1e3, unit="ms"))
    rows.append(Row(name="search, what was just said", figure=tail * 1e3, floor=0, unit="ms"))
    text = sum(len(each.encode()) for each in said)
    rows.append(Row(name="search.db (floor: the texts)", figure=size / 2**20, floor=text / 2**20, unit="MiB"))
    print_table(RAW, rows)
