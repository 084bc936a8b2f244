"""What waits for a bot: numbered, in order, until it is confirmed."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

KIND_NAMES = (
    "message edited_message channel_post edited_channel_post business_connection business_message "
    "edited_business_message deleted_business_messages guest_message message_reaction message_reaction_count "
    "inline_query chosen_inline_result callback_query shipping_query pre_checkout_query purchased_paid_media poll "
    "poll_answer my_chat_member chat_member chat_join_request chat_boost removed_chat_boost managed_bot "
    "stopped_message_generation"
)
KINDS = frozenset(KIND_NAMES.split())
DEFAULT = KINDS - {"chat_member", "message_reaction", "message_reaction_count"}


@dataclass
class Poll:
    """A getUpdates that waits."""

    offset: int
    limit: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    ended_by: str = ""
    """Why it ended without updates, for the answer: '' is its time."""
    hung_up: bool = False


@dataclass
class Updates:
    """One bot's queue."""

    numbers: itertools.count[int]
    allowed: frozenset[str] = DEFAULT
    pending: list[dict[str, Any]] = field(default_factory=list)
    again: list[dict[str, Any]] = field(default_factory=list)
    """Duplicates: they arrive with the next answer, confirmed or not."""
    past: dict[int, dict[str, Any]] = field(default_factory=dict)
    poll: Poll | None = None
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, kind: str, body: dict[str, Any], *, asked: bool = False) -> int:
        """Queue an update; return its number, 0 if the bot did not ask for such (`asked` knows better)."""
        if kind not in self.allowed and not asked:
            return 0
        number = next(self.numbers)
        self.past[number] = {"update_id": number, kind: body}
        self.pending.append(self.past[number])
        self.wake()
        return number

    def repeat(self, update_id: int) -> None:
        """Let an update arrive once more."""
        self.again.append(self.past[update_id])
        self.wake()

    def allow(self, kinds: Any) -> None:
        """Change which kinds are queued from now on: none named is the usual ones, unknown names are passed over."""
        if isinstance(kinds, list):
            named = frozenset(kind for kind in kinds if isinstance(kind, str)) & KINDS
            self.allowed = named or DEFAULT

    def confirm(self, offset: int) -> None:
        """Forget what comes before an offset; a negative one keeps only so many of the newest."""
        if offset < 0:
            self.pending = self.pending[offset:]
        elif offset:
            self.pending = [update for update in self.pending if update["update_id"] >= offset]

    def take(self, limit: int) -> list[dict[str, Any]]:
        """Return what to answer now; what is repeated comes once, all else until it is confirmed."""
        repeated, self.again = self.again[:limit], self.again[limit:]
        return repeated + self.pending[: limit - len(repeated)]

    def taken(self, update: dict[str, Any]) -> None:
        """Forget an update that was pushed."""
        for each in (self.again, self.pending):
            if update in each:
                each.remove(update)
                return

    def wait(self, poll: Poll) -> None:
        """Let a poll wait; the one before it ends."""
        self.end("terminated by other getUpdates request; make sure that only one bot instance is running")
        self.poll = poll

    def end(self, reason: str = "", *, hung_up: bool = False) -> bool:
        """End the poll that waits; return whether there was one."""
        poll, self.poll = self.poll, None
        if poll is None:
            return False
        poll.ended_by, poll.hung_up = reason, hung_up
        poll.woken.set()
        return True

    def wake(self) -> None:
        """Tell who waits for updates, by a poll or to push them, that there are some."""
        self.arrived.set()
        if self.poll is not None:
            self.poll.woken.set()

    def clear(self) -> None:
        """Drop everything."""
        self.pending.clear()
        self.again.clear()
