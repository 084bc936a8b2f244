"""The platform on a loopback socket: `/bot<token>/<method>`, `/file/bot<token>/<path>` and `/control/<verb>`."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from . import account, editing, rooms, sending
from .account import HungUp
from .arguments import Arguments, read_arguments
from .bots import Bot
from .calls import NO_METHOD, Call, Method
from .control import control
from .faults import Fault
from .refusals import TOO_LARGE, UNAUTHORIZED, Refused, bad_request
from .stage import Stage
from .webhooks import push_updates
from .wire import Connection, Request
from .world import Received, World

METHODS: dict[str, Method] = account.METHODS | sending.METHODS | editing.METHODS | rooms.METHODS
BY_NAME = {name.lower(): method for name, method in METHODS.items()}
ENVELOPE = 1024 * 1024
"""How much larger than its file a request may be, in bytes."""
CONTROL_BYTES = 2**30
NOT_FOUND = Refused(404, "Not Found")
GATEWAY_PAGE = b"<html><head><title>%d</title></head><body>nginx</body></html>"


class TelegramServer:
    """A platform for one test: `async with TelegramServer() as server`, then `server.stage` and `server.url`."""

    def __init__(self, world: World | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.world = world or World()
        self.stage = Stage(self.world)
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://{self._address[0]}:{self._address[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, *self._address, limit=2**20)
        self._address = (self._address[0], self._server.sockets[0].getsockname()[1])
        self.world.on_bot = self._push
        for bot in self.world.bots.values():
            self._push(bot)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _push(self, bot: Bot) -> None:
        self._keep(asyncio.ensure_future(push_updates(self.world, bot, self._perform)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        connection = Connection(reader, writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while request := await connection.request(self._limit):
                    if not await self._answer(connection, request):
                        break
        finally:
            connection.close()

    def _limit(self, path: str) -> int:
        return CONTROL_BYTES if path.startswith("/control") else self.world.rules.upload + ENVELOPE

    async def _answer(self, connection: Connection, request: Request) -> bool:
        """Answer one request; return whether the connection can take another."""
        if request.path.startswith("/control"):
            status, value = await control(self.world, self.stage, request)
            await connection.json(value, status=status)
            return True
        match = re.fullmatch(r"(/file)?/bot(\d+:[\w-]+)/(.+)", request.path)
        if match is None:
            return await _refuse(connection, NOT_FOUND)
        bot, refused, arguments = self.world.bots.get(match[2]), None, Arguments()
        try:
            self._let_in(bot, request)
            arguments = Arguments({"path": match[3]}) if match[1] else read_arguments(request)
        except Refused as reason:
            refused = reason
        received = self.world.received("file" if match[1] else match[3], bot.id if bot else 0, arguments)
        if refused is not None or bot is None:
            return await self._told(connection, received, (refused or UNAUTHORIZED).record)
        if match[1]:
            return await self._file(connection, bot, received)
        return await self._call(connection, bot, received, arguments)

    def _let_in(self, bot: Bot | None, request: Request) -> None:
        """Refuse who has no valid token, and what is too large."""
        if bot is None or bot.revoked:
            raise UNAUTHORIZED
        if bot.logged_out_until > self.world.clock.now():
            raise bad_request("Logged out")
        if request.too_large:
            raise TOO_LARGE

    async def _file(self, connection: Connection, bot: Bot, received: Received) -> bool:
        fault = self.world.faults.take("file", bot.id)
        if fault and fault.kind not in ("delay", "late_answer", "half_answer"):
            return await self._faulty(connection, bot, received, fault, Arguments())
        if fault:
            received.outcome.append(f"{fault.kind}:")
            await asyncio.sleep(fault.seconds)
        stored = bot.files.paths.get(received.arguments["path"])
        if stored is None:
            return await self._told(connection, received, NOT_FOUND.record)
        self._ended(received, "ok")
        if fault and fault.kind == "half_answer":
            await connection.half(stored.data)
            return False
        await connection.answer(200, stored.data, kind="application/octet-stream")
        return True

    async def _call(self, connection: Connection, bot: Bot, received: Received, arguments: Arguments) -> bool:
        if fault := self.world.faults.take(received.method, bot.id):
            return await self._faulty(connection, bot, received, fault, arguments)
        performing = asyncio.ensure_future(self._perform(bot, received.method, arguments))
        polling = received.method.lower() == "getupdates"
        gone = asyncio.ensure_future(connection.gone() if polling else _never())
        try:
            await asyncio.wait({performing, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _stopped(gone)
            if not performing.done():
                await _stopped(performing)
        if performing.cancelled():
            return self._ended(received, "the client left")
        return await self._told(connection, received, performing.result())

    async def _told(self, connection: Connection, received: Received, answer: dict[str, Any] | None) -> bool:
        if answer is None:
            connection.abort()
            return self._ended(received, "hung up")
        self._ended(received, _outcome(answer))
        await _send(connection, answer)
        return True

    async def _faulty(
        self, connection: Connection, bot: Bot, received: Received, fault: Fault, arguments: Arguments
    ) -> bool:
        """Answer a call that a fault meets."""
        received.outcome.append(f"{fault.kind}:")
        if fault.refusal:
            return await self._told(connection, received, fault.refusal.record)
        if fault.kind == "gateway":
            await connection.answer(fault.status, GATEWAY_PAGE % fault.status, kind="text/html")
            return not self._ended(received, "not done")
        if fault.kind == "lost_request" or received.method == "file":
            connection.abort()
            return self._ended(received, "not done")
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
        if fault.kind == "cut_poll":
            asyncio.get_running_loop().call_later(fault.seconds, lambda: bot.updates.end(hung_up=True))
        answer = await self._perform(bot, received.method, arguments)
        return await self._spoiled(connection, received, fault, answer)

    async def _spoiled(
        self, connection: Connection, received: Received, fault: Fault, answer: dict[str, Any] | None
    ) -> bool:
        """Answer, or fail to, after what was asked for has happened."""
        if fault.kind in ("delay", "late_answer"):
            await asyncio.sleep(fault.seconds if fault.kind == "late_answer" else 0)
            return await self._told(connection, received, answer)
        self._ended(received, _outcome(answer) if answer else "hung up")
        body = json.dumps(answer).encode()
        if fault.kind == "half_answer":
            await connection.half(body)
        elif fault.kind == "invalid_json":
            await connection.answer(200, body[:-2])
            return True
        else:
            connection.abort()
        return False

    async def _perform(self, bot: Bot, name: str, arguments: Arguments) -> dict[str, Any] | None:
        """Do what a bot asks for; None breaks the connection."""
        try:
            method = BY_NAME.get(name.lower())
            if method is None:
                raise NO_METHOD
            result = method(Call(self.world, bot, arguments))
            return {"ok": True, "result": await result if inspect.isawaitable(result) else result}
        except Refused as refused:
            return refused.record
        except HungUp:
            return None

    def _ended(self, received: Received, outcome: str) -> bool:
        received.outcome.append(outcome)
        self.world.changed()
        return False


def _outcome(answer: dict[str, Any]) -> str:
    return "ok" if answer["ok"] else f"{answer['error_code']} {answer['description']}"


async def _refuse(connection: Connection, refused: Refused) -> bool:
    await _send(connection, refused.record)
    return True


async def _send(connection: Connection, answer: dict[str, Any]) -> None:
    wait = answer.get("parameters", {}).get("retry_after")
    headers = {"retry-after": str(wait)} if wait else None
    await connection.json(answer, status=answer.get("error_code", 200), headers=headers)


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


async def _stopped(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
