"""A server process for tests: a home, a scripted model, backups, and a route that takes messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

import halo_backup
from halo_kernel import Exchange, Host, Incoming, Receipt, Route, hook
from halo_kernel.server import run
from halo_kernel.testing import ScriptedModel, SimplePlugin


class SayRequest(Struct):
    """A message to the session `sid_said` of a folder."""

    folder: str
    text: str
    key: str


class Say:
    """A plugin with the one route."""

    @hook
    def provide_routes(self, host: Host) -> Sequence[Route]:
        """The route."""

        async def say(exchange: Exchange) -> Receipt:
            asked = exchange.body
            assert isinstance(asked, SayRequest)
            workspace = await host.workspaces.open(asked.folder)
            session = await host.sessions.open(
                "sid_said", workspace=workspace.id, principal=exchange.principal, create=True
            )
            return await session.submit(Incoming(text=asked.text, key=asked.key, principal=exchange.principal))

        return [
            Route(
                method="POST", path="/api/say", handler=say, request=SayRequest, reply=Receipt, summary="Take a message"
            )
        ]


if __name__ == "__main__":
    extra = {"test": SimplePlugin(ScriptedModel()), "say": Say(), "backup": halo_backup}
    sys.exit(run(Path(sys.argv[1]), port=0, ready_fd=int(sys.argv[2]), quiet=True, extra=extra, discover=False))
