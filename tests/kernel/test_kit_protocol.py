"""The contract suite for protocols: a good one passes, and each rule that a broken protocol breaks is named."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import HTTPConnection

from halo_kernel import (
    OPERATOR,
    AssistantMessage,
    BadInput,
    Conflict,
    Exchange,
    Host,
    Incoming,
    NotFound,
    Principal,
    Reply,
    Route,
    ServerEvent,
    Session,
    SessionInfo,
    Stream,
    Text,
    TooLarge,
    TurnEnded,
    Unauthorized,
    hook,
)
from halo_kernel.testing import ProtocolContract, WireRequest, Workbench

SESSION = "/mail/{workspace}/{session}"


class Letter(Struct, frozen=True, forbid_unknown_fields=True):
    """A message: what it says, its id, and what else is on the envelope."""

    text: str
    id: str = ""
    stamps: Sequence[int] = ()


class Told(Struct, frozen=True):
    """The answer to a letter."""

    answer: str


class Mail:
    """A plugin with a wire format of its own: a letter is answered by the agent's answer, or by a stream of it."""

    host: Host
    limit = 5000
    checked: type | None = Letter

    @hook
    def provide_routes(self, host: Host) -> Sequence[Route]:
        self.host = host
        about = Route(method="GET", path="/mail/about", handler=self.about, summary="Say what this is", auth="public")
        signed = Route(
            method="POST", path="/mail/hook", handler=self.signed, summary="Take a signed call", auth="signed"
        )
        return [*self.letters(), about, signed]

    def letters(self) -> Sequence[Route]:
        shape: dict[str, Any] = {"method": "POST", "request": self.checked, "body_limit": self.limit}
        return [
            Route(path=SESSION, handler=self.letter, summary="Answer a letter", reply=Told, **shape),
            Route(path=f"{SESSION}/stream", handler=self.stream, summary="Stream the answer to a letter", **shape),
        ]

    async def about(self, exchange: Exchange) -> dict[str, str]:
        return {"name": "mail"}

    async def signed(self, exchange: Exchange) -> object:
        raise Unauthorized("The signature is missing.")

    async def letter(self, exchange: Exchange) -> object:
        session, letter = await self.opened(exchange), await self.read(exchange)
        return await self.answered(session, letter, exchange)

    async def answered(self, session: Session, letter: Letter, exchange: Exchange) -> object:
        receipt = await self.submitted(session, letter, exchange)
        return Told(answer=await self.answer(session, receipt.cursor))

    async def submitted(self, session: Session, letter: Letter, exchange: Exchange) -> Any:
        return await session.submit(Incoming(text=letter.text, key=letter.id or None, principal=exchange.principal))

    async def opened(self, exchange: Exchange) -> Session:
        params = exchange.params
        return await self.host.sessions.open(
            params["session"], workspace=params["workspace"], principal=exchange.principal
        )

    async def read(self, exchange: Exchange) -> Letter:
        assert isinstance(exchange.body, Letter)
        return exchange.body

    async def answer(self, session: Session, cursor: str) -> str:
        """Return what the session answers to what came at a cursor."""
        async with aclosing(session.events(cursor, live=True)) as updates:
            async for update in updates:
                if update.event and isinstance(update.event.body, AssistantMessage):
                    return "".join(block.text for block in update.event.body.content if isinstance(block, Text))
        raise Conflict("The session has ended.")

    async def stream(self, exchange: Exchange) -> Stream:
        session, letter = await self.opened(exchange), await self.read(exchange)
        receipt = await self.submitted(session, letter, exchange)
        return Stream(events=self.told(session, receipt.cursor))

    async def told(self, session: Session, cursor: str) -> AsyncIterator[ServerEvent]:
        async with aclosing(session.events(cursor, live=True)) as updates:
            async for update in updates:
                if update.delta is not None:
                    yield ServerEvent(event="text", data=update.delta.text)
                if update.event and isinstance(update.event.body, TurnEnded):
                    return


