"""Server-sent events, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halo_lib_wire import SseEvent, SseParser

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
VALUES = st.text(alphabet="ab: \t\x1f\x85\u2028é你😀\ufeff", max_size=20)
RELAXED = settings(deadline=None)


def parsed(pieces: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(raw) + 1) for place in places})
    return [raw[begin:end] for begin, end in zip([0, *marks], [*marks, len(raw)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[SseEvent]]:
    """A stream in which every line has its own kind of end, and the events it holds."""
    out, events, last_id = [], [], ""
    for _ in range(draw(st.integers(0, 5))):
        lines = draw(st.lists(VALUES, min_size=1, max_size=3))
        kind = draw(st.sampled_from(["", "message", "error"]))
        if draw(st.booleans()):
            out.append(": a comment" + draw(ENDS))
        if kind:
            out.append(f"event: {kind}" + draw(ENDS))
        if draw(st.booleans()):
            last_id = draw(VALUES)
            out.append(f"id: {last_id}" + draw(ENDS))
        out += [f"data: {line}" + draw(ENDS) for line in lines]
        out.append(draw(ENDS))
        events.append(SseEvent("\n".join(lines), kind or "message", last_id))
    # A line that ends with CR followed by a line that is a bare LF would be one CRLF: keep them apart.
    after = [*out, ""][1:]
    apart = [":\n" if a.endswith("\r") and b.startswith("\n") else "" for a, b in zip(out, after, strict=True)]
    raw = "".join(line + comment for line, comment in zip(out, apart, strict=True))
    return (b"\xef\xbb\xbf" if draw(st.booleans()) else b"") + raw.encode(), events


@RELAXED
@given(streams(), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_are_those_written(stream: tuple[bytes, list[SseEvent]], places: list[int]) -> None:
    """What was written is read, with any line ends, comments, a byte-order mark and any cuts."""
    raw, events = stream
    assert parsed(cut(raw, places)) == events


@RELAXED
@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\r", list(range(24)))
def test_a_split_changes_nothing(raw: bytes, places: list[int]) -> None:
    """Any bytes, in one piece, byte by byte or cut anywhere, give the same events."""
    whole = parsed([raw])
    assert parsed(cut(raw, places)) == whole
    assert parsed([raw[i : i + 1] for i in range(len(raw))]) == whole


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: one\ndata: two\n\n", [SseEvent("one\ntwo")]),
        (b"data:no space\n\n", [SseEvent("no space")]),
        (b"data:  two spaces\n\n", [SseEvent(" two spaces")]),
        (b"data\n\n", [SseEvent("")]),
        (b"event: ping\n\n", []),
        (b": keep-alive\n\ndata: x\n\n", [SseEvent("x")]),
        (b"retry: 1500\ndata: x\n\n", [SseEvent("x", retry=1500)]),
        (b"retry: soon\ndata: x\n\n", [SseEvent("x")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [SseEvent("a", id="7"), SseEvent("b", id="7")]),
        (b"id: a\0b\ndata: x\n\n", [SseEvent("x")]),
        (b"unknown: x\ndata: y\n\n", [SseEvent("y")]),
        (b"data: last", [SseEvent("last")]),
        ("data: 你好\n\n".encode(), [SseEvent("你好")]),
        (b"data: \xff\n\n", [SseEvent("\ufffd")]),
    ],
)
def test_fields_follow_the_standard(raw: bytes, events: list[SseEvent]) -> None:
    """Fields, comments, ids and types are read as WHATWG HTML 9.2.6 says, but for an unended last event."""
    assert parsed([raw]) == events


def test_an_event_is_bounded() -> None:
    """An event that never ends is refused, whether it is one line or many."""
    for piece in (b"x" * 100, b"data: 1\n" * 20):
        parser = SseParser(limit=1000)
        with pytest.raises(ValueError, match="longer than 1000 bytes"):
            for _ in range(100):
                parser.feed(piece)


def test_many_events_are_not_one() -> None:
    """The bound is for one event, not for a stream."""
    parser = SseParser(limit=100)
    assert sum(len(parser.feed(b"data: 12345\n\n" * 5)) for _ in range(100)) == 500
