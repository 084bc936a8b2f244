"""New secrets in the system's keyring, and those that plugins keep by name."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, cast

import keyring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError
from msgspec import Meta, Struct

from halo_kernel import BadInput, Host, Secret, Section, StorageUnavailable, WorkspaceInfo, hook
from halo_kernel.secrets import Secrets, ensure_home
from halo_kernel.settings import KERNEL_SECTIONS, Settings
from halo_kernel.testing import running_kernel
from halo_lib_settings import forget_secret, keep_secret, write_settings


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


def written(home: Path) -> str:
    return (home / "secrets" / "settings.yaml").read_text()


def test_nothing_is_imported_without_a_reference(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps secrets in files needs no keyring package."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    loaded = load(home, "acme: {token: abcdefghijkl}\n")
    write_settings(loaded, {"acme.keys.a": "another one"})
    assert loaded.of(Acme) == Acme(token=Secret("abcdefghijkl"), keys={"a": Secret("another one")})


def test_a_reference_that_leads_nowhere_is_not_written(home: Path, ring: Memory) -> None:
    """Setting one is refused by name, and nothing changes."""
    loaded = load(home, "acme: {url: x}\n")
    with pytest.raises(BadInput, match=r"acme\.token: the keyring holds no keyring:halo/t"):
        write_settings(loaded, {"acme.token": "keyring:halo/t"})
    assert written(home) == "acme: {url: x}\n"


# writing


def test_new_secrets_go_where_the_settings_say(home: Path, ring: Memory) -> None:
    """With `secrets.store: keyring` the value is in the keyring and the file refers to it, entry by entry."""
    loaded = load(home, "secrets: {store: keyring}\nacme:\n  token: oldsecret # mine\n")
    new = {"acme.keys": {"a": "first one", "b": "<<HOME>>"}, "acme.vendors.v": {"url": "u", "key": "nested"}}
    write_settings(loaded, new)
    keys = {"a": Secret("first one"), "b": Secret("<<HOME>>")}
    vendors = {"v": Vendor(url="u", key=Secret("nested"))}
    assert loaded.of(Acme) == load(home).of(Acme) == Acme(token=Secret("oldsecret"), keys=keys, vendors=vendors)
    assert "first one" not in written(home)
    assert "key: nested" in written(home), "a part that is no mapping of secrets alone stays together"
    assert "oldsecret # mine" in written(home)
    assert list(ring.held.values()) == ["first one"]
    write_settings(loaded, {"acme.token": Secret("new one")})
    assert loaded.of(Acme).token == Secret("new one")
    assert sorted(ring.held.values()) == ["first one", "new one"]
    assert f'token: "keyring:halo/{home}/acme.token/' in written(home)
    assert written(home).count(" # mine\n") == 1


def test_what_is_taken_out_of_the_file_is_taken_out_of_the_keyring(home: Path, ring: Memory) -> None:
    """A secret of ours that is unset or replaced leaves nothing behind; other programs' entries stay."""
    ring.held["work", "token"] = "not ours"
    loaded = load(home, "secrets: {store: keyring}\nacme: {token: keyring:work/token}\n")
    write_settings(loaded, {"acme.keys.a": "first one", "acme.keys.b": "second one"})
    write_settings(loaded, {"acme.keys.a": "changed", "acme.token": None})
    write_settings(loaded, {"acme.keys.b": None})
    assert list(ring.held.values()) == ["not ours", "changed"]
    write_settings(loaded, {"secrets.store": "file"})
    write_settings(loaded, {"acme.keys.a": "in the file"})
    assert ring.held == {("work", "token"): "not ours"}
    assert loaded.of(Acme) == load(home).of(Acme) == Acme(keys={"a": Secret("in the file")})


def test_a_keyring_that_refuses_a_secret_changes_nothing(home: Path, ring: Memory) -> None:
    """The error names the setting; file and values are as before."""
    loaded = load(home, "secrets: {store: keyring}\n")
    ring.locked = True
    with pytest.raises(BadInput, match=r"acme\.token: the keyring cannot be used") as raised:
        write_settings(loaded, {"acme.token": "a secret", "acme.url": "u"})
    assert raised.value.field == "acme.token"
    assert raised.value.advice
    assert written(home) == "secrets: {store: keyring}\n"
    assert loaded.of(Acme) == Acme()


def test_a_refused_change_leaves_the_keyring_as_it_was(home: Path, ring: Memory) -> None:
    """The secret of before counts, whichever part of the change is wrong, and so it does when the disk is full."""
    loaded = load(home, "secrets: {store: keyring}\n")
    write_settings(loaded, {"acme.token": "a secret"})
    before = dict(ring.held)
    for wrong in ({"server.port": 70000}, {"acme.keys.a": "ab****kl"}, {"acme.keys.a": 5}, {"nothing": 1}):
        with pytest.raises(BadInput):
            write_settings(loaded, {"acme.token": "another", **wrong})
        assert ring.held == before
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageUnavailable, match="full"):
        patch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full")))
        write_settings(loaded, {"acme.token": "another"})
    assert loaded.of(Acme).token == load(home).of(Acme).token == Secret("a secret")


