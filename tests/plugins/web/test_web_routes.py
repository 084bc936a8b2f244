"""The page's routes over a real server."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

Frame = dict[str, Any]


def frames(
    site, path: str, body: object | None = None, *, last: str | None = None
) -> Iterator[tuple[Frame, str | None]]:
    """Yield each frame of a stream with its cursor, until the server or the reader ends it."""
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"}
    if last is not None:
        headers["Last-Event-ID"] = last
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(site.url + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as reply:
        cursor = None
        for raw in reply:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                cursor = line[4:]
            elif line.startswith("data: "):
                yield json.loads(line[6:]), cursor
                cursor = None


def chat(site, message: str, **more: str) -> list[Frame]:
    body = {"workspace": site.workspace, "message": message, **more}
    return [frame for frame, _ in frames(site, "/api/page/chat", body)]


def followed(site, session: str, *, last: str | None = None) -> list[tuple[Frame, str | None]]:
    """Follow a session until its first turn ends."""
    found = []
    for frame, cursor in frames(site, f"/api/page/subscribe?workspace={site.workspace}&session={session}", last=last):
        found.append((frame, cursor))
        if frame["type"] in ("complete", "error"):
            return found
    return found


def refused(site, path: str, body: object | None = None) -> tuple[int, dict[str, Any]]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        site.ask(path, body)
    with caught.value as error:
        return error.code, json.load(error)


def begun(site, session: str) -> None:
    """Wait until a session answers."""
    deadline = time.monotonic() + 20
    while not site.get(f"/api/page/history?workspace={site.workspace}&session={session}")["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_chat_is_a_stream_that_ends_with_its_turn(shared_site) -> None:
    """A message without a session begins one: its frames are session, user, the answer in pieces, complete."""
    found = chat(shared_site, "count 6")
    assert found[0]["type"] == "session"
    assert found[-1]["type"] == "complete"
    assert "".join(frame["text"] for frame in found if frame["type"] == "stream") == "".join(
        f"{number} 号🍎 " for number in range(6)
    )
    assert [frame["text"] for frame in found if frame["type"] == "user"] == ["count 6"]


def test_a_tool_call_comes_with_its_result(shared_site) -> None:
    """A tool's call has name, arguments and id, its result the same id and the first 500 characters."""
    found = chat(shared_site, "look README.md")
    call = next(frame for frame in found if frame["type"] == "tool_call")
    result = next(frame for frame in found if frame["type"] == "tool_result")
    assert (call["toolName"], call["toolInput"]) == ("look", {"path": "README.md", "lines": 3})
    assert result["toolUseId"] == call["toolUseId"]
    assert len(result["result"]) == 500 < result["length"]


def test_a_repeated_message_is_answered_once(shared_site) -> None:
    """The same key without a session is the same message in the same new session, and streams the same answer."""
    first, second = chat(shared_site, "hello", key="k"), chat(shared_site, "hello", key="k")
    assert first[0]["sessionId"] == second[0]["sessionId"]
    assert [frame for frame in first if frame["type"] == "message"] == [
        frame for frame in second if frame["type"] == "message"
    ]
    assert len(shared_site.messages(first[0]["sessionId"])) == 2


def test_a_failed_turn_ends_with_an_error(shared_site) -> None:
    """A turn that fails ends its stream with an error's sentence and kind."""
    last = chat(shared_site, "fail")[-1]
    assert (last["type"], last["kind"]) == ("error", "account")
    assert "401: the key is wrong" in last["error"]


def test_a_busy_session_says_queued(shared_site) -> None:
    """A message to a session that is answering is queued, and that stream ends at once."""
    session = chat(shared_site, "hello")[0]["sessionId"]
    slow = threading.Thread(target=chat, args=(shared_site, "hold 40"), kwargs={"session": session})
    slow.start()
    begun(shared_site, session)
    found = chat(shared_site, "next", session=session)
    assert [frame["type"] for frame in found] == ["session", "queued"]
    shared_site.sign("go").touch()
    slow.join()


