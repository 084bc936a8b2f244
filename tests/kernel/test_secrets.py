"""The home folder and its secret files: private, whole, and never shown."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import BadInput, Kernel, Secret, StorageUnavailable
from halo_kernel.secrets import Redactor, ensure_home, read_secret, read_variable, write_secret
from halo_kernel.server import run
from halo_kernel.sites import default_home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_home_is_what_the_environment_names(tmp_path: Path) -> None:
    """`HALO_HOME` names the home, absolute; without it, or when it is empty, the home is `~/.halo`."""
    assert default_home({"HALO_HOME": str(tmp_path)}) == tmp_path
    assert default_home({"HALO_HOME": "somewhere"}) == Path.cwd() / "somewhere"
    assert default_home({"HALO_HOME": "~/x"}) == Path.home() / "x"
    assert default_home({}) == default_home({"HALO_HOME": " "}) == Path.home() / ".halo"


def test_home_is_laid_out_and_its_secrets_are_private(tmp_path: Path) -> None:
    """The folders are made once, and a `secrets` folder that others could read is closed to them."""
    home = tmp_path / "deep" / "home"
    ensure_home(home)
    assert (home / "global" / "logs").is_dir()
    assert mode(home / "secrets") == 0o700
    (home / "secrets").chmod(0o755)
    ensure_home(home)
    assert mode(home / "secrets") == 0o700


def test_a_home_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    """A file in the way is one clear error with what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput) as raised:
        ensure_home(tmp_path / "file")
    assert raised.value.field == "HALO_HOME"
    assert raised.value.advice


async def test_a_home_that_is_half_restored_stays_shut(tmp_path: Path) -> None:
    """Neither a kernel nor a server starts on it; both say what finishes the restore, and open nothing."""
    (tmp_path / "swaps.json").write_text("[]")
    with pytest.raises(StorageUnavailable, match=r"a restore of .* was cut") as refused:
        await Kernel.start(tmp_path, discover=False)
    assert "halo backup restore --finish" in refused.value.advice
    with pytest.raises(StorageUnavailable, match="was cut"):
        run(tmp_path, port=0, discover=False)
    assert [path.name for path in tmp_path.iterdir()] == ["swaps.json"]


def test_a_secret_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """A new file and a replaced one are 0600."""
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        write_secret(path, "a\r\nb")
        path.chmod(0o644)
        write_secret(path, "a\r\nb")
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert path.read_bytes() == b"a\r\nb"
    assert read_secret(path) is not None
    assert read_secret(tmp_path / "none") is None


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """People keep settings elsewhere and link to them; the file behind the link is replaced."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    write_secret(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    """While a file is replaced over and over, every read is one whole version."""
    path, stop = tmp_path / "key", threading.Event()
    versions = ["a" * 200_000, "b" * 100_000]
    write_secret(path, versions[0])

    def write() -> None:
        while not stop.is_set():
            for version in versions:
                write_secret(path, version)

    writer = threading.Thread(target=write)
    writer.start()
    seen = {path.read_text() for _ in range(300)}
    stop.set()
    writer.join()
    assert seen <= set(versions)


KILLED = """
import os, sys, threading, time
from pathlib import Path
from halo_kernel.secrets import write_secret
threading.Thread(target=lambda: (time.sleep(float(sys.argv[2])), os.kill(os.getpid(), 9))).start()
while True:
    for letter in "ab":
        write_secret(Path(sys.argv[1]), letter * 100_000)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    """After `kill -9` in the middle of writing the file is one of the versions."""
    path = tmp_path / "key"
    write_secret(path, "a" * 100_000)
    for delay in ("0.05", "0.11", "0.17"):
        subprocess.run([sys.executable, "-c", KILLED, str(path), delay], timeout=30, check=False)
        assert path.read_text() in ("a" * 100_000, "b" * 100_000)


# variables


def test_a_variable_comes_from_itself_or_its_file(tmp_path: Path) -> None:
    """`X`, else the file that `X_FILE` names without its line end; empty is not set."""
    (tmp_path / "x").write_text(" a b \n\n")
    (tmp_path / "empty").write_text("\n")
    assert read_variable({"X": "1"}, "X") == "1"
    assert read_variable({"X_FILE": str(tmp_path / "x")}, "X") == " a b "
    assert read_variable({"X": "", "X_FILE": ""}, "X") is None
    assert read_variable({"X_FILE": str(tmp_path / "empty")}, "X") is None
    assert read_variable({}, "X") is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe", "folder"])
