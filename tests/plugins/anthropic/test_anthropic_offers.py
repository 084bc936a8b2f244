"""What can answer now, and why; vendors as data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from halo_anthropic.family import family, providers
from halo_anthropic.settings import SECTION, VARIABLES
from halo_anthropic.wire import MessagesWire
from halo_kernel.settings import Settings
from halo_lib_wire import MessagesDialect
from halo_lib_wire.vendors import Broken, Family, Manifest, load_manifests, parse_endpoint

from .conftest import MakeFamily

README = Path(__file__).resolve().parents[3] / "plugins" / "anthropic" / "README.md"
WIRE = MessagesWire(lambda: 1)


@pytest.fixture
def ours(home: Path) -> Family:
    return family(Settings(home, [("anthropic", SECTION)], {}))


def manifests(home: Path, ours: Family) -> dict[str, Manifest]:
    found = load_manifests(home / "global" / "models", ours)
    return {each.id: each for each in found if isinstance(each, Manifest)}


async def test_a_key_makes_its_models_ready(vendors: MakeFamily) -> None:
    """A configured key offers the vendor's models, the default first, and names where the key is from."""
    made = vendors({"ANTHROPIC_API_KEY": "sk-1"})
    offers = await made["anthropic"].offers()
    assert (offers[0].model, offers[0].context_window, offers[0].max_tokens) == (
        "anthropic/claude-sonnet-5", 1_000_000, 64_000,
    )  # fmt: skip
    assert {(offer.ready, offer.rank) for offer in offers} == {(True, 10)}
    assert {offer.reason for offer in offers} == {"uses the key in ANTHROPIC_API_KEY"}
    assert await made["anthropic"].offers() is offers
    reasons = {name: (await made[name].offers())[0].reason for name in made if name != "anthropic"}
    assert reasons["minimax"].startswith("no key: set MINIMAX_API_KEY, or anthropic.minimax_api_key in HALO_HOME/")
    assert "anthropic.mimo_token_plan_china_api_key" in reasons["mimo-token-plan-china"]


async def test_a_price_is_the_vendors_own(vendors: MakeFamily) -> None:
    """The listed price comes with the offer, dated, with that of long requests; a server of one's own has none."""
    offers = {each.model: each for each in await vendors({"ANTHROPIC_API_KEY": "sk-1"})["anthropic"].offers()}
    sonnet = offers["anthropic/claude-sonnet-4-6"].price
    assert sonnet is not None
    assert (sonnet.input, sonnet.output, sonnet.cache_read, sonnet.cache_write) == (3, 15, 0.3, 3.75)
    assert (sonnet.currency, sonnet.date) == ("USD", "2026-10-24")
    haiku = offers["anthropic/claude-haiku-5-5"].price
    assert haiku is not None and haiku.long is not None
    assert (haiku.input, haiku.long_from, haiku.long.input) == (0.1, 100_000, 0.5)
    env = {"ANTHROPIC_BASE_URL": "https://llm.invalid/v1", "ANTHROPIC_API_KEY": "sk-1"}
    assert {each.price for each in await vendors(env)["anthropic"].offers()} == {None}


async def test_without_a_key_it_says_how_to_set_one(vendors: MakeFamily) -> None:
    """Anthropic without a key is one offer that is not ready and says what to set and where."""
    (offer,) = await vendors({})["anthropic"].offers()
    said = "no key: set ANTHROPIC_API_KEY, or anthropic.api_key in HALO_HOME/secrets/settings.yaml"
    assert (offer.ready, offer.reason) == (False, said)


async def test_a_server_of_ones_own(vendors: MakeFamily) -> None:
    """A base URL is named in the reason and may have models of its own, which come first; then it needs no key."""
    env = {"ANTHROPIC_BASE_URL": "https://llm.invalid/v1"}
    assert (await vendors(env)["anthropic"].offers())[0].reason.startswith("no key: set ANTHROPIC_API_KEY")
    offers = await vendors({**env, "HALO_ANTHROPIC_MODELS": "mine, other"})["anthropic"].offers()
    assert [offer.model for offer in offers[:2]] == ["anthropic/mine", "anthropic/other"]
    assert offers[0].reason == "uses https://llm.invalid with no key"
    assert offers[0].context_window == 200_000


async def test_a_base_url_that_is_none(vendors: MakeFamily) -> None:
    """A wrong base URL is not ready and names the setting."""
    (offer,) = await vendors({"ANTHROPIC_BASE_URL": "llm.invalid", "ANTHROPIC_API_KEY": "k"})["anthropic"].offers()
    assert not offer.ready
    assert offer.reason.startswith("anthropic.base_url (ANTHROPIC_BASE_URL) must be an http or https URL")


async def test_a_change_is_offered_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is written into the settings while the server runs counts from the next question on."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    settings = Settings(home, [("anthropic", SECTION)], {})
    provider = next(each for each in providers(settings) if each.name == "anthropic")
    assert not (await provider.offers())[0].ready
    (home / "secrets").mkdir()
    (home / "secrets" / "settings.yaml").write_text("anthropic:\n  api_key: sk-1\n")
    assert (await provider.offers())[0].reason == "uses the key in the setting anthropic.api_key"