def test_stop_ends_the_turn(shared_site) -> None:
    """Stop answers whether a turn was running, and the turn's stream ends as cancelled."""
    session = chat(shared_site, "hello")[0]["sessionId"]
    stop = {"workspace": shared_site.workspace, "session": session}
    assert shared_site.ask("/api/page/stop", stop) == {"stopped": False}
    found: list[Frame] = []
    hanging = threading.Thread(target=lambda: found.extend(chat(shared_site, "hang", session=session)))
    hanging.start()
    begun(shared_site, session)
    assert shared_site.ask("/api/page/stop", stop) == {"stopped": True}
    hanging.join(10)
    assert (found[-1]["type"], found[-1]["outcome"]) == ("complete", "cancelled")


def test_a_subscription_resumes_at_its_cursor(shared_site) -> None:
    """Whoever comes back with a cursor gets the frames after it, and no other."""
    session = chat(shared_site, "look README.md")[0]["sessionId"]
    whole = followed(shared_site, session)
    cursors = [number for number, (_, cursor) in enumerate(whole) if cursor is not None]
    for number in cursors[:-1]:
        rest = followed(shared_site, session, last=whole[number][1])
        assert [frame for frame, _ in rest[1:]] == [frame for frame, _ in whole[number + 1 :]]


def test_a_session_at_rest_says_so_at_once(shared_site) -> None:
    """A subscription that misses nothing gets session and complete before anything happens."""
    session = chat(shared_site, "hello")[0]["sessionId"]
    end = followed(shared_site, session)[-1][1]
    found = [frame for frame, _ in followed(shared_site, session, last=end)]
    assert [frame["type"] for frame in found] == ["session", "complete"]
    assert found[0]["running"] is False


def test_history_is_what_people_see(shared_site) -> None:
    """History has the messages, the title and the cursor to subscribe after; `since` leaves out what is older."""
    session = chat(shared_site, "hello")[0]["sessionId"]
    path = f"/api/page/history?workspace={shared_site.workspace}&session={session}"
    history = shared_site.get(path)
    assert [(row["kind"], row["text"]) for row in history["messages"]] == [
        ("user", "hello"),
        ("assistant", "You said: hello"),
    ]
    assert (history["sessionId"], history["title"], history["running"]) == (session, "hello", False)
    assert history["cursor"] == followed(shared_site, session)[-1][1]
    later = max(row["at"] for row in history["messages"]) + 1
    assert shared_site.get(f"{path}&since={later}")["messages"] == []
    assert shared_site.get(f"/api/page/history?workspace={shared_site.workspace}")["sessionId"] is None


def test_sessions_are_made_and_listed(site) -> None:
    """A session can be made empty; the list has it with its origin, and 50 a page."""
    made = [site.ask("/api/page/sessions", {"workspace": site.workspace})["sessionId"] for _ in range(51)]
    first = site.get(f"/api/page/sessions?workspace={site.workspace}")
    second = site.get(f"/api/page/sessions?workspace={site.workspace}&cursor={first['cursor']}")
    found = [row["id"] for row in first["sessions"] + second["sessions"]]
    assert (len(first["sessions"]), second["cursor"]) == (50, None)
    assert found == made[::-1]
    assert {row["origin"] for row in first["sessions"]} == {"web"}
    agents = site.get(f"/api/page/agents?workspace={site.workspace}")["agents"]
    assert agents == [{"id": "default", "name": "Default", "description": ""}]


