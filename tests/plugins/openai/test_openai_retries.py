"""Refusals of a real server in a turn: the plugin says what they are, and the kernel asks again or does not."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from halo_kernel import Incoming, TurnResult
from halo_kernel.testing import VirtualClock, a_session, running_kernel
from halo_kernel.testing.openai_server import Script, ScriptedOpenAI

plugin = importlib.import_module("halo_openai")
FAILING = '{"error": {"message": "upstream authentication failed", "type": "authentication_error"}}'


async def asked(tmp_path: Path, scripts: Sequence[Script]) -> tuple[TurnResult, int]:
    """Run one turn on a server with these answers; return its result and how often the server was asked."""
    async with ScriptedOpenAI(scripts) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-0123456789", "HALO_MODEL_DEFAULT": "custom/m"}
        home, extra = tmp_path / "home", {"openai": plugin}
        async with running_kernel(home, extra=extra, env=env, clock=VirtualClock()) as kernel:
            session = await a_session(kernel, tmp_path / "w")
            result = await session.prompt(Incoming(text="hello")).result
        return result, len([each for each in server.requests if each.method == "POST"])


async def test_a_failing_server_is_asked_again(tmp_path: Path) -> None:
    """32: a 503 whose body speaks of authentication is tried again."""
    result, count = await asked(tmp_path, [Script(status=503, body=FAILING)] * 2 + [Script(text="at last")])
    assert (result.text, count) == ("at last", 3)


@pytest.mark.parametrize("body", [FAILING, '{"error": "prompt is too long"}', "try again later: 503", ""])
async def test_a_refused_key_is_not_used_again(tmp_path: Path, body: str) -> None:
    """32: a 401 ends the turn at once, whatever its body says."""
    result, count = await asked(tmp_path, [Script(status=401, body=body)] * 5)
    assert (result.outcome, result.kind, count) == ("failed", "account", 1)
