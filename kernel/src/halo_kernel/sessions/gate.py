"""The gate that turns pass: while it is held none begins, and whoever holds it waits until none runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from .. import contracts
from ..errors import Conflict

REST_SECONDS = 30.0


class Gate:
    """Shared by all sessions of a process, so that one that is opened while it is held is held too."""

    def __init__(self) -> None:
        self._held = False
        self._inside: set[contracts.Session] = set()
        self._parked: set[contracts.Session] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def enter(self, session: contracts.Session) -> bool:
        """Let a session look for work and do it, until it leaves; false while the gate is held: it is stirred later.

        Below a session that is inside one may enter all the same, for that one may wait for it.
        """
        if self._held and not self._is_below_another(session):
            self._parked.add(session)
            return False
        self._inside.add(session)
        self._empty.clear()
        return True

    @asynccontextmanager
    async def passage(self, session: contracts.Session) -> AsyncGenerator[None, None]:
        """Be inside for a change that cannot wait. Raises `Conflict` while the gate is held."""
        if not self.enter(session):
            raise Conflict("the plugins are being changed", advice="try again in a moment")
        try:
            yield
        finally:
            self.leave(session)

    def leave(self, session: contracts.Session) -> None:
        """Its work is done for now."""
        self._inside.discard(session)
        if not self._inside:
            self._empty.set()

    def _is_below_another(self, session: contracts.Session) -> bool:
        above = session.seat.sessions.get(session.info.parent or "")
        return above is not None and (above in self._inside or self._is_below_another(above))

    @asynccontextmanager
    async def hold(self, seconds: float | None = None) -> AsyncGenerator[None, None]:
        """Hold the gate, and go on once nobody is inside; messages are taken meanwhile, and answered afterwards.

        No turn is ended for it. Raises `Conflict` when somebody else holds it, or when turns do not end in time.
        """
        if self._held:
            raise Conflict("another change of the plugins is under way", advice="try again when it is done")
        self._held = True
        try:
            await self._wait(REST_SECONDS if seconds is None else seconds)
            yield
        finally:
            self._held = False
            parked, self._parked = self._parked, set()
            for session in parked:
                session.stir()

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except TimeoutError:
            names = ", ".join(sorted(session.info.id for session in self._inside))
            raise Conflict(f"nothing was changed: these sessions did not rest in {seconds:g} s: {names}") from None
