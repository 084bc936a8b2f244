"""The channel when its server is killed: a message that is sent again under its key is one turn with one answer."""

from __future__ import annotations

import json
import signal
import urllib.request
from contextlib import closing
from typing import Any

import pytest

Frame = dict[str, Any]


def chat(site, session: str, key: str, *, last: str | None = None, enough: int = 1_000_000) -> list[Frame]:
    """Send a message with the token; return its frames, each with its `id`, up to the end or `enough` characters."""
    headers = {"x-token": site.visitor, "Content-Type": "application/json", **({"Last-Event-ID": last} if last else {})}
    body = json.dumps({"message": "count 40", "sessionId": session, "clientMsgId": key}).encode()
    request = urllib.request.Request(site.url + "/api/web/chat", data=body, headers=headers)
    found: list[Frame] = []
    with closing(urllib.request.urlopen(request, timeout=30)) as reply:
        mark = None
        for raw in reply:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                mark = line[4:]
            elif line.startswith("data: "):
                found.append({**json.loads(line[6:]), "id": mark})
                mark = None
                if found[-1].get("type") in ("complete", "error") or len(text_of(found)) >= enough:
                    return found
    return found


def text_of(frames: list[Frame]) -> str:
    return "".join(frame["text"] for frame in frames if frame.get("type") == "stream")


def mint(site) -> str:
    headers = {"x-token": site.visitor, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{site.url}/api/web/sessions", data=b"{}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return str(json.load(reply)["sessionId"])


def history(site, session: str) -> list[dict[str, Any]]:
    request = urllib.request.Request(
        f"{site.url}/api/web/history?sessionId={session}", headers={"x-token": site.visitor}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        return list(json.load(reply)["messages"])


def answered(frames: list[Frame]) -> str:
    """Return the text of the one answer that became whole."""
    (reply,) = [frame["reply"] for frame in frames if frame["type"] == "message"]
    return "".join(frame["text"] for frame in frames if frame["type"] == "stream" and frame["reply"] == reply)


@pytest.mark.parametrize("enough", [0, 1, 100])
def test_a_killed_server_answers_once(mortal_site, enough: int) -> None:
    """Killed in the middle of a stream and started again, the same `clientMsgId` is one message, told to its end."""
    site, key = mortal_site, f"kill-{enough}"
    session = mint(site)
    had = chat(site, session, key, enough=enough)
    site.stop(signal.SIGKILL)
    site.start()
    rest = chat(site, session, key, last=had[-1]["id"])
    assert (rest[-1]["type"], rest[-1].get("outcome")) == ("complete", "succeeded"), rest
    again = chat(site, session, key)
    assert answered([*had, *rest]) == answered(again) != ""
    assert [row["text"] for row in history(site, session) if row["kind"] == "user"] == ["count 40"]
    assert len([frame for frame in again if frame["type"] == "user"]) == 1