def test_the_page_learns_which_model_answers(site) -> None:
    """The offers come with the one a new turn takes, and why, with the kernel and the page alone."""
    found = site.get("/api/page/models")
    assert found["chosen"] == found["models"][0]["model"]
    assert found["reason"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/page/chat", {"message": " ", "workspace": "w"}, "message"),
        ("/api/page/chat", {"message": "x"}, "workspace"),
        ("/api/page/chat", {"message": "x", "workspace": "w", "images": []}, "images"),
        ("/api/page/chat", {"message": "x", "workspace": "w", "key": "k" * 129}, "key"),
        ("/api/page/subscribe?workspace=w", None, "session"),
        ("/api/page/subscribe?workspace=w&session=s&after=x", None, "after"),
        ("/api/page/sessions?workspace=w&cursor=-1", None, "cursor"),
        ("/api/page/history?workspace=w&session=s&since=yesterday", None, "since"),
        ("/api/page/sessions", None, "workspace"),
        ("/api/page/answer", {"workspace": "w", "question": 1}, "approved"),
        ("/api/page/answer", {"workspace": "w", "question": 1, "approved": "yes"}, "approved"),
        ("/api/page/answer", {"workspace": "w", "question": 1, "approved": True, "text": "x" * 100_001}, "text"),
    ],
)
def test_bad_input_names_its_field(shared_site, path: str, body: object, field: str) -> None:
    """What breaks a rule is answered 400 with the field's name, and nothing begins."""
    status, answer = refused(shared_site, path, body)
    assert (status, answer["field"]) == (400, field)


def test_what_is_not_there_is_404_and_another_journal_410(shared_site) -> None:
    """Unknown sessions are not found, and a foreign cursor is gone before a stream begins."""
    place = f"workspace={shared_site.workspace}"
    assert refused(shared_site, f"/api/page/subscribe?{place}&session=none")[0] == 404
    assert refused(shared_site, f"/api/page/history?{place}&session=none")[0] == 404
    session = chat(shared_site, "hello")[0]["sessionId"]
    assert refused(shared_site, f"/api/page/subscribe?{place}&session={session}&after={'0' * 32}.1")[0] == 410


def until(stream: Iterator[tuple[Frame, str | None]], kind: str) -> list[Frame]:
    """Read frames up to the first of this type."""
    found: list[Frame] = []
    for frame, _ in stream:
        found.append(frame)
        if frame["type"] == kind:
            return found
    raise AssertionError(found)


def asked(site, message: str) -> tuple[str, Frame, Iterator[tuple[Frame, str | None]]]:
    """Send what leads to a question; return the session, the question's frame and what follows it."""
    stream = frames(site, "/api/page/chat", {"workspace": site.workspace, "message": message})
    before = until(stream, "question")
    return before[0]["sessionId"], before[-1], stream


def answer(site, question: int, *, approved: bool, text: str = "") -> dict[str, Any]:
    body = {"workspace": site.workspace, "question": question, "approved": approved, "text": text}
    return site.ask("/api/page/answer", body)


def test_a_turn_waits_for_the_answer_and_goes_on_with_it(shared_site) -> None:
    """A question is a frame; its answer settles it, tells who gave it, and the same stream ends the turn."""
    _, question, stream = asked(shared_site, "buy lamp")
    assert (question["toolName"], question["text"], question["options"]) == ("buy", "Buy lamp?", ["cheap", "good"])
    assert question["expiresAt"] > question["at"]
    told = answer(shared_site, question["question"], approved=True, text="cheap")
    assert (told["state"], told["answer"], told["answered_by"]) == ("approved", "cheap", "operator")
    rest = until(stream, "complete")
    settled = next(frame for frame in rest if frame["type"] == "settled")
    assert (settled["question"], settled["toolUseId"]) == (question["question"], question["toolUseId"])
    assert (settled["state"], settled["text"], settled["by"]) == ("approved", "cheap", "operator")
    results = {frame["toolUseId"]: frame["result"] for frame in rest if frame["type"] == "tool_result"}
    assert results[question["toolUseId"]] == "Bought: lamp, cheap"


