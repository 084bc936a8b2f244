"""Files and folders of a home replaced as one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from halo_kernel import StorageUnavailable, Swap, swap_all
from halo_kernel.swaps import finish_swaps
from halo_kernel.testing import running_kernel

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
    """Ended before its n-th change of the disk, and once more later, the next start leaves one whole state."""
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


async def test_a_start_of_the_home_finishes_it(tmp_path: Path) -> None:
    """Whoever starts a kernel on a home in the middle of it finds all of it done, before anything is opened."""
    home = tmp_path / "home"
    home.mkdir()
    swaps = prepare(home)
    (home / "swaps.json").write_bytes(msgspec.json.encode(swaps))
    async with running_kernel(home):
        assert read(home / "live") == NEW


async def test_what_cannot_be_finished_keeps_the_home_shut(tmp_path: Path) -> None:
    """A start that cannot finish it says why and opens nothing; the next one can."""
    home = tmp_path / "home"
    home.mkdir()
    swaps = prepare(home)
    (home / "kept").rmdir()
    with pytest.raises(StorageUnavailable, match="half replaced"):
        swap_all(home, swaps)
    with pytest.raises(StorageUnavailable, match="half replaced"):
        async with running_kernel(home):
            pass
    assert not (home / "global" / "kernel.db").exists()
    (home / "kept").mkdir()
    async with running_kernel(home):
        assert read(home / "live") == NEW
