"""A change of settings: all of it or nothing, by one writer at a time, and every line that a person wrote stays."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from halo_kernel import (
    AgentSettings,
    BadInput,
    Conflict,
    PluginSettings,
    Secret,
    Section,
    ServerSettings,
    StorageUnavailable,
)
from halo_kernel.settings import KERNEL_SECTIONS, Settings
from halo_lib_settings import revision_of, write_settings


class Vendor(Struct, frozen=True, kw_only=True):
    """One endpoint of a provider."""

    base_url: str
    api_key: Secret | None = None
    models: tuple[str, ...] = ()


class Retry(Struct, frozen=True, kw_only=True):
    """A nested struct with its own bounds."""

    attempts: Annotated[int, Meta(ge=0, le=9)] = 3


class Acme(Struct, frozen=True, kw_only=True):
    """A plugin's section with every kind of field."""

    api_key: Annotated[Secret | None, Meta(description="The key.", extra={"env": "ACME_API_KEY"})] = None
    url: Annotated[str, Meta(description="Where.", extra={"restart": True})] = "https://acme"
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    labels: dict[str, int] = {}
    vendors: dict[str, Vendor] = {}
    retry: Retry = Retry(attempts=5)
    pair: tuple[Secret, ...] = ()
    nickname: str | None = None


SECTIONS = [*(("kernel", each) for each in KERNEL_SECTIONS), ("acme", Section("acme", Acme))]


class Home:
    """A home whose settings file a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "secrets" / "settings.yaml"
        self.file.parent.mkdir(parents=True)

    def load(self, text: str = "", **env: str) -> Settings:
        if text:
            self.file.write_text(text)
        return Settings(self.path, SECTIONS, env)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


# writing


def test_a_write_is_private_and_counts_at_once(home: Home) -> None:
    """A written value counts from then on, the file is 0600 in a 0700 folder, and comments stay."""
    loaded = home.load("# mine\nserver:\n  port: 1 # why\n")
    home.file.chmod(0o644)
    changes = {"server.port": 2, "acme.api_key": Secret("k" * 9), "plugins.disabled": ("a", "b")}
    revision = write_settings(loaded, changes)
    assert loaded.of(ServerSettings).port == 2
    assert loaded.of(PluginSettings).disabled == ("a", "b")
    assert revision == revision_of(loaded.at().file) == revision_of(home.load().at().file)
    assert home.load().of(Acme).api_key == Secret("k" * 9)
    assert home.file.read_text().startswith("# mine\nserver:\n  port: 2 # why\n")
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.file.parent.stat().st_mode) == 0o700
    assert {each.name for each in home.file.parent.iterdir()} == {"settings.yaml", ".settings.yaml.lock"}


def test_unknown_keys_are_kept(home: Home) -> None:
    """A section or field that nobody has survives a write."""
    text = "sever:\n  port: 1\nserver:\n  prot: 2\n  port: 3\nacme: {vendors: {v: {base_url: u, api_kye: k}}}\n"
    write_settings(home.load(text), {"server.port": 4})
    assert home.file.read_text() == text.replace("port: 3", "port: 4")


def test_none_goes_back_to_the_default(home: Home) -> None:
    """Taking a value out leaves the default."""
    loaded = home.load("server:\n  port: 1\n")
    write_settings(loaded, {"server.port": None})
    assert loaded.of(ServerSettings).port == 9527


def test_a_part_of_a_value_is_written_by_its_dotted_key(home: Home) -> None:
    """Entries of mappings, and fields of what they hold, have dotted keys, too."""
    loaded = home.load()
    write_settings(loaded, {"acme.retry.attempts": 1, "acme.vendors.x": {"base_url": "u", "models": ["m"]}})
    write_settings(loaded, {"acme.vendors.x.base_url": "v"})
    assert loaded.of(Acme).vendors == {"x": Vendor(base_url="v", models=("m",))}
    assert loaded.of(Acme).retry.attempts == 1


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("server.port", 70000, "server.port is not valid: Expected `int` <= 65535"),
        ("server.prot", 1, "there is no setting server.prot, did you mean server.port?"),
        ("sever.port", 1, "there is no setting sever.port, did you mean server.port?"),
        ("server", {"port": 1}, "there is no setting server"),
        ("server.port.x", 1, "server.port is not valid: Expected `int`, got `object`"),
        ("acme.vendors.x", {"api_key": "k"}, "acme.vendors is not valid: Object missing required field `base_url`"),
    ],
)
def test_a_refused_write_changes_nothing(home: Home, key: str, value: object, rule: str) -> None:
    """A value that breaks a rule is refused by key; neither the file nor what counts changes."""
    loaded = home.load("server:\n  port: 1\n")
    with pytest.raises(BadInput) as raised:
        write_settings(loaded, {"agent.max_steps": 7, key: value})
    assert str(raised.value).startswith(rule)
    assert raised.value.field and (raised.value.field.startswith(key) or key.startswith(raised.value.field))
    assert home.file.read_text() == "server:\n  port: 1\n"
    assert loaded.of(AgentSettings).max_steps == 100


def test_a_stale_revision_is_a_conflict(home: Home) -> None:
    """Who writes against a state that is no longer the file's is told, and overwrites nothing."""
    loaded = home.load("server:\n  port: 1\n")
    seen = revision_of(loaded.at().file)
    home.file.write_text("server:\n  port: 2\n")
    with pytest.raises(Conflict):
        write_settings(loaded, {"server.port": 3}, revision=seen)
    write_settings(loaded, {"server.home": "web"})
    assert home.file.read_text() == "server:\n  home: web\n  port: 2\n"