def test_an_unreadable_file_names_the_variable(tmp_path: Path, content: object) -> None:
    """Missing, not text or a folder: the error names `X_FILE` and no content."""
    path = tmp_path / "x"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    with pytest.raises(BadInput, match="X_FILE names") as raised:
        read_variable({"X_FILE": str(path)}, "X")
    assert raised.value.field == "X_FILE"


# redaction


SECRETS = st.text(st.characters(exclude_characters="<>"), min_size=8, max_size=20)


@given(st.lists(SECRETS, min_size=1, max_size=4, unique=True), st.text(max_size=20), st.data())
def test_no_secret_survives(values: list[str], around: str, data: st.DataObject) -> None:
    """Whatever the text around it, a secret, its JSON form, its `repr` and its URL form are gone."""
    hide = Redactor(Secret(value, "x") for value in values)
    value = data.draw(st.sampled_from(values))
    for form in (value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, "", errors="surrogatepass")):
        assert form not in hide(around + form + around)


def test_a_secret_is_replaced_by_its_name() -> None:
    """The handle's name shows which it was; short values, which are part of any text, are left alone."""
    hide = Redactor(
        [Secret('to"ken/1234', "acme.key"), Secret("short", "acme.pin"), Secret('to"ken/12345678', "acme.b")]
    )
    assert hide('x to"ken/1234 y') == "x <secret acme.key> y"
    assert hide('{"k": "to\\"ken/1234"}') == '{"k": "<secret acme.key>"}'
    assert hide("?k=to%22ken%2F1234&") == "?k=<secret acme.key>&"
    assert hide('to"ken/12345678') == "<secret acme.b>"
    assert hide("short") == "short"
    assert Redactor()("anything") == "anything"


def test_what_is_learned_is_hidden_from_then_on() -> None:
    """The secrets of each source are hidden; those that were replaced are not kept for ever."""
    hide = Redactor()
    stream = hide.stream()
    assert (hide("aaaaaaaa"), stream.feed("aaaaaaaa")) == ("aaaaaaaa", "aaaaaaaa")
    hide.learn("x", [Secret("aaaaaaaa", "a")])
    hide.learn("x", [Secret("aaaaaaaa", "a")])
    hide.learn("y", [Secret("dddddddd", "d")])
    assert stream.feed("aaaaaaaa") == "<secret a>"
    hide.learn("x", [Secret("bbbbbbbb", "b")])
    assert hide("aaaaaaaa bbbbbbbb dddddddd") == "aaaaaaaa <secret b> <secret d>"


ALIKE = st.text("ab", min_size=8, max_size=12)


@given(
    st.lists(ALIKE | SECRETS, min_size=1, max_size=4, unique=True),
    st.lists(st.text("ab", max_size=30) | st.text(max_size=5), max_size=6),
    st.data(),
)
def test_a_stream_is_masked_as_the_whole(values: list[str], around: list[str], data: st.DataObject) -> None:
    """However a text is cut, its masked pieces are the masked text, none shows a secret, and nothing waits in vain."""
    secrets = [Secret(value, f"s{number}") for number, value in enumerate(values)]
    hide = Redactor(secrets)
    inside = [data.draw(st.sampled_from(values)) for _ in around]
    text = "".join(part for pair in zip(around, inside, strict=True) for part in pair) + data.draw(
        st.text("ab<", max_size=9)
    )
    stream, shown, at = hide.stream(), "", 0
    while at < len(text):
        end = at + data.draw(st.integers(1, 7))
        shown, at = shown + stream.feed(text[at:end]), end
        held = stream._held
        fed = text[:end]
        assert fed.endswith(held)
        assert shown == hide(fed[: len(fed) - len(held)])
        assert not held or any(form.startswith(held) and form != held for form in hide._names)
        assert hide(shown) == shown or any(value in "<secret s0>" for value in values)
    assert shown + stream.end() == hide(text)
    assert stream.end() == ""


def test_a_stream_without_secrets_waits_for_nothing() -> None:
    """Text passes at once where there is nothing to hide, or nothing that begins alike."""
    assert Redactor().stream().feed("anything") == "anything"
    stream = Redactor([Secret("sk-12345678", "k")]).stream()
    assert stream.feed("a sk-1") == "a "
    assert stream.feed("0 s") == "sk-10 "
    assert stream.feed("k-12345678s") == "<secret k>"
    assert stream.end() == "s"


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("", "****"),
        ("short", "****"),
        ("elevenchars", "****"),
        ("twelve chars", "tw****rs"),
        ("AKIAIOSFODNN7EXAMPLEST", "AK****ST"),
    ],
)
def test_a_mask_shows_little(value: str, masked: str) -> None:
    """Two characters at each end of a long secret tell which it is; of a short one nothing is shown."""
    assert Secret(value).masked() == masked