class MailContract(ProtocolContract):
    public = ("GET /mail/about",)

    def message(self, session: SessionInfo, text: str, *, key: str = "") -> WireRequest:
        return WireRequest(
            path=f"/mail/{session.workspace}/{session.id}", body={"text": text, "id": key, "stamps": [1]}
        )

    def stream(self, session: SessionInfo, text: str) -> WireRequest | None:
        return WireRequest(path=f"/mail/{session.workspace}/{session.id}/stream", body={"text": text})

    def bad(self, session: SessionInfo) -> Sequence[tuple[WireRequest, str]]:
        path = f"/mail/{session.workspace}/{session.id}"
        return [(WireRequest(path=path, body={}), "text"), (WireRequest(path=path, body={"text": "a", "b": 1}), "b")]


class TestMail(MailContract):
    @pytest.fixture
    def halo_plugins(self) -> Sequence[object]:
        return [Mail()]


class Empty(Mail):
    """Has no route."""

    @hook
    def provide_routes(self, host: Host) -> Sequence[Route]:
        return []


class Open(Mail):
    """Asks nobody who they are."""

    scheme = "public"

    def letters(self) -> Sequence[Route]:
        return [dataclasses.replace(route, auth=self.scheme) for route in super().letters()]


class Trusting(Open):
    """Believes whoever calls."""

    scheme = "mail"

    @hook
    async def authenticate(self, request: HTTPConnection, scheme: str) -> Principal | None:
        return replace(OPERATOR, scheme=scheme)


class Believing(Trusting):
    """Believes whoever calls with any token."""

    @hook
    async def authenticate(self, request: HTTPConnection, scheme: str) -> Principal | None:
        return replace(OPERATOR, scheme=scheme) if "authorization" in request.headers else None


class Unsigned(Mail):
    """Looks at no signature."""

    async def signed(self, exchange: Exchange) -> object:
        return {"ok": True}


class Shapeless(Mail):
    """Refuses in words of its own."""

    async def signed(self, exchange: Exchange) -> object:
        return Reply(status=401, body="go away", media_type="text/plain")


class Mute(Mail):
    """Answers nothing."""

    async def answer(self, session: Session, cursor: str) -> str:
        await super().answer(session, cursor)
        return ""


class Stammering(Mail):
    """Sends everything twice."""

    async def submitted(self, session: Session, letter: Letter, exchange: Exchange) -> Any:
        await super().submitted(session, Letter(text=letter.text), exchange)
        return await super().submitted(session, letter, exchange)


class Making(Mail):
    """Makes the session that a letter is for."""

    async def opened(self, exchange: Exchange) -> Session:
        place = exchange.params
        return await self.host.sessions.open(
            place["session"], workspace=place["workspace"], principal=exchange.principal, create=True
        )


class Prying(Mail):
    """Opens others' sessions."""

    async def opened(self, exchange: Exchange) -> Session:
        try:
            return await super().opened(exchange)
        except NotFound:
            stranger = Principal(name="a stranger", kind="remote", scheme="another")
            return await super().opened(dataclasses.replace(exchange, principal=stranger))


class Blunt(Mail):
    """Calls a session that is not there a wrong request."""

    async def opened(self, exchange: Exchange) -> Session:
        try:
            return await super().opened(exchange)
        except NotFound as error:
            raise BadInput("There is no such session.", field="session") from error


class Writing(Mail):
    """Makes a session for every letter that it refuses."""

    async def opened(self, exchange: Exchange) -> Session:
        try:
            return await super().opened(exchange)
        except NotFound:
            await self.host.sessions.create(workspace=exchange.params["workspace"], principal=exchange.principal)
            raise


class Lax(Mail):
    """Takes bodies as they are."""

    checked = None

    async def read(self, exchange: Exchange) -> Letter:
        told = json.loads(await exchange.raw.body())
        return Letter(text=str(told["text"]), id=str(told.get("id", "")))


