"""What every protocol has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import msgspec
import pytest

from ..contracts import Tx
from ..records import OPERATOR, Incoming, InputAdded, ModelRequest, Principal, Route, SessionInfo, Text, TurnEnded
from ..runtime import Kernel
from ..sessions import Session
from .client import Connection, WireReply, WireRequest, connected, fetch
from .growth import grown, tasks_by_place
from .leaks import LeakGuard
from .mangled import last_name, mangled
from .model import Answer, Hang, Pieces, Step
from .servers import Front, listening
from .sessions import journal, soon, unless
from .swaps import retire
from .workbench import Workbench

_SECONDS = 10.0
_END_SECONDS = 4.0
_QUIET_SECONDS = 0.3
_WRONG_SECONDS = 0.3  # in which what should not happen would
_STEP = 0.01
_AT_ONCE = 4
_PIECES = [f"piece{number} " for number in range(20)]
_STRANGER = Principal(name="a stranger", kind="remote", scheme="another")
_TABLES = ("sessions", "inbox", "outbox", "questions")
_NOT_JSON = (b"{", b"\xff\xfe", b'"a text"', b"[]", b'{"a": 1, "a"', b"[" * 2000)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A kernel that a protocol's clients reach: `headers` are those that say who calls."""

    halo: Workbench
    kernel: Kernel
    front: Front
    headers: Mapping[str, str]

    async def ask(self, request: WireRequest, headers: Mapping[str, str] | None = None) -> WireReply:
        """Return the answer to a request by the caller, or under other `headers`."""
        return await fetch(self.front.url, request, headers=self.headers if headers is None else headers)

    @asynccontextmanager
    async def connection(self, request: WireRequest) -> AsyncGenerator[Connection]:
        """Send a request by the caller, whose answer may be read piece by piece."""
        async with connected(self.front.url, request, headers=self.headers) as connection:
            yield connection

    async def written(self) -> Mapping[str, int]:
        """Return how many rows there are of what a request could add."""
        counted: dict[str, int] = {}
        for seat in self.kernel.workspaces.seats.values():
            for table in _TABLES:
                counted[f"{table} of {seat.workspace.path}"] = await seat.database.read(partial(_count, table=table))
        return counted


