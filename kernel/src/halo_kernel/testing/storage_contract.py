"""What every storage engine has to hold to, as tests that a plugin's own tests inherit."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from ..contracts import Bell, Database, Migration, Place, Row, Storage, Tx
from ..errors import BadInput, ConstraintFailed, LeaseHeld, LeaseLost, NewerData, StorageUnavailable
from .files_contract import FIRST, FilesContract, keys, put

_SECONDS = 10.0
_SECOND = Migration(version=2, sql="ALTER TABLE notes ADD COLUMN more TEXT NOT NULL DEFAULT 'none'")
_THIRD = Migration(version=5, sql="UPDATE notes SET more = 'third'", min_reader=5)


def nothing(tx: Tx) -> None:
    """Do nothing: who waits for it has everything before it done."""


class StorageContract(FilesContract):
    """Tests for one storage engine. A subclass gives the engine, and a place that is new for each test::

        class TestMine(StorageContract):
            @pytest.fixture
            def storage(self) -> Storage:
                return MyStorage()

            @pytest.fixture
            def place(self, tmp_path: Path) -> Place:
                return Place(name="contract", scope="global", directory=tmp_path / "data")

    An engine that lets one opening at a time have a database refuses a second with `StorageUnavailable`; what two
    openings would do is skipped then.
    """

    @asynccontextmanager
    async def second(self, storage: Storage, place: Place) -> AsyncGenerator[Database]:
        """Open the place once more, as another process would."""
        try:
            other = await storage.open(place, [FIRST])
        except StorageUnavailable as refused:
            pytest.skip(f"one opening at a time: {refused.message}")
        try:
            yield other
        finally:
            await other.close()

    # Opening

    @pytest.mark.asyncio
    async def test_what_was_written_is_there_at_the_next_opening(self, storage: Storage, place: Place) -> None:
        """A place is made when it is opened first, and keeps what its writes returned for."""
        assert storage.name and isinstance(storage.name, str), "name is what a home remembers of its engine"
        async with self.opened(storage, place) as database:
            written = await database.write(put("a", "b"))
            assert written == "a", f"write returns what its function returns, not {written!r}"
            assert await database.read(keys) == ["a"], "a read sees every write that has returned"
        async with self.opened(storage, place) as database:
            assert await database.read(keys) == ["a"], "what a write returned for is gone after closing and opening"

    @pytest.mark.asyncio
    async def test_places_are_apart(self, storage: Storage, place: Place) -> None:
        """Two names in one directory are two databases."""
        other = replace(place, name=f"{place.name}-other")
        async with self.opened(storage, place) as one, self.opened(storage, other) as two:
            await one.write(put("a"))
            assert await two.read(keys) == [], f"{place.name} and {other.name} share their tables"

    @pytest.mark.asyncio
    async def test_migrations_run_once_in_order_of_version(self, storage: Storage, place: Place) -> None:
        """Steps that are missing run by version, however they are listed; a step that ran never runs again."""
        async with self.opened(storage, place, [_SECOND, FIRST]) as database:
            await database.write(put("a"))
        for migrations in ([FIRST, _SECOND], [_THIRD, _SECOND, FIRST], [FIRST, _SECOND, _THIRD]):
            async with self.opened(storage, place, migrations) as database:
                await database.write(lambda tx: tx.execute("UPDATE notes SET value = more"))
        async with self.opened(storage, place, [FIRST, _SECOND, _THIRD]) as database:
            row = await database.read(lambda tx: tx.one("SELECT value, more FROM notes"))
            assert row == ("third", "third"), f"after steps 1, 2 and 5 the note is ('third', 'third'), not {row}"

    @pytest.mark.asyncio
    async def test_a_failing_migration_changes_nothing(self, storage: Storage, place: Place) -> None:
        """When one step fails, none of those that were missing is there, and the former version still opens."""
        async with self.opened(storage, place) as database:
            await database.write(put("a"))
        broken = Migration(version=3, sql="CREATE TABLE more(x TEXT); INSERT INTO nowhere VALUES (1)")
        with pytest.raises(StorageUnavailable, match="3"):
            await storage.open(place, [FIRST, _SECOND, broken])
        async with self.opened(storage, place, [FIRST, _SECOND]) as database:
            more = await database.read(lambda tx: tx.one("SELECT more FROM notes"))
            assert more == ("none",), "step 2 runs again once step 3 does not stand in the way"

    @pytest.mark.asyncio
    async def test_newer_data_is_refused_unchanged(self, storage: Storage, place: Place) -> None:
        """A database whose `min_reader` is beyond the newest known step raises `NewerData`; others open."""
        async with self.opened(storage, place, [FIRST, _SECOND]) as database:
            await database.write(put("a"))
        async with self.opened(storage, place) as database:
            assert await database.read(keys) == ["a"], "version 2 with min_reader 1 opens with step 1 alone"
        async with self.opened(storage, place, [FIRST, _SECOND, _THIRD]):
            pass
        with pytest.raises(NewerData) as refused:
            await storage.open(place, [FIRST, _SECOND])
        assert refused.value.message and refused.value.advice, "it says what is wrong and what to do"
        async with self.opened(storage, place, [FIRST, _SECOND, _THIRD]) as database:
            assert await database.read(keys) == ["a"], "refusing it changed it"

    # Writing and reading

    @pytest.mark.asyncio
    async def test_a_function_that_raises_is_undone_alone(self, storage: Storage, place: Place) -> None:
        """What a function raises reaches its caller, undoes all that it wrote and nothing of the others beside it."""

        def fail(tx: Tx) -> None:
            put("fails")(tx)
            raise LookupError("on purpose")

        async with self.opened(storage, place) as database:
            writes = [put("a"), fail, put("b"), put("a"), put("c")]
            ended = await asyncio.gather(*map(database.write, writes), return_exceptions=True)
            assert isinstance(ended[1], LookupError), f"its caller gets what the function raised, not {ended[1]!r}"
            assert isinstance(ended[3], Exception), "a second row of one primary key is an error"
            assert [ended[0], ended[2], ended[4]] == ["a", "b", "c"], f"the others were disturbed: {ended}"
            found = await database.read(keys)
            assert found == ["a", "b", "c"], f"after writing a, b and c beside one that failed there are {found}"

    @pytest.mark.asyncio
    async def test_writes_keep_the_order_of_their_calls(self, storage: Storage, place: Place) -> None:
        """Writes of one caller take effect in the order in which they were asked for, awaited one by one or not."""

        def follow(number: int) -> Callable[[Tx], None]:
            def write(tx: Tx) -> None:
                row = tx.one("SELECT count(*) FROM notes")
                assert row is not None and row[0] == number, f"write {number} ran when {row} had been done"
                put(f"{number:03}")(tx)

            return write

        async with self.opened(storage, place) as database:
            await asyncio.gather(*(database.write(follow(number)) for number in range(100)))

    @pytest.mark.asyncio
    async def test_a_function_that_runs_twice_counts_once(self, storage: Storage, place: Place) -> None:
        """However often the engine runs a function, its effect is there once, and its result is that run's."""

        def count(tx: Tx) -> int:
            row = tx.one("UPDATE notes SET number = number + 1 WHERE key = 'n' RETURNING number")
            return 0 if row is None else int(row[0])

        async with self.opened(storage, place) as database:
            await database.write(lambda tx: tx.execute("INSERT INTO notes(key, number) VALUES ('n', 0)"))
            counted = await asyncio.gather(*(database.write(count) for _ in range(30)))
            assert counted == list(range(1, 31)), f"thirty writes counted {counted}"

    @pytest.mark.asyncio
    async def test_a_read_is_one_snapshot(self, storage: Storage, place: Place) -> None:
        """What is committed during a read does not show in it."""
        began, written = threading.Event(), threading.Event()

        def slow(tx: Tx) -> tuple[list[str], list[str]]:
            before = keys(tx)
            began.set()
            written.wait(0.5)  # an engine with one connection writes only afterwards
            return before, keys(tx)

        async with self.opened(storage, place) as database:
            reading = asyncio.ensure_future(database.read(slow))
            await asyncio.to_thread(began.wait, _SECONDS)
            await database.write(put("a"))
            written.set()
            before, after = await reading
            assert before == after == [], f"one read saw first {before}, then {after}"

    @pytest.mark.asyncio
    async def test_a_read_writes_nothing(self, storage: Storage, place: Place) -> None:
        """A function given to `read` that writes is refused."""
        async with self.opened(storage, place) as database:
            with pytest.raises(BadInput):
                await database.read(put("a"))
            assert await database.read(keys) == [], "a read wrote a row"

    @pytest.mark.asyncio
    @pytest.mark.parametrize("sql", ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT mine"])
    async def test_a_function_never_ends_its_transaction(self, storage: Storage, place: Place, sql: str) -> None:
        """Statements that begin or end a transaction are refused, and undo their own function alone."""

        def ends(tx: Tx) -> None:
            put("ends")(tx)
            tx.execute(sql)

        async with self.opened(storage, place) as database:
            ended = await asyncio.gather(*map(database.write, (put("a"), ends, put("b"))), return_exceptions=True)
            assert isinstance(ended[1], BadInput), f"{sql} in a function is BadInput, not {ended[1]!r}"
            assert await database.read(keys) == ["a", "b"], f"{sql} reached the transaction that others share"

    @pytest.mark.asyncio
    async def test_a_transaction_ends_with_its_function(self, storage: Storage, place: Place) -> None:
        """Rows that a function returns may be read later; its `Tx` may not be used any more."""
        kept: list[Tx] = []

        def keep(tx: Tx) -> Iterator[Row]:
            kept.append(tx)
            return tx.execute("SELECT key FROM notes")

        async with self.opened(storage, place) as database:
            await database.write(put("a"))
            rows = await database.read(keep)
            assert list(rows) == [("a",)], "rows are tuples, and may outlive their function"
            with pytest.raises(Exception, match=r"."):
                kept[0].execute("SELECT key FROM notes")

    @pytest.mark.asyncio
    async def test_a_cancelled_caller_leaves_all_or_nothing(self, storage: Storage, place: Place) -> None:
        """A write whose caller is cancelled is there whole or not at all, and settled once a later write returns."""

        def pair(number: int) -> Callable[[Tx], None]:
            def write(tx: Tx) -> None:
                put(f"{number:02} a")(tx)
                put(f"{number:02} b")(tx)

            return write

        async with self.opened(storage, place) as database:
            for number in range(20):
                task = asyncio.ensure_future(database.write(pair(number)))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await database.write(nothing)
            found = await database.read(keys)
            whole = [
                key for number in range(20) if f"{number:02} a" in found for key in (f"{number:02} a", f"{number:02} b")
            ]
            assert found == whole, f"half a write is there: {found}"
            await asyncio.sleep(0.1)
            assert await database.read(keys) == found, "a cancelled write came after a later one had returned"

    @pytest.mark.asyncio
    async def test_closing_finishes_and_refuses(self, storage: Storage, place: Place) -> None:
        """Closing waits for what was accepted, is harmless twice, and everything after it is refused."""
        database = await storage.open(place, [FIRST])
        writes = [asyncio.ensure_future(database.write(put(f"{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        await database.close()
        await database.close()
        ended = await asyncio.gather(*writes, return_exceptions=True)
        assert ended == [f"{number}" for number in range(20)], f"closing did not wait for what was accepted: {ended}"
        for what, call in (("write", database.write), ("read", database.read)):
            with pytest.raises(StorageUnavailable):
                await call(keys)
                pytest.fail(f"{what} works on a database that is closed")
        with pytest.raises(StorageUnavailable):
            await database.lease("tree:1")
        with pytest.raises(StorageUnavailable):
            database.listen("topic")

    # SQL

    @pytest.mark.asyncio
    async def test_returning(self, storage: Storage, place: Place) -> None:
        """`RETURNING` gives the rows that an INSERT, an UPDATE or a DELETE touched."""
        async with self.opened(storage, place) as database:

            def write(tx: Tx) -> None:
                for sql, wanted in (
                    ("INSERT INTO notes(key, number) VALUES ('a', 1), ('b', 2) RETURNING key", [("a",), ("b",)]),
                    ("UPDATE notes SET number = number + 1 RETURNING number", [(2,), (3,)]),
                    ("UPDATE notes SET number = 0 WHERE key = 'nobody' RETURNING number", []),
                    ("DELETE FROM notes RETURNING key, number", [("a", 2), ("b", 3)]),
                ):
                    found = sorted(tx.execute(sql))
                    assert found == wanted, f"{sql} gave {found}"

            await database.write(write)

    @pytest.mark.asyncio
    async def test_on_conflict(self, storage: Storage, place: Place) -> None:
        """`ON CONFLICT` does nothing or updates, by a key or by a partial unique index with its predicate."""
        update = "INSERT INTO notes(key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        ignore = (
            "INSERT INTO tasks(id, name, state) VALUES (?, ?, ?)"
            " ON CONFLICT (name) WHERE state = 'open' DO NOTHING RETURNING id"
        )
        async with self.opened(storage, place) as database:

            def write(tx: Tx) -> None:
                for value in ("first", "second"):
                    tx.execute(update, ("a", value))
                assert tx.one("SELECT value FROM notes") == ("second",), "DO UPDATE takes `excluded`"
                taken = [tx.one(ignore, args) for args in ((1, "n", "open"), (2, "n", "open"), (3, "n", "done"))]
                assert taken == [(1,), None, (3,)], f"only an open task of the same name conflicts: {taken}"

            await database.write(write)
            with pytest.raises(Exception, match=r"."):
                await database.write(lambda tx: tx.execute("INSERT INTO tasks VALUES (4, 'n', 'open')"))
            count = await database.read(lambda tx: tx.one("SELECT count(*) FROM tasks"))
            assert count == (2,), "a partial unique index refuses a second open task of one name"

    @pytest.mark.asyncio
    @pytest.mark.parametrize(
        "sql",
        [
            "INSERT INTO notes(key) VALUES ('kept')",
            "INSERT INTO tasks(id, state) VALUES (1, 'open')",
            "INSERT INTO parts(size) VALUES (0)",
            "INSERT INTO parts(task) VALUES (7)",
            "INSERT INTO parts(later) VALUES (7)",
        ],
        ids=["unique", "not_null", "check", "reference", "deferred_reference"],
    )
    async def test_a_broken_constraint_is_named(self, storage: Storage, place: Place, sql: str) -> None:
        """What breaks a rule of its table raises `ConstraintFailed`, is undone alone, and the next write goes on."""
        async with self.opened(storage, place) as database:
            await database.write(put("kept"))

            def break_it(tx: Tx) -> None:
                tx.execute("INSERT INTO notes(key) VALUES ('undone')")
                tx.execute(sql)

            results = await asyncio.gather(
                database.write(break_it), database.write(put("next")), return_exceptions=True
            )
            assert isinstance(results[0], ConstraintFailed), f"{sql} broke a rule, and the write came to {results[0]!r}"
            assert results[0].message.strip(), "an error has a sentence for people"
            assert await database.read(keys) == ["kept", "next"], "what broke a rule is undone, and nothing else is"

    @pytest.mark.asyncio
    async def test_values_come_back_as_they_were(self, storage: Storage, place: Place) -> None:
        """Text of any language, JSON as text, 64-bit integers, floats and NULL are the same when they are read."""
        text = json.dumps({"a": [1, None, "\u0000"], "?": 'it\'s 100 % \\ "quoted"'})
        for value in ("", "日本 𝄞 \x01 \r\n", text, None):
            async with self.opened(storage, place) as database:
                await database.write(lambda tx: tx.execute("DELETE FROM notes"))
                await database.write(put("a", value))
                found = await database.read(lambda tx: tx.one("SELECT value FROM notes WHERE key = ?", ("a",)))
                assert found == (value,), f"{value!r} came back as {found}"
        numbers = [(0, 0.0), (1_800_000_000_000, 0.1), (2**63 - 1, -1e300), (-(2**63), 5e-324), (None, None)]

        def insert(tx: Tx) -> None:
            for position, pair in enumerate(numbers):
                tx.execute("INSERT INTO notes(key, number, share) VALUES (?, ?, ?)", (f"n{position}", *pair))

        async with self.opened(storage, place) as database:
            await database.write(insert)
            select = "SELECT number, share FROM notes WHERE key LIKE 'n%' ORDER BY key"
            rows = await database.read(lambda tx: list(tx.execute(select)))
            assert rows == numbers, f"numbers came back as {rows}"

    @pytest.mark.asyncio
    async def test_text_that_cannot_be_kept_is_refused(self, storage: Storage, place: Place) -> None:
        """Text with U+0000 or with half a character is `BadInput` on every engine, and nothing is written."""
        async with self.opened(storage, place) as database:
            for value in ("a\0b", "\ud800"):
                with pytest.raises(BadInput):
                    await database.write(put("a", value))
                    pytest.fail(f"{value!r} was accepted")
            assert await database.read(keys) == [], "a note was written with text that is refused"

    # Leases

    @pytest.mark.asyncio
    async def test_a_lease_is_ours_until_it_is_released(self, storage: Storage, place: Place) -> None:
        """Taking it again gives an equal one; once released it is lost, and the next one has a larger epoch."""
        async with self.opened(storage, place) as database:
            first, again = await database.lease("tree:1"), await database.lease("tree:1")
            assert first == again, "a lease that this database holds already is given again, with its epoch"
            assert first.name == "tree:1", f"a lease has the name that was asked for, not {first.name!r}"
            await database.write(first.check)
            await first.release()
            await first.release()

            def late(tx: Tx) -> None:
                put("late")(tx)
                first.check(tx)

            with pytest.raises(LeaseLost):
                await database.write(late)
            assert await database.read(keys) == [], "a write that checks a lost lease leaves nothing"
            second = await database.lease("tree:1")
            assert second.epoch > first.epoch, f"epochs grow with every holder: {first.epoch}, then {second.epoch}"
            with pytest.raises(LeaseLost):
                await database.write(first.check)

    @pytest.mark.asyncio
    async def test_a_held_lease_is_refused_to_others(self, storage: Storage, place: Place) -> None:
        """While one holds it another gets `LeaseHeld`, which says who; closing frees all that was held."""
        async with self.opened(storage, place) as ours:
            lease = await ours.lease("tree:1")
            async with self.second(storage, place) as theirs:
                with pytest.raises(LeaseHeld) as held:
                    await theirs.lease("tree:1")
                assert held.value.holder, "LeaseHeld says for people who holds the lease"
                await theirs.lease("tree:2")
                await lease.release()
                taken = await theirs.lease("tree:1")
                assert taken.epoch > lease.epoch, "the epoch grows with every holder"
                with pytest.raises(LeaseLost):
                    await ours.write(lease.check)
            freed = await ours.lease("tree:1")
            assert freed.epoch > taken.epoch, "closing gives leases back"

    # Bells

    @pytest.mark.asyncio
    async def test_a_bell_rings_for_its_topic(self, storage: Storage, place: Place) -> None:
        """A bell listens from its making on; rings before a wait are kept and merged; other topics do not ring it."""
        async with self.opened(storage, place) as database:
            bell, other = database.listen("one"), database.listen("two")
            await _quiet(bell, other)
            for _ in range(3):
                database.notify("one")
            await _rings(bell, "after it was notified three times")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bell.wait(), 0.05)
                pytest.fail("rings between two waits are merged into one")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(other.wait(), 0.05)
                pytest.fail("a bell rang for another topic")
            waiting = asyncio.ensure_future(bell.wait())
            await asyncio.sleep(0)
            bell.close()
            await asyncio.wait_for(waiting, _SECONDS)
            other.close()

    @pytest.mark.asyncio
    async def test_commits_of_others_ring(self, storage: Storage, place: Place) -> None:
        """Another opening, which stands for another process, wakes who listens here by commit and notification."""
        async with self.opened(storage, place) as ours, self.second(storage, place) as theirs:
            bell = ours.listen("topic")
            await _quiet(bell)
            await theirs.write(put("a"))
            theirs.notify("topic")
            await _rings(bell, "after another one committed and notified the topic")
            bell.close()


async def _quiet(*bells: Bell) -> None:
    """Wait until what an engine rings for at the beginning is over."""
    for bell in bells:
        with suppress(TimeoutError):
            while True:
                await asyncio.wait_for(bell.wait(), 0.3)


async def _rings(bell: Bell, when: str) -> None:
    try:
        await asyncio.wait_for(bell.wait(), _SECONDS)
    except TimeoutError:
        raise AssertionError(f"a bell did not ring within {_SECONDS:g} s {when}") from None
