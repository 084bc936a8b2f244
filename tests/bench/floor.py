"""The floor of a turn: a server with Halo's outside and its durable writes, and nothing else.

`POST /<session>/messages` answers 202 after a commit; a task of the session then calls the model and writes as often as
Halo does, each time a transaction through the same engine with group commit, which changes as many rows under as many
indices: message, start, what has been streamed (every half second), end. `GET /<session>/stream` sends each piece and
the end as server-sent events. There are no plugins, no access check, no recovery, no cursors, no limits.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from halo_kernel import Database, Migration, Place, Tx
from halo_kernel.sqlite import SqliteStorage

from .serving import ready_parser, serve

KEPT_SECONDS = 0.5
SCHEMA = """
CREATE TABLE sessions(id TEXT PRIMARY KEY, head INTEGER, model TEXT, updated_at INTEGER);
CREATE INDEX sessions_by_update ON sessions(updated_at);
CREATE TABLE inbox(id INTEGER PRIMARY KEY, session TEXT, key TEXT UNIQUE, state TEXT, text TEXT);
CREATE INDEX inbox_waiting ON inbox(session, id) WHERE state = 'waiting';
CREATE TABLE runs(session TEXT PRIMARY KEY, turn TEXT);
CREATE TABLE partials(session TEXT PRIMARY KEY, text TEXT);
CREATE TABLE events(session TEXT, seq INTEGER, kind TEXT, body TEXT, PRIMARY KEY(session, seq));
"""


class Talk:
    """One session: what it was told, who follows it, and the task that answers."""

    def __init__(self, name: str, database: Database, http: aiohttp.ClientSession, model: str) -> None:
        self.followers: set[asyncio.Queue[bytes]] = set()
        self.inputs: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self._name = name
        self._database = database
        self._http = http
        self._model = model
        self._messages: list[dict[str, str]] = []
        self._head = 0
        self._task = asyncio.create_task(self._run())

    async def accept(self, text: str) -> int:
        """Store a message, and return its number after the commit."""

        key = uuid4().hex

        def write(tx: Tx) -> int:
            row = tx.one(
                "INSERT INTO inbox(session, key, state, text) VALUES (?, ?, 'waiting', ?) RETURNING id",
                (self._name, key, text),
            )
            assert row is not None
            return int(row[0])

        number = await self._database.write(write)
        self.inputs.put_nowait((number, text))
        return number

    async def _run(self) -> None:
        while True:
            number, text = await self.inputs.get()
            self._messages.append({"role": "user", "content": text})
            await self._start(number, text)
            answer = await self._ask()
            self._messages.append({"role": "assistant", "content": answer})
            await self._end(answer)
            self._tell("event", {"seq": self._head, "kind": "turn.ended"})

    async def _start(self, number: int, text: str) -> None:
        def write(tx: Tx) -> None:
            tx.execute("UPDATE inbox SET state = 'consumed' WHERE id = ?", (number,))
            tx.execute("INSERT INTO runs(session, turn) VALUES (?, ?)", (self._name, str(number)))
            self._append(tx, [("turn.started", {"rows": [number]}), ("input.added", {"row": number, "text": text})])

        await self._database.write(write)
        self._head += 2

    async def _ask(self) -> str:
        body = {"model": "scripted", "stream": True, "messages": self._messages}
        text, pending, kept_at = "", b"", time.monotonic()
        keeping: list[asyncio.Task[None]] = []
        async with self._http.post(f"{self._model}/chat/completions", json=body) as response:
            async for data in response.content.iter_any():
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    piece = _piece(line)
                    if not piece:
                        continue
                    self._tell("delta", {"offset": len(text), "text": piece})
                    text += piece
                    if time.monotonic() - kept_at >= KEPT_SECONDS:
                        kept_at = time.monotonic()
                        keeping.append(asyncio.create_task(self._keep(text)))
        await asyncio.gather(*keeping)
        return text

    async def _keep(self, text: str) -> None:
        def write(tx: Tx) -> None:
            tx.execute("INSERT OR REPLACE INTO partials(session, text) VALUES (?, ?)", (self._name, text))

        await self._database.write(write)

    async def _end(self, answer: str) -> None:
        usage = {"model": "openai/scripted", "input": 10, "output": 5, "first_ms": 1, "ms": 1}

        def write(tx: Tx) -> None:
            tx.execute("DELETE FROM runs WHERE session = ?", (self._name,))
            tx.execute("DELETE FROM partials WHERE session = ?", (self._name,))
            tx.execute("UPDATE sessions SET model = 'scripted' WHERE id = ?", (self._name,))
            said = {"content": [{"type": "text", "text": answer}], "stop": "end"}
            ended = {"outcome": "succeeded", "steps": 1}
            self._append(tx, [("assistant.message", said), ("usage.recorded", usage), ("turn.ended", ended)])

        await self._database.write(write)
        self._head += 3

    def _append(self, tx: Tx, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        tx.execute(
            "INSERT INTO sessions(id, head, updated_at) VALUES (?, ?, ?)"
            " ON CONFLICT(id) DO UPDATE SET head = head + excluded.head, updated_at = excluded.updated_at",
            (self._name, len(events), self._head),
        )
        for place, (kind, body) in enumerate(events, self._head + 1):
            tx.execute(
                "INSERT INTO events(session, seq, kind, body) VALUES (?, ?, ?, ?)",
                (self._name, place, kind, msgspec.json.encode(body).decode()),
            )

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        frame = b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))
        for follower in self.followers:
            follower.put_nowait(frame)


def _piece(line: bytes) -> str:
    if not line.startswith(b"data: {"):
        return ""
    choices = msgspec.json.decode(line[6:])["choices"]
    return choices[0]["delta"].get("content") or "" if choices else ""


class Floor:
    """All sessions, made when they are named."""

    def __init__(self, database: Database, http: aiohttp.ClientSession, model: str) -> None:
        self._talks: dict[str, Talk] = {}
        self._make: Callable[[str], Talk] = lambda name: Talk(name, database, http, model)

    def _talk(self, request: Request) -> Talk:
        name = request.path_params["session"]
        return self._talks.get(name) or self._talks.setdefault(name, self._make(name))

    async def submit(self, request: Request) -> JSONResponse:
        """Take a message."""
        text = json.loads(await request.body())["text"]
        return JSONResponse({"row": await self._talk(request).accept(text)}, 202)

    async def stream(self, request: Request) -> StreamingResponse:
        """Follow a session."""
        return StreamingResponse(_follow(self._talk(request)), media_type="text/event-stream")


async def _follow(talk: Talk) -> AsyncGenerator[bytes, None]:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    talk.followers.add(queue)
    try:
        yield b": hello\n\n"
        while True:
            yield await queue.get()
    finally:
        talk.followers.discard(queue)


async def main() -> None:
    """Open the database, then serve."""
    parser = ready_parser()
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    path = Path(options.database)
    place = Place(name=path.stem, scope="global", directory=path.parent)
    database = await SqliteStorage().open(place, [Migration(version=1, sql=SCHEMA)])
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        floor = Floor(database, http, options.model)
        routes = [
            Route("/{session}/messages", floor.submit, methods=["POST"]),
            Route("/{session}/stream", floor.stream),
        ]
        await serve(routes, ready_fd=options.ready_fd)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
