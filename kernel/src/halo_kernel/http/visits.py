"""One request, from its arrival to its answer: origin, caller, body, handler, reply or stream."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.requests import Request

from ..credentials import COOKIE, COOKIE_LIFE, Credentials
from ..errors import HaloError, Stopping, WrongCredentials
from ..records import Exchange, Reply, Stream
from ..settings import ServerSettings
from .bodies import Body, decode
from .callers import Callers, address_of
from .failures import failure, reads_text, shape, unexpected
from .origins import Origins
from .replies import as_reply, deliver, pairs, render
from .streams import HEADERS, Streaming, is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send
    from structlog.typing import FilteringBoundLogger

    from ..contracts import Clock, Settings
    from ..records import Principal, Route
    from .callers import Caller


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What every request passes through; one for the whole application."""

    credentials: Credentials
    callers: Callers
    settings: Settings
    bound: str
    stopping: asyncio.Event
    clock: Clock
    log: FilteringBoundLogger
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary[str, asyncio.Lock])

    @property
    def trust_proxy(self) -> bool:
        """Whether a proxy in front tells the truth about its callers."""
        return self.settings.of(ServerSettings).trust_proxy

    @property
    def origins(self) -> Origins:
        """The names and origins that are accepted now."""
        server = self.settings.of(ServerSettings)
        return Origins(
            bound=self.bound,
            allowed_hosts=server.allowed_hosts,
            cors_origins=server.cors_origins,
            trust_proxy=server.trust_proxy,
        )

    def known(self, error: BaseException, where: str) -> HaloError:
        """Return what a client may know of an exception; a defect is logged and becomes a reference."""
        if isinstance(error, HaloError):
            return error
        return unexpected(error, reference=self.clock.new_id(64), log=self.log, where=where)

    @asynccontextmanager
    async def attempt(self, bucket: str | None, address: str) -> AsyncGenerator[None]:
        """Count what a handler that checks credentials raises. One address has one attempt at a time, or a burst of
        guesses would pass before the first of them was counted."""
        if bucket is None:
            yield
            return
        async with self._turns.setdefault(address, asyncio.Lock()):
            self.credentials.attempts.check(bucket, address)
            try:
                yield
            except WrongCredentials:
                self.credentials.attempts.wrong(bucket, address)
                raise
            self.credentials.attempts.right(bucket, address)


class Visit:
    """One request to one route."""

    def __init__(self, route: Route, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self._route = route
        self._gate = gate
        self._send = send
        self._scope = scope
        self._headers = Headers(scope=scope)
        self._body = Body(receive, self._headers, limit=route.body_limit)
        self._request = Request(scope, receive=self._body.receive)
        self._address = address_of(self._request, trust_proxy=gate.trust_proxy)
        self._cookies: list[tuple[str, str]] = []

    async def run(self) -> None:
        """Answer it."""
        try:
            answer = await self._answer()
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            answer = self._failure(RuntimeError("the handler was cancelled, and nobody had asked for it"))
        except (Exception, SystemExit) as error:  # asyncio would pass `SystemExit` on and end the server
            answer = self._failure(error)
        if isinstance(answer, Stream):
            await self._stream(answer)
        else:
            await self._reply(answer)

    def _failure(self, error: BaseException) -> Reply:
        as_text = reads_text(self._scope["path"], self._headers)
        return failure(self._gate.known(error, self._where), as_text=as_text)

    async def _answer(self) -> Reply | Stream:
        if self._gate.stopping.is_set():
            raise Stopping("The server is shutting down.", advice="Try again when it runs again.")
        self._gate.origins.check(self._scope["method"], self._headers, scheme=self._route.auth)
        caller = await self._gate.callers.find(self._request, self._route, self._address)
        if caller.renew:
            self._sign_in(caller.principal)
        exchange = await self._exchange(caller)
        async with self._gate.attempt(self._route.attempts, self._address):
            answer = await self._route.handler(exchange)
        return answer if isinstance(answer, Stream) else as_reply(answer)

    async def _exchange(self, caller: Caller) -> Exchange:
        request, route = self._request, self._route
        return Exchange(
            principal=caller.principal,
            body=None if route.request is None else decode(await self._body.read(), route.request),
            params={name: str(value) for name, value in request.path_params.items()},
            query=dict(request.query_params),
            last_event_id=self._headers.get("last-event-id"),
            address=self._address,
            raw=request,
        )

    async def _reply(self, reply: Reply) -> None:
        if reply.signed_in is not None:
            self._sign_in(reply.signed_in)
        elif reply.signed_out:
            self._set_cookie("", 0)
        try:
            rendered = render(reply, self._extra())
        except Exception as error:  # a handler's answer that is no JSON
            rendered = render(failure(self._gate.known(error, self._where)), self._extra())
        await deliver(rendered, body=self._body, send=self._send)

    async def _stream(self, stream: Stream) -> None:
        streaming = Streaming(
            stream.events,
            send=self._send,
            body=self._body,
            stopping=self._gate.stopping,
            fail=lambda error: shape(self._gate.known(error, self._where)),
        )
        await streaming.run(pairs(HEADERS, self._extra()), silent=self._scope["method"] == "HEAD")

    def _extra(self) -> list[tuple[str, str]]:
        allowed = self._gate.origins.cors(self._headers.get("origin"), scheme=self._route.auth)
        return [*allowed.items(), *self._cookies]

    def _sign_in(self, principal: Principal) -> None:
        self._set_cookie(self._gate.credentials.cookies.sign(principal), COOKIE_LIFE)

    def _set_cookie(self, value: str, life: int) -> None:
        secure = "; Secure" if self._is_https else ""
        cookie = f"{COOKIE}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Lax{secure}"
        self._cookies = [("Set-Cookie", cookie)]

    @property
    def _is_https(self) -> bool:
        proxied = self._headers.get("x-forwarded-proto", "") if self._gate.trust_proxy else ""
        return (proxied.split(",")[0].strip() or self._scope["scheme"]) == "https"

    @property
    def _where(self) -> str:
        return f"{self._route.method} {self._route.path}"
