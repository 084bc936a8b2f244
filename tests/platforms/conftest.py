"""A Telegram platform with one bot and one person, called by plain HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from .telegram import Clock, Stage, TelegramServer, World


@dataclass
class Telegram:
    """A platform, its bot and Ann, who has spoken to it."""

    server: TelegramServer
    client: httpx.AsyncClient
    token: str
    bot: int
    ann: int

    @property
    def stage(self) -> Stage:
        return self.server.stage

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method with a form, return the whole answer; its status is its code."""
        files = {name: arguments.pop(name) for name, each in [*arguments.items()] if isinstance(each, tuple)}
        form = {name: each if isinstance(each, str) else json.dumps(each) for name, each in arguments.items()}
        response = await self.client.post(f"/bot{self.token}/{method}", data=form, files=files or None)
        answer: dict[str, Any] = response.json()
        assert response.status_code == (200 if answer["ok"] else answer["error_code"])
        return answer

    async def done(self, method: str, **arguments: Any) -> Any:
        """Call a method that works, return its result."""
        answer = await self.call(method, **arguments)
        assert answer["ok"], answer
        return answer["result"]

    async def refused(self, method: str, **arguments: Any) -> str:
        """Call a method that is refused, return the description."""
        answer = await self.call(method, **arguments)
        assert not answer["ok"], answer
        return str(answer["description"])


@pytest.fixture
async def telegram() -> AsyncIterator[Telegram]:
    """A platform whose time stands still."""
    world = World(clock=Clock(frozen=1_800_000_000))
    async with (
        TelegramServer(world) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False) as client,
    ):
        made = server.stage.bot()
        ann = server.stage.user("Ann", username="ann", started=[made["id"]])
        yield Telegram(server, client, made["token"], made["id"], ann)
