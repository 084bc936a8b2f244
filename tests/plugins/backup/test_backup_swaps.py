"""Files and folders of a home replaced as one."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from halo_backup.swaps import Swap, finish_swaps, swap_all
from halo_kernel import BadInput, ServerRunning, StorageUnavailable, locked
from halo_kernel.testing import running_kernel

Run = Callable[..., Awaitable[int]]
Capture = pytest.CaptureFixture[str]

OLD = {"changed": "old", "gone": "old", "folder/inner": "old"}
NEW = {"changed": "new", "folder/inner": "new", "folder/more": "new", "added": "new"}


class Killed(BaseException):
    """The process ends here."""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def read(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def prepare(home: Path) -> list[Swap]:
    """Lay out an old and a fresh state, and return what makes one of the other."""
    live, fresh, kept = home / "live", home / "fresh", home / "kept"
    write(live, OLD)
    write(fresh, NEW)
    kept.mkdir()
    tops = sorted({name.partition("/")[0] for name in {**OLD, **NEW}})
    given = {top: str(fresh / top) for top in tops if (fresh / top).exists()}
    return [
        Swap(path=str(live / top), kept=str(kept / top) if (live / top).exists() else "", fresh=given.get(top, ""))
        for top in tops
    ]


@pytest.mark.parametrize("step", range(9))
def test_wherever_it_is_cut_it_is_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Ended before its n-th change of the disk, and once more later, the last finish leaves one whole state."""
    swaps, real = prepare(tmp_path), (os.rename, Path.unlink, Path.replace)

    def killing(count: int) -> None:
        left = [count]

        def counted(call: object) -> object:
            def stand_in(*args: object, **more: object) -> object:
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return call(*args, **more)  # type: ignore[operator]

            return stand_in

        monkeypatch.setattr(os, "rename", counted(real[0]))
        monkeypatch.setattr(Path, "unlink", counted(real[1]))
        monkeypatch.setattr(Path, "replace", counted(real[2]))

    killed = False
    for again in range(2):
        killing(step // (again + 1))
        try:
            swap_all(tmp_path, swaps) if not again else finish_swaps(tmp_path)
        except Killed:
            killed = True
        monkeypatch.undo()
    was_begun = (tmp_path / "swaps.json").exists() or read(tmp_path / "live") != OLD
    finish_swaps(tmp_path)
    assert read(tmp_path / "live") == (NEW if was_begun else OLD)
    assert not (tmp_path / "swaps.json").exists()
    assert read(tmp_path / "kept") == (OLD if was_begun else {})
    assert killed == (step < 8)


async def test_nobody_opens_a_home_in_the_middle_of_it(home: Path, run: Run, capsys: Capture) -> None:
    """A start of the home is refused with what to do, and changes nothing; after that all of it is there."""
    home.mkdir()
    (home / "global").mkdir()
    swaps = prepare(home)
    (home / "swaps.json").write_bytes(msgspec.json.encode(swaps))
    with pytest.raises(StorageUnavailable, match="was cut") as refused:
        async with running_kernel(home):
            pass
    assert "halo backup restore --finish" in refused.value.advice
    assert read(home / "live") == OLD and not (home / "global" / "kernel.db").exists()
    assert await run("restore", "--finish") == 0
    assert "Finished the restore" in capsys.readouterr().out
    assert read(home / "live") == NEW
    async with running_kernel(home):
        assert read(home / "live") == NEW


async def test_there_may_be_nothing_to_finish(home: Path, run: Run, capsys: Capture) -> None:
    """Where no restore was cut, this is said, and no home is made."""
    assert await run("restore", "--finish") == 0
    assert "nothing to finish" in capsys.readouterr().out
    assert await run("restore", "--finish", "--json") == 0
    assert msgspec.json.decode(capsys.readouterr().out) == {"home": str(home), "finished": False}
    assert not home.exists()


@pytest.mark.parametrize("words", [(), ("--finish", "one.backup"), ("--finish", "--no-secrets")])
async def test_finish_stands_alone(home: Path, run: Run, words: tuple[str, ...]) -> None:
    """A restore is of a file, or what is left of another; both or neither is refused."""
    with pytest.raises(BadInput, match="or --finish alone"):
        await run("restore", *words)


async def test_it_is_finished_by_one(home: Path, run: Run) -> None:
    """While a server or another restore has the home, it is refused and changes nothing."""
    home.mkdir()
    (home / "global").mkdir()
    (home / "swaps.json").write_bytes(msgspec.json.encode(prepare(home)))
    with locked(home / "global" / "server.lock"), pytest.raises(ServerRunning, match="or another restore"):
        await run("restore", "--finish")
    assert read(home / "live") == OLD


async def test_what_cannot_be_finished_keeps_the_home_shut(home: Path, run: Run) -> None:
    """A finish that cannot go on says why, and nobody opens the home; the next one can."""
    home.mkdir()
    (home / "global").mkdir()
    swaps = prepare(home)
    (home / "kept").rmdir()
    with pytest.raises(StorageUnavailable, match="half replaced"):
        swap_all(home, swaps)
    with pytest.raises(StorageUnavailable, match="half replaced"):
        await run("restore", "--finish")
    with pytest.raises(StorageUnavailable, match="was cut"):
        async with running_kernel(home):
            pass
    assert not (home / "global" / "kernel.db").exists()
    (home / "kept").mkdir()
    assert await run("restore", "--finish") == 0
    async with running_kernel(home):
        assert read(home / "live") == NEW
