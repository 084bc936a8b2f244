"""The channel `web` over a real server: a token, a message, the stream of its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from halo_kernel import (
    OPERATOR,
    Call,
    Command,
    CommandResult,
    CommandSpec,
    Incoming,
    ModelRequest,
    Question,
    Session,
    Text,
    ToolResult,
    ToolSpec,
    hook,
)
from halo_kernel.testing import Answer, Calls, Fail, Hang, Pieces, ScriptedModel, Step, until

Frame = dict[str, Any]
Seen = tuple[Frame, str | None]

PIECES = ["One ", "two\nMED", "IA:pic.png\nth", "ree\n", "🍎 four"]
TEXT = "One two\nthree\n🍎 four"


class Look:
    """Reads nothing, and says so."""

    spec = ToolSpec(name="look", description="Look", parameters={"type": "object"}, effect="read")

    async def run(self, call: Call) -> str:
        return "x" * 600


class Buy:
    """Asks before it does anything."""

    spec = ToolSpec(name="buy", description="Buy", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(Question(text="Buy it?", options=("cheap",)))
        return f"approved: {call.answer.approved} {call.answer.text}"


class Go:
    """The command `/go`, which goes on in a new session."""

    spec = CommandSpec(name="go", summary="Go.")

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        child = await session.start_child("default")
        return CommandResult(text="On to the next.", session=child.info.id if arguments == "on" else "")

    @hook
    async def resolve_command(self, name: str, session: Session) -> Command | None:
        return self if name == "go" else None


def respond(request: ModelRequest) -> Step:
    """Do what the last message says."""
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        return Pieces(PIECES, delay=0.01)
    assert isinstance(last, Text)
    match last.text.rpartition("\n")[2].split():
        case ["look"]:
            return Calls([("look", {"a": 1}), ("look", {"a": 2})], text="I look.\n")
        case ["buy"]:
            return Calls([("buy", {})])
        case ["hang"]:
            return Hang("I begin, ")
        case ["fail"]:
            return Fail("account", "401: the key is wrong", retry_after=None)
        case ["count"]:
            return Pieces(PIECES, delay=0.01)
        case _:
            return Answer(f"You said: {last.text}")


def model() -> ScriptedModel:
    return ScriptedModel(responder=respond)


def kinds(seen: list[Seen]) -> list[str]:
    return [frame["type"] for frame, _ in seen]


def summed(seen: list[Seen]) -> list[Frame]:
    """Return frames without the `session` that begins each stream, the pieces of an answer as one."""
    found: list[Frame] = []
    for frame, _ in seen:
        if frame["type"] == "session":
            continue
        last = found[-1] if found else {}
        if frame["type"] == "stream" == last.get("type") and frame["reply"] == last["reply"]:
            assert frame["offset"] == last["offset"] + len(last["text"])
            last["text"] += frame["text"]
        else:
            found.append(dict(frame))
    return found


async def test_a_message_is_answered_in_frames(visiting) -> None:
    """A message begins a session; its frames are session, user, the answer's text and files, and the end."""
    async with visiting(model=model()) as visitor:
        seen = await visitor.chat("count", clientMsgId="k1")
        assert seen[0][0]["type"] == "session"
        assert seen[0][0]["sessionId"].startswith("web_site_")
        frames = summed(seen)
        assert [frame["type"] for frame in frames] == ["user", "stream", "file", "stream", "message", "complete"]
        assert (frames[0]["text"], frames[0]["key"]) == ("count", "k1")
        assert "".join(frame["text"] for frame in frames if frame["type"] == "stream") == TEXT
        assert frames[2]["path"] == "pic.png"
        assert all(mark for frame, mark in seen[1:])


async def test_a_tool_call_comes_with_its_result(visiting) -> None:
    """A call has name, arguments and id; its result the same id and the first 500 characters."""
    async with visiting(model=model(), tools=[Look()]) as visitor:
        frames = [frame for frame, _ in await visitor.chat("look")]
        calls = [frame for frame in frames if frame["type"] == "tool_call"]
        results = [frame for frame in frames if frame["type"] == "tool_result"]
        assert [(call["toolName"], call["toolInput"]) for call in calls] == [("look", {"a": 1}), ("look", {"a": 2})]
        assert [result["toolUseId"] for result in results] == [call["toolUseId"] for call in calls]
        assert {len(result["result"]) for result in results} == {500}


