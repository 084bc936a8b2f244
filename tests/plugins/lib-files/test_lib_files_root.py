"""What a root reads and writes, and that nothing leads out of it."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_lib_files import Changed, FilesError, Missing, Outside, Refused, Root, Unusable, WrongKind

OUTSIDE = b"outside"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(OUTSIDE)
    return folder


@pytest.fixture
def root(place: Path) -> Iterator[Root]:
    with Root(place) as opened:
        yield opened


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else b"/"
        for path in sorted(folder.rglob("*"))
    }


@given(data=st.binary(max_size=2000), name=st.sampled_from(["a", "ü/b c", "deep/er/x", "-n", "中文.txt"]))
@settings(max_examples=30, deadline=None)
def test_what_is_written_is_read(scratch: Any, data: bytes, name: str) -> None:
    """Any bytes come back as they were written, and nothing else is left in the folder."""
    with scratch() as folder, Root(folder) as root:
        root.write(name, b"before")
        root.write(name, data)
        assert root.read(name) == data
        assert [path.name for path in Path(folder).rglob("*") if path.is_file()] == [name.rpartition("/")[2]]


NAMES = ("a", "b", "c")
TARGETS = st.one_of(
    st.lists(st.sampled_from((*NAMES, "..", ".")), min_size=1, max_size=4).map("/".join),
    st.sampled_from(["{out}", "{out}/secret", "{root}/a", "{root}/b/c", "/", "../outside", "../outside/secret", "a"]),
)
PATHS = (
    st.lists(st.sampled_from((*NAMES, "..", ".", "", "secret", "outside", "root")), max_size=7)
    .map("/".join)
    .map(lambda path: path.lstrip("/"))
)
TREE = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
        st.one_of(st.just("file"), st.just("folder"), st.just("hard"), TARGETS),
    ),
    max_size=8,
)


def plant(base: Path, tree: list[tuple[str, str]]) -> Path:
    """Make a root full of links, beside a folder with a file that must never be seen or changed."""
    root, out = base / "root", base / "outside"
    root.mkdir()
    out.mkdir()
    (out / "secret").write_bytes(OUTSIDE)
    for name, kind in tree:
        path = root / name
        # A parent may be a link that leads out by now: only what truly lies inside is planted.
        if not os.path.realpath(path.parent).startswith(str(root)):
            continue
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                path.write_bytes(b"in:" + name.encode())
            elif kind == "folder":
                path.mkdir()
            elif kind != "hard":
                path.symlink_to(kind.format(out=out, root=root))
    return root


@given(tree=TREE, path=PATHS)
@settings(max_examples=300, deadline=None)
def test_no_path_escapes(scratch: Any, tree: list[tuple[str, str]], path: str) -> None:
    """Whatever links a tree holds, reading gives what lies inside or an error, and writing changes nothing outside."""
    with scratch() as folder:
        base = Path(os.path.realpath(folder))
        place = plant(base, tree)
        before = snapshot(base / "outside")
        beside = sorted(os.listdir(base))
        with Root(place) as root:
            with suppress(FilesError):
                data = root.read(path)
                assert data != OUTSIDE
                real = Path(os.path.realpath(place / path))
                assert real.is_relative_to(place)
                assert real.read_bytes() == data
            with suppress(FilesError):
                root.write(path, b"new")
                assert Path(os.path.realpath(place / path)).read_bytes() == b"new"
            with suppress(FilesError):
                for entry in root.walk(path or "."):
                    assert Path(os.path.realpath((place / entry.path).parent)).is_relative_to(place)
        assert snapshot(base / "outside") == before
        assert sorted(os.listdir(base)) == beside


@given(tree=TREE, path=PATHS)
@settings(max_examples=200, deadline=None)
def test_what_lies_inside_is_reachable(scratch: Any, tree: list[tuple[str, str]], path: str) -> None:
    """A path that never leaves the root on its way reads exactly what the system reads."""
    with scratch() as folder:
        place = plant(Path(os.path.realpath(folder)), tree)
        if not stays_inside(place, path):
            return
        with Root(place) as root:
            expected = (place / path).read_bytes() if (place / path).is_file() else None
            if expected is None:
                with pytest.raises(FilesError):
                    root.read(path)
            else:
                assert root.read(path) == expected


def stays_inside(place: Path, path: str) -> bool:
    """Walk as the system does and tell whether every step is inside."""
    ahead, here, steps = [part for part in path.split("/") if part not in ("", ".")], place, 0
    while ahead:
        part, steps = ahead.pop(0), steps + 1
        here = here.parent if part == ".." else here / part
        if steps > 40 or not here.is_relative_to(place):
            return False
        if here.is_symlink():
            target = os.readlink(here)
            ahead = [part for part in target.split("/") if part not in ("", ".")] + ahead
            here = Path("/") if target.startswith("/") else here.parent
            if target.startswith("/"):
                if not target.startswith(f"{place}/"):
                    return False
                ahead, here = ahead[len(place.parts) - 1 :], place
    return True


def test_a_swapped_folder_leads_nowhere(place: Path) -> None:
    """While a folder is swapped for a link to the outside again and again, nothing outside is read or written."""
    (place / "real").mkdir()
    (place / "real" / "secret").write_bytes(b"inside")
    os.symlink(place.parent / "outside", place / "link")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for name in ("real", "link"):
                os.rename(place / name, place / "now")
                os.rename(place / "now", place / name)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set[bytes]()
    try:
        with Root(place) as root:
            for turn in range(3000):
                with suppress(FilesError):
                    seen.add(root.read("now/secret"))
                if turn % 10 == 0:
                    with suppress(FilesError):
                        root.edit("now/secret", lambda data: data)
                with suppress(FilesError):
                    seen.update(entry.path.encode() for entry in root.walk("now") if "outside" in entry.path)
    finally:
        done.set()
        swapping.join()
    assert seen == {b"inside"}
    assert snapshot(place.parent / "outside") == {"secret": OUTSIDE}


def test_a_swapped_file_leads_nowhere(place: Path) -> None:
    """A file that is swapped for a link between looking and opening is an error, never what the link leads to."""
    (place / "file").write_bytes(b"inside")

    def swap(where: str | int, status: os.stat_result | None) -> str:
        if isinstance(where, str) and where.endswith("/file"):
            os.unlink(place / "file")
            os.symlink("../outside/secret", place / "file")
        return ""

    with Root(place, refuse=swap) as root, pytest.raises(FilesError):
        root.read("file")


def test_a_file_swapped_for_a_refused_one_is_never_closed(place: Path) -> None:
    """A refused file that slips in between looking and opening is refused, and its descriptor stays open for good."""
    (place / "own.db").write_bytes(b"database")
    (place / "file").write_bytes(b"inside")
    own = os.stat(place / "own.db")

    def refuse(where: str | int, status: os.stat_result | None) -> str:
        if where == str(place / "file"):
            os.replace(place / "own.db", place / "file")
        if isinstance(where, int) and os.path.samestat(os.fstat(where), own):
            return "is ours"
        return ""

    def opened() -> int:
        return sum(
            os.path.samestat(os.fstat(number), own) for number in map(int, os.listdir("/dev/fd")) if alive(number)
        )

    with Root(place, refuse=refuse) as root:
        with pytest.raises(Refused, match="is ours"):
            root.read("file")
        assert opened() == 1


def alive(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_nothing_stays_open(root: Root, place: Path) -> None:
    """Every operation, failed ones too, gives its descriptors back."""
    (place / "a").mkdir()
    (place / "a" / "f").write_text("x")
    os.symlink("a/f", place / "link")
    before = len(os.listdir("/dev/fd"))
    for path in ("a/f", "link", "a", "missing", "../x", "a/f/g", "a/../a/f"):
        for work in (
            root.read,
            root.find,
            root.entries,
            lambda path: root.write(path, b"y"),
            lambda p: list(root.walk(p)),
        ):
            with suppress(FilesError):
                work(path)
    assert len(os.listdir("/dev/fd")) == before


def test_mode_is_kept(root: Root, place: Path) -> None:
    """A replaced file keeps its permissions; a new one gets the usual ones."""
    (place / "run.sh").write_text("x")
    os.chmod(place / "run.sh", 0o755)
    root.write("run.sh", b"y")
    root.edit("run.sh", lambda data: data + b"z")
    root.write("new", b"")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(os.stat(place / "run.sh").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(place / "new").st_mode) == 0o666 & ~mask
    assert (place / "run.sh").read_bytes() == b"yz"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_root_keeps_the_owner(root: Root, place: Path) -> None:
    """Written by root, a file belongs to whom it belonged to, and a new one to its folder's owner."""
    os.chown(place, 1234, 1234)
    (place / "theirs").write_text("x")
    os.chown(place / "theirs", 4321, 4321)
    root.write("theirs", b"y")
    root.write("new", b"y")
    assert [(place / name).stat().st_uid for name in ("theirs", "new")] == [4321, 1234]


