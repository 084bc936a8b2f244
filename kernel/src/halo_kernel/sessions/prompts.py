"""The handles of messages that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ..contracts import Database
from ..inbox import result_of
from ..records import Receipt, TurnResult


class Prompt:
    """A message on its way. Each future is settled once; one that nobody awaits is no error."""

    def __init__(self, withdraw: Callable[[Prompt], Coroutine[Any, Any, None]]) -> None:
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[Receipt] = loop.create_future()  # The receipt, after the commit.
        self.result: asyncio.Future[TurnResult] = loop.create_future()  # How it was answered.
        for future in (self.accepted, self.result):
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.row = 0  # The message's, once it is durable.
        self.cancelled = False
        self._withdraw = withdraw
        self._cancelling: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Withdraw the message, or cancel the turn that consumes it."""
        if not self.cancelled:
            self.cancelled = True
            self._cancelling = asyncio.get_running_loop().create_task(self._withdraw(self))

    def accept(self, receipt: Receipt) -> None:
        """The message is durable."""
        self.row = receipt.row
        if not self.accepted.done():
            self.accepted.set_result(receipt)

    def settle(self, result: TurnResult) -> None:
        """The turn that consumed it has ended."""
        if not self.result.done():
            self.result.set_result(result)

    def fail(self, error: BaseException) -> None:
        """It will not be answered by this process."""
        for future in (self.accepted, self.result):
            if not future.done():
                future.set_exception(error)


class Prompts:
    """The handles of one session that are not settled."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: set[Prompt] = set()

    @property
    def wait(self) -> bool:
        """Whether a message that is durable has no answer yet."""
        return any(handle.row for handle in self._open)

    def add(self, handle: Prompt) -> None:
        """Keep a handle until it is settled."""
        self._open.add(handle)
        handle.result.add_done_callback(lambda _: self._open.discard(handle))

    def want_end(self, row: int) -> bool:
        """Tell whether one whose message is among those up to `row` was cancelled."""
        return any(handle.cancelled and handle.row <= row for handle in self._open)

    async def settle(self) -> None:
        """Settle those whose messages have been answered, here or by another process."""
        rows = {handle.row for handle in self._open} - {0}
        if rows:
            found = await self._database.read(lambda tx: {row: result_of(tx, row) for row in rows})
            for handle in list(self._open):
                if (result := found.get(handle.row)) is not None:
                    handle.settle(result)

    def fail(self, error: BaseException) -> None:
        """Nobody of this process will answer them."""
        for handle in list(self._open):
            handle.fail(error)
