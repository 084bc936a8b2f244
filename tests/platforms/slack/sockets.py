"""Socket Mode: addresses, sockets, and envelopes that go to one socket each."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .clock import within
from .faults import Fault
from .ledger import Attempt, Delivered
from .messages import Json
from .rules import SOCKETS_MOST
from .team import App
from .web import Line, Request, text_answer
from .websocket import Socket

if TYPE_CHECKING:
    from .platform import Platform

_LIFE = 18_060  # seconds, as hello says


@dataclass(frozen=True)
class _Ticket:
    app: str
    until: int  # milliseconds


class Sockets:
    """The sockets of all apps."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._tickets: dict[str, _Ticket] = {}
        self._turn = 0
        self.open: list[Socket] = []
        self.mute = False
        """Whether sockets that are opened from now on are silent from their beginning."""

    def address(self, app: App) -> str:
        """Return an address that opens one socket, once and soon."""
        ticket = secrets.token_hex(8)
        until = self._platform.clock.now() + round(self._platform.pace.ticket * 1000)
        self._tickets[ticket] = _Ticket(app.id, until)
        return f"{self._platform.url.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={app.id}"

    async def serve(self, request: Request, line: Line) -> None:
        """Take a socket until it ends."""
        ticket = self._tickets.pop(request.query.get("ticket", ""), None)
        if ticket is None or ticket.until < self._platform.clock.now():
            self._platform.ledger.count("sockets:refused")
            await line.send(text_answer("invalid ticket", status=401).encoded())
            return
        socket = Socket(f"applink-{self._platform.team.new_id('')}", ticket.app, line)
        if not await socket.upgrade(request.head):
            return
        if len(self._of(ticket.app)) >= SOCKETS_MOST:
            self._platform.ledger.count("sockets:too_many")
            socket.send(_goodbye(socket, "too_many_websockets"))
            socket.close()
            return
        await self._run(socket)

    async def _run(self, socket: Socket) -> None:
        self.open.append(socket)
        socket.silent = self.mute
        ledger = self._platform.ledger
        ledger.counts["sockets:most"] = max(ledger.counts["sockets:most"], len(self._of(socket.app)))
        socket.send(self._hello(socket))
        ledger.count("sockets:opened")
        pinging = asyncio.get_running_loop().create_task(self._ping(socket))
        try:
            await socket.run(lambda message: self._heard(socket, message), lambda: ledger.count("pings"))
        finally:
            pinging.cancel()
            self.open.remove(socket)
            for waiting in socket.unacked.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the socket ended"))
            ledger.count("sockets:closed")

    async def _ping(self, socket: Socket) -> None:
        while True:
            await self._platform.clock.sleep(self._platform.pace.ping)
            socket.ping()

    def _hello(self, socket: Socket) -> Json:
        return {
            "type": "hello",
            "num_connections": len(self._of(socket.app)),
            "debug_info": {"host": socket.name, "build_number": 10, "approximate_connection_time": _LIFE},
            "connection_info": {"app_id": socket.app},
        }

    def _heard(self, socket: Socket, message: Json) -> None:
        waiting = socket.unacked.pop(str(message.get("envelope_id")), None)
        if waiting is None:
            self._platform.ledger.count("acks:unknown")
        elif waiting.done():
            self._platform.ledger.count("acks:late")
        else:
            waiting.set_result(message.get("payload"))

    async def carry(self, app: App, delivered: Delivered, attempt: Attempt, fault: Fault | None) -> bool:
        """Send one envelope and return whether it was acknowledged in time."""
        socket = self._next(app, but=[each.via for each in delivered.attempts])
        if socket is None:
            attempt.outcome = "no_socket"
            return False
        attempt.via = socket.name
        envelope = self._envelope(delivered, attempt)
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        socket.unacked[envelope["envelope_id"]] = waiting
        send = socket.send_half if fault is not None and fault.kind == "cut" else socket.send
        send(envelope)
        self._platform.ledger.count("envelopes")
        try:
            delivered.reply = await within(self._platform.clock, self._platform.pace.ack, waiting)
        except TimeoutError:
            attempt.outcome = "timeout"
            return False
        except ConnectionError:
            attempt.outcome = "connection_failed"
            return False
        return True

    def _envelope(self, delivered: Delivered, attempt: Attempt) -> Json:
        envelope: Json = {
            "envelope_id": str(uuid.uuid4()),
            "payload": delivered.payload,
            "type": delivered.kind,
            "accepts_response_payload": delivered.kind == "slash_commands",
        }
        if delivered.kind == "events_api":
            envelope |= {"retry_attempt": attempt.number, "retry_reason": attempt.reason}
        return envelope

    def _next(self, app: App, *, but: Sequence[str]) -> Socket | None:
        """Return the socket whose turn it is, rather one that did not have the envelope before."""
        live = self._of(app.id)
        live = [each for each in live if each.name not in but] or live
        self._turn += 1
        return live[self._turn % len(live)] if live else None

    def _of(self, app_id: str) -> list[Socket]:
        return [each for each in self.open if each.app == app_id and each.open]

    def disconnect(self, reason: str, *, app: App | None = None) -> None:
        """Say `disconnect` on the sockets that are open now, and close them unless it is a `warning`."""
        for socket in self._chosen(app):
            socket.send(_goodbye(socket, reason))
            if reason != "warning":
                socket.close()
            self._platform.ledger.count(f"disconnects:{reason}")

    async def refresh(self, app: App | None = None) -> None:
        """Do as Slack does every few hours: warn, wait, ask for a refresh, close."""
        sockets = self._chosen(app)
        for socket in sockets:
            socket.send(_goodbye(socket, "warning"))
            self._platform.ledger.count("disconnects:warning")
        await self._platform.clock.sleep(self._platform.pace.warning)
        for socket in sockets:
            if socket.open:
                socket.send(_goodbye(socket, "refresh_requested"))
                socket.close()
                self._platform.ledger.count("disconnects:refresh_requested")

    def silence(self, app: App | None = None) -> int:
        """Let the open sockets neither hear nor say anything any more; return how many."""
        for socket in self._chosen(app):
            socket.silent = True
        return len(self._chosen(app))

    def drop(self, app: App | None = None) -> int:
        """Break the open sockets off; return how many."""
        chosen = self._chosen(app)
        for socket in chosen:
            socket.abort()
        return len(chosen)

    def _chosen(self, app: App | None) -> list[Socket]:
        return [each for each in self.open if app is None or each.app == app.id]


def _goodbye(socket: Socket, reason: str) -> Json:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": socket.name}}
