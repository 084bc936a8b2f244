"""What can answer now, and why."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from halo_kernel import Offer
from halo_kernel.settings import Settings
from halo_kernel.testing.openai_server import ScriptedOpenAI
from halo_openai.family import providers
from halo_openai.settings import SECTION

from .conftest import MakeFamily


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(autouse=True)
def nothing_local(home: Path) -> None:
    """Move the local vendors to ports where nothing listens, whatever runs on the machine of the test."""
    for name in ("ollama", "lmstudio", "vllm"):
        local(home, name, f"http://127.0.0.1:{free_port()}/v1")


def local(home: Path, name: str, url: str) -> None:
    (home / "global" / "models" / f"{name}.yaml").write_text(f"id: {name}\ndefaultEndpoint: {url}\n")


async def everything(family: dict[str, Any]) -> list[Offer]:
    parts = await asyncio.gather(*(provider.offers() for provider in family.values()))
    return [offer for part in parts for offer in part]


async def test_a_key_makes_its_models_ready(family: MakeFamily) -> None:
    """A configured key offers the vendor's models, the default first, and names where the key is from."""
    offers = await family({"KIMI_API_KEY": "sk-1"})["kimi"].offers()
    assert [offer.model for offer in offers] == ["kimi/kimi-k3", "kimi/kimi-k2.6"]
    assert {(offer.ready, offer.rank, offer.reason) for offer in offers} == {(True, 10, "uses the key in KIMI_API_KEY")}
    assert (offers[0].context_window, offers[0].max_tokens, offers[0].label) == (1048576, 131072, "Kimi K3")


async def test_another_name_for_the_key(family: MakeFamily) -> None:
    """A vendor's other customary variable is understood and named."""
    offers = await family({"MOONSHOT_API_KEY": "sk-1"})["kimi"].offers()
    assert offers[0].reason == "uses the key in MOONSHOT_API_KEY"


async def test_a_key_in_the_settings(family: MakeFamily, home: Path) -> None:
    """A key of the settings file is named as such, one of a vendor of one's own too."""
    (home / "secrets").mkdir()
    (home / "secrets" / "settings.yaml").write_text("openai:\n  deepseek_api_key: sk-1\n  keys: {groq: sk-2}\n")
    (home / "global" / "models" / "groq.yaml").write_text(
        "api: chat\ndefaultEndpoint: https://api.groq.com/openai/v1\ndefaultModelId: llama\n"
    )
    made = family({})
    assert (await made["deepseek"].offers())[0].reason == "uses the key in the setting openai.deepseek_api_key"
    groq = (await made["groq"].offers())[0]
    assert (groq.model, groq.reason) == ("groq/llama", "uses the key in the setting openai.keys.groq")


async def test_without_a_key_it_says_how_to_set_one(family: MakeFamily, home: Path) -> None:
    """A vendor without a key is not ready and says what to set and where."""
    (home / "global" / "models" / "groq.yaml").write_text(
        "api: chat\ndefaultEndpoint: https://a.example\nsecrets: [{key: api_key, default: <<GROQ_KEY_OF_TEST>>}]\n"
    )
    made = family({})
    missing = {name: (await made[name].offers())[0] for name in ("openai", "kimi", "groq")}
    assert not any(offer.ready for offer in missing.values())
    assert missing["openai"].reason == (
        "no key: set OPENAI_API_KEY, or openai.api_key in HALO_HOME/secrets/settings.yaml"
    )
    assert missing["kimi"].reason.startswith("no key: set KIMI_API_KEY, or openai.kimi_api_key in")
    assert missing["groq"].reason.startswith("no key: set GROQ_KEY_OF_TEST, or openai.keys.groq in")
    assert await made["custom"].offers() == ()


async def test_a_manifests_own_variable(family: MakeFamily, home: Path) -> None:
    """A key in the variable that a manifest of one's own names is found."""
    (home / "global" / "models" / "groq.yaml").write_text(
        "api: chat\ndefaultEndpoint: https://a.example\ndefaultModelId: m\n"
        "secrets: [{key: api_key, default: <<GROQ_KEY_OF_TEST>>}]\n"
    )
    offers = await family({"GROQ_KEY_OF_TEST": "sk-1"})["groq"].offers()
    assert [(offer.model, offer.reason) for offer in offers] == [("groq/m", "uses the key in GROQ_KEY_OF_TEST")]


