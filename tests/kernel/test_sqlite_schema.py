"""Opening: migrations, newer data, and files that cannot be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halo_kernel import BadInput, Migration, NewerData, Place, StorageUnavailable
from halo_kernel.sqlite import SqliteStorage

FIRST = Migration(version=1, sql="CREATE TABLE a(x INTEGER PRIMARY KEY); INSERT INTO a VALUES (1)")
SECOND = Migration(version=2, sql="ALTER TABLE a ADD COLUMN y INTEGER; UPDATE a SET y = x + 1", min_reader=1)
THIRD = Migration(version=5, sql="CREATE TABLE c(z); INSERT INTO c SELECT y FROM a", min_reader=5)


async def _open(folder: Path, migrations: list[Migration], **options: Any) -> Any:
    place = Place(name="halo", scope="global", directory=folder)
    return await SqliteStorage(**options).open(place, migrations)


async def _versions(database: Any) -> list[tuple[int, int]]:
    return await database.read(lambda tx: list(tx.execute("SELECT version, min_reader FROM schema ORDER BY version")))


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_steps_run_once_in_order(tmp_path: Path) -> None:
    """Steps run by version, whatever the order they are listed in, and each one once."""
    for migrations in ([FIRST], [SECOND, FIRST], [THIRD, FIRST, SECOND], [FIRST, SECOND, THIRD]):
        database = await _open(tmp_path, migrations)
        assert await _versions(database) == sorted((step.version, step.min_reader) for step in migrations)
        await database.close()
    database = await _open(tmp_path, [FIRST, SECOND, THIRD])
    assert await database.read(lambda tx: tx.one("SELECT z FROM c")) == (2,)
    await database.close()


async def test_a_failing_step_changes_nothing(tmp_path: Path) -> None:
    """All missing steps are one transaction: when one fails, the sentence names it and none of them is there."""
    database = await _open(tmp_path, [FIRST])
    await database.close()
    before = _contents(tmp_path)
    for sql in ("CREATE TABLE b(x); INSERT INTO nowhere VALUES (1)", "COMMIT", "CREATE TABLE b(x); PRAGMA x = 1"):
        with pytest.raises(StorageUnavailable, match="Migration 3"):
            await _open(tmp_path, [FIRST, SECOND, Migration(version=3, sql=sql)])
    after = _contents(tmp_path)
    assert {name: after.pop(name) for name in before} == before
    assert sorted(after) == [f"halo.db.backup-{number}" for number in (1, 2, 3)], "the copies made before them remain"


async def test_a_step_may_rebuild_a_table(tmp_path: Path) -> None:
    """Rebuilding a table that others refer to loses no row of theirs, and broken references are refused."""
    parents = "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1), (2)"
    children = "CREATE TABLE c(p INTEGER REFERENCES p(id) ON DELETE CASCADE); INSERT INTO c VALUES (1), (2)"
    steps = [Migration(version=1, sql=parents), Migration(version=2, sql=children)]
    await (await _open(tmp_path, steps)).close()
    rebuild = (
        "CREATE TABLE q(id INTEGER PRIMARY KEY, n); INSERT INTO q SELECT id, 0 FROM p {};"
        "DROP TABLE p; ALTER TABLE q RENAME TO p"
    )
    with pytest.raises(StorageUnavailable, match="foreign keys"):
        await _open(tmp_path, [*steps, Migration(version=3, sql=rebuild.format("WHERE id = 1"))])
    database = await _open(tmp_path, [*steps, Migration(version=3, sql=rebuild.format(""))])
    assert await database.read(lambda tx: tx.one("SELECT count(*) FROM c")) == (2,)
    with pytest.raises(Exception, match="FOREIGN KEY"):
        await database.write(lambda tx: tx.execute("INSERT INTO c VALUES (3)"))
    await database.close()


@pytest.mark.parametrize("versions", [[0], [-1, 1], [1, 1]])
async def test_versions_are_checked(tmp_path: Path, versions: list[int]) -> None:
    """Versions start at 1 and are not repeated; nothing is created otherwise."""
    with pytest.raises(BadInput, match="Versions"):
        await _open(tmp_path, [Migration(version=version, sql="SELECT 1") for version in versions])
    assert _contents(tmp_path) == {}


async def test_a_compatible_newer_schema_is_used(tmp_path: Path) -> None:
    """A database of a newer version opens as long as its `min_reader` is known here."""
    await (await _open(tmp_path, [FIRST, SECOND])).close()
    database = await _open(tmp_path, [FIRST])
    assert await database.read(lambda tx: tx.one("SELECT x FROM a")) == (1,)
    assert await _versions(database) == [(1, 1), (2, 1)]
    await database.close()


@pytest.mark.parametrize("alone", [False, True])
async def test_newer_data_is_left_as_it_is(tmp_path: Path, alone: bool) -> None:
    """A database that needs a newer version is refused, and no byte and no file beside it changes."""
    await (await _open(tmp_path, [FIRST, SECOND, THIRD], alone=alone)).close()
    before = _contents(tmp_path)
    for migrations in ([FIRST, SECOND], [FIRST], []):
        with pytest.raises(NewerData, match="newer version") as refused:
            await _open(tmp_path, migrations, alone=alone)
        assert refused.value.advice
        assert _contents(tmp_path) == before


async def test_newer_data_after_a_crash_is_left_as_it_is(tmp_path: Path) -> None:
    """A refused database keeps the -wal of a crash as well."""
    living, copy = tmp_path / "living", tmp_path / "copy"
    database = await _open(living, [FIRST, SECOND, THIRD])
    await database.write(lambda tx: tx.execute("INSERT INTO c VALUES (7)"))
    copy.mkdir()
    for name in ("halo.db", "halo.db-wal"):  # what `kill -9` leaves; nobody writes meanwhile
        shutil.copyfile(living / name, copy / name)
    await database.close()
    before = _contents(copy)
    assert len(before["halo.db-wal"]) > 0
    for alone in (False, True):
        with pytest.raises(NewerData):
            await _open(copy, [FIRST], alone=alone)
        after = _contents(copy)
        assert {name: after[name] for name in before} == before
    database = await _open(copy, [FIRST, SECOND, THIRD])
    assert await database.read(lambda tx: list(tx.execute("SELECT z FROM c"))) == [(2,), (7,)]
    await database.close()


async def test_a_refused_database_can_stay_open_elsewhere(tmp_path: Path) -> None:
    """Refusing it here does not disturb the newer one that has it open."""
    newer = await _open(tmp_path, [FIRST, SECOND, THIRD])
    with pytest.raises(NewerData):
        await _open(tmp_path, [FIRST])
    await newer.write(lambda tx: tx.execute("INSERT INTO c VALUES (7)"))
    assert await newer.read(lambda tx: tx.one("SELECT count(*) FROM c")) == (2,)
    await newer.close()


async def test_durable_settings(tmp_path: Path) -> None:
    """On a local disk a database is in WAL mode and its schema is in one table that tells versions."""
    database = await _open(tmp_path, [FIRST])
    await database.close()
    raw = apsw.Connection(str(tmp_path / "halo.db"))
    assert raw.pragma("journal_mode") == "wal"
    raw.close()
    database = await _open(tmp_path, [FIRST], alone=True)
    await database.close()
    raw = apsw.Connection(str(tmp_path / "halo.db"))
    assert raw.pragma("journal_mode") == "delete", "not WAL: truncate is a matter of the connection"
    raw.close()


async def test_files_that_are_no_database(tmp_path: Path) -> None:
    """A file of something else, a folder, and a damaged database each get one sentence, and stay as they are."""
    (tmp_path / "halo.db").write_bytes(b"these are notes, not rows\n" * 100)
    before = _contents(tmp_path)
    with pytest.raises(StorageUnavailable, match="is not a database"):
        await _open(tmp_path, [FIRST])
    assert _contents(tmp_path) == before
    (tmp_path / "halo.db").unlink()
    (tmp_path / "halo.db").mkdir()
    with pytest.raises(StorageUnavailable, match="no file"):
        await _open(tmp_path, [FIRST])
    (tmp_path / "a file").write_text("")
    with pytest.raises(StorageUnavailable, match=r"halo\.db cannot be used"):
        await _open(tmp_path / "a file" / "below", [FIRST])


async def test_damage_is_named(tmp_path: Path) -> None:
    """Damage that is met on the way becomes `StorageUnavailable` with its cause."""
    database = await _open(tmp_path, [FIRST])
    numbers = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
    rows = f"INSERT INTO a(x) {numbers}"
    await database.write(lambda tx: tx.execute(rows))
    await database.close()
    content = bytearray((tmp_path / "halo.db").read_bytes())
    content[8 * 4096 : 40 * 4096] = b"\xa5" * (32 * 4096)
    (tmp_path / "halo.db").write_bytes(content)
    database = await _open(tmp_path, [FIRST])
    for call in (database.read, database.write):
        with pytest.raises(StorageUnavailable, match="damaged") as damaged:
            await call(lambda tx: tx.one("SELECT sum(x) FROM a"))
        assert isinstance(damaged.value.__cause__, apsw.CorruptError)
    await database.close()


@settings(max_examples=20, deadline=None)
@given(known=st.sets(st.integers(1, 6), max_size=5), order=st.randoms())
async def test_any_history_of_updates(tmp_path_factory: pytest.TempPathFactory, known: set[int], order: Any) -> None:
    """Updating step by step and at once give the same tables."""
    steps = [Migration(version=version, sql=f"CREATE TABLE t{version}(x)") for version in sorted(known)]
    found = []
    for cuts in (range(len(steps) + 1), [len(steps)]):
        folder = tmp_path_factory.mktemp("history")
        for cut in cuts:
            part = steps[:cut]
            order.shuffle(part)
            database = await _open(folder, part)
            tables = await database.read(lambda tx: list(tx.execute("SELECT name FROM sqlite_schema ORDER BY name")))
            versions = await _versions(database)
            await database.close()
        found.append((tables, versions))
    assert found[0] == found[1]