def test_a_mask_is_no_secret(home: Path) -> None:
    """A form that sends back what it was shown does not overwrite the secret with it."""
    loaded = load(home, "acme: {token: abcdefghijkl}\n")
    with pytest.raises(BadInput, match=r"acme\.token must be the secret itself"):
        write_settings(loaded, {"acme.token": "ab****kl"})
    assert loaded.of(Acme).token == Secret("abcdefghijkl")


# by name


def host_of(loaded: Settings, plugin: str = "slack") -> Host:
    """What a plugin has of its host here."""
    return cast("Host", SimpleNamespace(settings=loaded, secrets=Secrets(loaded.home, loaded.redactor, plugin)))


NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(NAME, st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=5))
def test_what_a_plugin_keeps_is_there_again(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]) -> None:
    """Whatever the names and values, another process finds them all, and what is deleted is gone."""
    home = ensure_home(tmp_path_factory.mktemp("home"))
    mine = host_of(load(home))
    for name, value in values.items():
        keep_secret(mine, name, "x")
        keep_secret(mine, name, value)
    again = host_of(load(home))
    assert again.secrets.known() == sorted(values)
    assert {name: again.secrets.get(name) for name in values} == {name: Secret(value) for name, value in values.items()}
    for name in values:
        forget_secret(again, name)
        forget_secret(again, name)
        assert mine.secrets.get(name) is None
    assert mine.secrets.known() == []


def test_names_of_two_plugins_are_apart(home: Path) -> None:
    """Each plugin has its own names, capitals differ from small letters, and a database there is no secret."""
    loaded = load(home)
    one, other = host_of(loaded), host_of(loaded, "telegram")
    keep_secret(one, "token", "one")
    keep_secret(one, "TOKEN", "two")
    keep_secret(other, "token", "three")
    (home / "secrets" / "slack").mkdir()
    assert (one.secrets.get("token"), one.secrets.get("TOKEN")) == (Secret("one"), Secret("two"))
    assert other.secrets.get("token") == Secret("three")
    assert (one.secrets.known(), other.secrets.known()) == (["TOKEN", "token"], ["token"])
    assert one.secrets.get("slack.db") is None
    keep_secret(host_of(loaded, "../../up"), "token", "four")
    assert host_of(loaded, "../../up").secrets.known() == ["token"]
    assert not list(home.glob("*up*"))


def test_what_a_plugin_keeps_is_private_and_hidden(home: Path) -> None:
    """The file is 0600 whatever the umask, and the value is masked once it was put or read."""
    before = os.umask(0)
    try:
        loaded = load(home)
        keep_secret(host_of(loaded), "token", "xoxb-12345")
    finally:
        os.umask(before)
    assert stat.S_IMODE((home / "secrets" / "slack.secrets").stat().st_mode) == 0o600
    assert loaded.redactor("xoxb-12345") == "<secret slack/token>"
    fresh = load(home)
    assert fresh.redactor("xoxb-12345") == "xoxb-12345"
    host_of(fresh).secrets.get("token")
    assert fresh.redactor("xoxb-12345") == "<secret slack/token>"


def test_what_a_plugin_keeps_may_be_in_the_keyring(home: Path, ring: Memory) -> None:
    """The same setting decides; what is there already stays readable when it is changed."""
    loaded = load(home)
    mine = host_of(loaded)
    keep_secret(mine, "old", "in a file")
    write_settings(loaded, {"secrets.store": "keyring"})
    keep_secret(mine, "new", "in the keyring")
    assert list(ring.held.values()) == ["in the keyring"]
    assert "in the keyring" not in (home / "secrets" / "slack.secrets").read_text()
    assert (mine.secrets.get("old"), mine.secrets.get("new"), mine.secrets.known()) == (
        Secret("in a file"),
        Secret("in the keyring"),
        ["new", "old"],
    )
    ring.locked = True
    with pytest.raises(BadInput, match="slack/new: the keyring cannot be used") as raised:
        mine.secrets.get("new")
    assert raised.value.field == "slack/new"
    with pytest.raises(BadInput, match="slack/old"):
        keep_secret(mine, "old", "changed")
    ring.locked = False
    assert mine.secrets.get("old") == Secret("in a file")
    keep_secret(mine, "new", "changed")
    assert list(ring.held.values()) == ["changed"]
    forget_secret(mine, "new")
    assert (ring.held, mine.secrets.known()) == ({}, ["old"])


class Keeper:
    """A plugin that keeps a secret."""

    @hook
    async def workspace_opened(self, workspace: WorkspaceInfo, host: Host) -> None:
        keep_secret(host, "token", "kept by acme")


async def test_a_host_keeps_secrets_under_the_plugins_name(tmp_path: Path) -> None:
    """What a plugin gives its host is its own, and masked in what the server logs from then on."""
    (tmp_path / "work").mkdir()
    async with running_kernel(tmp_path / "home", extra={"acme": Keeper()}) as kernel:
        await kernel.workspaces.open(tmp_path / "work")
        assert kernel.settings.redactor("kept by acme") == "<secret acme/token>"
        assert host_of(kernel.settings, "acme").secrets.get("token") == Secret("kept by acme")
        assert host_of(kernel.settings, "slack").secrets.known() == []


def test_what_looks_like_a_reference_is_not_kept(home: Path) -> None:
    """A value that would be read as somebody else's entry is refused."""
    with pytest.raises(BadInput, match="slack/token begins with keyring:"):
        keep_secret(host_of(load(home)), "token", "keyring:work/other")
    assert host_of(load(home)).secrets.known() == []