def test_writers_at_once_lose_nothing(home: Home) -> None:
    """Two holders of the same home, as two processes are, keep each other's changes."""
    holders = [home.load("server:\n  port: 1\n") for _ in range(4)]

    def write(number: int) -> None:
        for step in range(5):
            write_settings(holders[number], {f"acme.labels.k{number}_{step}": step})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(home.load().of(Acme).labels) == 20


def test_a_failed_write_leaves_the_file_whole(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk refuses, the old file and the old values count, and no draft lies around."""
    loaded = home.load("server:\n  port: 1\n")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageUnavailable, match="No space"):
        write_settings(loaded, {"server.port": 2})
    assert home.file.read_text() == "server:\n  port: 1\n"
    assert loaded.of(ServerSettings).port == 1
    assert {each.name for each in home.file.parent.iterdir()} == {"settings.yaml", ".settings.yaml.lock"}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(deadline=None, max_examples=60)
@given(
    port=st.integers(0, 65535),
    origins=st.lists(TEXTS, max_size=3),
    key=TEXTS.filter(lambda text: "<<" not in text),
    ratio=st.floats(0.001, 0.999),
    labels=st.dictionaries(st.text("abc", min_size=1, max_size=5), st.integers(-(2**53), 2**53), max_size=3),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    port: int,
    origins: list[str],
    key: str,
    ratio: float,
    labels: dict[str, int],
) -> None:
    """Whatever values are written, a fresh process reads the same, and the person's comments are all there."""
    home = Home(tmp_path_factory.mktemp("home") / "h")
    loaded = home.load("# top\nserver: # s\n  # p\n  port: 1 # q\n\n# acme\nacme:\n  url: u # r\n# end\n")
    origins = [each for each in origins if "<<" not in each]
    write_settings(loaded, {"server.port": port, "server.cors_origins": origins, "acme.labels": labels})
    write_settings(loaded, {"acme.api_key": Secret(key), "acme.ratio": ratio})
    again = home.load()
    assert again.of(ServerSettings) == ServerSettings(port=port, cors_origins=tuple(origins))
    assert again.of(Acme) == Acme(url="u", api_key=Secret(key), ratio=ratio, labels=labels)
    text = home.file.read_text()
    assert [text.index(remark) for remark in ("# top", "# s", "# p", "# q", "# acme", "# r", "# end")] == sorted(
        text.index(remark) for remark in ("# top", "# s", "# p", "# q", "# acme", "# r", "# end")
    )


WRITER = """
import sys
from pathlib import Path
from msgspec import Struct
from halo_kernel import Conflict, Section
from halo_kernel.settings import Settings
from halo_lib_settings import revision_of, write_settings

class Acme(Struct, frozen=True):
    labels: dict[str, int] = {}

loaded = Settings(Path(sys.argv[1]), [("acme", Section("acme", Acme))], {})
for step in range(int(sys.argv[3])):
    while True:
        number = len(loaded.of(Acme).labels)
        try:
            write_settings(loaded, {f"acme.labels.n{number}": int(sys.argv[2])}, revision=revision_of(loaded.at().file))
            break
        except Conflict:
            print("conflict", flush=True)
"""


def test_two_processes_take_turns(home: Home) -> None:
    """Of two writers who saw the same state one is told of the conflict: no number is given twice, none is left out."""
    home.load("# mine\nacme: {url: u} # ours\n")
    command = [sys.executable, "-c", WRITER, str(home.path)]
    writers = [subprocess.Popen([*command, str(writer), "12"], stdout=subprocess.PIPE) for writer in (1, 2)]
    try:
        for writer in writers:
            writer.communicate(timeout=60)
    finally:
        for writer in writers:
            writer.kill()
    assert [writer.returncode for writer in writers] == [0, 0]
    labels = home.load().of(Acme).labels
    assert set(labels) == {f"n{number}" for number in range(24)}
    assert sorted(labels.values()) == [1] * 12 + [2] * 12


def test_a_part_of_a_value_goes_back_to_the_default(home: Home) -> None:
    """Taking out the last entry below a key leaves nothing that a person would have to clean up first."""
    loaded = home.load("acme: {retry: {attempts: 1}}\n")
    for value in (None, 2, None, None):
        write_settings(loaded, {"acme.retry.attempts": value})
        assert loaded.of(Acme).retry == Retry(attempts=5 if value is None else value)
    assert home.load("acme:\n  retry:\n    attempts:\nserver:\n").of(Acme) == Acme()