def test_a_question_is_answered_once(shared_site) -> None:
    """A second answer is a conflict with what to do about it, and one to no question is not found."""
    _, question, stream = asked(shared_site, "wipe all")
    assert answer(shared_site, question["question"], approved=False)["state"] == "denied"
    body = {"workspace": shared_site.workspace, "question": question["question"], "approved": True}
    status, why = refused(shared_site, "/api/page/answer", body)
    assert (status, why["error"]) == (409, f"question {question['question']} was denied already")
    assert why["advice"]
    assert refused(shared_site, "/api/page/answer", {**body, "question": 2**40})[0] == 404
    denied = next(frame for frame in until(stream, "complete") if frame["type"] == "tool_result")
    assert denied["outcome"] == "denied"


def test_an_unanswered_question_expires(shared_site) -> None:
    """When its time is over a question is settled as expired, by nobody, and the turn goes on."""
    _, _, stream = asked(shared_site, "hurry lamp")
    settled = until(stream, "settled")[-1]
    assert (settled["state"], settled["by"]) == ("expired", "")
    assert until(stream, "complete")[-1]["outcome"] == "succeeded"


def test_a_session_that_waits_is_not_at_rest(shared_site) -> None:
    """A subscription says that its turn runs, the list that it waits; a message is queued behind the question."""
    session, question, stream = asked(shared_site, "get lamp")
    queued = chat(shared_site, "next", session=session)
    assert [frame["type"] for frame in queued] == ["session", "queued"]
    assert queued[-1]["question"] == question["question"]
    path = f"/api/page/subscribe?workspace={shared_site.workspace}&session={session}"
    seen = until(frames(shared_site, path), "question")
    assert (seen[0]["running"], seen[-1]) == (True, question)
    assert all(frame["type"] != "complete" for frame in seen)
    rows = shared_site.get(f"/api/page/sessions?workspace={shared_site.workspace}")["sessions"]
    assert next(row["state"] for row in rows if row["id"] == session) == "waiting"
    assert shared_site.ask("/api/page/stop", {"workspace": shared_site.workspace, "session": session}) == {
        "stopped": True
    }
    assert until(stream, "complete")[-1]["outcome"] == "cancelled"


def test_readers_are_told_of_an_erasure_once(shared_site) -> None:
    """Whoever has words that were erased is told to forget them; a reader that begins anew never sees them."""
    session = chat(shared_site, "the heron nests here")[0]["sessionId"]
    path = f"/api/page/subscribe?workspace={shared_site.workspace}&session={session}"
    live = frames(shared_site, path)
    until(live, "complete")
    late = followed(shared_site, session)[-1][1]
    chat(shared_site, f"erase {session}")
    assert until(live, "erased")[-1] == {"type": "erased"}
    assert until(frames(shared_site, path, last=late), "erased")[-1] == {"type": "erased"}
    chat(shared_site, "hello", session=session)
    anew = frames(shared_site, path)
    found = [*until(anew, "complete"), *until(anew, "complete")]
    assert "heron" not in str(found)
    assert "erased" not in [frame["type"] for frame in found]
    assert [frame["text"] for frame in found if frame["type"] == "user"] == ["hello"]


def test_a_command_is_answered_in_its_own_stream(shared_site) -> None:
    """The stream of a command ends with its answer, also beside a turn that runs, whose own stream goes on."""
    session = shared_site.ask("/api/page/sessions", {"workspace": shared_site.workspace})["sessionId"]
    first, command = chat(shared_site, "/go", session=session)
    assert (first["type"], command["type"], command["row"]) == ("session", "command", first["row"])
    assert (command["text"], command["answer"], command["ok"]) == ("/go", "One line\nand <b>another</b>", True)
    body = {"workspace": shared_site.workspace, "session": session, "message": "count 20"}
    counting = frames(shared_site, "/api/page/chat", body)
    assert next(counting)[0]["type"] == "session"
    (_, moved) = chat(shared_site, "/go new", session=session)
    assert moved["session"] and moved["session"] != session
    rest = [frame["type"] for frame, _ in counting]
    assert rest[-1] == "complete" and "stream" in rest