async def test_the_model_is_told_the_channel_and_people_are_not(visiting) -> None:
    """The model's text begins with channel and account, what people see does not."""
    scripted = model()
    async with visiting(model=scripted) as visitor:
        await visitor.chat("hello")
        assert scripted.requests[0].messages[0].content == (Text("[channel: web | account: site]\n\nhello"),)
        history = await visitor.get("/api/web/history")
        assert history["messages"][0]["text"] == "hello"


@pytest.mark.parametrize("word", ["count", "look"])
async def test_a_chat_that_was_cut_anywhere_goes_on(visiting, word: str) -> None:
    """Cut after every frame, live, the same message with `Last-Event-ID` gives the rest: no gap, no double."""
    scripted = model()
    async with visiting(model=scripted, tools=[Look()]) as visitor:
        whole = summed(await visitor.chat(word, clientMsgId="whole"))
        asked = len(scripted.requests)
        for count in range(2, 40):
            key = f"k{count}"
            session = (await visitor.post("/api/web/sessions"))["sessionId"]
            had = await visitor.chat(word, clientMsgId=key, sessionId=session, count=count)
            if kinds(had)[-1] == "complete":
                break
            rest = await visitor.chat(word, clientMsgId=key, sessionId=session, last=had[-1][1])
            assert shape([*had, *rest]) == shape_of(whole), count
            history = await visitor.get("/api/web/history", sessionId=session)
            assert [row["kind"] for row in history["messages"]].count("user") == 1
        assert count > 8
        assert len(scripted.requests) == asked * count


async def test_a_finished_chat_is_read_again_behind_any_frame(visiting) -> None:
    """Whoever asks again with an id of a finished answer gets what comes behind it; at its end, that it ended."""
    async with visiting(model=model(), tools=[Look()]) as visitor:
        seen = await visitor.chat("look", clientMsgId="k")
        for number, (_, mark) in enumerate(seen[1:-1], 1):
            rest = await visitor.chat("look", clientMsgId="k", last=mark)
            assert summed([*seen[: number + 1], *rest]) == summed(seen), number
        last = await visitor.chat("look", clientMsgId="k", last=seen[-1][1])
        assert (kinds(last), last[-1][0]["outcome"]) == (["session", "complete"], "")


async def test_a_subscription_goes_on_behind_any_frame(visiting) -> None:
    """A follower that comes back with the id of any frame, of the chat or its own, gets the frames behind it."""
    async with visiting(model=model(), tools=[Look()]) as visitor:
        chat = await visitor.chat("look")
        whole = await visitor.follow(after="0")
        assert summed(whole)[-len(summed(chat)) :] == summed(chat)
        for number, (_, mark) in enumerate(whole[1:-1], 1):
            rest = await visitor.follow(last=mark)
            assert summed([*whole[: number + 1], *rest]) == summed(whole), number
        for number, (_, mark) in enumerate(chat[1:-1], 1):
            rest = await visitor.follow(after=str(mark))
            assert summed([*chat[: number + 1], *rest]) == summed(chat), number


def shape(seen: list[Seen]) -> list[Frame]:
    return shape_of(summed(seen))


def shape_of(frames: list[Frame]) -> list[Frame]:
    """Return frames without what differs from turn to turn."""
    own = ("turn", "reply", "at", "row", "key", "toolUseId", "ms")
    return [{name: value for name, value in frame.items() if name not in own} for frame in frames]


async def test_a_follower_without_a_place_gets_the_running_turn(visiting) -> None:
    """Without an id a follower gets the turn that runs from its beginning, and nothing of those before it."""
    async with visiting(model=model()) as visitor:
        await visitor.chat("hello")
        idle = await visitor.follow()
        assert (kinds(idle), idle[0][0]["running"]) == (["session", "complete"], False)
        await visitor.chat("hang", count=3)
        seen = await visitor.follow(count=4)
        assert kinds(seen) == ["session", "started", "user", "stream"]
        assert (seen[0][0]["running"], seen[2][0]["text"], seen[3][0]["text"]) == (True, "hang", "I begin, ")
        assert (await visitor.post("/api/web/stop")) == {"stopped": True}


