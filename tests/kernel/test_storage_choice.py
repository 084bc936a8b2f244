"""Which storage engine keeps a home: a plugin's goes before the kernel's own, and a home stays with its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from halo_kernel import Database, Incoming, Migration, Place, Storage, StorageUnavailable, hook
from halo_kernel.sqlite import SqliteStorage
from halo_kernel.testing import a_session, running_kernel


class Other:
    """A plugin with an engine of another name, whose files are SQLite's below."""

    def __init__(self, name: str = "other", fault: Exception | None = None) -> None:
        self.name = name
        self.fault = fault
        self.inner = SqliteStorage()

    @hook
    def provide_storage(self) -> Iterable[Storage]:
        return [self]

    async def open(self, place: Place, migrations: Iterable[Migration]) -> Database:
        if self.fault is not None:
            raise self.fault
        return await self.inner.open(place, list(migrations))

    async def copy(self, place: Place, path: Path) -> None:
        await self.inner.copy(place, path)

    def owns(self, path: str | int) -> bool:
        return self.inner.owns(path)


async def converse(home: Path, folder: Path, **engines: object) -> str:
    """Start a kernel with these plugins, say something, and return the engine's name."""
    async with running_kernel(home, extra=engines) as kernel:
        session = await a_session(kernel, folder)
        assert (await session.prompt(Incoming(text="hello")).result).text == "echo: hello"
        return kernel.data.engine


async def test_a_home_stays_with_the_engine_that_it_began_with(tmp_path: Path) -> None:
    """Without that engine's plugin, and with another one's, the home does not open, and the sentence names both."""
    home, folder = tmp_path / "home", tmp_path / "w"
    assert await converse(home, folder, other=Other()) == "other"
    with pytest.raises(
        StorageUnavailable, match="kept by the storage engine 'other', not by the 'sqlite' of sqlite"
    ) as no:
        await converse(home, folder)
    assert "install or mend that plugin" in no.value.advice
    with pytest.raises(StorageUnavailable, match="'other', not by the 'third' of third"):
        await converse(home, folder, third=Other("third"))
    assert await converse(home, folder, renamed=Other()) == "other", "the engine's name counts, not its plugin's"


async def test_a_home_of_the_kernels_own_engine_is_not_taken_over(tmp_path: Path) -> None:
    """An engine that is installed later would find nothing there, and is refused."""
    assert await converse(tmp_path / "home", tmp_path / "w") == "sqlite"
    with pytest.raises(StorageUnavailable, match="kept by the storage engine 'sqlite', not by the 'other' of other"):
        await converse(tmp_path / "home", tmp_path / "w", other=Other())
    assert await converse(tmp_path / "home", tmp_path / "w") == "sqlite"


async def test_two_engines_are_named(tmp_path: Path) -> None:
    """There is one engine; who brings another is told with whom."""
    with pytest.raises(StorageUnavailable, match="not those of one and two"):
        await converse(tmp_path / "home", tmp_path / "w", one=Other(), two=Other())


async def test_an_engine_that_breaks_is_named(tmp_path: Path) -> None:
    """What it raises becomes one sentence, and its own refusals stay as they are."""
    with pytest.raises(StorageUnavailable, match=r"the storage engine 'other' failed: ValueError\('no such shelf'\)"):
        await converse(tmp_path / "home", tmp_path / "w", other=Other(fault=ValueError("no such shelf")))
    with pytest.raises(StorageUnavailable, match=r"^the shelf is full$"):
        await converse(tmp_path / "home", tmp_path / "w", other=Other(fault=StorageUnavailable("the shelf is full")))


@pytest.mark.parametrize("noted", [b"other\n", b" other "])
async def test_the_note_of_the_engine_may_be_written_by_hand(tmp_path: Path, noted: bytes) -> None:
    """White space around the name, as an editor leaves it, does not count."""
    assert await converse(tmp_path / "home", tmp_path / "w", other=Other()) == "other"
    (tmp_path / "home" / "global" / "storage").write_bytes(noted)
    assert await converse(tmp_path / "home", tmp_path / "w", other=Other()) == "other"


async def test_a_damaged_note_opens_no_home(tmp_path: Path) -> None:
    """What is no name of an engine is shown as it stands, and not written over."""
    note = tmp_path / "home" / "global" / "storage"
    assert await converse(tmp_path / "home", tmp_path / "w", other=Other()) == "other"
    note.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageUnavailable, match=r"the storage engine '\ufffd\ufffd.*', not by the 'other'"):
        await converse(tmp_path / "home", tmp_path / "w", other=Other())
    assert note.read_bytes() == b"\xff\xfe\x00"


async def test_an_engine_that_never_opened_keeps_no_home(tmp_path: Path) -> None:
    """A home stays free for another engine until its first has opened."""
    with pytest.raises(StorageUnavailable):
        await converse(tmp_path / "home", tmp_path / "w", broken=Other("broken", fault=ValueError("no such shelf")))
    assert await converse(tmp_path / "home", tmp_path / "w", other=Other()) == "other"
