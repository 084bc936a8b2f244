"""The default storage engine: SQLite through apsw, one writer thread and two reader threads a database.

After `fork` a child uses nothing of it: threads are gone and locks belong to the parent. It opens databases anew.
"""

from __future__ import annotations

from .engine import SqliteStorage
from .files import is_own_file
from .filesystems import is_network

__all__ = ["SqliteStorage", "is_network", "is_own_file"]