async def test_a_repeated_message_is_answered_once(visiting) -> None:
    """The same `clientMsgId` is the same message: twice at once, later, without a session, or in another one."""
    scripted = model()
    async with visiting(model=scripted) as visitor:
        one, two = await asyncio.gather(*(visitor.chat("count", clientMsgId="k") for _ in range(2)))
        await visitor.post("/api/web/sessions")
        three = await visitor.chat("count", clientMsgId="k")
        assert one[0][0]["sessionId"] == two[0][0]["sessionId"] == three[0][0]["sessionId"]
        assert summed(one) == summed(three)
        assert len(scripted.requests) == 1


async def test_a_key_is_its_accounts_own(visiting) -> None:
    """Two accounts may use the same `clientMsgId`: they are two messages."""
    scripted = model()
    async with visiting(model=scripted) as visitor:
        other = await visitor.other("second")
        async with other.http:
            for each in (visitor, other):
                await each.chat("hello", clientMsgId="k")
        assert len(scripted.requests) == 2


async def test_a_conversation_goes_on_in_the_newest_session(visiting) -> None:
    """Without `sessionId` a message goes to the account's newest session that is not archived; first ones share one."""
    async with visiting(model=model()) as visitor:
        first = await asyncio.gather(*(visitor.chat(f"m{number}", count=1) for number in range(5)))

        async def is_quiet() -> bool:
            rows = [row["kind"] for row in (await visitor.get("/api/web/history"))["messages"]]
            return rows.count("user") == 5 and rows[-1] == "assistant" and not await is_running(visitor)

        await until(is_quiet, what="rest")
        assert len({seen[0][0]["sessionId"] for seen in first}) == 1
        minted = (await visitor.post("/api/web/sessions"))["sessionId"]
        (again, *_) = await visitor.chat("hello")
        assert again[0]["sessionId"] == minted
        place = await visitor.kernel.host.workspaces.open(visitor.folder)
        person = await visitor.kernel.accounts.authenticate("web", visitor.token)
        session = await visitor.kernel.host.sessions.open(
            minted, workspace=place.id, principal=replace(person, kind="person")
        )
        await session.archive()
        (after, *_) = await visitor.chat("hello")
        assert after[0]["sessionId"] == first[0][0][0]["sessionId"]


async def test_a_busy_session_says_queued(visiting) -> None:
    """A message to a session that is answering is queued and its stream ends; asked again, its answer is streamed."""
    async with visiting(model=model()) as visitor:
        await visitor.chat("hang", count=3)
        assert kinds(await visitor.chat("next", clientMsgId="n", count=2)) == ["session", "queued"]
        await visitor.post("/api/web/stop")

        async def is_answered() -> bool:
            return bool((await visitor.get("/api/web/history"))["messages"][-1]["text"].startswith("You said"))

        await until(is_answered, what="the answer")
        seen = summed(await visitor.chat("next", clientMsgId="n"))
        assert [frame["type"] for frame in seen] == ["user", "stream", "message", "complete"]


async def test_stop_ends_the_turn(visiting) -> None:
    """Stop says whether a turn was running; the turn's stream ends as cancelled."""
    async with visiting(model=model()) as visitor:
        assert (await visitor.post("/api/web/stop")) == {"stopped": False}
        hanging = asyncio.create_task(visitor.chat("hang"))
        await until(lambda: is_running(visitor), what="the turn")
        assert (await visitor.post("/api/web/stop")) == {"stopped": True}
        seen = await asyncio.wait_for(hanging, 10)
        assert (seen[-1][0]["type"], seen[-1][0]["outcome"]) == ("complete", "cancelled")
        assert (await visitor.post("/api/web/stop")) == {"stopped": False}


async def is_running(visitor: Any) -> bool:
    return bool((await visitor.get("/api/web/history"))["running"])


async def test_a_failed_turn_is_an_error(visiting) -> None:
    """A turn that fails ends its stream with an error's sentence."""
    async with visiting(model=model()) as visitor:
        last = (await visitor.chat("fail"))[-1][0]
        assert (last["type"], last["kind"]) == ("error", "account")
        assert "the key is wrong" in last["error"]


async def test_a_command_is_text_switch_and_end(visiting) -> None:
    """`/go on` is answered in its own stream, beside a turn that runs; `switch` names where it goes on."""
    async with visiting(model=model(), extra={"go": Go()}) as visitor:
        session = (await visitor.post("/api/web/sessions"))["sessionId"]
        assert kinds(await visitor.chat("/go", sessionId=session)) == [
            "session",
            "user",
            "stream",
            "message",
            "complete",
        ]
        await visitor.chat("hang", sessionId=session, count=3)
        seen = await visitor.chat("/go on", sessionId=session, clientMsgId="c")
        assert kinds(seen) == ["session", "user", "stream", "message", "switch", "complete"]
        assert seen[2][0]["text"] == "On to the next." and seen[4][0]["sessionId"] != session
        again = await visitor.chat("/go on", sessionId=session, clientMsgId="c", last=seen[2][1])
        assert summed(again) == summed(seen)[2:]


