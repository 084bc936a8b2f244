"""Frames: what the page gets of a session's updates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    Body,
    ContextCut,
    ContextErased,
    Delta,
    Event,
    Foreign,
    InputAdded,
    QuestionAsked,
    QuestionSettled,
    ServerEvent,
    SessionTitled,
    Text,
    Thinking,
    ToolCall,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Update,
    UsageRecorded,
)
from halo_web.frames import RESULT_CHARS, Frames, own_key


def happened(body: Body, seq: int = 1) -> Update:
    return Update(event=Event(session="s", seq=seq, at=5, turn="t", body=body), cursor=f"j.{seq}")


def piece(text: str, offset: int, reply: str = "r") -> Update:
    return Update(delta=Delta(session="s", turn="t", reply=reply, offset=offset, text=text))


def message(*content: Text | Thinking | ToolCall, reply: str = "r") -> AssistantMessage:
    return AssistantMessage(reply=reply, content=content, stop="end", model="m/x")


def types(events: list[ServerEvent]) -> list[object]:
    return [event.data["type"] for event in events if isinstance(event.data, dict)]


def data(events: list[ServerEvent], kind: str) -> dict[str, object]:
    return next(event.data for event in events if isinstance(event.data, dict) and event.data["type"] == kind)


class Page:
    """What the page does with `stream` frames: append what it lacks, by offset."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def take(self, events: list[ServerEvent]) -> None:
        for event in events:
            assert isinstance(event.data, dict)
            if event.data["type"] == "discarded":
                self.texts[str(event.data["reply"])] = ""
            if event.data["type"] == "stream":
                reply, offset = str(event.data["reply"]), event.data["offset"]
                have = self.texts.setdefault(reply, "")
                assert isinstance(offset, int)
                assert offset <= len(have), "a gap"
                self.texts[reply] = have + str(event.data["text"])[len(have) - offset :]


@given(parts=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8), data=st.data())
def test_text_is_whole_wherever_the_reader_was_cut_off(parts: list[str], data: st.DataObject) -> None:
    """A page that lost its connection anywhere in an answer has exactly the answer in the end."""
    text, page = "".join(parts), Page()
    cut = data.draw(st.integers(0, len(parts)))
    first = Frames("s")
    for number in range(cut):
        page.take(first.of(piece(parts[number], len("".join(parts[:number])))))
    resumed = Frames("s")
    seen = data.draw(st.integers(cut, len(parts)))
    if seen:  # the unfinished answer so far, as a subscription begins
        page.take(resumed.of(piece("".join(parts[:seen]), 0)))
    page.take(resumed.of(happened(message(Text(text)))))
    assert page.texts["r"] == text


def test_a_finished_answer_is_streamed_on_replay_and_not_twice_live() -> None:
    """A reader gets the text of an answer once: as it comes, or whole when it came too late."""
    live, replay = Frames("s"), Frames("s")
    live.of(piece("Hello", 0))
    assert types(live.of(happened(message(Text("Hello"))))) == ["message"]
    assert types(replay.of(happened(message(Text("Hello"))))) == ["stream", "message"]


def test_only_the_last_frame_of_an_event_carries_its_cursor() -> None:
    """A reader who is cut off between two frames of one event gets both again."""
    call = ToolCall("c", "grep", {"pattern": "x"})
    events = Frames("s").of(happened(message(Text("I look."), call), seq=7))
    assert types(events) == ["stream", "message", "tool_call"]
    assert [event.id for event in events] == [None, None, "j.7"]


def test_a_discarded_answer_starts_anew() -> None:
    """After a failed attempt the page forgets what it had, and the next attempt's offsets begin at 0."""
    frames, page = Frames("s"), Page()
    page.take(frames.of(piece("wrong", 0)))
    lost = AssistantDiscarded(reply="r", reason="network", error="The connection was cut.", attempt=1)
    page.take(frames.of(happened(lost)))
    page.take(frames.of(happened(message(Text("right")), seq=2)))
    assert page.texts == {"r": "right"}


def test_a_cut_answer_keeps_its_text() -> None:
    """An answer that a stop ended is shown as far as it came, and says that it was cut."""
    frames, page = Frames("s"), Page()
    page.take(frames.of(piece("Half an", 0)))
    events = frames.of(happened(AssistantCut(reply="r", text="Half an ans", reason="cancelled")))
    page.take(events)
    assert page.texts == {"r": "Half an ans"}
    assert types(events) == ["stream", "cut"]


def test_thinking_is_whole_in_the_message() -> None:
    """Thinking comes in pieces that may be lost, and whole with the finished answer."""
    frames = Frames("s")
    delta = Delta(session="s", turn="t", reply="r", offset=0, text="Hm", thinking=True)
    assert types(frames.of(Update(delta=delta))) == ["thinking"]
    assert data(frames.of(happened(message(Thinking("Hmm"), Text("Yes")))), "message")["thinking"] == "Hmm"


def test_a_users_message_names_the_pages_own_key() -> None:
    """The page finds its message by the key that it made, not by the inbox's."""
    body = InputAdded(row=3, key=own_key("s", "k"), text="Hi", content="Hi", sender="operator", stamp="")
    frame = data(Frames("s").of(happened(body)), "user")
    assert (frame["key"], frame["row"], frame["text"]) == ("k", 3, "Hi")


