"""Rows as records and records as rows: a column is named like its field."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from .contracts import Row, Tx, Value

S = TypeVar("S", bound=msgspec.Struct)


def insert(tx: Tx, table: str, values: Mapping[str, Any], *, more: str = "") -> Row:
    """Insert a row; return what `more` (such as `RETURNING id`) makes of it, an empty row if nothing."""
    marks = ", ".join("?" * len(values))
    return tx.one(f"INSERT INTO {table}({', '.join(values)}) VALUES ({marks}) {more}", list(values.values())) or ()


def select(
    tx: Tx, record: type[S], source: str, args: Sequence[Value], *, json: Collection[str] = (), **columns: str
) -> list[S]:
    """Return rows of `source` (a table and what follows it) as records.

    A field is read from the column of its name, or from what `columns` says; those named in `json` are text of that.
    """
    fields = {name: columns.get(name, name) for name in record.__struct_fields__}
    rows = tx.execute(f"SELECT {', '.join(fields.values())} FROM {source}", args)
    found = (dict(zip(fields, row, strict=True)) for row in rows)
    whole = ({**row, **{name: msgspec.json.decode(row[name]) for name in json}} for row in found)
    return [msgspec.convert(row, record, strict=False) for row in whole]
