"""Killed anywhere: a create leaves no backup that is not one, a restore leaves the old state or the new."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from halo_backup.archive import Archive
from halo_backup.create import Made
from halo_backup.restore import Restored, finish
from halo_backup.verify import verify
from halo_kernel import HaloError, Incoming, StorageUnavailable
from halo_kernel.testing import a_session, running_kernel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
DYING = Path(__file__).with_name("dying.py")
POINTS = 18
Make = Callable[..., Awaitable[Made]]
PutBack = Callable[..., Restored]


def die(verb: str, path: object, places: Sequence[tuple[int, Path]]) -> dict[int, str]:
    """Run it to each point, and return how it went."""
    words = [sys.executable, str(DYING), verb, str(path), *(f"{point}:{folder}" for point, folder in places)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=110)
    return {int(number): how for number, _, how in (line.partition(" ") for line in done.stdout.splitlines())}


def copies(source: Path, target: Path, points: Sequence[int]) -> list[tuple[int, Path]]:
    """Return a copy of a home and its workspace for each point."""
    for point in points:
        shutil.copytree(source, target / str(point), symlinks=True)
    return [(point, target / str(point)) for point in points]


def last(verb: str, path: object, source: Path, target: Path) -> int:
    """Return about how many changes of the disk it takes."""
    points = [8 * 2**power for power in range(8)]
    found = die(verb, path, copies(source, target, points))
    shutil.rmtree(target)
    assert set(found.values()) == {"died", "ended 0"}
    return max(point for point, how in found.items() if how == "died")


def spread(most: int) -> list[int]:
    """Return points over the whole way, and every one of its first steps."""
    return sorted(
        {
            *range(3),
            *(most * number // POINTS for number in range(POINTS)),
            *(2 * most * n // 36 for n in range(18, 36)),
        }
    )


def silent(what: str, done: int, total: int) -> None:
    """Say nothing."""


async def test_a_create_that_is_killed(saved: Path, home: Path, tmp_path: Path) -> None:
    """Wherever it dies, there is no file at the path, or a whole one; the next create succeeds and clears up."""
    assert saved.exists()
    source = tmp_path / "source"
    source.mkdir()
    home.rename(source / "home")
    most = last("create", "one.backup", source, tmp_path / "tries")
    places = copies(source, tmp_path / "tries", spread(most))
    went = die("create", "one.backup", places)
    assert list(went.values()).count("died") > POINTS
    for point, folder in places:
        if (folder / "one.backup").exists():
            with Archive(folder / "one.backup", silent) as archive:
                verify(archive, folder / "one.backup", "correct horse", silent)
            (folder / "one.backup").unlink()
        else:
            assert went[point] == "died"
    again = die("create", "one.backup", [(10**9, folder) for _, folder in places[:: len(places) // 4]])
    assert set(again.values()) == {"ended 0"}
    for _, folder in places[:: len(places) // 4]:
        assert not list(folder.glob(".halo-*")) and not (folder / "home" / "secrets" / ".backup").exists()
        with Archive(folder / "one.backup", silent):
            pass


async def test_a_restore_that_is_killed(saved: Path, home: Path, tmp_path: Path) -> None:
    """Wherever it dies, all is as it was, or the home stays shut until it is finished and all is as in the backup."""
    source = tmp_path / "source"
    source.mkdir()
    home.rename(source / "home")
    (tmp_path / "w").rename(source / "w")
    async with running_kernel(source / "home") as kernel:
        session = await a_session(kernel, source / "w")
        await session.prompt(Incoming(text="since then")).result
        (source / "w" / ".halo" / "skills" / "run.sh").write_text("since then")
        (source / "home" / "global" / "agents" / "me.yaml").write_text("since then")
        (source / "home" / "secrets" / "backup.secrets").write_text('{"key": "since then and secret"}')
    most = last("restore", saved, source, tmp_path / "tries")
    places = copies(source, tmp_path / "tries", spread(most))
    went = die("restore", saved, places)
    assert list(went.values()).count("died") > POINTS
    (source / "w").rename(tmp_path / "w")  # else the copies are copies of a workspace that lives
    seen: set[str] = set()
    for _, folder in places:
        if (folder / "home" / "swaps.json").exists():
            with pytest.raises(StorageUnavailable, match="was cut"):
                async with running_kernel(folder / "home"):
                    pass
            assert finish(folder / "home")
            seen.add("cut")
        assert not finish(folder / "home")
        async with running_kernel(folder / "home", recover=False) as kernel:
            await kernel.host.workspaces.open(folder / "w")
        seen.add(state(folder))
    assert seen == {"old", "cut", "new"}


def state(folder: Path) -> str:
    """Return whether a home and its workspace are all old, or all new."""
    with sqlite3.connect(folder / "w" / ".halo" / "halo.db") as db:
        texts = [text for (text,) in db.execute("SELECT text FROM inbox")]
    parts = {
        "since then" in texts,
        "since then" in (folder / "w" / ".halo" / "skills" / "run.sh").read_text(),
        "since then" in (folder / "home" / "global" / "agents" / "me.yaml").read_text(),
        "since then" in (folder / "home" / "secrets" / "backup.secrets").read_text(),
    }
    assert len(parts) == 1, "it is half old and half new"
    return "old" if parts == {True} else "new"


async def test_a_restore_that_died_early_is_done_again(
    saved: Path, home: Path, tmp_path: Path, put_back: PutBack
) -> None:
    """What it had laid out is no part of anything: the next one clears it away."""
    source = tmp_path / "source"
    source.mkdir()
    home.rename(source / "home")
    (tmp_path / "w").rename(source / "w")
    ((_, folder),) = places = copies(source, tmp_path / "tries", [25])
    assert die("restore", saved, places) == {25: "died"}
    assert list(folder.rglob(".restoring"))
    done = put_back(saved, folder / "home", moves={tmp_path / "w": folder / "w"}, passphrase="correct horse")
    assert len(done.kept) == 3
    assert not list(folder.rglob(".restoring"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = f"a file system of two megabytes cannot be mounted here: {getattr(error, 'stderr', None) or error!r}"
        if os.environ.get("HALO_CI"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill_up(path: Path) -> None:
    """Write a file until the disk is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
