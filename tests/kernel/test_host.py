"""What a plugin holds of the server: its own view, services that are kept running, and other plugins' objects."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from halo_kernel import BadInput, HaloError, Host, Incoming, ModelProvider, Session, Settings, Tool, hook
from halo_kernel.testing import LineChannel, Postbox, a_session, running_kernel, until


class Service:
    """Fails twice, then works until the end."""

    name = "ticker"

    def __init__(self) -> None:
        self.starts = 0
        self.ended = False

    async def run(self) -> None:
        self.starts += 1
        if self.starts < 3:
            raise SystemExit("a service must not end the server")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


class Plugin:
    """Provides a service and keeps the host that it was given."""

    def __init__(self) -> None:
        self.service = Service()
        self.hosts: list[Host] = []

    @hook
    def provide_services(self, host: Host) -> list[Service]:
        self.hosts.append(host)
        return [self.service]


async def test_a_service_is_started_again_and_ended_with_the_server(tmp_path: Path) -> None:
    """A service that fails, with `SystemExit` too, is run again after a wait, and cancelled at the end."""
    plugin = Plugin()
    async with running_kernel(tmp_path / "home", extra={"ticking": plugin}) as kernel:
        assert plugin.service.starts == 0, "a kernel that nobody serves has no services"
        await kernel.work()
        await until(lambda: plugin.service.starts == 3, 10)
    assert plugin.service.ended


async def test_a_service_that_fails_or_ends_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failure degrades its plugin and is named there; one that ends by itself is not run again, as the log says."""
    plugin, brief = Plugin(), Plugin()

    async def run() -> None:
        brief.service.ended = True

    brief.service.run = run  # type: ignore[method-assign]
    async with running_kernel(tmp_path / "home", extra={"ticking": plugin, "brief": brief}) as kernel:
        with caplog.at_level(logging.INFO, "halo"):
            await kernel.work()
            await until(lambda: brief.service.ended and plugin.service.starts == 3, 10)
        rows = {row.name: row for row in kernel.plugins.list()}
        assert rows["ticking"].state == "degraded" and "its service ticker failed" in rows["ticking"].reason
        assert rows["brief"].state == "loaded"
        assert "a service has ended by itself" in caplog.text and "brief: ticker" in caplog.text


async def test_a_plugin_holds_the_server_where_it_provides(tmp_path: Path) -> None:
    """Each collecting hook of a running server has the host, tools and models too, under the plugin's own name."""
    seen: dict[str, Host] = {}

    class Holding:
        @hook
        def provide_tools(self, session: Session, host: Host) -> list[Tool]:
            seen["tools"] = host
            return []

        @hook
        def provide_models(self, settings: Settings, host: Host) -> list[ModelProvider]:
            seen["models"] = host
            return []

        @hook
        async def runtime_started(self, host: Host) -> None:
            seen["started"] = host

    async with running_kernel(tmp_path / "home", extra={"holding": Holding()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="hello")).result
        assert set(seen) == {"tools", "models"}, "a kernel that nobody serves has not started a server"
        await kernel.work()
        await until(lambda: "started" in seen)
        assert {host.plugin for host in seen.values()} == {"holding"}  # type: ignore[attr-defined]


async def test_a_plugin_is_named_in_what_it_logs_and_spawns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each plugin has the server under its own name: in the log, and in the names of its tasks."""
    plugin = Plugin()
    async with running_kernel(tmp_path / "home", extra={"ticking": plugin}) as kernel:
        await kernel.work()
        (host,) = plugin.hosts
        with caplog.at_level(logging.INFO, "halo"):
            host.log.warning("hello")

        async def fails() -> None:
            raise ValueError("on purpose")

        host.spawn("chore", fails())
        await until(lambda: "ticking: chore" in caplog.text)
        assert "halo.plugin.ticking" in caplog.text


async def test_a_plugin_keeps_secrets_under_its_own_name(tmp_path: Path) -> None:
    """A secret is one plugin's, and shows in nothing that is said."""
    plugin, other = Plugin(), Plugin()
    async with running_kernel(tmp_path / "home", extra={"ticking": plugin, "other": other}) as kernel:
        await kernel.work()
        plugin.hosts[0].secrets.path.write_text('{"token": "a-very-secret-token"}')
        found = plugin.hosts[0].secrets.get("token")
        assert found is not None and found.reveal() == "a-very-secret-token"
        assert other.hosts[0].secrets.get("token") is None
        assert kernel.settings.redactor("a-very-secret-token") == "<secret ticking/token>"


async def test_another_plugins_object_is_found_by_name(tmp_path: Path) -> None:
    """Dispatchers, channels and model providers are found by kind and name; another kind is an error."""
    post, line = Postbox(), LineChannel()
    async with running_kernel(tmp_path / "home", extra={"post": post, "line": line}) as kernel:
        host = kernel.host
        assert host.lookup("dispatcher", "post") is post and host.lookup("channel", "line") is line
        assert host.lookup("model", "scripted") is not None and host.lookup("dispatcher", "fax") is None
        with pytest.raises(BadInput):
            host.lookup("weather", "today")


async def test_two_of_one_kind_are_one(tmp_path: Path) -> None:
    """Of two dispatchers of one kind the first counts, and the second's plugin is named."""
    with pytest.raises(HaloError, match=r"plugin b .* post is provided by a already"):
        async with running_kernel(tmp_path / "home", extra={"a": Postbox(), "b": Postbox()}):
            raise AssertionError("the kit names what is broken")
