"""Secrets in the system's keyring, and those that plugins keep by name."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import keyring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError
from msgspec import Meta, Struct

from halo_kernel import BadInput, Host, Secret, Secrets, Section, StorageUnavailable, WorkspaceInfo, hook
from halo_kernel.secrets import ensure_home
from halo_kernel.settings import KERNEL_SECTIONS, KeptSecrets, LoadedSettings, load_settings
from halo_kernel.testing import running_kernel


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


def load(home: Path, text: str = "", **env: str) -> LoadedSettings:
    if text:
        (home / "secrets" / "settings.yaml").write_text(text)
    return load_settings(home, SECTIONS, env)


def written(home: Path) -> str:
    return (home / "secrets" / "settings.yaml").read_text()


# references


def test_a_reference_is_read_from_the_keyring(home: Path, ring: Memory) -> None:
    """`keyring:<service>/<name>` stands for what the keyring holds, in the file and in a variable, and is shown."""
    ring.held["work", "acme/token"] = "from the keyring"
    loaded = load(home, "acme: {token: keyring:work/acme/token, url: keyring:none}\n")
    assert loaded.of(Acme) == Acme(token=Secret("from the keyring"), url="keyring:none")
    field = next(field for field in loaded.fields() if field.key == "acme.token")
    assert (field.written, field.source) == ("keyring:work/acme/token", "file")
    assert loaded.redactor("it is from the keyring") == "it is <secret acme.token>"
    assert load(home, ACME_TOKEN="keyring:work/acme/token").of(Acme).token == Secret("from the keyring")


def test_nothing_is_imported_without_a_reference(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps secrets in files needs no keyring package."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    loaded = load(home, "acme: {token: abcdefghijkl}\n")
    loaded.write({"acme.keys.a": "another one"})
    assert loaded.of(Acme) == Acme(token=Secret("abcdefghijkl"), keys={"a": Secret("another one")})


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


def test_a_reference_that_leads_nowhere_is_not_written(home: Path, ring: Memory) -> None:
    """Setting one is refused by name, and nothing changes."""
    loaded = load(home, "acme: {url: x}\n")
    with pytest.raises(BadInput, match=r"acme\.token: the keyring holds no keyring:halo/t"):
        loaded.write({"acme.token": "keyring:halo/t"})
    assert written(home) == "acme: {url: x}\n"


# writing


def test_new_secrets_go_where_the_settings_say(home: Path, ring: Memory) -> None:
    """With `secrets.store: keyring` the value is in the keyring and the file refers to it, entry by entry."""
    loaded = load(home, "secrets: {store: keyring}\nacme:\n  token: oldsecret # mine\n")
    loaded.write({"acme.keys": {"a": "first one", "b": "<<HOME>>"}, "acme.vendors.v": {"url": "u", "key": "nested"}})
    keys = {"a": Secret("first one"), "b": Secret("<<HOME>>")}
    vendors = {"v": Vendor(url="u", key=Secret("nested"))}
    assert loaded.of(Acme) == load(home).of(Acme) == Acme(token=Secret("oldsecret"), keys=keys, vendors=vendors)
    assert "first one" not in written(home)
    assert "key: nested" in written(home), "a part that is no mapping of secrets alone stays together"
    assert "oldsecret # mine" in written(home)
    assert list(ring.held.values()) == ["first one"]
    loaded.write({"acme.token": Secret("new one")})
    assert loaded.of(Acme).token == Secret("new one")
    assert sorted(ring.held.values()) == ["first one", "new one"]
    assert f'token: "keyring:halo/{home}/acme.token/' in written(home)
    assert written(home).count(" # mine\n") == 1


def test_what_is_taken_out_of_the_file_is_taken_out_of_the_keyring(home: Path, ring: Memory) -> None:
    """A secret of ours that is unset or replaced leaves nothing behind; other programs' entries stay."""
    ring.held["work", "token"] = "not ours"
    loaded = load(home, "secrets: {store: keyring}\nacme: {token: keyring:work/token}\n")
    loaded.write({"acme.keys.a": "first one", "acme.keys.b": "second one"})
    loaded.write({"acme.keys.a": "changed", "acme.token": None})
    loaded.write({"acme.keys.b": None})
    assert list(ring.held.values()) == ["not ours", "changed"]
    loaded.write({"secrets.store": "file"})
    loaded.write({"acme.keys.a": "in the file"})
    assert ring.held == {("work", "token"): "not ours"}
    assert loaded.of(Acme) == load(home).of(Acme) == Acme(keys={"a": Secret("in the file")})


def test_a_keyring_that_refuses_a_secret_changes_nothing(home: Path, ring: Memory) -> None:
    """The error names the setting; file and values are as before."""
    loaded = load(home, "secrets: {store: keyring}\n")
    ring.locked = True
    with pytest.raises(BadInput, match=r"acme\.token: the keyring cannot be used") as raised:
        loaded.write({"acme.token": "a secret", "acme.url": "u"})
    assert raised.value.field == "acme.token"
    assert raised.value.advice
    assert written(home) == "secrets: {store: keyring}\n"
    assert loaded.of(Acme) == Acme()


