"""aiohttp behind the kernel's resolver: names, addresses and redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import aiohttp
import pytest
from aiohttp import web

from halo_kernel import Forbidden
from halo_kernel.egress import Egress
from halo_lib_egress import Resolver, middleware


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """A site on loopback whose `/to` redirects to the URL that is asked for."""

    async def to(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query["url"])

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=f"hello {request.host}")

    app = web.Application()
    app.add_routes([web.get("/to", to), web.get("/", hello)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def client(*allow: str) -> aiohttp.ClientSession:
    async def look_up(host: str) -> Iterable[str]:
        return {"listed.example": ["127.0.0.1"], "rebound.example": ["127.0.0.1"]}.get(host, [host.strip("[]")])

    egress = Egress(lambda: allow, look_up=look_up)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=Resolver(egress)), middlewares=[middleware(egress)]
    )


async def test_a_listed_name_is_reached_at_the_address_that_was_checked(server: int) -> None:
    """The name stays in the request; nothing but our resolver knows where it leads."""
    async with client(f"listed.example:{server}") as session, session.get(f"http://listed.example:{server}/") as reply:
        assert await reply.text() == f"hello listed.example:{server}"


@pytest.mark.parametrize("host", ["rebound.example", "127.0.0.1", "[::1]"])
async def test_a_redirect_inwards_is_refused(server: int, host: str) -> None:
    """A site that may be reached cannot send us to an inner name, nor to an address, which aiohttp does not resolve."""
    inner = f"http://{host}:{server}/"
    async with client(f"listed.example:{server}") as session:
        with pytest.raises(Forbidden, match=r"127\.0\.0\.1|::1"):
            await session.get(inner)
        with pytest.raises(Forbidden, match=r"127\.0\.0\.1|::1"):
            await session.get(f"http://listed.example:{server}/to", params={"url": inner})


async def test_the_connector_alone_refuses_names(server: int) -> None:
    """A session without the middleware still dials no inner name."""

    async def look_up(host: str) -> Iterable[str]:
        return ["127.0.0.1"]

    connector = aiohttp.TCPConnector(resolver=Resolver(Egress(lambda: (), look_up=look_up)))
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(Forbidden, match=r"rebound\.example leads to 127\.0\.0\.1"):
            await session.get(f"http://rebound.example:{server}/")
