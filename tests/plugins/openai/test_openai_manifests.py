"""Vendors as data."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from halo_kernel import Price
from halo_lib_wire import Dialect
from halo_lib_wire.vendors import Broken, Manifest, load_manifests, parse_endpoint
from halo_openai.family import FAMILY
from halo_openai.settings import VARIABLES
from halo_openai.wire import ChatWire

ORDER = FAMILY.order


def manifests(folder: Path) -> dict[str, Manifest | Broken]:
    return {each.id: each for each in load_manifests(folder, FAMILY)}


def dialect_of(manifest: Manifest, model: str) -> Dialect:
    return ChatWire().dialect(manifest.fields(model))


def manifest(folder: Path, id: str) -> Manifest:
    found = manifests(folder)[id]
    assert isinstance(found, Manifest), found
    return found


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "global" / "models"


@pytest.mark.parametrize("id", ORDER)
def test_a_shipped_manifest_is_whole(folder: Path, id: str) -> None:
    """A shipped vendor has usable endpoints, its variable where it needs a key, and its default model in its list."""
    found = manifest(folder, id)
    assert all(parse_endpoint(url, field="x").url == url for url in found.endpoints)
    assert found.label
    if found.local:
        assert parse_endpoint(found.default_endpoint, field="x").is_loopback
        assert found.start and found.pull
    else:
        assert found.variables[0] == VARIABLES[id][0]
        assert found.default_model_id in [model.id for model in found.models]
        assert all(model.context_window for model in found.models)


@pytest.mark.parametrize(
    ("id", "model", "dialect"),
    [
        ("openai", "gpt-4o", Dialect(max_tokens_field="max_completion_tokens", effort="asked", cache_key=True)),
        ("openai", "gpt-5.6-sol", {"effort_with_tools": "none"}),
        ("kimi", "kimi-k3", {"effort": "max", "thinking": "never", "reasoning_required": True, "cache_key": True}),
        ("kimi", "kimi-k2.6", {"effort": "never", "thinking": "off", "max_tokens_field": "max_completion_tokens"}),
        ("deepseek", "any", {"thinking": "always", "reasoning_field": "reasoning_content"}),
        ("hunyuan", "any", {"effort": "asked", "max_tokens_field": "max_tokens"}),
        ("doubao", "any", {"thinking": "asked", "max_tokens_field": "max_tokens"}),
        ("zhipu", "any", {"stream_usage": False, "thinking": "always"}),
        ("ollama", "any", {"think_tags": True, "reasoning_field": ""}),
    ],
)
def test_each_vendor_speaks_its_dialect(
    folder: Path, id: str, model: str, dialect: Dialect | dict[str, object]
) -> None:
    """What a vendor does differently is in its manifest, and a model's own part goes above it."""
    found = dialect_of(manifest(folder, id), model)
    if isinstance(dialect, Dialect):
        assert found == dialect
    else:
        assert {name: getattr(found, name) for name in dialect} == dialect


@pytest.mark.parametrize("id", ["openai", "deepseek"])
def test_a_price_is_dated_and_longer_requests_cost_no_less(folder: Path, id: str) -> None:
    """A shipped price says of when it is; a cache costs less than reading anew, a long request more."""
    prices = [model.price.offered() for model in manifest(folder, id).models if model.price]
    assert prices
    for price in prices:
        assert date.fromisoformat(price.date) <= date(2026, 11, 30)
        assert price.cache_read is not None and price.cache_read < price.input < price.output
        assert price.long is None or (price.long.input > price.input and price.long.output > price.output)


MINE = "api: chat\ndefaultEndpoint: https://a.invalid\nmodels:\n  - id: m\n    price: "


@pytest.mark.parametrize("day", ["2026-01-01", "'2026-01-01'"])
def test_a_file_may_say_what_a_model_costs(folder: Path, day: str) -> None:
    """A day may stand in quotes or not; what is not said of caches is as input."""
    (folder / "mine.yaml").write_text(f"{MINE}{{currency: EUR, date: {day}, input: 1, output: 2.5}}\n")
    price = manifest(folder, "mine").model("m").price
    assert price is not None
    assert price.offered() == Price(currency="EUR", date="2026-01-01", input=1, output=2.5)


