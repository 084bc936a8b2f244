"""Who of an account is here, and gets what is owed to them."""

from __future__ import annotations

from asyncio import StreamWriter
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from halo_kernel import Database, Tx

from .lines import write_message
from .outgoing import topic

MOST = 1_000_000
"""Bytes that may wait for a client; one that reads more slowly is dropped, and gets the rest when it comes back."""


class Room:
    """The connections of one account, by name."""

    def __init__(self, account: str, rows: Database) -> None:
        self._account = account
        self._rows = rows
        self._here: dict[str, set[StreamWriter]] = {}

    @contextmanager
    def holding(self, name: str, client: StreamWriter) -> Generator[None]:
        """Have a client of a name here, and see that it gets what came while none was."""
        self._here.setdefault(name, set()).add(client)
        self._rows.notify(topic(self._account))
        try:
            yield
        finally:
            self._here[name].discard(client)
            if not self._here[name]:
                del self._here[name]

    async def carry(self) -> None:
        """Send what is owed to those who are here, until cancelled."""
        bell = self._rows.listen(topic(self._account))
        try:
            while True:
                for name in list(self._here):
                    await self._send(name)
                await bell.wait()
        finally:
            bell.close()

    async def _send(self, name: str) -> None:
        """Send what is owed to a name to all its clients, oldest first, and mark it; the rest waits if they go."""

        def owed(tx: Tx) -> list[tuple[int, str]]:
            found = tx.execute(
                "SELECT seq, text FROM owed WHERE account = ? AND name = ? AND sent = 0 ORDER BY seq LIMIT 50",
                (self._account, name),
            )
            return [(int(seq), str(text)) for seq, text in found]

        while found := await self._rows.read(owed):
            for seq, text in found:
                shown = [_show(client, text) for client in self._here.get(name, ())]
                if not any(shown):
                    return
                await self._rows.write(partial(_mark, seq=seq))


def _mark(tx: Tx, seq: int) -> None:
    """Note that a row was sent."""
    tx.execute("UPDATE owed SET sent = 1 WHERE seq = ?", (seq,))


def _show(client: StreamWriter, text: str) -> bool:
    """Write a message to a client, and tell whether that could be."""
    if client.transport.get_write_buffer_size() > MOST:
        client.transport.abort()
    if client.is_closing():
        return False
    client.write(write_message(text))
    return True