def test_a_link_inside_is_written_through(root: Root, place: Path) -> None:
    """Writing through a link that stays inside changes its target and leaves the link."""
    (place / "sub").mkdir()
    (place / "sub" / "f").write_text("x")
    os.symlink("sub/f", place / "link")
    os.symlink(place / "sub", place / "absolute")
    root.write("link", b"y")
    root.write("absolute/f2", b"z")
    assert (place / "link").is_symlink()
    assert ((place / "sub" / "f").read_bytes(), (place / "sub" / "f2").read_bytes()) == (b"y", b"z")


def test_an_edit_of_a_changed_file_writes_nothing(root: Root, place: Path) -> None:
    """A file that somebody else wrote between reading and writing keeps what they wrote."""
    (place / "f").write_text("one")

    def change(data: bytes) -> bytes:
        (place / "f").write_text("theirs")
        return data + b"!"

    with pytest.raises(Changed):
        root.edit("f", change)
    assert (place / "f").read_text() == "theirs"


def test_a_failed_write_leaves_no_trace(root: Root, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full, the old file stays and the temporary one goes."""
    (place / "f").write_text("old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unusable, match="No space left"):
        root.write("f", b"new")
    assert snapshot(place) == {"f": b"old"}


def test_each_failure_has_its_error(root: Root, place: Path) -> None:
    """A path to nothing, a folder, a pipe, a socket or a loop, too long or with a NUL, is a typed error naming it."""
    (place / "folder").mkdir()
    (place / "file").write_text("x")
    os.mkfifo(place / "pipe")
    os.symlink("loop", place / "loop")
    os.symlink("../outside/secret", place / "out")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(place)
        listening.bind("socket")
        os.chdir(here)
    cases: list[tuple[str, type[FilesError]]] = [
        ("missing", Missing),
        ("missing/x", Missing),
        ("folder", WrongKind),
        ("", WrongKind),
        ("file/x", WrongKind),
        ("pipe", WrongKind),
        ("socket", WrongKind),
        ("loop", Unusable),
        ("out", Outside),
        ("../outside/secret", Outside),
        ("folder/../../outside/secret", Outside),
        ("n" * 300, Unusable),
        ("a\0b", Unusable),
    ]
    for path, error in cases:
        with pytest.raises(error) as raised:
            root.read(path)
        assert raised.value.path == path
        assert path in str(raised.value) or "\0" in path


def test_a_bad_path_makes_no_folders(root: Root, place: Path) -> None:
    """Writing below folders that do not exist makes them only when the whole path can be walked."""
    for path in ("x/../../y", "x/\0", "a/b/../c"):
        with pytest.raises(FilesError):
            root.write(path, b"")
    assert snapshot(place) == {}


def test_walks_do_not_go_through_links(root: Root, place: Path) -> None:
    """A walk is depth first by name, says what links lead to, and goes through none, so that a loop ends."""
    (place / "b").mkdir()
    (place / "b" / "f").write_text("xy")
    (place / "a").write_text("x")
    os.symlink(".", place / "b" / "self")
    os.symlink("a", place / "to-a")
    os.symlink("../outside", place / "to-out")
    os.symlink("nowhere", place / "to-nothing")
    found = [(entry.path, entry.kind, entry.linked, entry.size) for entry in root.walk()]
    assert [item[:3] for item in found] == [
        ("a", "file", False),
        ("b", "folder", False),
        ("b/f", "file", False),
        ("b/self", "folder", True),
        ("to-a", "file", True),
        ("to-nothing", "link", True),
        ("to-out", "link", True),
    ]
    assert found[2][3] == 2


def test_what_is_refused_is_not_even_listed(place: Path) -> None:
    """A refused file is left out of lists and walks, by any of its names; a refused folder with all below it."""
    (place / "own").write_text("x")
    (place / "hidden").mkdir()
    (place / "hidden" / "f").write_text("x")
    os.link(place / "own", place / "hard")
    os.symlink("own", place / "soft")
    own = os.stat(place / "own")

    def refuse(where: str | int, status: os.stat_result | None) -> str:
        if status is not None and os.path.samestat(status, own):
            return "is ours"
        return "is hidden" if isinstance(where, str) and where.endswith("/hidden") else ""

    with Root(place, refuse=refuse) as root:
        assert [entry.path for entry in root.walk()] == []
        for path in ("own", "hard", "soft", "hidden/f", "hidden/new"):
            with pytest.raises(Refused, match=r"is ours|is hidden"):
                root.read(path)
            with pytest.raises(Refused):
                root.write(path, b"y")
    assert (place / "own").read_text() == "x"


def test_a_walk_can_be_stopped(root: Root, place: Path) -> None:
    """The check given to a walk runs between folders and ends it by raising."""
    for name in "abc":
        (place / name).mkdir()
    calls = list[int]()

    def check() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        list(root.walk(check=check))


def test_the_whole_disk_can_be_a_root(place: Path) -> None:
    """With '/' as the root every link is inside."""
    os.symlink(place.parent / "outside" / "secret", place / "link")
    with Root("/") as root:
        assert root.read(str(place / "link")) == OUTSIDE


def test_a_missing_root_is_an_error(tmp_path: Path) -> None:
    """A root that is not there, or is a file, is refused at once."""
    (tmp_path / "f").write_text("x")
    for name in ("missing", "f"):
        with pytest.raises(Unusable):
            Root(tmp_path / name)
