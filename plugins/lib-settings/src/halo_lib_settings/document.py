"""A change of the settings file: it replaces the lines of one entry; every other line stays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from halo_kernel import BadFile, Secret, SettingsFile

_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./-]*")
_ASIDE = re.compile(r"\s*(#|$)")
# characters that YAML forbids, or folds as line breaks, even between quotes
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def changed(file: SettingsFile, key: str, value: object) -> SettingsFile:
    """Return the file with the value of a dotted key set, or taken out where it is None.

    Raises `BadFile` where that would change something else too, such as an alias or a file within braces.
    """
    keys = key.split(".")
    try:
        wanted = _tidy(_put(file.data, keys, value))
    except (AttributeError, TypeError, ValueError) as error:
        raise file.bad(key, "can hold text, numbers, true, false, lists and mappings") from error
    if wanted == file.data:
        return file
    with suppress(BadFile):
        edited = SettingsFile(file.path, _edited(file, keys, wanted))
        if edited.data == wanted:
            return edited
    raise file.bad(key, "is written in a way that only a person can change", "edit the file")


def _edited(file: SettingsFile, keys: Sequence[str], wanted: object) -> str:
    """Return the text with the lines of one entry replaced; one within braces, with all that they hold."""
    lines, found, remark = file.text.splitlines(), _found(file.root, keys), ""
    entry = found.pop() if found and (len(found) == len(keys) or not _is_block(found[-1][1])) else None
    parent = found[-1][1] if found else file.root
    column = int(parent.value[0][0].start_mark.column) if _is_block(parent) else 0
    start = end = int(found[-1][0].end_mark.line) + 1 if found else len(lines)
    if entry:
        start, end = _extent(lines, entry[0], column)
        remark = _remark(lines, *entry)
    for key in keys[: len(found) + 1]:
        wanted = (_as_map(wanted) or {}).get(key)
    lines[start:end] = [] if wanted is None else _block(keys[len(found)], wanted, column, remark)
    return ("\r\n" if "\r\n" in file.text else "\n").join([*lines, ""])


def _extent(lines: Sequence[str], name: Any, column: int) -> tuple[int, int]:
    """Return the first line of the entry of this name, and the line after its last, without remarks at its end."""
    start = int(name.start_mark.line)
    inner = re.compile(rf" {{{column}}}[ -]|{_ASIDE.pattern}")
    end = next((at for at in range(start + 1, len(lines)) if not inner.match(lines[at])), len(lines))
    while _ASIDE.match(lines[end - 1]):
        end -= 1
    return start, end


def _remark(lines: Sequence[str], name: Any, node: Any) -> str:
    """Return the remark behind an entry's name, or behind a value on the same line."""
    last = name.end_mark
    if node.value and node.end_mark.line == last.line:
        last = node.end_mark
    return "".join(re.findall(r"\s+#.*", lines[int(last.line)][int(last.column) :])[:1])


def _found(node: Any, keys: Sequence[str]) -> list[tuple[Any, Any]]:
    """Return the nodes of key and value for as many of these keys as are below a node, without those in braces."""
    found: list[tuple[Any, Any]] = []
    for key in keys:
        pair = next((pair for pair in node.value if pair[0].value == key), None) if _is_block(node) else None
        if pair is None:
            break
        found.append(pair)
        node = pair[1]
    return found


def _is_block(node: Any) -> bool:
    """Tell whether a node is a mapping with an entry a line, without braces."""
    return getattr(node, "id", "") == "mapping" and not node.flow_style


def _block(key: str, value: object, column: int, remark: str = "") -> list[str]:
    """Return the lines of an entry: a mapping with an entry a line, anything else on one line."""
    head, inner = f"{' ' * column}{_written(key)}:", _as_map(value)
    if not inner:
        return [f"{head} {_written(value)}{remark}"]
    return [head + remark, *(line for name, each in inner.items() for line in _block(name, each, column + 2))]


def _written(value: object) -> str:
    """Return a value in YAML on one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _put(data: object, keys: Sequence[str], value: object) -> dict[str, object]:
    """Return a mapping with one value set."""
    entries = _as_map(data) or {}
    return {**entries, keys[0]: _put(entries.get(keys[0]), keys[1:], value) if keys[1:] else value}


def _tidy(data: dict[str, object]) -> dict[str, object]:
    """Return data as JSON holds them, without entries that hold nothing: those mean the default."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, default=Secret.reveal)
    text.encode()  # which refuses half characters
    return json.loads(text, object_hook=_kept) or {}


def _kept(entries: dict[str, object]) -> dict[str, object] | None:
    kept = {key: each for key, each in entries.items() if each is not None}
    return kept if kept or not entries else None


def _as_map(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