class Forgiving(Lax):
    """Takes what it cannot read for an empty letter."""

    async def read(self, exchange: Exchange) -> Letter:
        try:
            return await super().read(exchange)
        except (ValueError, LookupError, TypeError):
            return Letter(text="empty")


class Greedy(Lax):
    """Answers a letter that is too large as if it had come."""

    async def letter(self, exchange: Exchange) -> object:
        try:
            await exchange.raw.body()
            await super().read(exchange)
        except TooLarge:
            return Told(answer="thank you")
        except Exception as error:
            raise BadInput("No letter.") from error
        return await super().letter(exchange)


class Vague(Lax):
    """Refuses without a reason."""

    async def read(self, exchange: Exchange) -> Letter:
        try:
            return msgspec.json.decode(await exchange.raw.body(), type=Letter)
        except msgspec.ValidationError as error:
            raise BadInput("This is wrong.") from error


class Keyless(Mail):
    """Knows no message again."""

    async def submitted(self, session: Session, letter: Letter, exchange: Exchange) -> Any:
        return await super().submitted(session, Letter(text=letter.text), exchange)


class OneKey(Mail):
    """Takes every message for the same."""

    async def submitted(self, session: Session, letter: Letter, exchange: Exchange) -> Any:
        return await super().submitted(session, Letter(text=letter.text, id="one"), exchange)


class Fickle(Mail):
    """Answers a repeat in another way."""

    count = 0

    async def answer(self, session: Session, cursor: str) -> str:
        self.count += 1
        return f"{await super().answer(session, cursor)} ({self.count})"


class Bound(Mail):
    """Ends a turn with the stream that showed it."""

    async def told(self, session: Session, cursor: str) -> AsyncIterator[ServerEvent]:
        try:
            async for event in super().told(session, cursor):
                yield event
        finally:
            session.interrupt()


class Littering(Mail):
    """Leaves a task with every request."""

    litter: asyncio.Task[None] | None = None

    async def submitted(self, session: Session, letter: Letter, exchange: Exchange) -> Any:
        self.litter = asyncio.create_task(asyncio.sleep(60), name="litter")
        return await super().submitted(session, letter, exchange)


class Deaf(Mail):
    """Has streams that go on after their cancel."""

    async def told(self, session: Session, cursor: str) -> AsyncIterator[ServerEvent]:
        yield ServerEvent(event="text", data="hello")
        end = asyncio.get_running_loop().time() + 6
        while asyncio.get_running_loop().time() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)


class Polling(Mail):
    """Streams an answer when it is there."""

    async def stream(self, exchange: Exchange) -> Stream:
        session, letter = await self.opened(exchange), await self.read(exchange)
        receipt = await self.submitted(session, letter, exchange)
        await self.answer(session, receipt.cursor)
        return Stream(events=self.told(session, receipt.cursor))


class Mixing(Mail):
    """Has one place for what it answers."""

    last = ""

    async def answer(self, session: Session, cursor: str) -> str:
        self.last = await super().answer(session, cursor)
        await asyncio.sleep(0.3)
        return self.last


class Misplacing(Mail):
    """Has one place for whom it works."""

    session: Session

    async def opened(self, exchange: Exchange) -> Session:
        self.session = await super().opened(exchange)
        return self.session

    async def answered(self, session: Session, letter: Letter, exchange: Exchange) -> object:
        await asyncio.sleep(0.3)
        return await super().answered(self.session, letter, exchange)