async def test_a_question_is_answered_with_the_token(visiting) -> None:
    """A question is a frame; its account's answer settles it once, and the turn goes on."""
    async with visiting(model=model(), tools=[Buy()]) as visitor:
        stream = visitor.frames("POST", "/api/web/chat", json={"message": "buy"})
        async with aclosing(stream) as frames:
            async for frame, _ in frames:
                if frame["type"] == "question":
                    other = await visitor.other("second")
                    async with other.http:
                        body = {"question": frame["question"], "approved": True}
                        assert (await other.http.post("/api/web/answer", json=body)).status_code == 404
                    told = await visitor.post("/api/web/answer", **body, text="cheap")
                    assert (told["state"], told["answered_by"]) == ("approved", "web:site")
                    assert (await visitor.http.post("/api/web/answer", json=body)).status_code == 409
                if frame["type"] == "tool_result":
                    assert frame["result"] == "approved: True cheap"
                    break


async def test_a_readonly_account_does_not_approve_a_change(visiting) -> None:
    """Whoever may not do what a call does cannot allow it either."""
    async with visiting(model=model(), tools=[Buy()], access="readonly") as visitor:
        seen = await visitor.chat("buy")
        results = [frame for frame, _ in seen if frame["type"] == "tool_result"]
        assert results[0]["outcome"] != "ok"
        assert "question" not in kinds(seen)


async def test_an_account_sees_its_own_sessions_only(visiting) -> None:
    """13 Another account, the operator's included, has other sessions: for it these do not exist."""
    async with visiting(model=model()) as visitor:
        mine = (await visitor.chat("hello"))[0][0]["sessionId"]
        other = await visitor.other("second", access="full")
        async with other.http:
            assert (await other.get("/api/web/sessions"))["sessions"] == []
            assert await other.get("/api/web/history") == {
                "messages": [],
                "sessionId": None,
                "running": False,
                "title": "",
                "cursor": None,
            }
            for method, path, more in [
                ("GET", "/api/web/history", {"params": {"sessionId": mine}}),
                ("GET", "/api/web/subscribe", {"params": {"sessionId": mine}}),
                ("POST", "/api/web/chat", {"json": {"message": "x", "sessionId": mine}}),
                ("POST", "/api/web/stop", {"json": {"sessionId": mine}}),
            ]:
                reply = await other.http.request(method, path, **more)
                assert reply.status_code == 404, (path, reply.text)
        place = await visitor.kernel.host.workspaces.open(visitor.folder)
        operator = (await visitor.kernel.host.sessions.create(workspace=place.id, principal=OPERATOR)).info.id
        reply = await visitor.http.get("/api/web/history", params={"sessionId": operator})
        assert reply.status_code == 404


async def test_another_workspace_needs_full_access(visiting, tmp_path) -> None:
    """Only a `full` account may name another workspace, by path or id; its own may always be named."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with visiting(model=model()) as visitor:
        place = await visitor.kernel.host.workspaces.open(elsewhere)
        own = await visitor.kernel.host.workspaces.open(visitor.folder)
        for named in (str(visitor.folder), own.id):
            assert kinds(await visitor.chat("hello", workspace=named))[-1] == "complete"
        for named in (str(elsewhere), place.id):
            refused = await visitor.http.post("/api/web/chat", json={"message": "x", "workspace": named})
            assert (refused.status_code, refused.json()["error"]) == (
                403,
                "workspace override requires a full-access token",
            )
            header = await visitor.http.get("/api/web/sessions", headers={"x-workspace": named})
            assert header.status_code == 403
        full = await visitor.other("second", access="full")
        async with full.http:
            seen = await full.chat("hello", workspace=str(elsewhere))
            assert kinds(seen)[-1] == "complete"
            assert len((await full.get("/api/web/sessions", workspace=place.id))["sessions"]) == 1
            assert (await full.get("/api/web/sessions"))["sessions"] == []
            lost = await full.http.get("/api/web/sessions", params={"workspace": "/nowhere/at/all"})
            assert lost.status_code == 409


async def test_a_lowered_level_holds_from_the_next_message_on(visiting) -> None:
    """17 A message that is sent after the account's level was lowered runs at the lowered level."""
    async with visiting(model=model(), tools=[Buy()]) as visitor:
        session = (await visitor.chat("hello"))[0][0]["sessionId"]
        account = (await visitor.kernel.host.accounts.list("web"))[0]
        await visitor.kernel.host.accounts.put(replace(account, access="readonly"))
        seen = await visitor.chat("buy", sessionId=session)
        assert "question" not in kinds(seen)
        assert next(frame for frame, _ in seen if frame["type"] == "tool_result")["outcome"] != "ok"


