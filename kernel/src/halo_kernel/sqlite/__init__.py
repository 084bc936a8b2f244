"""The default storage engine: SQLite through apsw, one writer thread and two reader threads a database.

After `fork` a child uses nothing of it: threads are gone and locks belong to the parent. It opens databases anew.
"""

from .engine import SqliteStorage as SqliteStorage
from .files import is_network as is_network
from .files import is_own_file as is_own_file
