"""The verdict of the crash run sees what it has to see."""

from __future__ import annotations

from typing import Any

from .verdict import Verdict

Json = dict[str, Any]


def taken(text: str, *, cause: str = "message", sender: str = "operator") -> Json:
    return {"seq": 0, "kind": "input.added", "body": {"text": text, "cause": cause, "sender": sender}}


def said(text: str, *calls: str) -> Json:
    content = [{"type": "text", "text": text}, *({"type": "tool_call", "id": call} for call in calls)]
    return {"seq": 0, "kind": "assistant.message", "body": {"content": content}}


def found(*events: Json) -> tuple[int, int]:
    """Return how many messages are lost and how many doubled, when <m1> and <h2> were acknowledged."""
    verdict = Verdict()
    verdict.messages(events, ["<m1>", "<h2>"])
    return len(verdict.lost), len(verdict.twice)


def test_messages_lost_and_doubled() -> None:
    """Taken once and answered once in a whole answer is right; all else is counted."""
    both = taken("please <m1>"), taken("please <h2>")
    assert found(*both, said("let me look <m1>", "call"), said("answered <m1> <h2>")) == (0, 0)
    assert found(*both, said("answered <m1>")) == (1, 0)
    assert found(both[0], said("answered <m1> <h2>")) == (1, 0)
    assert found(*both, said("answered <m1> <h2>"), said("answered <h2>")) == (0, 1)
    assert found(*both, both[0], said("answered <m1> <h2>")) == (0, 1)


def test_reports_missing_and_doubled() -> None:
    """One report for each child that was given work, none for one that was not."""
    report = taken("done", cause="report", sender="session:sub_1")
    for work, reports, wrong in [(1, 1, 0), (0, 0, 0), (1, 0, 1), (1, 2, 1), (0, 1, 1)]:
        verdict = Verdict()
        verdict.child("sub_1", [taken("work <w1>")] * work, [taken("done <w1>"), *[report] * reports])
        assert len(verdict.faults) == wrong
        assert f"| children reported twice or never | {wrong} |" in verdict.table
