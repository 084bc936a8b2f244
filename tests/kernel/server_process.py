"""A server as a process of its own: `server_process.py HOME OPTIONS`, OPTIONS being JSON for `run`.

Its plugins have streams, blocking and deaf handlers, and a model that thinks for ever.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from halo_kernel import (
    OPERATOR,
    Exchange,
    HaloError,
    Host,
    Incoming,
    ModelError,
    Reply,
    Route,
    ServerEvent,
    Stream,
    hook,
)
from halo_kernel.server import run
from halo_kernel.testing import Hang, ScriptedModel, SimplePlugin


class Routes:
    """Routes that make stopping hard."""

    host: Host

    @hook
    def provide_routes(self, host: Host) -> Iterable[Route]:
        """Provide them."""
        self.host = host
        table = {
            ("GET", "/t/endless"): self.endless,
            ("GET", "/t/flood"): self.flood,
            ("GET", "/t/count"): self.count,
            ("POST", "/t/echo"): self.echo,
            ("GET", "/t/fail"): self.fail,
            ("GET", "/t/break"): self.broken,
            ("POST", "/t/body"): self.body,
            ("POST", "/t/block"): self.block,
            ("POST", "/t/deaf"): self.deaf,
            ("POST", "/t/wait"): self.wait,
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
        time.sleep(60)  # noqa: ASYNC251 - blocking the loop is the point
        return None

    async def deaf(self, exchange: Exchange) -> object:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue
        return None

    async def wait(self, exchange: Exchange) -> object:
        await asyncio.Event().wait()
        return None

    async def turn(self, exchange: Exchange) -> Reply:
        """Start a turn that never ends by itself, in the workspace that the query names."""
        workspace = await self.host.workspaces.open(exchange.query["workspace"])
        session = await self.host.sessions.create(workspace=workspace.id, principal=OPERATOR)
        return Reply(body=await session.submit(Incoming(text="go")))

    async def count(self, exchange: Exchange) -> Stream:
        """Count to 40, from after the last event that the client has."""

        async def events() -> AsyncIterator[ServerEvent]:
            for number in range(int(exchange.last_event_id or 0) + 1, 41):
                await asyncio.sleep(0.02)
                yield ServerEvent(event="number", data=number, id=str(number))

        return Stream(events=events())

    async def echo(self, exchange: Exchange) -> object:
        return {"body": (await exchange.raw.body()).decode(), "key": exchange.raw.headers.get("idempotency-key")}

    async def broken(self, exchange: Exchange) -> Reply:
        raise ZeroDivisionError("a defect of the handler")

    async def fail(self, exchange: Exchange) -> object:
        raise ModelError("the model is busy", kind="throttle", retry_after=2.0, advice="wait")


def main(home: Path, options: dict[str, object]) -> int:
    """Run the server and return its exit code."""
    model = ScriptedModel(responder=lambda request: Hang("thinking"))
    extra = {"test": SimplePlugin(model), "routes": Routes()}
    try:
        return run(home, discover=False, extra=extra, **{"port": 0, "env": {}, **options})  # type: ignore[arg-type]
    except HaloError as error:
        print(f"{type(error).__name__}: {error} {error.advice}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2])))
