"""Following journals: what is stored, then what happens, nothing twice and nothing missing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

from msgspec.structs import replace

from ..contracts import Bell, Database, Tx, Update
from ..errors import CursorGone, StorageUnavailable
from ..folds import View
from ..records import AssistantCut, AssistantDiscarded, AssistantMessage, Delta, Event
from .cursor import make_cursor, parse_cursor
from .snapshots import folded
from .store import journal_of, read, read_partial

_PAGE = 500
_QUEUE = 1000


class _Reader:
    """One follower: a bounded queue of what is live. It begins with the journal; an overflow sends it back there."""

    def __init__(self) -> None:
        self.queue: deque[Event | Delta] = deque()
        self.wake = asyncio.Event()
        self.fall_behind()

    def offer(self, item: Event | Delta) -> None:
        if len(self.queue) >= _QUEUE:
            self.fall_behind()
        elif not self.behind:
            self.queue.append(item)
        self.wake.set()

    def take(self) -> Event | Delta:
        """Return the next item; pieces of one answer that have piled up come as one."""
        item = self.queue.popleft()
        if isinstance(item, Event):
            return item
        texts = [item.text]
        while self.queue and isinstance(more := self.queue[0], Delta) and _same_answer(item, more):
            texts.append(more.text)
            self.queue.popleft()
        return replace(item, text="".join(texts)) if len(texts) > 1 else item

    def fall_behind(self) -> None:
        self.queue.clear()
        self.behind = True
        self.wake.set()


class _Position:
    """How far a follower has come: the last event's number, and the characters of the unfinished reply."""

    def __init__(self, journal: str, seq: int) -> None:
        self.journal = journal
        self.seq = seq
        self.reply = ""
        self.upto = 0
        self.finished: deque[str] = deque(maxlen=64)

    def event(self, event: Event) -> Update | None:
        if event.seq <= self.seq:
            return None
        self.seq = event.seq
        if isinstance(event.body, AssistantMessage | AssistantDiscarded | AssistantCut):
            self.finished.append(event.body.reply)
        return Update(event=event, cursor=make_cursor(self.journal, event.seq))

    def delta(self, delta: Delta) -> Update | None:
        if delta.reply in self.finished:
            return None
        if delta.thinking:
            return Update(delta=delta)
        if delta.reply != self.reply:
            self.reply, self.upto = delta.reply, 0
        end = delta.offset + len(delta.text)
        if end <= self.upto or delta.offset > self.upto:
            return None
        fresh = replace(delta, offset=self.upto, text=delta.text[self.upto - delta.offset :])
        self.upto = end
        return Update(delta=fresh)


class Feed:
    """The live side of one database's journals. Call `publish` on the event loop, after the commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._readers: dict[str, set[_Reader]] = {}
        self._partials: dict[str, Delta] = {}
        self._bell: Bell | None = None
        self._watch: asyncio.Task[None] | None = None

    def publish(self, items: Iterable[Event]) -> None:
        """Tell followers about events that are committed."""
        for event in items:
            for reader in self._readers.get(event.session, ()):
                reader.offer(event)

    def publish_delta(self, delta: Delta) -> None:
        """Tell followers about a piece of an unfinished answer."""
        if not delta.thinking:
            old = self._partials.get(delta.session)
            kept = old.text if old is not None and old.reply == delta.reply else ""
            self._partials[delta.session] = replace(delta, offset=0, text=kept + delta.text)
        for reader in self._readers.get(delta.session, ()):
            reader.offer(delta)

    def forget_partial(self, session: str) -> None:
        """The unfinished answer is a fact now, or was discarded."""
        self._partials.pop(session, None)

    async def follow(
        self, session: str, after: str | None = None, *, live: bool = False
    ) -> AsyncGenerator[Update, None]:
        """Yield events after the cursor, then with `live` what happens, until the caller stops.

        Raises `NotFound`, `BadInput`, `CursorGone`.
        """
        reader = _Reader()
        if live:
            self._join(session, reader)
        try:
            position = await self._database.read(lambda tx: _start(tx, session, after))
            while True:
                await reader.wake.wait()
                reader.wake.clear()
                if reader.behind:
                    reader.behind = False
                    async for update in self._stored(session, position, self._partials.get(session), partial=live):
                        yield update
                if not live:
                    return
                for update in self._live(reader, position):
                    yield update
        finally:
            self._leave(session, reader)

    def _live(self, reader: _Reader, position: _Position) -> Iterable[Update]:
        while reader.queue:
            item = reader.take()
            if isinstance(item, Event) and item.seq > position.seq + 1:
                reader.fall_behind()
                return
            update = position.event(item) if isinstance(item, Event) else position.delta(item)
            if update is not None:
                yield update

    async def _stored(
        self, session: str, position: _Position, unfinished: Delta | None, *, partial: bool
    ) -> AsyncGenerator[Update, None]:
        """Yield what the journal holds; `unfinished` was taken before, so every later piece is in the queue."""
        while True:
            seq = position.seq

            def page(tx: Tx, seq: int = seq) -> tuple[list[Event], Delta | None]:
                return read(tx, session, after=seq, limit=_PAGE), read_partial(tx, session)

            events, kept = await self._database.read(page)
            unfinished = unfinished or kept
            for event in events:
                update = position.event(event)
                if update is not None:
                    yield update
            if len(events) < _PAGE:
                break
        if partial and unfinished is not None:
            update = position.delta(unfinished)
            if update is not None:
                yield update

    def _join(self, session: str, reader: _Reader) -> None:
        if self._watch is None:
            self._bell = self._database.listen("journal")
            self._watch = asyncio.get_running_loop().create_task(self._foreign(self._bell))
        self._readers.setdefault(session, set()).add(reader)

    def _leave(self, session: str, reader: _Reader) -> None:
        readers = self._readers.get(session, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(session, None)
        if not self._readers and self._watch is not None and self._bell is not None:
            self._watch.cancel()
            self._bell.close()
            self._watch = self._bell = None

    async def _foreign(self, bell: Bell) -> None:
        """Send every follower back to the journal when another process wrote to the database, or it was closed."""
        with suppress(StorageUnavailable):
            while True:
                await bell.wait()
                for readers in self._readers.values():
                    for reader in readers:
                        reader.fall_behind()


def _start(tx: Tx, session: str, after: str | None) -> _Position:
    journal, head = journal_of(tx, session)
    try:
        return _Position(journal, parse_cursor(after, journal, head))
    except CursorGone as gone:
        gone.view, gone.cursor = folded(tx, session, View)[0], make_cursor(journal, head)
        raise


def _same_answer(one: Delta, other: Delta) -> bool:
    return (one.reply, one.thinking) == (other.reply, other.thinking)