class ProtocolContract:
    """Tests for one protocol, whose routes real clients ask over a real socket.

    A subclass says how a message is sent over it; the plugin comes from the fixture `halo_plugins`, and the fixture
    `protocol_env` gives the variables that it is configured with::

        class TestMail(ProtocolContract):
            def message(self, session, text, *, key=""):
                return WireRequest(path=f"/mail/{session.id}", body={"text": text, "id": key or "one"})

    `stream` gives the request whose answer is a stream, `credentials` the headers of the caller, who is `principal`.
    `public` are the routes that anybody may call, as `POST /mail/hook`; `loose` the dotted fields of a message that may
    have any type. Without `has_keys` a client cannot say that it repeats itself, without `answers` the answer of the
    agent comes another way than in that to the request, and with `makes_sessions` one that does not exist is made.
    """

    principal: Principal = OPERATOR
    public: Collection[str] = ()
    loose: Collection[str] = ()
    has_keys: bool = True
    answers: bool = True
    makes_sessions: bool = False

    @pytest.fixture
    def protocol_env(self) -> Mapping[str, str]:
        """The environment that the protocol's plugin reads its settings from."""
        return {}

    def message(self, session: SessionInfo, text: str, *, key: str = "") -> WireRequest:
        """Return the request that sends a message to a session; the same `key` is the same message."""
        raise NotImplementedError("say how a message is sent")

    def stream(self, session: SessionInfo, text: str) -> WireRequest | None:
        """Return the request that sends a message, or only listens, and is answered by a stream; None without any."""

    def bad(self, session: SessionInfo) -> Sequence[tuple[WireRequest, str]]:
        """Return further requests that are refused, each with a word that the refusal has to say."""
        return ()

    def refuses(self, reply: WireReply) -> bool:
        """Tell whether a reply is a refusal that blames the request."""
        return 400 <= reply.status < 500

    def said(self, reply: WireReply) -> object:
        """Return what is the same in the replies to one message and to its repeat."""
        return reply.json() or reply.text

    async def credentials(self, halo: Workbench, front: Front) -> Mapping[str, str]:
        """Return the headers of a caller who is `principal`."""
        return front.headers

    @asynccontextmanager
    async def serving(self, halo: Workbench, env: Mapping[str, str]) -> AsyncGenerator[Served]:
        """Run a server whose model repeats the last word that it was told, and which the protocol's clients reach."""
        halo.model.responder = _repeat
        kernel = await halo.start(env=env)
        assert kernel.routes, "the plugins provide no routes (see the log)"
        try:
            async with listening(kernel) as front:
                await kernel.work()
                headers = await self.credentials(halo, front)
                yield Served(halo=halo, kernel=kernel, front=front, headers=headers)
        finally:
            await halo.close()

    async def session(self, halo: Workbench) -> Session:
        """Return a session of the caller."""
        return await halo.session(principal=self.principal)

    async def sent(self, served: Served, session: Session, text: str, *, key: str = "") -> WireReply:
        """Send a message that has to be accepted, and return the reply when its turn is over."""
        request = self.message(session.info, text, key=key)
        reply = await served.ask(request)
        assert reply.status < 400 and not self.refuses(reply), f"{request} was answered by {reply}"
        await _soon(lambda: _is_answered(session), f"what {request} sent was never answered")
        return reply

    async def refused(self, served: Served, request: WireRequest, what: str, word: str = "") -> WireReply:
        """Send what has to be refused, with a word that the refusal has to say; see that nothing is written."""
        before = await served.written()
        reply = await served.ask(request)
        assert self.refuses(reply), f"{what} has to be refused, and was answered by {reply}"
        assert word in reply.text, f"the refusal of {what} does not name {word}: {reply}"
        await asyncio.sleep(_STEP)
        after = await served.written()
        assert after == before, f"{what} was refused, and left rows behind: {_more(before, after)}"
        return reply

    @pytest.mark.asyncio
    async def test_every_route_asks_who_calls(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """Without credentials, or with wrong ones, a route answers 401 as every other does, unless it is `public`."""
        async with self.serving(halo, protocol_env) as served:
            routes = [route for _, route in served.kernel.routes]
            names = {f"{route.method} {route.path}" for route in routes}
            unknown = sorted(set(self.public) - names)
            assert not unknown, f"`public` names {', '.join(unknown)}, and there are {', '.join(sorted(names))}"
            await self.session(halo)
            before = await served.written()
            closed = [route for route in routes if f"{route.method} {route.path}" not in self.public]
            for route in closed:
                await _asks(served, route, {})
            if closed:
                await _asks(served, closed[0], {"Authorization": "Bearer this-is-nobody"})
            after = await served.written()
            assert after == before, f"a caller whom nobody knows left rows behind: {_more(before, after)}"

    @pytest.mark.asyncio
    async def test_a_message_arrives(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """What a client sends comes to the session as one message, whole; the reply has the answer, or a receipt."""
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            reply = await self.sent(served, session, "please say hello-ä-漢-😀")
            texts = await _texts(session)
            assert len(texts) == 1, f"one message was sent, and {len(texts)} came to the session"
            assert "please say hello-ä-漢-😀" in texts[0], f"what came to the session is {texts[0]!r}"
            said = str(self.said(reply))
            assert not self.answers or "answer: hello-ä-漢-😀" in said, f"the answer of the agent is not in {reply}"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("whose", ["nobody's", "a stranger's"])
    async def test_a_session_that_is_not_the_callers(
        self, protocol_env: Mapping[str, str], halo: Workbench, whose: str
    ) -> None:
        """A session that does not exist is answered by 404, one of somebody else just so, and nothing is written."""
        if whose == "nobody's" and self.makes_sessions:
            pytest.skip("it makes a session that does not exist: `makes_sessions` is set")
        async with self.serving(halo, protocol_env) as served:
            mine, foreign = await self.session(halo), await halo.session(principal=_STRANGER)
            info = foreign.info if whose == "a stranger's" else msgspec.structs.replace(mine.info, id="sid_nowhere")
            for request in (self.message(info, "hello", key="k1"), self.stream(info, "hello")):
                if request is None:
                    continue
                reply = await self.refused(served, request, f"a request for {whose} session ({request})")
                assert reply.status in (404, 200), f"{whose} session is answered by {reply}, not by 404"
            assert not await _texts(foreign), "a message came to a session of somebody else"

    @pytest.mark.asyncio
    async def test_a_body_that_is_none(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """What is no JSON, no object, or larger than the route allows is refused, and nothing is written."""
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            request = self.message(session.info, "hello", key="k1")
            if not isinstance(request.body, bytes | None):
                for raw in _NOT_JSON:
                    await self.refused(served, replace(request, body=raw), f"the body {raw[:12]!r}")
            limit = _limit(served.kernel, request)
            large = request.data + b" " * (limit + 1 - len(request.data))
            await self.refused(served, replace(request, body=large), f"a body of {limit + 1} bytes", str(limit))

    @pytest.mark.asyncio
    async def test_a_field_that_is_wrong(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """A field of another type, and what `bad` gives, is refused by a sentence that names it; nothing is written."""
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            request = self.message(session.info, "hello", key="k1")
            bodies = [] if isinstance(request.body, bytes | None) else list(mangled(request.body, self.loose))
            for path, body in bodies:
                wrong = f"a message with another type of {path}"
                await self.refused(served, replace(request, body=body), wrong, last_name(path))
            for each, word in self.bad(session.info):
                await self.refused(served, each, f"{each} with the body {each.data[:80]!r}", word)

    @pytest.mark.asyncio
    @pytest.mark.parametrize("together", [False, True], ids=["in_turn", "at_once"])
    async def test_a_repeat_is_one_message(
        self, protocol_env: Mapping[str, str], halo: Workbench, together: bool
    ) -> None:
        """A message that is sent three times under its key, at once too, is one message with one and the same reply."""
        if not self.has_keys:
            pytest.skip("its clients cannot say that they repeat themselves: `has_keys` is not set")
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            sends = [self.sent(served, session, "say hello", key="k1") for _ in range(3)]
            replies = await asyncio.gather(*sends) if together else [await each for each in sends]
            count = len(await _texts(session))
            assert count == 1, f"one message that was sent three times became {count}"
            said = [self.said(reply) for reply in replies]
            assert said[1:] == said[:-1], f"a message and its repeats are answered by {said}"
            await self.sent(served, session, "say more", key="k2")
            assert len(await _texts(session)) == 2, "a message under another key did not come to the session"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("what", ["message", "stream"])
    async def test_a_client_that_goes_away(self, protocol_env: Mapping[str, str], halo: Workbench, what: str) -> None:
        """The turn goes on to its end when the client is gone, and nothing that served the client is left."""
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            streams = what == "stream"
            first, second = (self.message(session.info, "hello", key=key) for key in ("k1", "k2"))
            if streams:
                first = second = self.streamed(session)
            await self._gone(served, session, first, streams)
            await asyncio.sleep(_QUIET_SECONDS)
            guard, before, turns = LeakGuard(may_leak=["task"]), tasks_by_place(), len(await _ends(session))
            await self._gone(served, session, second, streams)
            outcomes = (await _ends(session))[turns:]
            assert outcomes == ["succeeded"], f"its client had gone, and the turn ended as {', '.join(outcomes)}"
            assert await session.output() == "".join(_PIECES), "its client had gone, and the answer is not whole"
            left = [*await grown(before), *await guard.left()]
            assert not left, "a client has gone, and there is left: " + "; ".join(left)

    def streamed(self, session: Session) -> WireRequest:
        """Return the request for a stream, or skip the test of a protocol without one."""
        request = self.stream(session.info, "hello")
        if request is None:
            pytest.skip("it has no stream: `stream` gives none")
        return request

    async def _gone(self, served: Served, session: Session, request: WireRequest, streams: bool) -> None:
        """Send a request, go away while its turn runs, and return when that turn is over."""
        gone = asyncio.Event()
        served.halo.model.then(Pieces(_PIECES, delay=0.01, held=gone))
        turns = len(await _ends(session))
        async with served.connection(request) as connection:
            await self._running(session, connection, request, streams)
        await unless(lambda: _has_ended(session, turns), _WRONG_SECONDS)
        gone.set()
        await _soon(lambda: _has_ended(session, turns), "a client went away, and its turn never ended")

    async def _running(self, session: Session, connection: Connection, request: WireRequest, streams: bool) -> None:
        """Return when a turn runs, and the stream has begun if it is one; a message begins what only listens."""
        try:
            async with asyncio.timeout(_SECONDS if streams else None):
                if streams:
                    assert await connection.head() < 400, f"{request} was answered by {await connection.reply()}"
                    assert await connection.piece(), f"{request} ended before anything came"
        except TimeoutError:
            raise AssertionError(f"{request} is to be a stream, and nothing came within {_SECONDS:g} s") from None
        if streams and request.method == "GET":
            await session.submit(Incoming(text="hello", principal=self.principal))
        await _soon(lambda: _has_begun(session), f"{request} began no turn")

    @pytest.mark.asyncio
    async def test_a_stream_ends_with_the_server(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """A server that stops ends a stream in the middle of a turn, properly and soon, and nothing of it is left."""
        guard = LeakGuard()
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            request = self.streamed(session)
            halo.model.then(Hang("half an answer"))
            async with served.connection(request) as connection:
                await self._running(session, connection, request, streams=True)
                reading = asyncio.create_task(connection.reply(), name="the test's client")
                served.kernel.stopping.set()
                await asyncio.wait({reading}, timeout=_END_SECONDS)
                late, error = not reading.done(), reading.done() and reading.exception()
                reading.cancel()
            assert not late, f"the server stops, and the stream goes on after {_END_SECONDS:g} s"
            assert not error, f"the server stops, and the stream does not end properly: {error}"
        left = await guard.left()
        assert not left, "the server has stopped, and of its streams there is left: " + "; ".join(left)

    @pytest.mark.asyncio
    async def test_nothing_is_left_after_it_is_unloaded(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """Without the plugin its paths are answered by 404 and no task of it runs; what it had opened is closed."""
        guard = LeakGuard()
        async with self.serving(halo, protocol_env) as served:
            session = await self.session(halo)
            await self.sent(served, session, "say hello", key="k1")
            routes = served.kernel.routes
            for name in dict.fromkeys(name for name, _ in routes):
                await retire(served.kernel, name)
                running = [each.get_name() for each in asyncio.all_tasks() if each.get_name().startswith(f"{name}: ")]
                assert not running, f"{name} is unloaded, and goes on with {', '.join(running)}"
            for _, route in routes:
                reply = await served.ask(_bare(route))
                assert reply.status == 404, f"{route.method} {route.path} is unloaded, and answered by {reply}"
            assert await session.output(), "the plugin is unloaded, and what its session said is gone"
        left = await guard.left()
        assert not left, "it was unloaded, its server has ended, and there is left: " + "; ".join(left)

    @pytest.mark.asyncio
    async def test_requests_at_once_do_not_mix(self, protocol_env: Mapping[str, str], halo: Workbench) -> None:
        """Requests for several sessions at once each come to their own, and each gets its own answer."""
        async with self.serving(halo, protocol_env) as served:
            sessions = [await self.session(halo) for _ in range(_AT_ONCE)]
            sends = [
                self.sent(served, session, f"say word{number}x", key=f"k{number}")
                for number, session in enumerate(sessions)
            ]
            replies = await asyncio.gather(*sends)
            for number, (session, reply) in enumerate(zip(sessions, replies, strict=True)):
                came, mine = await _texts(session), {f"word{number}x"}
                assert set(_words(" ".join(came))) == mine, f"what was sent to session {number} is there as {came}"
                told = set(_words(reply.text))
                assert told <= mine, f"the reply to request {number} tells of {', '.join(sorted(told - mine))}"
                assert told or not self.answers, f"the reply to request {number} has no answer: {reply}"


def _count(tx: Tx, *, table: str) -> int:
    row = tx.one(f"SELECT count(*) FROM {table}")
    return cast("int", row[0]) if row else 0


async def _asks(served: Served, route: Route, headers: Mapping[str, str]) -> None:
    """See that a route refuses a caller of no credentials, or of wrong ones."""
    where = f"{route.method} {route.path}" + (" with wrong credentials" if headers else " without credentials")
    reply = await served.ask(_bare(route), headers)
    advice = "; name it in `public` if anybody may call it" if not headers else ""
    assert reply.status == 401, f"{where} is answered by {reply}, not by 401{advice}"
    told = reply.json() if route.method != "HEAD" else {"error": "", "type": ""}
    shaped = isinstance(told, dict) and {"error", "type"} <= set(cast("dict[str, object]", told))
    assert shaped, f"{where} is refused by {reply.text[:200]!r}, which is not {{error, type}}: raise `Unauthorized`"


def _bare(route: Route) -> WireRequest:
    """Return a request for a route, of no account."""
    path = re.sub(r"\{[^}]*\}", "x", route.path)
    return WireRequest(method=route.method, path=path, body={} if route.method in ("POST", "PUT", "PATCH") else None)


def _limit(kernel: Kernel, request: WireRequest) -> int:
    """Return the most bytes that the body of a request may have."""
    path = request.path.partition("?")[0]
    for _, route in kernel.routes:
        pieces = re.split(r"(\{[^}]*\})", route.path)
        pattern = "".join(
            (".*" if ":path" in piece else "[^/]*") if piece.startswith("{") else re.escape(piece) for piece in pieces
        )
        if route.method == request.method and re.fullmatch(pattern, path):
            return route.body_limit
    raise AssertionError(f"no route of the plugins is {request}")


def _repeat(request: ModelRequest) -> Step:
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return Answer(f"answer: {texts[-1].split()[-1]}")


def _words(text: str) -> list[str]:
    return re.findall(r"word\d+x", text)


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    more = {name: count - before.get(name, 0) for name, count in after.items()}
    return ", ".join(f"{count} in {name}" for name, count in more.items() if count)


async def _texts(session: Session) -> list[str]:
    """Return what the session was told, in order."""
    return [event.body.text for event in await journal(session) if isinstance(event.body, InputAdded)]


async def _ends(session: Session) -> list[str]:
    """Return how the session's turns ended, in order."""
    return [event.body.outcome for event in await journal(session) if isinstance(event.body, TurnEnded)]


async def _has_begun(session: Session) -> bool:
    """Tell whether a turn has begun and not ended; a session is `running` a moment before."""
    kinds = [event.kind for event in await journal(session)]
    return kinds.count("turn.started") > kinds.count("turn.ended")


async def _runs(session: Session) -> bool:
    return session.info.state == "running"


async def _has_ended(session: Session, turns: int) -> bool:
    return len(await _ends(session)) > turns and not await _runs(session)


async def _is_answered(session: Session) -> bool:
    return await _has_ended(session, 0) and not await session.waiting()


async def _soon(condition: Callable[[], Awaitable[bool]], complaint: str) -> None:
    """Return when `condition` is true, or raise `AssertionError`."""
    await soon(condition, complaint, _SECONDS)