@pytest.mark.parametrize(
    "price",
    [
        "{input: 1, output: 1}",
        "{currency: USD, date: 1.1.2026, input: 1, output: 1}",
        "{currency: dollars, date: 2026-01-01, input: 1, output: 1}",
        "{currency: USD, date: 2026-01-01, input: -1, output: 1}",
    ],
)
def test_a_price_that_breaks_a_rule_is_refused(folder: Path, price: str) -> None:
    """A price names its currency and its day, and is not below 0; else the file says where it is wrong."""
    (folder / "mine.yaml").write_text(f"{MINE}{price}\n")
    found = manifests(folder)["mine"]
    assert isinstance(found, Broken)
    assert "models[0].price" in found.error


def test_a_file_overrides_field_by_field(folder: Path) -> None:
    """A file with the id of a shipped vendor changes what it names; what it does not name stays."""
    (folder / "mine.yaml").write_text("id: kimi\ndefaultEndpoint: https://api.moonshot.ai/v1\nlater: unknown\n")
    found = manifest(folder, "kimi")
    assert found.default_endpoint == "https://api.moonshot.ai/v1"
    assert dialect_of(found, "kimi-k3").effort == "max"
    assert list(manifests(folder)) == list(ORDER)


def test_a_file_adds_a_vendor(folder: Path) -> None:
    """A file of another id that says `api: chat` adds a vendor; presets may be URLs or mappings."""
    (folder / "groq.yaml").write_text(
        """
api: chat
displayName: Groq
defaultEndpoint: https://api.groq.com/openai/v1
endpointPresets: [https://a.example/v1, {label: b, value: https://b.example/v1}]
secrets: [{key: api_key, default: <<GROQ_API_KEY>>, secret: true}]
models:
  - id: llama
    contextWindow: 131072
    wire: {thinking: off}
"""
    )
    found = manifest(folder, "groq")
    assert (found.label, found.variables, found.model("llama").context_window) == ("Groq", ("GROQ_API_KEY",), 131072)
    assert found.endpoints == ("https://api.groq.com/openai/v1", "https://a.example/v1", "https://b.example/v1")
    assert dialect_of(found, "llama").thinking == "off"


@pytest.mark.parametrize("text", ["id: anthropic\ndefaultEndpoint: https://a\n", "id: x\napi: messages\n"])
def test_a_file_of_another_wire_is_left_alone(folder: Path, text: str) -> None:
    """A file that does not say `api: chat` and is no shipped vendor's belongs to others."""
    (folder / "other.yaml").write_text(text)
    assert list(manifests(folder)) == list(ORDER)


def test_a_vendor_may_speak_another_wire(folder: Path) -> None:
    """A file that gives a shipped vendor another wire hands the vendor to whoever speaks that."""
    (folder / "kimi.yaml").write_text("api: messages\ndefaultEndpoint: https://api.moonshot.ai/anthropic\n")
    assert "kimi" not in manifests(folder)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("id: kimi\nmodels:\n  - id: a\n  - id: 7\n", 4, "models[1].id: Expected `str`, got `int`"),
        ("id: kimi\nwire:\n  thinkin: off\n", 1, "unknown field `thinkin`"),
        ("id: mine\napi: chat\n", 1, "missing required field `defaultEndpoint`"),
        ("id: kimi\nmodels: [\n", 3, "not valid YAML"),
        ("- id: kimi\n", 1, "the file must hold a manifest"),
        ("id: kimi\nlocal: !!int ''\n", 0, "not valid YAML"),
        ("id: kimi\nwire: {? [a] : b}\n", 0, "not valid YAML"),
        pytest.param("{" * 40 + "a" + "}" * 40, 1, "found unhashable key", id="mappings as keys"),
        ("id: kimi\nlocal: maybe\n", 2, "local: Expected `bool`, got `str`"),
    ],
)
def test_a_broken_file_says_where(folder: Path, text: str, line: int, words: str) -> None:
    """A file that cannot be used names itself, the line, the field and the rule, and harms no other vendor."""
    path = folder / "kimi.yaml"
    path.write_text(text)
    found = load_manifests(folder, FAMILY)
    (broken,) = [each for each in found if isinstance(each, Broken)]
    assert broken.error.startswith(f"{path}:{line}:")
    assert words in broken.error
    assert {each.id for each in found} >= set(ORDER)
