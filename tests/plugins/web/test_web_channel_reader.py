"""The channel's frames: a reader that was cut off anywhere goes on without a gap and without a double."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    BadInput,
    Body,
    CommandFinished,
    Delta,
    Event,
    InputAdded,
    ServerEvent,
    SessionTitled,
    Text,
    ToolCall,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Update,
)
from halo_web.marks import Mark, parse_mark
from halo_web.media import MediaFold, take_media
from halo_web.reader import Reader

Frame = dict[str, Any]

LINES = st.sampled_from(
    [
        "Hello",
        "MEDIA:a.png",
        "  MEDIA: b c.txt ",
        "MED",
        "MEDIA",
        "MEDIA:",
        "",
        "```",
        "````py",
        "~~~",
        "號 🍎",
        "x MEDIA:no",
    ]
)
TEXTS = st.lists(LINES, max_size=8).map("\n".join) | st.text(alphabet="MEDIA:` \nab🍎", max_size=40)


def cut_up(text: str, draws: st.DataObject) -> list[str]:
    """Cut a text into pieces anywhere."""
    ends = sorted(draws.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [piece for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if (piece := text[start:end])]


@given(text=TEXTS, draws=st.data())
def test_files_are_taken_out_however_a_text_is_cut(text: str, draws: st.DataObject) -> None:
    """Text and files of an answer are the same whether it came in one piece or in many."""
    fold, pieces = MediaFold(), []
    for part in cut_up(text, draws):
        pieces += fold.take(part)
    pieces += fold.flush()
    assert ("".join(piece.text for piece in pieces), tuple(piece.path for piece in pieces if piece.path)) == take_media(
        text
    )
    assert [piece.end for piece in pieces] == sorted(piece.end for piece in pieces)
    assert not pieces or pieces[-1].end == len(text)


@given(text=TEXTS)
def test_a_text_loses_nothing_but_its_markers(text: str) -> None:
    """What is taken out is exactly the lines that are markers outside of fences."""
    rest, files = take_media(text)
    if not files:
        assert rest == text
    lines, fence, kept, paths = text.split("\n"), "", [], []
    for number, line in enumerate(lines):
        marker = None if fence else re.fullmatch(r"\s*MEDIA:\s*(\S(?:.*\S)?)\s*", line)
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if not fence:
            fence = mark[1] if mark else ""
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
        if marker:
            paths.append(marker[1])
        else:
            kept.append(line + ("\n" if number < len(lines) - 1 else ""))
    assert (rest, list(files)) == ("".join(kept), paths)


def deltas(reply: str, text: str, draws: st.DataObject) -> list[Delta]:
    pieces = cut_up(text, draws)
    starts = [0, *accumulate(map(len, pieces))]
    return [
        Delta(session="s", turn="t", reply=reply, offset=start, text=piece)
        for start, piece in zip(starts, pieces, strict=False)
    ]


def conversation(draws: st.DataObject) -> list[Body | Delta]:
    """Return what happens in a turn: answers that stream, a failed attempt, tools, a title in between, an end."""
    log: list[Body | Delta] = [
        TurnStarted(rows=(1,), cause="message", access="full"),
        InputAdded(row=1, key="client:k", text="Hi", content="Hi", sender="web:a", stamp=""),
    ]
    for number in range(draws.draw(st.integers(1, 3))):
        reply, text = f"r{number}", draws.draw(TEXTS)
        pieces = deltas(reply, text, draws)
        at = draws.draw(st.integers(0, len(pieces)))
        log += [*pieces[:at], *([SessionTitled(title="A title")] if draws.draw(st.booleans()) else []), *pieces[at:]]
        how = draws.draw(st.sampled_from(["message", "calls", "discarded", "cut"]))
        if how == "discarded":
            log.append(AssistantDiscarded(reply=reply, reason="network", error="cut", attempt=1))
        elif how == "cut":
            log.append(AssistantCut(reply=reply, text=text, reason="cancelled"))
        else:
            calls = [ToolCall(f"c{number}{each}", "look", {}) for each in range(2 if how == "calls" else 0)]
            log.append(AssistantMessage(reply=reply, content=(Text(text), *calls), stop="end", model="m/x"))
            log += [ToolFinished(call=call.id, name="look", outcome="ok", text="seen") for call in calls]
    return [*log, TurnEnded(outcome="succeeded")]


def updates(log: list[Body | Delta]) -> list[Update]:
    """Return a conversation as a session tells it; events are numbered, deltas are not."""
    found, seq = [], 1
    for item in log:
        if isinstance(item, Delta):
            found.append(Update(delta=item))
        else:
            seq += 1
            found.append(Update(event=Event(session="s", seq=seq, at=5, turn="t", body=item), cursor=f"j.{seq}"))
    return found


def feed(log: list[Update], after: int, now: int) -> list[Update]:
    """Return what a session tells a reader that comes after `now` steps: events, the unfinished answer, the rest."""
    past = [one for one in log[:now] if one.event is not None and one.event.seq > after]
    live = [one.delta for one in log[:now] if one.delta is not None]
    done = {getattr(one.event.body, "reply", "") for one in log[:now] if one.event is not None}
    open_ones = [delta for delta in live if delta.reply not in done]
    if open_ones:
        text = "".join(delta.text for delta in open_ones)
        past.append(Update(delta=Delta(session="s", turn="t", reply=open_ones[0].reply, offset=0, text=text)))
    return [*past, *log[now:]]


def read(reader: Reader, news: list[Update]) -> list[tuple[int, ServerEvent]]:
    return [(number, event) for number, update in enumerate(news) for event in reader.of(update)]


def seen(events: list[ServerEvent]) -> tuple[list[Frame], dict[str, list[Frame]]]:
    """Return what a client has in the end: its frames in order, and for itself each answer that counts, as one text."""
    others: list[Frame] = []
    answers: dict[str, list[Frame]] = {}
    for event in events:
        assert isinstance(event.data, dict)
        frame = dict(event.data)
        if frame["type"] not in ("stream", "file"):
            others.append(frame)
            continue
        answer = answers.setdefault(frame["reply"], [])
        last = answer[-1] if answer else {}
        if frame["type"] == "stream":
            assert frame["offset"] == sum(len(one.get("text", "")) for one in answer)
        if frame["type"] == "stream" == last.get("type"):
            last["text"] += frame["text"]
        else:
            answer.append({**frame, "offset": 0})
    for frame in others:
        if frame["type"] == "discarded":
            answers.pop(frame["reply"], None)
    return others, answers


@given(draws=st.data())
def test_a_reader_goes_on_behind_any_frame(draws: st.DataObject) -> None:
    """Cut after any frame and resumed later by its id, a reader has seen exactly what one sees that stayed."""
    log = updates(conversation(draws))
    whole = read(Reader("s"), log)
    assert all(event.id for _, event in whole if event.data["type"] != "thinking")  # type: ignore[index]
    count = draws.draw(st.integers(1, len(whole)))
    step, last = whole[count - 1]
    mark = parse_mark(last.id or "")
    now = draws.draw(st.integers(step + 1, len(log)))
    muted = draws.draw(st.booleans())
    begin = 1 if muted else int(mark.cursor.partition(".")[2])
    is_muted = muted and mark.cursor != "j.1"
    rest = read(Reader("s", after=mark, muted=is_muted), feed(log, begin, now))
    had = [event for _, event in whole[:count]]
    assert seen([*had, *(event for _, event in rest)]) == seen([event for _, event in whole])


@given(draws=st.data())
def test_a_reader_may_be_cut_again_and_again(draws: st.DataObject) -> None:
    """Resumed after every single frame, a reader still sees everything once."""
    log = updates(conversation(draws))
    whole = read(Reader("s"), log)
    had: list[ServerEvent] = []
    mark = Mark(cursor="j.1")
    while rest := read(Reader("s", after=mark), feed(log, int(mark.cursor.partition(".")[2]), len(log))):
        had.append(rest[0][1])
        mark = parse_mark(rest[0][1].id or "")
        assert len(had) <= len(whole) * 3
    assert seen(had) == seen([event for _, event in whole])


@given(
    st.builds(Mark, cursor=st.just("j.7"), reply=st.sampled_from(["", "r1"]), upto=st.just(0), seen=st.integers(0, 9))
)
def test_a_mark_is_read_as_it_was_written(mark: Mark) -> None:
    """The id of a frame and the place that it stands for are the same thing."""
    assert parse_mark(str(mark)) == mark


@pytest.mark.parametrize("raw", ["x", "j.", "j.1~", "j.1~r.1", "j.1~r.-1.0", "j.1~r.1.0x", "j.1\n", "é.1", "j.1~r.1.٣"])
def test_what_is_no_mark_is_refused(raw: str) -> None:
    """A place that this server never gave names its field."""
    with pytest.raises(BadInput) as caught:
        parse_mark(raw)
    assert caught.value.field == "after"


def test_a_command_is_text_and_says_where_it_goes_on() -> None:
    """A command is a user's words, its answer as text, a switch where one follows, and the end of its own stream."""
    body = CommandFinished(row=4, said="/session new", sender="web:a", text="On to b.", session="b", ok=True)
    update = Update(event=Event(session="s", seq=2, at=5, turn="", body=body), cursor="j.2")
    own, other = (Reader("s", after=Mark(cursor="j.1"), row=row).of(update) for row in (4, 9))
    assert [event.data["type"] for event in own] == ["user", "stream", "message", "switch", "complete"]  # type: ignore[index]
    assert [event.data for event in other] == [event.data for event in own[:-1]]
    assert own[1].data["text"] == "On to b." and own[3].data["sessionId"] == "b"  # type: ignore[index]
    assert [event.id for event in own[-2:]] == ["j.1~.0.4", "j.2"]


def test_a_message_names_the_clients_own_key() -> None:
    """A client finds its message by the `clientMsgId` that it gave."""
    body = InputAdded(row=3, key="client:k", text="Hi", content="Hi", sender="web:a", stamp="")
    (event,) = Reader("s").of(Update(event=Event(session="s", seq=2, at=5, turn="t", body=body), cursor="j.2"))
    assert event.data["key"] == "k"  # type: ignore[index]