def test_a_long_result_is_clipped_and_says_so() -> None:
    """A tool's result shows its first 500 characters and its whole length."""
    body = ToolFinished(call="c", name="file_read", outcome="ok", text="x" * 900, ms=3)
    frame = data(Frames("s").of(happened(body)), "tool_result")
    assert (frame["result"], frame["length"]) == ("x" * RESULT_CHARS, 900)


def test_turns_end_as_complete_or_error() -> None:
    """A failed turn is an error with its sentence; any other end is complete, but one that yielded is none."""
    failed = Frames("s").of(happened(TurnEnded(outcome="failed", error="No key.", kind="account")))
    assert data(failed, "error")["error"] == "No key."
    assert data(Frames("s").of(happened(TurnEnded(outcome="cancelled"))), "complete")["outcome"] == "cancelled"
    assert Frames("s").of(happened(TurnEnded(outcome="yielded"))) == []


def test_notices_titles_and_starts_are_shown_and_bookkeeping_is_not() -> None:
    """A plugin's notice, a title and the start of a turn are frames; usage is none."""
    frames = Frames("s")
    assert (
        data(frames.of(happened(Foreign(kind="x.note", data={"text": "Backed up."}))), "notice")["text"] == "Backed up."
    )
    assert types(frames.of(happened(SessionTitled(title="Files")))) == ["title"]
    assert types(frames.of(happened(TurnStarted(rows=(1,), cause="message", access="full")))) == ["started"]
    assert frames.of(happened(UsageRecorded(reply="r", model="m/x"))) == []
    assert frames.of(happened(Foreign(kind="x.count", data={"n": 1}))) == []
    cut = ContextCut(
        start=1, end=9, replacement="the summary", reason="threshold", text="Auto-compacted 4 older messages"
    )
    assert data(frames.of(happened(cut)), "notice")["text"] == "Auto-compacted 4 older messages"


def test_a_nudge_after_a_restart_is_no_message_of_a_person() -> None:
    """What the kernel writes to let a cut turn go on is shown as that, not as words of the user."""
    body = InputAdded(row=9, key="nudge:b:s", text="[System] …", content="[System] …", sender="recovery", stamp="")
    assert types(Frames("s").of(happened(body))) == ["resumed"]


def test_a_question_and_its_answer_are_frames() -> None:
    """A question comes with its call, its words, options and end, its answer with state, words and who gave it."""
    frames = Frames("s")
    body = QuestionAsked(question=3, call="c", tool="buy", text="Buy it?", options=("a", "b"), expires_at=9)
    asked = data(frames.of(happened(body)), "question")
    assert asked == {
        "type": "question",
        "turn": "t",
        "at": 5,
        "question": 3,
        "toolUseId": "c",
        "toolName": "buy",
        "text": "Buy it?",
        "options": ("a", "b"),
        "expiresAt": 9,
    }
    settled = data(frames.of(happened(QuestionSettled(question=3, call="c", state="denied", by="me"))), "settled")
    assert (settled["question"], settled["toolUseId"], settled["state"], settled["by"]) == (3, "c", "denied", "me")


def journal(turns: int) -> list[Event]:
    """Return what some turns and a notice behind each left, four events a turn."""
    bodies: list[Body] = []
    for number in range(turns):
        bodies += [
            TurnStarted(rows=(number,), cause="message", access="full"),
            InputAdded(row=number, key="k", text="Hi", content="Hi", sender="operator", stamp=""),
            TurnEnded(outcome="succeeded"),
            Foreign(kind="x.note", data={"text": "Backed up."}),
        ]
    return [
        Event(session="s", seq=seq, at=5, turn="" if isinstance(body, Foreign) else f"t{(seq - 1) // 4}", body=body)
        for seq, body in enumerate(bodies, 1)
    ]


@given(turns=st.integers(1, 4), draws=st.data())
def test_a_reader_is_told_of_an_erasure_if_it_has_any_of_it(turns: int, draws: st.DataObject) -> None:
    """`erased` comes exactly to readers that were shown words of the range, in this stream or before its cursor."""
    whole = journal(turns)
    first, last = sorted((draws.draw(st.integers(0, turns - 1)), draws.draw(st.integers(0, turns - 1))))
    start = first * 4 + draws.draw(st.sampled_from([1, 4]))
    end = (last + 1) * 4
    begun, read = sorted((draws.draw(st.integers(0, len(whole))), draws.draw(st.integers(0, len(whole)))))
    frames = Frames("s")
    for event in whole[begun:read]:
        frames.of(Update(event=event, cursor=f"j.{event.seq}"))
    for event in whole[read:]:
        gone = start <= event.seq <= end and not isinstance(event.body, TurnEnded)
        body = Foreign(kind=event.kind, data={"erased": True}) if gone else event.body
        frames.of(Update(event=Event(session="s", seq=event.seq, at=5, turn=event.turn, body=body), cursor="j.1"))
    told = frames.of(happened(ContextErased(start=start, end=end, by="me"), seq=len(whole) + 1))
    has = [event.seq for event in whole[:read] if start <= event.seq <= end]
    assert types(told) == (["erased"] if has else [])