async def broken(folder: Path, mail: Mail, test: str, *more: object) -> str:
    """Run one test of the contract on a protocol and return why it fails."""
    halo = Workbench(folder, plugins=[mail])
    halo.folder.mkdir()
    try:
        with pytest.raises(AssertionError) as caught:
            await getattr(MailContract(), test)({}, halo, *more)
    finally:
        await halo.close()
        for task in asyncio.all_tasks():
            if task.get_name() == "litter":
                task.cancel()
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mail", "test", "more", "message"),
    [
        (Empty, "test_a_message_arrives", (), "the plugins provide no routes"),
        (Open, "test_every_route_asks_who_calls", (), "without credentials is answered by 400"),
        (Trusting, "test_every_route_asks_who_calls", (), "without credentials is answered by 400"),
        (Believing, "test_every_route_asks_who_calls", (), "with wrong credentials is answered by 400"),
        (Unsigned, "test_every_route_asks_who_calls", (), "POST /mail/hook without credentials is answered by 200"),
        (Shapeless, "test_every_route_asks_who_calls", (), "which is not {error, type}: raise `Unauthorized`"),
        (Mute, "test_a_message_arrives", (), "the answer of the agent is not in 200"),
        (Stammering, "test_a_message_arrives", (), "one message was sent, and 2 came to the session"),
        (Making, "test_a_session_that_is_not_the_callers", ("nobody's",), "has to be refused, and was answered by 200"),
        (Prying, "test_a_session_that_is_not_the_callers", ("a stranger's",), "has to be refused, and was answered by"),
        (Blunt, "test_a_session_that_is_not_the_callers", ("nobody's",), "answered by 400"),
        (Writing, "test_a_session_that_is_not_the_callers", ("nobody's",), "left rows behind: 1 in sessions of"),
        (Lax, "test_a_body_that_is_none", (), "the body b'{' has to be refused, and was answered by 500"),
        (Forgiving, "test_a_body_that_is_none", (), "the body b'{' has to be refused, and was answered by 200"),
        (Greedy, "test_a_body_that_is_none", (), "a body of 5001 bytes has to be refused"),
        (Lax, "test_a_field_that_is_wrong", (), "a message with another type of text has to be refused"),
        (Vague, "test_a_field_that_is_wrong", (), "does not name text"),
        (Keyless, "test_a_repeat_is_one_message", (False,), "one message that was sent three times became 3"),
        (Keyless, "test_a_repeat_is_one_message", (True,), "one message that was sent three times became"),
        (OneKey, "test_a_repeat_is_one_message", (False,), "under another key did not come to the session"),
        (Fickle, "test_a_repeat_is_one_message", (False,), "a message and its repeats are answered by"),
        (Bound, "test_a_client_that_goes_away", ("stream",), "the turn ended as cancelled"),
        (Littering, "test_a_client_that_goes_away", ("message",), "there is left: task 'litter'"),
        (Littering, "test_a_client_that_goes_away", ("stream",), "there is left: task 'litter'"),
        (Deaf, "test_a_stream_ends_with_the_server", (), "of its streams there is left: task"),
        (Polling, "test_a_stream_ends_with_the_server", (), "is to be a stream, and nothing came within"),
        (Littering, "test_nothing_is_left_after_it_is_unloaded", (), "there is left: task 'litter'"),
        (Mixing, "test_requests_at_once_do_not_mix", (), "tells of word"),
        (Misplacing, "test_requests_at_once_do_not_mix", (), "sent was never answered"),
    ],
)
async def test_a_broken_protocol_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mail: Callable[[], Mail],
    test: str,
    more: tuple[object, ...],
    message: str,
) -> None:
    """A protocol that breaks a rule fails that rule's test, with a sentence that says what it does."""
    for name, seconds in (("_SECONDS", 3.0), ("_WRONG_SECONDS", 2.0)):
        monkeypatch.setattr(f"halo_kernel.testing.protocol_contract.{name}", seconds)
    assert message in await broken(tmp_path, mail(), test, *more)


async def test_a_route_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A route that is declared public, and is none, is told with those that there are."""

    class Wrong(MailContract):
        public = ("GET /mail/nothing",)

    halo = Workbench(tmp_path, plugins=[Mail()])
    with pytest.raises(AssertionError, match="`public` names GET /mail/nothing, and there are GET /mail/about"):
        await Wrong().test_every_route_asks_who_calls({}, halo)