async def test_a_broken_manifest_is_shown(vendors: MakeFamily, home: Path) -> None:
    """A manifest that cannot be used is an offer that says why, and others are unharmed."""
    (home / "global" / "models" / "qwen.yaml").write_text("id: qwen\nwire:\n  thinkin: never\n")
    made = vendors({"ANTHROPIC_API_KEY": "sk-1"})
    (offer,) = await made["qwen"].offers()
    assert (offer.ready, "unknown field `thinkin`" in offer.reason) == (False, True)
    assert (await made["anthropic"].offers())[0].ready


def test_shipped_manifests_are_whole(home: Path, ours: Family) -> None:
    """A shipped vendor has usable endpoints, its key's variable, and models with limits, the default among them."""
    found = manifests(home, ours)
    assert tuple(found) == ours.order == tuple(VARIABLES)
    for id, manifest in found.items():
        assert all(parse_endpoint(url, field="x").url == url for url in manifest.endpoints)
        assert manifest.variables == VARIABLES[id]
        assert manifest.default_model_id in [model.id for model in manifest.models]
        assert all(model.context_window and model.max_output_tokens for model in manifest.models)


@pytest.mark.parametrize(
    ("id", "model", "dialect"),
    [
        ("anthropic", "unlisted", {}),
        ("anthropic", "claude-haiku-4-5-20251001", {"thinking": "manual"}),
        ("anthropic", "claude-opus-5", {"thinking": "adaptive"}),
        ("anthropic", "claude-sonnet-5-5", {"thinking": "adaptive", "binding": True}),
        ("minimax", "MiniMax-M3", {"thinking": "bare", "cache": False}),
        ("qwen", "any", {"thinking": "manual", "ttl": False, "version": ""}),
        ("mimo-token-plan-china", "any", {}),
    ],
)
def test_each_vendor_speaks_its_dialect(
    home: Path, ours: Family, id: str, model: str, dialect: dict[str, object]
) -> None:
    """What a vendor does differently is in its manifest, and a model's own part goes above it."""
    found = WIRE.dialect(manifests(home, ours)[id].fields(model))
    assert found == msgspec.convert(dialect, MessagesDialect)


def test_a_file_may_move_a_vendor_to_this_wire(home: Path, ours: Family) -> None:
    """A file that says `api: messages` adds a vendor, also one of another wire; others are left alone."""
    folder = home / "global" / "models"
    (folder / "kimi.yaml").write_text("api: messages\ndefaultEndpoint: https://api.moonshot.ai/anthropic\n")
    (folder / "groq.yaml").write_text("api: chat\ndefaultEndpoint: https://api.groq.com/openai/v1\n")
    (folder / "mine.yml").write_text("id: qwen\nmodels: [\n")
    found = {each.id: each for each in load_manifests(folder, ours)}
    assert list(found) == [*ours.order, "kimi", "mine"]
    assert isinstance(found["mine"], Broken)


# What the README says


def test_the_example_is_a_manifest(home: Path, ours: Family) -> None:
    """The manifest in the README can be used as it stands there."""
    (example,) = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    (home / "global" / "models" / "kimi.yaml").write_text(example)
    kimi = manifests(home, ours)["kimi"]
    assert (kimi.variables, WIRE.dialect(kimi.fields("kimi-k3")).thinking) == (("KIMI_API_KEY",), "manual")


def test_every_field_of_the_wire_is_described() -> None:
    """The table of `wire` names every field of a dialect, with its default first, and no other."""
    table = README.read_text(encoding="utf-8").partition("| in `wire`")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)`", table, flags=re.MULTILINE))
    fields = msgspec.structs.fields(MessagesDialect)
    assert rows == {each.encode_name: str(each.default).lower() for each in fields}


def test_every_model_is_listed(home: Path, ours: Family) -> None:
    """The table of providers names every vendor, with its models and its key."""
    readme = README.read_text(encoding="utf-8")
    for manifest in manifests(home, ours).values():
        (row,) = re.findall(rf"^\| `{manifest.id}` \|.*$", readme, flags=re.MULTILINE)
        listed = re.findall(r"`([^`]+)`", row)
        assert listed == [manifest.id, *manifest.variables, *(model.id for model in manifest.models)]


def test_every_setting_is_described() -> None:
    """The table of settings names every one of them."""
    readme = README.read_text(encoding="utf-8")
    fields = [each.encode_name for each in msgspec.structs.fields(SECTION.type)]
    assert [name for name in fields if f"anthropic.{name}`" not in readme and f"`.{name}`" not in readme] == []


SCRIPT = """
import sys, tempfile, pathlib
import halo_anthropic
from halo_kernel.settings import Settings
sections = [("anthropic", each) for each in halo_anthropic.provide_settings()]
settings = Settings(pathlib.Path(tempfile.mkdtemp()), sections, {})
before = set(sys.modules)
print(len(list(halo_anthropic.provide_models(settings))))
print([name for name in ("aiohttp", "yarl") if name in sys.modules])
print([name for name in set(sys.modules) - before if name.startswith("ruamel")])
"""


def test_no_http_client_until_the_first_call() -> None:
    """Importing the plugin and asking for its providers imports neither aiohttp nor, without files, a YAML reader."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["4", "[]", "[]"], done.stderr