async def test_a_local_server_that_answers(family: MakeFamily, home: Path) -> None:
    """A local server offers what it lists, but no embeddings; it is asked once for many questions."""
    async with ScriptedOpenAI(models=["qwen3", "nomic-embed-text", "llama/3:8b"]) as server:
        local(home, "ollama", server.url)
        made = family({})
        offers = [offer for offer in await everything(made) if offer.ready]
        assert [offer.model for offer in offers] == ["ollama/qwen3", "ollama/llama/3:8b"]
        assert {(offer.rank, offer.reason) for offer in offers} == {(20, f"answers at {server.url}")}
        await everything(made)
        assert [request.path for request in server.requests] == ["/v1/models"]
        assert "authorization" not in server.requests[0].headers


async def test_a_local_server_without_models(family: MakeFamily, home: Path) -> None:
    """A local server that serves nothing says how to get a model."""
    async with ScriptedOpenAI(models=[]) as server:
        local(home, "ollama", server.url)
        (offer,) = await family({})["ollama"].offers()
        assert (offer.ready, offer.reason) == (
            False,
            f"it answers at {server.url}, but has no model: "
            "fetch a model that can call tools, such as `ollama pull qwen3`",
        )


async def test_nothing_local_costs_nothing(family: MakeFamily) -> None:
    """Where nothing listens the answer comes at once, says how to start it, and needs no HTTP client."""
    before = "aiohttp" in sys.modules
    loop = asyncio.get_running_loop()
    start = loop.time()
    offers = [offer for offer in await everything(family({})) if offer.model.startswith(("ollama", "lmstudio", "vllm"))]
    assert loop.time() - start < 2
    assert [offer.ready for offer in offers] == [False] * 3
    assert all(offer.reason.startswith("nothing answers at http://127.0.0.1:") for offer in offers)
    assert "`ollama serve`" in offers[0].reason
    assert ("aiohttp" in sys.modules) == before


async def test_a_silent_server_is_not_waited_for(family: MakeFamily, home: Path) -> None:
    """A server that accepts and says nothing is given up on in half a second, all of them together."""
    async with await asyncio.start_server(lambda _reader, _writer: asyncio.sleep(30), "127.0.0.1", 0) as silent:
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1"
        for name in ("ollama", "lmstudio", "vllm"):
            local(home, name, url)
        made = family({"OPENAI_API_KEY": "sk-1"})
        loop = asyncio.get_running_loop()
        start = loop.time()
        offers = await everything(made)
        assert loop.time() - start < 2
        assert [offer.model for offer in offers if offer.ready and offer.rank == 20] == []


