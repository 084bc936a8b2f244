"""A server as a process of its own: `server_process.py HOME OPTIONS`, OPTIONS being JSON for `run`.

Its one plugin has streams, slow and deaf handlers, and a model that plays what `steps` says.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from halo_kernel import Exchange, HaloError, Reply, Route, ServerEvent, Stream, hook
from halo_kernel.server import run
from halo_kernel.testing import Hang, ScriptedModel, SimplePlugin


class Routes:
    """Routes that make stopping hard."""

    def __init__(self, log: Path) -> None:
        self.log = log

    @hook
    def provide_routes(self, host: object) -> Iterable[Route]:
        """Provide them."""
        self.host = host
        table = {
            ("GET", "/t/endless"): self.endless,
            ("GET", "/t/flood"): self.flood,
            ("POST", "/t/body"): self.body,
            ("POST", "/t/block"): self.block,
            ("POST", "/t/deaf"): self.deaf,
            ("POST", "/t/turn"): self.turn,
        }
        return [
            Route(method=method, path=path, handler=handler, summary="", auth="public")
            for (method, path), handler in table.items()
        ]

    async def endless(self, exchange: Exchange) -> Stream:
        async def events() -> AsyncIterator[ServerEvent]:
            yield ServerEvent(event="first", data=1)
            await asyncio.Event().wait()

        return Stream(events=events())

    async def flood(self, exchange: Exchange) -> Stream:
        async def events() -> AsyncIterator[ServerEvent]:
            while True:
                yield ServerEvent(event="flood", data="x" * 65_536)

        return Stream(events=events())

    async def body(self, exchange: Exchange) -> object:
        return len(await exchange.raw.body())

    async def block(self, exchange: Exchange) -> object:
        time.sleep(60)
        return None

    async def deaf(self, exchange: Exchange) -> object:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue
        return None

    async def turn(self, exchange: Exchange) -> Reply:
        """Start a turn that never ends by itself, in the workspace that the query names."""
        from halo_kernel import OPERATOR, Host, Incoming

        host = self.host
        assert isinstance(host, Host) if hasattr(Host, "_is_runtime_protocol") and Host._is_runtime_protocol else True
        workspace = await host.workspaces.open(exchange.query["workspace"])  # type: ignore[attr-defined]
        session = await host.sessions.create(workspace=workspace.id, principal=OPERATOR)  # type: ignore[attr-defined]
        receipt = await session.submit(Incoming(text="go"))
        return Reply(body=receipt)


def main(home: Path, options: dict[str, object]) -> int:
    """Run the server and return its exit code."""
    model = ScriptedModel(responder=lambda request: Hang("thinking"))
    extra = {"test": SimplePlugin(model), "routes": Routes(home / "log")}
    try:
        return run(home, discover=False, extra=extra, env={}, **{"port": 0, **options})  # type: ignore[arg-type]
    except HaloError as error:
        print(f"{type(error).__name__}: {error} {error.advice}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
