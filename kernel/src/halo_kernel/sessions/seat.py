"""One open workspace as its sessions see it: what they share, and which of them are in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakValueDictionary

from .. import contracts, hookspecs
from ..contracts import Host, Tool, Tx
from ..errors import Stopping
from ..log import logger
from ..questions import expire
from ..records import Event, ToolSpec, WorkspaceInfo
from ..scopes import Scope
from ..supervisor import at_bell
from ..turns import Place
from . import rows

_KEPT_OPEN = 64
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Used = WeakValueDictionary[str, "contracts.Session"]


@dataclass(kw_only=True)
class Seat(Place):
    """Shared by the sessions of one workspace; `sessions` are those that anybody uses, one instance each."""

    workspace: WorkspaceInfo
    host: Host
    scope: Scope
    stopping: asyncio.Event
    sessions: _Used = field(default_factory=_Used)
    used: float = 0.0
    _rested: dict[str, contracts.Session] = field(default_factory=dict[str, "contracts.Session"])
    _stamped: int = 0

    def stamp(self) -> int:
        """Return the arrival time of a message; this process never gives the same one twice."""
        self._stamped = max(self.clock.now(), self._stamped + 1)
        return self._stamped

    async def wake_tree(self, root: str) -> None:
        """Let each session of a tree go on for which something waits, such as the report of another one."""
        for name in await self.database.read(lambda tx: _waiting_in(tx, root)):
            await self.host.sessions.wake(self, name)

    async def watch_questions(self) -> None:
        """Settle every question whose time is over, and let its session go on."""

        async def look() -> float | None:
            now = self.clock.now()
            events, later = await self.database.write(partial(expire, now=now))
            self.tell(events)
            for event in events:
                await self.host.sessions.wake(self, event.session)
            return None if later is None else max(0.0, (later - now) / 1000)

        await at_bell(self.database.listen("questions"), look)

    def check_running(self) -> None:
        """Raise `Stopping` when the server shuts down."""
        if self.stopping.is_set():
            raise Stopping("the server is shutting down", advice="try again when it is back")

    async def write(self, fn: Callable[[Tx], tuple[Event, ...]]) -> tuple[Event, ...]:
        """Write what no lease guards, then tell everybody."""
        events = await self.database.write(fn)
        self.tell(events)
        return events

    def tell(self, events: Sequence[Event]) -> None:
        """Tell followers, and the sessions that they are about, of events that are committed."""
        for event in events:
            if (live := self.sessions.get(event.session)) is not None:
                live.told(event)
        self.feed.publish(events)

    async def tools(self, session: contracts.Session) -> dict[str, Tool]:
        """Return the tools that plugins have for a session, by name."""
        tools: dict[str, Tool] = {}
        for plugin, tool in await self.hooks.gather(hookspecs.provide_tools, session=session, host=self.host):
            if reason := _wrong(tool.spec, tools):
                shown = repr(tool.spec)[:200]
                logger("sessions").warning("a tool is left out", plugin=plugin, tool=shown, reason=reason)
            else:
                tools[tool.spec.name] = tool
        return tools

    def rested(self, session: contracts.Session) -> None:
        """A session has nothing to do; beyond a number of them the longest idle gives back its history and lease."""
        self._rested.pop(session.info.id, None)
        self._rested[session.info.id] = session
        self.doze(_KEPT_OPEN)

    def doze(self, kept: int) -> None:
        """Let all but the last `kept` of the sessions that rest give back their history and lease."""
        for name, other in list(self._rested.items())[: len(self._rested) - kept]:
            if not other.running:
                del self._rested[name]
                other.doze()

    async def empty(self) -> None:
        """Have every session give back what it holds, and wait until they have; none may be inside the gate."""
        self._rested.clear()
        for session in self.sessions.values():
            session.doze()
        if writes := [task for session in self.sessions.values() for task in session.writes]:
            await asyncio.wait(writes)

    async def halt(self, session: contracts.Session, how: rows.Halt) -> None:
        """Halt a tree from a session down: what waits first, so that nothing begins anew, then what runs."""
        name, now = session.info.id, self.clock.now()

        def write(tx: Tx) -> tuple[Event, ...]:
            return tuple(event for each in rows.tree(tx, name) for event in rows.halt(tx, each, how, at=now))

        await self.write(write)
        self.database.notify("outbox")
        await session.tell_tree()
        names = await self.database.read(partial(rows.tree, session=name))
        await asyncio.gather(*(live.halted(how) for each in names if (live := self.sessions.get(each)) is not None))
        if how == "deleted":  # what was landed meanwhile
            await self.write(write)

    def left(self, session: contracts.Session) -> None:
        """A session is closed; a newer one of the same id stays."""
        for found in (self.sessions, self._rested):
            if found.get(session.info.id) is session:
                del found[session.info.id]

    async def watch_inbox(self) -> None:
        """Wake the sessions held here for which another process accepted a message."""

        async def look() -> None:
            for name, hard, halted in await self.database.read(_sessions_with_waiting_rows):
                if (session := self.sessions.get(name)) is not None:
                    session.stir(hard, halted)

        await at_bell(self.database.listen("inbox"), look)


def _wrong(spec: object, others: Collection[str]) -> str:
    """Return why a tool cannot be offered: a provider refuses all tools for the name of one."""
    if not isinstance(spec, ToolSpec):
        return "its spec is no ToolSpec"
    if not _TOOL_NAME.fullmatch(spec.name):
        return "a tool's name has 1 to 64 letters, digits, '_' and '-'"
    return "another one has its name" if spec.name in others else ""


def _waiting_in(tx: Tx, root: str) -> list[str]:
    waits = "EXISTS (SELECT 1 FROM inbox WHERE session = sessions.id AND state = 'waiting')"
    return [str(name) for (name,) in tx.execute(f"SELECT id FROM sessions WHERE root = ? AND {waits}", (root,))]


def _sessions_with_waiting_rows(tx: Tx) -> list[tuple[str, int, str]]:
    """Return the sessions where something waits, each with the last row that wants to interrupt at once, or 0.

    Those whose turn is to end come with its id, else ''.
    """
    found = tx.execute(
        "SELECT session, max(CASE WHEN mode = 'interrupt_hard' THEN id ELSE 0 END), '' FROM inbox"
        " WHERE state = 'waiting' GROUP BY session UNION ALL"
        " SELECT session, 0, CASE waiting WHEN 2 THEN turn ELSE '' END FROM runs WHERE waiting > 0"
    )
    return [(str(session), int(hard), str(halted)) for session, hard, halted in found]
