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
    return [frame for frame, _ in frames(site, "/api/web/chat", body)]


def followed(site, session: str, *, last: str | None = None) -> list[tuple[Frame, str | None]]:
    """Follow a session until its first turn ends."""
    found = []
    for frame, cursor in frames(site, f"/api/web/subscribe?workspace={site.workspace}&session={session}", last=last):
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
    while not site.get(f"/api/web/history?workspace={site.workspace}&session={session}")["running"]:
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
    assert shared_site.ask("/api/web/stop", stop) == {"stopped": False}
    found: list[Frame] = []
    hanging = threading.Thread(target=lambda: found.extend(chat(shared_site, "hang", session=session)))
    hanging.start()
    begun(shared_site, session)
    assert shared_site.ask("/api/web/stop", stop) == {"stopped": True}
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
    path = f"/api/web/history?workspace={shared_site.workspace}&session={session}"
    history = shared_site.get(path)
    assert [(row["kind"], row["text"]) for row in history["messages"]] == [
        ("user", "hello"),
        ("assistant", "You said: hello"),
    ]
    assert (history["sessionId"], history["title"], history["running"]) == (session, "hello", False)
    assert history["cursor"] == followed(shared_site, session)[-1][1]
    later = max(row["at"] for row in history["messages"]) + 1
    assert shared_site.get(f"{path}&since={later}")["messages"] == []
    assert shared_site.get(f"/api/web/history?workspace={shared_site.workspace}")["sessionId"] is None


def test_sessions_are_made_and_listed(site) -> None:
    """A session can be made empty; the list has it with its origin, and 50 a page."""
    made = [site.ask("/api/web/sessions", {"workspace": site.workspace})["sessionId"] for _ in range(51)]
    first = site.get(f"/api/web/sessions?workspace={site.workspace}")
    second = site.get(f"/api/web/sessions?workspace={site.workspace}&cursor={first['cursor']}")
    found = [row["id"] for row in first["sessions"] + second["sessions"]]
    assert (len(first["sessions"]), second["cursor"]) == (50, None)
    assert found == made[::-1]
    assert {row["origin"] for row in first["sessions"]} == {"web"}
    agents = site.get(f"/api/web/agents?workspace={site.workspace}")["agents"]
    assert agents == [{"id": "default", "name": "Default", "description": ""}]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/web/chat", {"message": " ", "workspace": "w"}, "message"),
        ("/api/web/chat", {"message": "x"}, "workspace"),
        ("/api/web/chat", {"message": "x", "workspace": "w", "images": []}, "images"),
        ("/api/web/chat", {"message": "x", "workspace": "w", "key": "k" * 129}, "key"),
        ("/api/web/subscribe?workspace=w", None, "session"),
        ("/api/web/subscribe?workspace=w&session=s&after=x", None, "after"),
        ("/api/web/sessions?workspace=w&cursor=-1", None, "cursor"),
        ("/api/web/history?workspace=w&session=s&since=yesterday", None, "since"),
        ("/api/web/sessions", None, "workspace"),
    ],
)
def test_bad_input_names_its_field(shared_site, path: str, body: object, field: str) -> None:
    """What breaks a rule is answered 400 with the field's name, and nothing begins."""
    status, answer = refused(shared_site, path, body)
    assert (status, answer["field"]) == (400, field)


def test_what_is_not_there_is_404_and_another_journal_410(shared_site) -> None:
    """Unknown sessions are not found, and a foreign cursor is gone before a stream begins."""
    place = f"workspace={shared_site.workspace}"
    assert refused(shared_site, f"/api/web/subscribe?{place}&session=none")[0] == 404
    assert refused(shared_site, f"/api/web/history?{place}&session=none")[0] == 404
    session = chat(shared_site, "hello")[0]["sessionId"]
    assert refused(shared_site, f"/api/web/subscribe?{place}&session={session}&after={'0' * 32}.1")[0] == 410
