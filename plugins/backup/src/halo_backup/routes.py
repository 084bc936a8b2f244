"""Backups over HTTP: one is begun, looked at while it is made, and stopped if need be."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import Struct

from halo_kernel import Exchange, Forbidden, HaloError, Host, NotFound, Reply, Route, WorkspaceInfo

from .create import Made, Progress, Stopped, Wish, create, prepare

_PATH = "/api/backups"
_REMEMBERED = 20
State = Literal["running", "done", "failed", "stopped"]


class BackupRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A backup to make: the file, absolute, on the server's machine; with `workspace`, a folder, of that one alone.

    With a `passphrase` the home's secrets are in it, encrypted with that.
    """

    path: str
    workspace: str = ""
    passphrase: str = ""


class BackupState(Struct, frozen=True, kw_only=True):
    """How far a backup is: what happens, and `done` of about `total` bytes; in the end what was `made`, or why not."""

    id: str
    state: State
    what: str
    done: int
    total: int
    made: Made | None = None
    error: str = ""
    advice: str = ""


@dataclass
class _Making:
    id: str
    progress: Progress = field(default_factory=Progress)
    made: Made | None = None
    failure: HaloError | None = None
    stopped: bool = False

    def state(self) -> BackupState:
        done = self.progress.total if self.made else min(self.progress.done, self.progress.total)
        return BackupState(
            id=self.id,
            state=self._state(),
            what=self.progress.what,
            done=done,
            total=self.progress.total,
            made=self.made,
            error=self.failure.message if self.failure else "",
            advice=self.failure.advice if self.failure else "",
        )

    def _state(self) -> State:
        if self.made:
            return "done"
        return "failed" if self.failure else "stopped" if self.stopped else "running"


class _Backups:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, _Making] = {}

    async def begin(self, exchange: Exchange) -> Reply:
        assert isinstance(exchange.body, BackupRequest)
        if exchange.principal.access != "full":
            raise Forbidden("a backup takes full access")
        asked = exchange.body
        wish = Wish(path=Path(asked.path), workspace=asked.workspace, passphrase=asked.passphrase)
        infos = await prepare(self._host, wish)
        making = _Making(self._host.clock.new_id())
        for old in list(self._known)[: 1 - _REMEMBERED]:
            del self._known[old]
        self._known[making.id] = making
        self._host.spawn(f"backup {making.id}", self._make(making, wish, infos))
        return Reply(body=making.state(), status=202)

    async def _make(self, making: _Making, wish: Wish, infos: Sequence[WorkspaceInfo]) -> None:
        try:
            making.made = await create(self._host, wish, infos, making.progress)
        except HaloError as error:
            making.failure = error
        except (Stopped, CancelledError) as end:
            making.stopped = True
            if isinstance(end, CancelledError):
                raise
        except BaseException as error:
            making.failure = HaloError(f"the backup failed: {error!r}", advice="nothing was left of it")
            raise

    async def show(self, exchange: Exchange) -> BackupState:
        return self._find(exchange).state()

    async def stop(self, exchange: Exchange) -> BackupState:
        making = self._find(exchange)
        making.progress.stop.set()
        return making.state()

    def _find(self, exchange: Exchange) -> _Making:
        making = self._known.get(name := exchange.params["backup"])
        if making is None:
            raise NotFound(f"there is no backup {name}", advice="one that was begun before the last start is over")
        return making


def backup_routes(host: Host) -> list[Route]:
    """Return the routes of backups."""
    on, one = _Backups(host), f"{_PATH}/{{backup}}"
    return [
        Route(
            method="POST",
            path=_PATH,
            handler=on.begin,
            request=BackupRequest,
            reply=BackupState,
            summary="Begin a backup into a file on the server's machine",
        ),
        Route(method="GET", path=one, handler=on.show, reply=BackupState, summary="Show how far a backup is"),
        Route(method="DELETE", path=one, handler=on.stop, reply=BackupState, summary="Stop a backup; nothing is left"),
    ]
