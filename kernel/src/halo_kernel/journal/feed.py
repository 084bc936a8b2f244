"""Following journals: what is stored, then what happens, nothing twice and nothing missing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from ..contracts import Bell, Database, Tx, Update
from ..errors import CursorGone, StorageUnavailable
from ..folds import View
from ..records import AssistantCut, AssistantDiscarded, AssistantMessage, Delta, Event
from .snapshots import folded
from .store import journal_of, make_cursor, parse_cursor, read, read_partial

_PAGE = 500
_QUEUE = 1000


class _Follower:
    """How far somebody has come, and a bounded queue of what is live. It begins with the journal.

    What is missing, or too much, sends it back there.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.journal, self.seq = "", 0
        self.queue: deque[Event | Delta] = deque()
        self.wake = asyncio.Event()
        self.behind = True
        self._finished: deque[str] = deque(maxlen=64)
        self._reply, self._upto = "", 0  # the unfinished one, and how many of its characters were told

    def offer(self, item: Event | Delta) -> None:
        """Queue what is live; pieces of one answer pile up as one."""
        if self.queue and isinstance(item, Delta) and (joined := _joined(self.queue[-1], item)):
            self.queue[-1] = joined
        elif len(self.queue) >= _QUEUE:
            self.fall_behind()
        elif not self.behind:
            self.queue.append(item)
        self.wake.set()

    def fall_behind(self) -> None:
        self.queue.clear()
        self.behind = True
        self.wake.set()

    def news(self, items: Iterable[Event | Delta]) -> Iterator[Update]:
        """Yield what was not told yet of `items`, up to where an event is missing."""
        for item in items:
            if isinstance(item, Delta):
                yield from self._delta(item)
            elif item.seq > self.seq + 1:
                return self.fall_behind()
            elif item.seq > self.seq:
                self.seq = item.seq
                if isinstance(item.body, AssistantMessage | AssistantDiscarded | AssistantCut):
                    self._finished.append(item.body.reply)
                yield Update(event=item, cursor=make_cursor(self.journal, item.seq))

    def _delta(self, delta: Delta) -> Iterator[Update]:
        if delta.reply in self._finished:
            return
        if delta.thinking:
            yield Update(delta=delta)
            return
        if delta.reply != self._reply:
            self._reply, self._upto = delta.reply, 0
        upto, end = self._upto, delta.offset + len(delta.text)
        if delta.offset <= upto < end:
            self._upto = end
            yield Update(delta=replace(delta, offset=upto, text=delta.text[upto - delta.offset :]))


class Feed:
    """The live side of one database's journals. Call `publish` on the event loop, after the commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: set[_Follower] = set()
        self._partials: dict[str, Delta] = {}
        self._watch: asyncio.Task[None] | None = None

    def publish(self, items: Iterable[Event | Delta]) -> None:
        """Tell followers about events that are committed."""
        for item in items:
            for follower in self._followers:
                if follower.session == item.session:
                    follower.offer(item)

    def publish_delta(self, delta: Delta) -> None:
        """Tell followers about a piece of an unfinished answer."""
        if not delta.thinking:
            self._partials[delta.session] = _joined(self._partials.get(delta.session), delta) or delta
        self.publish([delta])

    def partial(self, session: str) -> Delta | None:
        """Return the unfinished answer that this process is streaming."""
        return self._partials.get(session)

    def forget_partial(self, session: str) -> None:
        """The unfinished answer is a fact now, or was discarded."""
        self._partials.pop(session, None)

    async def follow(
        self, session: str, after: str | None = None, *, live: bool = False
    ) -> AsyncGenerator[Update, None]:
        """Yield events after the cursor, then with `live` what happens, until the caller stops.

        Raises `NotFound`, `BadInput`, `CursorGone`.
        """
        follower = _Follower(session)
        if live:
            self._join(follower)
        try:
            follower.journal, follower.seq = await self._database.read(lambda tx: _start(tx, session, after))
            while live or follower.behind:
                for update in follower.news(await self._next(follower, live)):
                    yield update
        finally:
            self._leave(follower)

    async def _next(self, follower: _Follower, live: bool) -> list[Event | Delta]:
        """Return the journal's next page, with the unfinished answer if it is the last, or else wait for what is live.

        That answer is looked up before the journal, so that every later piece of it is in the queue.
        """
        if not follower.behind:
            await follower.wake.wait()
            follower.wake.clear()
            items = list(follower.queue)
            follower.queue.clear()
            return items
        follower.behind = False
        session, seq, unfinished = follower.session, follower.seq, self._partials.get(follower.session)

        def page(tx: Tx) -> tuple[list[Event], Delta | None]:
            return read(tx, session, after=seq, limit=_PAGE), read_partial(tx, session)

        events, kept = await self._database.read(page)
        if len(events) == _PAGE:
            follower.fall_behind()
        elif live and (unfinished := unfinished or kept):
            return [*events, unfinished]
        return [*events]

    def _join(self, follower: _Follower) -> None:
        if self._watch is None:
            bell = self._database.listen("journal")
            self._watch = asyncio.get_running_loop().create_task(self._foreign(bell))
            self._watch.add_done_callback(lambda _: bell.close())
        self._followers.add(follower)

    def _leave(self, follower: _Follower) -> None:
        self._followers.discard(follower)
        if not self._followers and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _foreign(self, bell: Bell) -> None:
        """Send every follower back to the journal when another process wrote to the database, or it was closed."""
        with suppress(StorageUnavailable):
            while True:
                await bell.wait()
                for follower in self._followers:
                    follower.fall_behind()


def _start(tx: Tx, session: str, after: str | None) -> tuple[str, int]:
    journal, head = journal_of(tx, session)
    try:
        return journal, parse_cursor(after, journal, head)
    except CursorGone as gone:
        gone.view, gone.cursor = folded(tx, session, View)[0], make_cursor(journal, head)
        raise


def _joined(one: Event | Delta | None, more: Delta) -> Delta | None:
    """Return two pieces of one answer as one; None when they are not."""
    if isinstance(one, Delta) and (one.reply, one.thinking) == (more.reply, more.thinking):
        return replace(one, text=one.text + more.text)
    return None
