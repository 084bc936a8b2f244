"""The handle of a message that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..contracts import Database
from ..inbox import result_of
from ..records import Receipt, TurnResult


class PromptHandle:
    """See `contracts.Prompt`. Settled exactly once; a result nobody awaits is no error."""

    def __init__(self, withdraw: Callable[[PromptHandle], Coroutine[Any, Any, None]]) -> None:
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[Receipt] = loop.create_future()
        self.result: asyncio.Future[TurnResult] = loop.create_future()
        for future in (self.accepted, self.result):
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.cancelled = False
        self._withdraw = withdraw
        self._cancelling: asyncio.Task[None] | None = None

    @property
    def row(self) -> int:
        """The message's inbox row, once it is durable, else 0."""
        return self.receipt.row if self.receipt is not None else 0

    @property
    def receipt(self) -> Receipt | None:
        """The receipt, once the message is durable."""
        done = self.accepted.done() and not self.accepted.cancelled() and self.accepted.exception() is None
        return self.accepted.result() if done else None

    def cancel(self) -> None:
        """Withdraw the message, or cancel the turn that consumes it."""
        if not self.cancelled:
            self.cancelled = True
            self._cancelling = asyncio.get_running_loop().create_task(self._withdraw(self))

    def accept(self, receipt: Receipt) -> None:
        """The message is durable."""
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


async def settle(database: Database, handles: Sequence[PromptHandle]) -> None:
    """Settle those handles whose messages have been answered, here or by another process."""
    numbers = {handle.row for handle in handles} - {0}
    if not numbers:
        return
    found = await database.read(lambda tx: {row: result_of(tx, row) for row in numbers})
    for handle in handles:
        if (result := found.get(handle.row)) is not None:
            handle.settle(result)