def test_a_refused_change_leaves_the_keyring_as_it_was(home: Path, ring: Memory) -> None:
    """The secret of before counts, whichever part of the change is wrong, and so it does when the disk is full."""
    loaded = load(home, "secrets: {store: keyring}\n")
    loaded.write({"acme.token": "a secret"})
    before = dict(ring.held)
    for wrong in ({"server.port": 70000}, {"acme.keys.a": "ab****kl"}, {"acme.keys.a": 5}, {"nothing": 1}):
        with pytest.raises(BadInput):
            loaded.write({"acme.token": "another", **wrong})
        assert ring.held == before
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageUnavailable, match="full"):
        patch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
        loaded.write({"acme.token": "another"})
    assert loaded.of(Acme).token == load(home).of(Acme).token == Secret("a secret")


def test_a_mask_is_no_secret(home: Path) -> None:
    """A form that sends back what it was shown does not overwrite the secret with it."""
    loaded = load(home, "acme: {token: abcdefghijkl}\n")
    with pytest.raises(BadInput, match=r"acme\.token must be the secret itself"):
        loaded.write({"acme.token": "ab****kl"})
    assert loaded.of(Acme).token == Secret("abcdefghijkl")


# by name


def kept(loaded: LoadedSettings, plugin: str = "slack") -> Secrets:
    return KeptSecrets(loaded, plugin)


NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(NAME, st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=5))
def test_what_a_plugin_keeps_is_there_again(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]) -> None:
    """Whatever the names and values, another process finds them all, and what is deleted is gone."""
    home = ensure_home(tmp_path_factory.mktemp("home"))
    mine = kept(load(home))
    for name, value in values.items():
        mine.put(name, "x")
        mine.put(name, value)
    again = kept(load(home))
    assert again.known() == sorted(values)
    assert {name: again.get(name) for name in values} == {name: Secret(value) for name, value in values.items()}
    for name in values:
        again.delete(name)
        again.delete(name)
        assert mine.get(name) is None
    assert mine.known() == []


def test_names_of_two_plugins_are_apart(home: Path) -> None:
    """Each plugin has its own names, capitals differ from small letters, and a database there is no secret."""
    loaded = load(home)
    one, other = kept(loaded), kept(loaded, "telegram")
    one.put("token", "one")
    one.put("TOKEN", "two")
    other.put("token", "three")
    (home / "secrets" / "slack").mkdir()
    assert (one.get("token"), one.get("TOKEN"), other.get("token")) == (Secret("one"), Secret("two"), Secret("three"))
    assert (one.known(), other.known()) == (["TOKEN", "token"], ["token"])
    assert one.get("slack.db") is None
    kept(loaded, "../../up").put("token", "four")
    assert kept(loaded, "../../up").known() == ["token"]
    assert not list(home.glob("*up*"))


def test_what_a_plugin_keeps_is_private_and_hidden(home: Path) -> None:
    """The file is 0600 whatever the umask, and the value is masked once it was put or read."""
    before = os.umask(0)
    try:
        loaded = load(home)
        kept(loaded).put("token", "xoxb-12345")
    finally:
        os.umask(before)
    assert stat.S_IMODE((home / "secrets" / "slack.secrets").stat().st_mode) == 0o600
    assert loaded.redactor("xoxb-12345") == "<secret slack/token>"
    fresh = load(home)
    assert fresh.redactor("xoxb-12345") == "xoxb-12345"
    kept(fresh).get("token")
    assert fresh.redactor("xoxb-12345") == "<secret slack/token>"


def test_what_a_plugin_keeps_may_be_in_the_keyring(home: Path, ring: Memory) -> None:
    """The same setting decides; what is there already stays readable when it is changed."""
    loaded = load(home)
    mine = kept(loaded)
    mine.put("old", "in a file")
    loaded.write({"secrets.store": "keyring"})
    mine.put("new", "in the keyring")
    assert list(ring.held.values()) == ["in the keyring"]
    assert "in the keyring" not in (home / "secrets" / "slack.secrets").read_text()
    assert (mine.get("old"), mine.get("new"), mine.known()) == (
        Secret("in a file"),
        Secret("in the keyring"),
        ["new", "old"],
    )
    ring.locked = True
    with pytest.raises(BadInput, match="slack/new: the keyring cannot be used") as raised:
        mine.get("new")
    assert raised.value.field == "slack/new"
    with pytest.raises(BadInput, match="slack/old"):
        mine.put("old", "changed")
    ring.locked = False
    assert mine.get("old") == Secret("in a file")
    mine.put("new", "changed")
    assert list(ring.held.values()) == ["changed"]
    mine.delete("new")
    assert (ring.held, mine.known()) == ({}, ["old"])


class Keeper:
    """A plugin that keeps a secret."""

    @hook
    async def workspace_opened(self, workspace: WorkspaceInfo, host: Host) -> None:
        host.secrets.put("token", "kept by acme")


async def test_a_host_keeps_secrets_under_the_plugins_name(tmp_path: Path) -> None:
    """What a plugin gives its host is its own, and masked in what the server logs from then on."""
    (tmp_path / "work").mkdir()
    async with running_kernel(tmp_path / "home", extra={"acme": Keeper()}) as kernel:
        await kernel.workspaces.open(tmp_path / "work")
        assert kernel.settings.redactor("kept by acme") == "<secret acme/token>"
        assert kept(kernel.settings, "acme").get("token") == Secret("kept by acme")
        assert kept(kernel.settings, "slack").known() == []


def test_what_looks_like_a_reference_is_not_kept(home: Path) -> None:
    """A value that would be read as somebody else's entry is refused."""
    with pytest.raises(BadInput, match="slack/token begins with keyring:"):
        kept(load(home)).put("token", "keyring:work/other")
    assert kept(load(home)).known() == []
