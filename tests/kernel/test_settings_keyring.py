"""Secrets in the system's keyring, and those that plugins keep by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError
from msgspec import Meta, Struct

from halo_kernel import BadInput, Secret, Section
from halo_kernel.secrets import Secrets
from halo_kernel.settings import KERNEL_SECTIONS, Settings


class Memory(KeyringBackend):
    """A keyring of the test's, which may be locked."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, str], str] = {}
        self.locked = False

    def _look(self) -> None:
        if self.locked:
            raise KeyringLocked("Failed to unlock the collection!")

    def get_password(self, service: str, username: str) -> str | None:
        self._look()
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._look()
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._look()
        if self.held.pop((service, username), None) is None:
            raise PasswordDeleteError("not found")


class Vendor(Struct, frozen=True, kw_only=True):
    """A part that holds a secret."""

    url: str = ""
    key: Secret | None = None


class Acme(Struct, frozen=True, kw_only=True):
    """A section with secrets."""

    token: Annotated[Secret | None, Meta(extra={"env": "ACME_TOKEN"})] = None
    keys: dict[str, Secret] = {}
    vendors: dict[str, Vendor] = {}
    url: str = ""


SECTIONS = [*(("kernel", each) for each in KERNEL_SECTIONS), ("acme", Section("acme", Acme))]


@pytest.fixture
def ring() -> Iterator[Memory]:
    before, ring = keyring.get_keyring(), Memory()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    return tmp_path


def load(home: Path, text: str = "", **env: str) -> Settings:
    if text:
        (home / "secrets" / "settings.yaml").write_text(text)
    return Settings(home, SECTIONS, env)


# references


def test_a_reference_is_read_from_the_keyring(home: Path, ring: Memory) -> None:
    """`keyring:<service>/<name>` stands for what the keyring holds, in the file and in a variable, and is shown."""
    ring.held["work", "acme/token"] = "from the keyring"
    loaded = load(home, "acme: {token: keyring:work/acme/token, url: keyring:none}\n")
    assert loaded.of(Acme) == Acme(token=Secret("from the keyring"), url="keyring:none")
    field = next(field for field in loaded.at().fields.values() if field.key == "acme.token")
    assert (field.written, field.source) == ("keyring:work/acme/token", "file")
    assert loaded.redactor("it is from the keyring") == "it is <secret acme.token>"
    assert load(home, ACME_TOKEN="keyring:work/acme/token").of(Acme).token == Secret("from the keyring")


@pytest.mark.parametrize("trouble", ["missing package", "locked", "no entry"])
def test_a_keyring_that_gives_nothing_is_said(
    home: Path, ring: Memory, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """The rest counts, the secret is empty, and one sentence names the setting, the line and what to do."""
    if trouble == "missing package":
        monkeypatch.setitem(sys.modules, "keyring", None)
    ring.locked = trouble == "locked"
    loaded = load(home, "acme:\n  url: x\n  token: keyring:halo/t\n")
    assert loaded.of(Acme) == Acme(url="x", token=Secret(""))
    (finding,) = loaded.at().findings
    assert (finding.key, finding.line) == ("acme.token", 3)
    told = {
        "missing package": "pip install 'halo-kernel[keyring]'",
        "locked": "unlock it, or",
        "no entry": "the keyring holds no keyring:halo/t; set it again",
    }
    assert "acme.token" in finding.text
    assert told[trouble] in finding.text


def test_what_a_plugin_keeps_is_read_and_hidden(home: Path, ring: Memory) -> None:
    """Texts and references of its own file are given by name, and masked from then on; others have none of them."""
    ring.held["halo", "token"] = "in the keyring"
    (home / "secrets" / "slack.secrets").write_text('{"token": "keyring:halo/token", "old": "in the file"}')
    loaded = load(home)
    mine = Secrets(loaded.home, loaded.redactor, "slack")
    assert (mine.known(), Secrets(loaded.home, loaded.redactor, "telegram").known()) == (["old", "token"], [])
    assert (mine.get("token"), mine.get("old"), mine.get("new")) == (
        Secret("in the keyring"),
        Secret("in the file"),
        None,
    )
    assert loaded.redactor("in the file, in the keyring") == "<secret slack/old>, <secret slack/token>"
    ring.locked = True
    with pytest.raises(BadInput, match="slack/token: the keyring cannot be used") as raised:
        mine.get("token")
    assert raised.value.field == "slack/token"
