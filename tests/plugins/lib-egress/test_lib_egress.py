"""What an aiohttp client asks before it dials: nothing inner unless it is listed."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import ClientSession, TCPConnector, web

from halo_kernel import Forbidden
from halo_kernel.egress import Egress
from halo_lib_egress import Resolver, middleware

PUBLIC = ("8.8.8.8", "2606:4700:4700::1111")
KNOWN = {"a.example": PUBLIC, "b.example": PUBLIC[:1], "inner.example": ("10.0.0.1",), "site.example": ("127.0.0.1",)}


async def look_up(host: str) -> Iterable[str]:
    """Return what a DNS of our own knows, and what is numeric."""
    if host in KNOWN:
        return KNOWN[host]
    loop, flags = asyncio.get_running_loop(), socket.AI_NUMERICHOST
    return [str(at[0]) for *_, at in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)]


@pytest.fixture
async def site() -> AsyncIterator[int]:
    """The port of a server on this machine, whose page `/away` leads to the metadata service of a cloud."""

    async def page(request: web.Request) -> web.Response:
        if request.path == "/away":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
        return web.Response(text="for us alone")

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "2130706433", "0x7f.1", "[::ffff:7f00:1]"])
async def test_a_middleware_lets_a_request_go_only_where_it_may(host: str) -> None:
    """The handler, which dials, is called after the check or never; addresses are checked like names."""
    sent: list[str] = []

    async def send(request: SimpleNamespace) -> str:
        sent.append(request.url.host)
        return "answer"

    check = middleware(Egress(lambda: (), look_up=look_up))
    assert await check(SimpleNamespace(url=SimpleNamespace(host="b.example", port=80)), send) == "answer"
    with pytest.raises(Forbidden):
        await check(SimpleNamespace(url=SimpleNamespace(host=host, port=80)), send)
    assert sent == ["b.example"]


async def test_a_resolver_has_the_shape_that_aiohttp_dials_from() -> None:
    """It answers numeric hosts of the family that is asked for, and raises what `resolve` raises."""
    resolver = Resolver(Egress(lambda: (), look_up=look_up))
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    assert await resolver.resolve("b.example", 80, socket.AF_INET6) == []
    both = await resolver.resolve("a.example", 443, socket.AF_UNSPEC)
    assert both == [
        {"hostname": "a.example", "host": ip, "port": 443, "family": family, "proto": 0, "flags": flags}
        for ip, family in zip(PUBLIC, (socket.AF_INET, socket.AF_INET6), strict=True)
    ]
    assert await resolver.resolve("a.example") == [{**both[0], "port": 0}]
    with pytest.raises(Forbidden):
        await resolver.resolve("inner.example", 80, socket.AF_UNSPEC)
    await resolver.close()


async def test_a_client_reaches_what_is_listed_and_nothing_behind_it(site: int) -> None:
    """A real client dials a name that is listed, and no redirect leads it further in."""
    egress = Egress(lambda: ["site.example"], look_up=look_up)
    connector = TCPConnector(resolver=Resolver(egress))
    async with ClientSession(connector=connector, middlewares=[middleware(egress)]) as client:
        async with client.get(f"http://site.example:{site}/") as answer:
            assert await answer.text() == "for us alone"
        for url in (f"http://site.example:{site}/away", f"http://127.0.0.1:{site}/", "http://inner.example/"):
            with pytest.raises(Forbidden):
                await client.get(url)


def test_a_type_checker_takes_it_as_a_resolver(tmp_path: Path) -> None:
    """A plugin's strict type check accepts the resolver and the middleware where aiohttp wants them."""
    pytest.importorskip("mypy", reason="only the environment that checks types has mypy")
    program = tmp_path / "caller.py"
    program.write_text("""from aiohttp import ClientSession, TCPConnector

from halo_kernel import Egress
from halo_lib_egress import Resolver, middleware


def client(egress: Egress) -> ClientSession:
    return ClientSession(connector=TCPConnector(resolver=Resolver(egress)), middlewares=[middleware(egress)])
""")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
