"""Group commit beside a bare loop on one connection: figures, never an assertion on them."""

from __future__ import annotations

from . import bench_storage


def test_storage() -> None:
    """Print what the storage engine writes and reads with one caller and with fifty."""
    print()
    bench_storage.main()