@pytest.mark.parametrize("room", [0, 40_000, 120_000, 200_000, 300_000])
async def test_a_full_disk(saved: Path, home: Path, tmp_path: Path, small_disk: Path, make: Make, room: int) -> None:
    """Where a backup has no room, create says so and leaves nothing; with room it succeeds."""
    async with running_kernel(home) as kernel:
        blob = small_disk / "ballast"
        fill_up(blob)
        os.truncate(blob, blob.stat().st_size - room)
        with pytest.raises(HaloError, match=r"space|full") as refused:
            await make(kernel, small_disk / "one.backup", passphrase="correct horse")
        assert str(small_disk) in refused.value.message
        assert [path.name for path in small_disk.iterdir()] == ["ballast"]
        blob.unlink()
        await make(kernel, small_disk / "one.backup", passphrase="correct horse")


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
async def test_a_full_disk_where_it_is_restored(
    saved: Path, tmp_path: Path, small_disk: Path, put_back: PutBack, home: Path
) -> None:
    """Where a restore has no room, it says how much it needs, and changes nothing; not in the other folders either."""
    (small_disk / "ballast").write_bytes(b"x" * 1_900_000)
    before = (tmp_path / "w" / ".halo" / "halo.db").read_bytes()
    with pytest.raises(HaloError, match="there is no room"):
        put_back(saved, home, moves={tmp_path / "w": small_disk / "w"}, passphrase="correct horse")
    assert (tmp_path / "w" / ".halo" / "halo.db").read_bytes() == before
    assert not (home / "global" / ".replaced").exists() and not list(tmp_path.rglob(".restoring"))