async def test_history_and_sessions(visiting) -> None:
    """History has what people see, files apart from the text; `since` leaves out what is older; 50 sessions a page."""
    async with visiting(model=model()) as visitor:
        session = (await visitor.chat("count"))[0][0]["sessionId"]
        history = await visitor.get("/api/web/history")
        assert (history["sessionId"], history["running"], history["title"]) == (session, False, "count")
        rows = [(row["kind"], row["text"], row["files"]) for row in history["messages"]]
        assert rows == [("user", "count", []), ("assistant", TEXT, ["pic.png"])]
        assert kinds(await visitor.follow(after=history["cursor"])) == ["session", "complete"]
        later = str(max(row["at"] for row in history["messages"]) + 1)
        assert (await visitor.get("/api/web/history", since=later))["messages"] == []
        for _ in range(50):
            await visitor.post("/api/web/sessions")
        first = await visitor.get("/api/web/sessions")
        second = await visitor.get("/api/web/sessions", cursor=first["cursor"])
        assert (len(first["sessions"]), len(second["sessions"]), second["cursor"]) == (50, 1, None)
        assert second["sessions"][0]["sessionId"] == session


async def test_no_session_is_said_in_the_stream(visiting) -> None:
    """Following an account that has no session yet is one error frame."""
    async with visiting(model=model()) as visitor:
        assert kinds(await visitor.follow()) == ["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "chat", {}, "message"),
        ("POST", "chat", {"message": " \n"}, "message"),
        ("POST", "chat", {"message": 5}, "message"),
        ("POST", "chat", {"message": "x", "clientMsgId": ""}, "clientMsgId"),
        ("POST", "chat", {"message": "x", "clientMsgId": "k" * 129}, "clientMsgId"),
        ("POST", "chat", {"message": "x", "sessionId": "../x"}, "session"),
        ("POST", "chat", {"message": "x", "client_msg_id": "k"}, "client_msg_id"),
        ("POST", "chat", {"message": "x" * 990_001}, "message"),
        ("POST", "chat", {"message": "x\0"}, "message"),
        ("POST", "stop", {"session": "s"}, "session"),
        ("POST", "sessions", {"agent": "a"}, "agent"),
        ("POST", "answer", {"question": 1}, "approved"),
        ("GET", "subscribe?after=x", None, "after"),
        ("GET", "history?since=yesterday", None, "since"),
        ("GET", "sessions?cursor=-1", None, "cursor"),
        ("GET", "file", None, "path"),
    ],
)
async def test_bad_input_names_its_field(visiting, method: str, path: str, body: object, field: str) -> None:
    """What breaks a rule is answered 400 with the field's name, and no session begins."""
    async with visiting(model=model()) as visitor:
        reply = await visitor.http.request(method, f"/api/web/{path}", json=body)
        assert (reply.status_code, reply.json().get("field")) == (400, field), reply.text
        assert (await visitor.get("/api/web/sessions"))["sessions"] == []


async def test_what_is_not_there_is_refused(visiting) -> None:
    """An unknown session or agent is 404, a foreign journal's place 410, what is no JSON 400."""
    async with visiting(model=model()) as visitor:
        for path in ("history", "subscribe"):
            reply = await visitor.http.get(f"/api/web/{path}", params={"sessionId": "web_none"})
            assert reply.status_code == 404
        unknown = await visitor.http.post("/api/web/chat", json={"message": "x", "agentId": "nobody"})
        assert (unknown.status_code, "nobody" in unknown.json()["error"]) == (404, True)
        assert (await visitor.http.post("/api/web/chat", content=b"{")).status_code == 400
        await visitor.chat("hello", clientMsgId="k")
        gone = {"Last-Event-ID": f"{'0' * 32}.1"}
        assert (await visitor.http.get("/api/web/subscribe", headers=gone)).status_code == 410
        again = await visitor.http.post("/api/web/chat", headers=gone, json={"message": "hello", "clientMsgId": "k"})
        assert again.status_code == 410