async def test_another_program_on_the_port(family: MakeFamily, home: Path) -> None:
    """What answers without a list of models is not offered."""

    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n<html>hi</html>")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(web, "127.0.0.1", 0) as server:
        local(home, "vllm", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        (offer,) = await family({})["vllm"].offers()
    assert (offer.ready, "lists no models" in offer.reason) == (False, True)


async def test_a_server_of_ones_own(family: MakeFamily) -> None:
    """A local base URL offers its models under `custom`, the named one first, and `openai` offers nothing twice."""
    async with ScriptedOpenAI(models=["a", "b"]) as server:
        made = family({"OPENAI_BASE_URL": server.url + "/", "OPENAI_MODEL": "b", "OPENAI_API_KEY": "sk-1"})
        offers = await made["custom"].offers()
        assert [(offer.model, offer.ready, offer.rank) for offer in offers] == [
            ("custom/b", True, 10),
            ("custom/a", True, 10),
        ]
        assert await made["openai"].offers() == ()
        assert server.requests[0].headers["authorization"] == "Bearer sk-1"


async def test_a_server_of_ones_own_elsewhere_is_not_asked(family: MakeFamily) -> None:
    """A base URL elsewhere is offered with the model that is named, without a word to it."""
    made = family({"OPENAI_BASE_URL": "https://models.invalid/v1", "OPENAI_API_KEY": "sk-1", "OPENAI_MODEL": "m"})
    (offer,) = await made["custom"].offers()
    assert (offer.model, offer.ready) == ("custom/m", True)
    assert offer.reason == "uses https://models.invalid/v1 with the key in OPENAI_API_KEY"


async def test_a_server_elsewhere_needs_a_model(family: MakeFamily) -> None:
    """Without a model it says what to set."""
    (offer,) = await family({"OPENAI_BASE_URL": "https://models.invalid/v1"})["custom"].offers()
    assert (offer.ready, "OPENAI_MODEL" in offer.reason) == (False, True)


async def test_a_base_url_that_is_none(family: MakeFamily) -> None:
    """A wrong base URL is not ready and names the setting."""
    (offer,) = await family({"OPENAI_BASE_URL": "localhost:8000", "OPENAI_MODEL": "m"})["custom"].offers()
    assert not offer.ready
    assert offer.reason.startswith("openai.base_url (OPENAI_BASE_URL) must be an http or https URL")


async def test_a_broken_manifest_is_shown(family: MakeFamily, home: Path) -> None:
    """A manifest that cannot be used is an offer that says why, and others are unharmed."""
    (home / "global" / "models" / "kimi.yaml").write_text("id: kimi\nlocal: maybe\n")
    made = family({"DEEPSEEK_API_KEY": "sk-1"})
    (offer,) = await made["kimi"].offers()
    assert (offer.ready, "kimi.yaml:2: local: Expected `bool`" in offer.reason) == (False, True)
    assert (await made["deepseek"].offers())[0].ready


async def test_asking_again_makes_nothing_anew(family: MakeFamily) -> None:
    """As long as nothing changes, a vendor gives the very offers it gave before."""
    made = family({"KIMI_API_KEY": "sk-1"})
    first = [await provider.offers() for provider in made.values()]
    again = [await provider.offers() for provider in made.values()]
    assert all(one is other for one, other in zip(first, again, strict=True))


async def test_a_change_is_offered_at_once(family: MakeFamily, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is set while the server runs counts from the next question on, in the settings or the environment."""
    file = home / "secrets" / "settings.yaml"
    file.parent.mkdir()
    (home / "global" / "models" / "groq.yaml").write_text(
        "api: chat\ndefaultEndpoint: https://a.example\ndefaultModelId: m\n"
        "secrets: [{key: api_key, default: <<GROQ_KEY_OF_TEST>>}]\n"
    )
    settings = Settings(home, [("openai", SECTION)], {})
    made = {provider.name: provider for provider in providers(settings)}
    assert [(await made[name].offers())[0].ready for name in ("kimi", "groq", "openai")] == [False] * 3
    file.write_text("openai:\n  kimi_api_key: sk-1\n")
    assert (await made["kimi"].offers())[0].ready and not (await made["openai"].offers())[0].ready
    monkeypatch.setenv("GROQ_KEY_OF_TEST", "sk-2")
    assert [offer.reason for offer in await made["groq"].offers()] == ["uses the key in GROQ_KEY_OF_TEST"]
    file.write_text("openai:\n  base_url: https://models.invalid/v1\n  model: m\n")
    assert not (await made["kimi"].offers())[0].ready
    assert (await made["openai"].offers(), (await made["custom"].offers())[0].model) == ((), "custom/m")


class Hand:
    """A clock that is moved by hand, beside the time that passes."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


async def test_a_silent_server_is_waited_for_once(home: Path) -> None:
    """After one wait for a server that says nothing, askers within a minute are answered at once, then one waits."""
    listening = await asyncio.start_server(lambda _reader, _writer: asyncio.sleep(30), "127.0.0.1", 0)
    async with listening as server:
        local(home, "ollama", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        clock: Any = Hand()
        made = {each.name: each for each in providers(Settings(home, [("openai", SECTION)], {}), clock=clock)}

        async def waits(ahead: float) -> bool:
            clock.ahead, start = ahead, time.monotonic()
            assert not (await made["ollama"].offers())[0].ready
            return time.monotonic() - start > 0.3

        assert [await waits(0), await waits(5), await waits(11)] == [True, False, False]
        await asyncio.sleep(0.8)
        assert [await waits(11), await waits(22), await waits(90)] == [False, False, True]
        await made["ollama"].close()


async def test_a_server_that_was_started_is_found_at_once(home: Path) -> None:
    """Where nothing listened ten seconds ago, the next question finds what was started since."""
    clock: Any = Hand()
    port = free_port()
    local(home, "ollama", f"http://127.0.0.1:{port}/v1")
    made = {each.name: each for each in providers(Settings(home, [("openai", SECTION)], {}), clock=clock)}
    assert not (await made["ollama"].offers())[0].ready
    async with ScriptedOpenAI(models=["qwen3"], port=port):
        clock.ahead = 11.0
        assert (await made["ollama"].offers())[0].ready
    await made["ollama"].close()
