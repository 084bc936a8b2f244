"""Any file of a used home damaged in any way: the server works, or says in one sentence what is wrong and what to do.

A slice of the cases is tried, chosen by `HALO_CRASH_SEED`; with `HALO_CRASH_DAMAGE=all`, each (`tox -e crash-damage`).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .damage import DAMAGES, GARBAGE, IS_ROOT, STRANGER, Ground, attempt

ALL = os.environ.get("HALO_CRASH_DAMAGE") == "all"
SEED = int(os.environ.get("HALO_CRASH_SEED", random.randrange(1 << 30)))
PARTS, CASES = (8, 10_000) if ALL else (4, 5)  # a part is a test of its own, so that two processes share them
# Always tried: what holds what people said, who may come in, and what was set.
ALWAYS = ("workspace/.halo/halo.db", "home/global/kernel.db", "home/secrets/cookie.key", "home/secrets/settings.yaml")
NEEDED = (
    "home/global/kernel.db-wal",
    "home/global/budget.db",
    "home/global/logs/server.log",
    "workspace/.halo/search.db",
)
NEEDED += ("home/secrets/channels/channels.db", "home/secrets/shelf.secrets", "workspace/.halo/settings.yaml")


@pytest.fixture
def ground() -> Iterator[Ground]:
    """A place that another user may enter, with a home that was used."""
    if IS_ROOT and shutil.which("setpriv") is None:
        pytest.skip("root reads everything, and without `setpriv` no other user can be had to run the server")
    folder = Path(tempfile.mkdtemp(prefix="halo-damage-"))
    if IS_ROOT:
        os.chown(folder, STRANGER, STRANGER)
    try:
        ground = Ground(folder)
        ground.use()
        yield ground
    finally:
        shutil.rmtree(folder)


def cases(files: list[str], part: int) -> list[tuple[str, str]]:
    """Return the cases of one part: its share of all, or as many of them as a slice has."""
    every = [(name, damage) for name in files for damage in DAMAGES]
    random.Random(SEED).shuffle(every)
    core = [(name, GARBAGE) for name in ALWAYS]
    return [*core[part:][:1], *every[part::PARTS][:CASES]]


@pytest.mark.timeout(900 if ALL else 120)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_file_stops_nobody_without_a_word(ground: Ground, part: int) -> None:
    """With a file cut, overwritten, unreadable, gone or a folder: it works, or a sentence names the way back."""
    files = ground.files()
    assert set(ALWAYS + NEEDED) <= set(files), "the home was used for everything"
    wrong: list[str] = []
    ends = Counter[str]()
    for name, damage in cases(files, part):
        found = attempt(ground, name, damage)
        ends[found.end] += 1
        if not found.works:
            print(f"{name} ({damage}): {found.said}")
        if found.faults:
            wrong.append(f"{name} ({damage}): {', '.join(found.faults)}; it said: {found.said!r}")
    print(f"HALO_CRASH_SEED={SEED}, {len(files)} files, {ends.total()} cases: {dict(ends)}")
    assert wrong == [], f"HALO_CRASH_SEED={SEED}"
