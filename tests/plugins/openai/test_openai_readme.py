"""What the README says is so."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from halo_lib_wire import Dialect
from halo_lib_wire.vendors import Manifest, load_manifests
from halo_openai.family import FAMILY
from halo_openai.wire import ChatWire

README = Path(__file__).resolve().parents[3] / "plugins" / "openai" / "README.md"


@pytest.fixture
def readme() -> str:
    return README.read_text(encoding="utf-8")


def test_the_example_is_a_manifest(readme: str, home: Path) -> None:
    """The manifest in the README can be used as it stands there."""
    (example,) = re.findall(r"```yaml\n(.*?)```", readme, flags=re.DOTALL)
    (home / "global" / "models" / "groq.yaml").write_text(example)
    (groq,) = [each for each in load_manifests(home / "global" / "models", FAMILY) if each.id == "groq"]
    assert isinstance(groq, Manifest)
    assert groq.variables == ("GROQ_API_KEY",)
    assert ChatWire().dialect(groq.fields("llama-4")).max_tokens_field == "max_completion_tokens"


def test_every_field_of_the_wire_is_described(readme: str) -> None:
    """The table of `wire` names every field of a dialect, and no other."""
    table = readme.partition("| in `wire`")[2].partition("\n\n")[0]
    fields = {field.encode_name for field in msgspec.structs.fields(Dialect)}
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == fields


def test_every_model_is_listed(readme: str, home: Path) -> None:
    """The table of providers names every vendor, with its models, its key and its address."""
    for manifest in load_manifests(home / "global" / "models", FAMILY):
        assert isinstance(manifest, Manifest)
        (row,) = re.findall(rf"^\| `{manifest.id}` \|.*$", readme, flags=re.MULTILINE)
        listed = re.findall(r"`([^`]+)`", row)
        for model in manifest.models:
            assert any(model.id.endswith(name) for name in listed), model.id
        assert set(manifest.variables) <= set(listed)
        assert manifest.local == (manifest.default_endpoint in listed)
