"""Following one message through its session's events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from halo_cli.follow import Reply, follow
from halo_cli.workspaces import open_workspace, session_path
from halo_kernel import ServerEvent
from halo_kernel.testing import Answer, Calls, Fail, Pieces, ScriptedModel
from halo_lib_client import Client


def event(kind: str, turn: str, **body: Any) -> ServerEvent:
    return ServerEvent(event="event", data={"seq": 1, "at": 1, "turn": turn, "kind": kind, "body": body})


def started(turn: str, *rows: int) -> ServerEvent:
    return event("turn.started", turn, rows=list(rows), cause="message", access="full")


def said(turn: str, text: str) -> ServerEvent:
    return event("assistant.message", turn, reply="r", content=[{"type": "text", "text": text}], model="m")


def ended(turn: str, outcome: str, **more: str) -> ServerEvent:
    return event("turn.ended", turn, outcome=outcome, **more)


def delta(turn: str, text: str) -> ServerEvent:
    return ServerEvent(event="delta", data={"turn": turn, "reply": "r", "offset": 0, "text": text, "thinking": False})


def read(*events: ServerEvent, row: int = 7) -> tuple[Reply, str, int]:
    """Follow `row`; return the reply, what was shown, and how many events were read."""
    shown: list[str] = []
    taken: list[ServerEvent] = []
    reply = follow((taken.append(each) or each for each in events), row, watch=shown.append)
    return reply, "".join(shown), len(taken)


def ask(client: Client, tmp_path: Any, text: str) -> tuple[Reply, str]:
    """Send a message to a new session of a real kernel and follow it."""
    workspace, _ = open_workspace(client, tmp_path)
    session = client.post(session_path(workspace), {})["id"]
    receipt = client.post(f"{session_path(workspace, session)}/messages", {"text": text})
    shown: list[str] = []
    events = client.stream(f"{session_path(workspace, session)}/stream", after=receipt["cursor"])
    return follow(events, receipt["row"], watch=shown.append), "".join(shown)


def test_an_answer_of_a_real_kernel_is_followed_to_its_end(client: Client, model: ScriptedModel, tmp_path) -> None:
    """Text, tools, usage and outcome come from the events that a server really sends; what happens is shown."""
    model.then(Calls([("note", {"text": "x"}), ("note", {"text": "y"})], text="I note."), Pieces(["It is ", "done."]))
    reply, shown = ask(client, tmp_path, "note it")
    assert (reply.outcome, reply.text, reply.error) == ("succeeded", "It is done.", "")
    assert [tool["name"] for tool in reply.tools] == ["note", "note"]
    assert reply.usage == {
        "inputTokens": 20,
        "outputTokens": 10,
        "cacheReadInputTokens": 0,
        "modelId": "scripted/model",
    }
    assert shown.count("[tool: note]") == 2 and shown.count("[done: note ") == 2
    assert shown.index("I note.") < shown.index("[tool: note]") < shown.index("It is done.")


def test_a_failed_attempt_is_shown_and_a_failed_turn_told(client: Client, model: ScriptedModel, tmp_path) -> None:
    """Each failed attempt is a line for the curious; only the turn's own error is the reply's."""
    model.then(Fail("network", "cut in the middle", text="half"), Answer("whole"))
    reply, shown = ask(client, tmp_path, "speak")
    assert (reply.outcome, reply.text, reply.error) == ("succeeded", "whole", "")
    assert "[attempt 1 failed: cut in the middle]" in shown
    model.then(Fail("account", "401: the key is wrong"))
    reply, shown = ask(client, tmp_path, "again")
    assert (reply.outcome, reply.text) == ("failed", "")
    assert reply.error.startswith("401: the key is wrong")


def test_turns_of_other_messages_are_not_ours() -> None:
    """What other turns of the session say, do and cost is left out, before ours and after it."""
    reply, shown, taken = read(
        started("a", 5),
        delta("a", "theirs"),
        said("a", "theirs"),
        event("tool.finished", "a", name="theirs"),
        ended("a", "succeeded"),
        started("b", 6, 7),
        delta("b", "ours"),
        said("b", "ours"),
        ended("b", "succeeded"),
        said("c", "later"),
    )
    assert (reply.text, reply.outcome, reply.tools) == ("ours", "succeeded", [])
    assert shown == "ours"
    assert taken == 9


def test_a_message_that_joins_a_running_turn_is_answered_by_it() -> None:
    """A row that was steered into a turn is answered by that turn."""
    reply, _, _ = read(
        started("a", 5),
        said("a", "begun"),
        event("input.added", "a", row=7),
        said("a", "both"),
        ended("a", "succeeded"),
    )
    assert (reply.text, reply.outcome) == ("both", "succeeded")


def test_a_turn_that_gives_way_or_is_cut_by_a_crash_goes_on_in_the_next() -> None:
    """The answer is that of the turn that goes on; tools and usage of both count."""
    for end in (ended("a", "yielded"), ended("a", "interrupted", error="cut", error_kind="crash")):
        reply, _, _ = read(
            started("a", 7),
            said("a", "half"),
            event("tool.finished", "a", name="first", ms=3),
            event("usage.recorded", "a", model="m", input=1, output=2),
            end,
            started("b", 8),
            event("tool.finished", "b", name="second", ms=4),
            event("usage.recorded", "b", model="n", input=10, output=20, cache_read=30),
            said("b", "whole"),
            ended("b", "succeeded"),
        )
        assert (reply.text, reply.outcome, reply.error) == ("whole", "succeeded", "")
        assert [tool["durationMs"] for tool in reply.tools] == [3, 4]
        assert reply.usage == {"inputTokens": 11, "outputTokens": 22, "cacheReadInputTokens": 30, "modelId": "n"}


def test_a_turn_that_somebody_interrupted_is_the_end() -> None:
    """Only a crash is followed on: an interrupt by a person ends the answer."""
    reply, _, taken = read(
        started("a", 7), said("a", "half"), ended("a", "interrupted", error="stopped"), started("b", 8)
    )
    assert (reply.outcome, reply.text, reply.error, taken) == ("interrupted", "half", "stopped", 3)


def test_a_stream_that_ends_early_leaves_no_outcome() -> None:
    """Without the end of the turn there is no outcome, so nobody takes a part for the whole."""
    reply, _, _ = read(started("a", 7), said("a", "half"))
    assert reply.outcome == ""


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["succeeded", "failed", "cancelled"])), max_size=8))
def test_whatever_came_before_the_own_turn_decides(turns: list[tuple[int, str]]) -> None:
    """Among any turns, each of one row, the reply is that of the first with our row, else there is none."""
    events = []
    for number, (row, outcome) in enumerate(turns):
        turn = f"t{number}"
        events += [started(turn, row), said(turn, turn), ended(turn, outcome)]
    reply, _, _ = read(*events)
    own = next(((f"t{number}", outcome) for number, (row, outcome) in enumerate(turns) if row == 7), ("", ""))
    assert (reply.text, reply.outcome) == own


def test_a_question_that_keeps_the_turn_waiting_is_told() -> None:
    """Who follows a turn hears what it waits for and how to answer; another turn's question is none of it."""
    asked: list[str] = []
    events = [
        started("t", 7),
        event("question.asked", "t", question=3, call="", tool="", text="More?", expires_at=1),
        event("question.asked", "other", question=4, call="", tool="", text="Else?", expires_at=1),
        said("t", "yes"),
        ended("t", "succeeded"),
    ]
    assert follow(iter(events), 7, watch=lambda text: None, ask=asked.append).text == "yes"
    assert asked == ["It waits for you: More? (`halo approvals approve 3`, or `deny 3`)"]
