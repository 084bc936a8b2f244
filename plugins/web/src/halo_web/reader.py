"""The frames of a session as the channel's clients get them, each with an id to go on right behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from halo_kernel import ServerEvent, Update

from .frames import Frame, Frames
from .marks import Mark
from .media import MediaFold, Piece

CLIENT_KEY = "client:"  # before a `clientMsgId`, in the inbox

_NOTHING = Mark()


@dataclass
class _Reply:
    """An answer that is not whole yet: what was taken of it, and how much of that a reader was shown."""

    fold: MediaFold = field(default_factory=MediaFold)
    shown: int = 0


@dataclass
class Reader:
    """Turns a session's updates into frames, those behind `after` only.

    With `muted` the updates begin before `after`, else right behind its cursor. A command sent as the message `row`
    ends with a `complete`.
    """

    session: str
    after: Mark = _NOTHING
    muted: bool = False
    row: int = 0
    _at: Mark = _NOTHING
    _replies: dict[str, _Reply] = field(default_factory=dict[str, _Reply])

    def __post_init__(self) -> None:
        self._frames = Frames(self.session)
        self._at = Mark(cursor=self.after.cursor)

    def of(self, update: Update) -> list[ServerEvent]:
        """Return the frames of one update; some have none."""
        was_muted, skipped, seen = self.muted, self.after.seen, 0
        told: list[ServerEvent] = []
        for frame in self._frames.bare(update):
            for each in self._translated(frame):
                if each["type"] in ("stream", "file") and "end" in each:
                    told += self._text(each)
                elif update.cursor is None:
                    told.append(ServerEvent(event="message", data=each))
                else:
                    seen += 1
                    self._at = replace(self._at, seen=seen)
                    told += [self._event(each)] if seen > skipped else []
        if update.cursor is not None:
            self._pass(update.cursor)
            told[-1:] = [replace(last, id=str(self._at) or None) for last in told[-1:]]
        return [] if was_muted else told

    def _pass(self, cursor: str) -> None:
        """Go on behind an event of the journal."""
        if self._at.reply not in self._replies:
            self._at = replace(self._at, reply="", upto=0)
        self._at = replace(self._at, cursor=cursor, seen=0)
        if not self.muted:
            self.after = replace(self.after, seen=0)
        self.muted = self.muted and cursor != self.after.cursor

    def _translated(self, frame: Frame) -> Iterator[Frame]:
        match frame["type"]:
            case "stream":
                yield from self._taken(frame)
            case "message" | "cut":
                yield from self._ended(frame)
                yield frame
            case "discarded":
                self._replies.pop(str(frame["reply"]), None)
                yield frame
            case "user":
                yield {**frame, "key": str(frame["key"]).removeprefix(CLIENT_KEY)}
            case "command":
                yield from _command(frame, ends=frame["row"] == self.row)
            case _:
                yield frame

    def _taken(self, frame: Frame) -> Iterator[Frame]:
        """Yield the text and the files that a piece of an answer makes sure, with the `end` of each in the answer."""
        reply = self._replies.setdefault(str(frame["reply"]), _Reply())
        offset = frame["offset"]
        assert isinstance(offset, int)
        fresh = str(frame["text"])[max(0, reply.fold.taken - offset) :]
        for piece in reply.fold.take(fresh):
            yield _piece(frame, piece, reply)

    def _ended(self, frame: Frame) -> Iterator[Frame]:
        name = str(frame["reply"])
        reply = self._replies.setdefault(name, _Reply())
        for piece in reply.fold.flush():
            yield _piece(frame, piece, reply)
        del self._replies[name]

    def _text(self, frame: Frame) -> list[ServerEvent]:
        """Return what a reader lacks of a piece of an answer."""
        end, reply = frame.pop("end"), str(frame["reply"])
        assert isinstance(end, int)
        has = self.after.upto if self.after.reply == reply else 0
        self._at = replace(self._at, reply=reply, upto=max(end, has))
        if end <= has:
            return []
        text, offset = str(frame.get("text", "")), frame.get("offset")
        if isinstance(offset, int) and (old := len(text) - (end - has)) > 0:
            frame = {**frame, "text": text[old:], "offset": offset + old}
        return [self._event(frame)]

    def _event(self, frame: Frame) -> ServerEvent:
        return ServerEvent(event="message", data=frame, id=str(self._at) if self._at.cursor else None)


def _piece(frame: Frame, piece: Piece, reply: _Reply) -> Frame:
    stamp: Frame = {"turn": frame["turn"], "reply": frame["reply"], "end": piece.end}
    if piece.path:
        return {"type": "file", **stamp, "path": piece.path}
    offset, reply.shown = reply.shown, reply.shown + len(piece.text)
    return {"type": "stream", **stamp, "text": piece.text, "offset": offset}


def _command(frame: Frame, *, ends: bool) -> Iterator[Frame]:
    """Yield what a command looks like: what was asked, its answer as text, where the conversation goes on."""
    stamp: Frame = {"turn": "", "at": frame["at"], "reply": f"command:{frame['row']}"}
    asked = {name: frame[name] for name in ("row", "text", "sender")}
    yield {"type": "user", "turn": "", "at": frame["at"], **asked, "key": ""}
    yield {"type": "stream", **stamp, "text": frame["answer"], "offset": 0}
    yield {"type": "message", **stamp, "model": "", "thinking": "", "stop": "end"}
    if frame["session"]:
        yield {"type": "switch", "sessionId": frame["session"]}
    if ends:
        yield {"type": "complete", "turn": "", "at": frame["at"], "outcome": "succeeded" if frame["ok"] else "failed"}