async def test_a_token_is_all_that_counts(visiting) -> None:
    """1 A missing token is 401 and not counted, a wrong one counts; the operator's own is none of this channel."""
    async with visiting(model=model()) as visitor:
        async with httpx.AsyncClient(base_url=visitor.url) as nobody:
            for _ in range(7):
                assert (await nobody.get("/api/web/sessions")).status_code == 401
            assert (await nobody.get("/api/web/sessions", params={"token": visitor.token})).status_code == 200
            for _ in range(5):
                wrong = await nobody.get("/api/web/sessions", headers={"x-token": "wrong"})
                assert wrong.status_code == 401
        assert (await visitor.http.get("/api/web/sessions")).status_code == 429


async def test_the_page_takes_no_account_token(visiting) -> None:
    """An account's token opens nothing of the operator's page."""
    async with visiting(model=model()) as visitor:
        assert (await visitor.http.get("/api/page/workspaces")).status_code == 401


async def test_any_page_may_use_the_token_routes(visiting) -> None:
    """7 Token routes answer any origin without credentials, and any method is announced; the page's routes do not."""
    async with visiting(model=model()) as visitor:
        origin = {"Origin": "https://shop.example"}
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-token,content-type"}
        before = await visitor.http.options("/api/web/chat", headers={**origin, **asks})
        assert before.status_code == 204
        assert before.headers["access-control-allow-origin"] == "https://shop.example"
        assert {"POST", "PATCH"} <= set(before.headers["access-control-allow-methods"].split(", "))
        assert {"x-token", "Last-Event-ID"} <= set(before.headers["access-control-allow-headers"].split(", "))
        reply = await visitor.http.post("/api/web/chat", headers=origin, json={"message": "hello"})
        assert reply.headers["access-control-allow-origin"] == "https://shop.example"
        for each in (before, reply):
            assert "access-control-allow-credentials" not in each.headers
        page = await visitor.http.options("/api/page/chat", headers={**origin, **asks})
        assert "access-control-allow-origin" not in page.headers
        foreign = await visitor.http.post("/api/page/chat", headers=origin, json={"message": "x", "workspace": "w"})
        assert foreign.status_code in (401, 403)
        assert "access-control-allow-origin" not in foreign.headers


async def test_listed_origins_are_the_only_ones(visiting) -> None:
    """Once origins are listed, a page of another one is refused and reads nothing."""
    env = {"HALO_SERVER_CORS_ORIGINS": "https://shop.example"}
    async with visiting(model=model(), env=env) as visitor:
        body = {"message": "hello"}
        mine = await visitor.http.post("/api/web/chat", headers={"Origin": "https://shop.example"}, json=body)
        assert mine.headers["access-control-allow-origin"] == "https://shop.example"
        other = await visitor.http.post("/api/web/chat", headers={"Origin": "https://evil.example"}, json=body)
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


async def test_a_changed_account_ends_its_streams(visiting) -> None:
    """When an account is disabled its open streams end at once, and its token is worth nothing; the turn goes on."""
    async with visiting(model=model()) as visitor:
        hanging = asyncio.create_task(visitor.chat("hang"))
        await until(lambda: is_running(visitor), what="the turn")
        account = (await visitor.kernel.host.accounts.list("web"))[0]
        assert (await visitor.kernel.host.accounts.readiness("web", "site")).ready
        await visitor.kernel.host.accounts.put(replace(account, enabled=False))
        seen = await asyncio.wait_for(hanging, 5)
        assert kinds(seen)[-1] == "stream"
        assert (await visitor.http.get("/api/web/history")).status_code == 401
        await visitor.kernel.host.accounts.put(account)
        assert await is_running(visitor)
        await visitor.post("/api/web/stop")


async def test_a_reader_that_goes_does_not_stop_the_turn(visiting) -> None:
    """A client that disconnects leaves a turn that goes on to its end."""
    async with visiting(model=model()) as visitor:
        await visitor.chat("count", count=3)

        async def is_done() -> bool:
            messages = (await visitor.get("/api/web/history"))["messages"]
            return [row["text"] for row in messages] == ["count", TEXT]

        await until(is_done, what="the answer")
