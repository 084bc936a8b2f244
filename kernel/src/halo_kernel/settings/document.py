"""The settings file: YAML that people edit. A change replaces the lines of one entry; every other line stays."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from ..errors import BadFile
from ..records import Secret

LARGEST = 262_144
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./-]*")
_ASIDE = re.compile(r"\s*(#|$)")
# characters that YAML forbids, or folds as line breaks, even between quotes
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class SettingsFile:
    """One state of the file. A missing file is an empty one. Raises `BadFile` with path, line and key.

    `revision` is a name for exactly this text.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.revision = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.data, self._root = _parsed(path, text)

    @classmethod
    def read(cls, path: Path, *, is_strange: bool = False) -> SettingsFile:
        """Read the file as it is now; one that `is_strange` may come from anybody: no link, no device, not large."""
        try:
            found = path.lstat()
            if is_strange and not (stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST):
                raise BadFile(f"{path} must be a file, not a link, of at most {LARGEST} bytes", path=str(path))
            return cls(path, path.read_bytes().decode())
        except FileNotFoundError:
            return cls(path, "")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error

    def line(self, key: str) -> int:
        """Return the line, from 1, of the deepest part of a dotted key that is in the file, or 0."""
        found = self._found(key.split("."))
        return found[-1][0].start_mark.line + 1 if found else 0

    def bad(self, key: str, rule: str, advice: str = "") -> BadFile:
        """Return the error that what is at a dotted key breaks a rule."""
        line, path = self.line(key), str(self.path)
        return BadFile(f"{path}:{line}: {key} {rule}", path=path, line=line, field=key, advice=advice)

    def changed(self, key: str, value: object) -> SettingsFile:
        """Return the file with the value of a dotted key set, or taken out where it is None.

        Raises `BadFile` where that would change something else too, such as an alias or a file within braces.
        """
        keys = key.split(".")
        try:
            wanted = _put(self.data, keys, _tidy(value, Secret.reveal)) or {}
        except (AttributeError, TypeError, ValueError) as error:
            raise self.bad(key, "can hold text, numbers, true, false, lists and mappings") from error
        if wanted == self.data:
            return self
        with suppress(BadFile):
            file = SettingsFile(self.path, self._edited(keys, wanted))
            if file.data == wanted:
                return file
        raise self.bad(key, "is written in a way that only a person can change", "edit the file")

    def _edited(self, keys: Sequence[str], wanted: object) -> str:
        """Return the text with the lines of one entry replaced; one within braces, with all that they hold."""
        lines, found, remark = self.text.splitlines(), self._found(keys), ""
        entry = found.pop() if found and (len(found) == len(keys) or not _is_block(found[-1][1])) else None
        parent = found[-1][1] if found else self._root
        column = int(parent.value[0][0].start_mark.column) if _is_block(parent) else 0
        start = end = int(found[-1][0].end_mark.line) + 1 if found else len(lines)
        if entry:
            name, node = entry
            start, last = int(name.start_mark.line), name.end_mark
            if node.value and node.end_mark.line == last.line:
                last = node.end_mark
            remark = "".join(re.findall(r"\s+#.*", lines[int(last.line)][int(last.column) :])[:1])
            inner = re.compile(rf" {{{column}}}[ -]|{_ASIDE.pattern}")
            end = next((at for at in range(start + 1, len(lines)) if not inner.match(lines[at])), len(lines))
            while _ASIDE.match(lines[end - 1]):
                end -= 1
        for key in keys[: len(found) + 1]:
            wanted = (as_map(wanted) or {}).get(key)
        lines[start:end] = [] if wanted is None else _block(keys[len(found)], wanted, column, remark)
        return ("\r\n" if "\r\n" in self.text else "\n").join([*lines, ""])

    def _found(self, keys: Sequence[str]) -> list[tuple[Any, Any]]:
        """Return the nodes of key and value for as many of these keys as are in the file, without those in braces."""
        found: list[tuple[Any, Any]] = []
        node = self._root
        for key in keys:
            pair = next((pair for pair in node.value if pair[0].value == key), None) if _is_block(node) else None
            if pair is None:
                break
            found.append(pair)
            node = pair[1]
        return found


def _parsed(path: Path, text: str) -> tuple[dict[str, object], Any]:
    """Return what a text means, and its nodes. Raises `BadFile`, without any value that is in the text."""
    if not text.strip():
        return {}, None
    from ruamel.yaml import YAML  # here, because most homes have no such file
    from ruamel.yaml.error import YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        data = _tidy(yaml.constructor.construct_document(root)) if root else None
    except (YAMLError, TypeError, ValueError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = min(mark.line + 1, len(text.splitlines())) if mark else 0
        problem = str(getattr(error, "problem", None) or error).partition(" with value ")[0].partition("\n")[0]
        message = f"{path}:{line}: not valid YAML: {problem}"
        raise BadFile(message, path=str(path), line=line, advice="correct that line") from error
    if getattr(root, "id", "mapping") != "mapping":
        raise BadFile(f"{path}:1: the file must hold sections, such as `server:`", path=str(path), line=1)
    return as_map(data) or {}, root


def _tidy(value: object, default: Callable[[Any], object] = str) -> object:
    """Return a value as JSON holds it, without entries that hold nothing: those mean the default.

    Raises `ValueError`, also where it never ends: a few aliases of aliases stand for more than fits into memory.
    """
    parts = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=default).iterencode(value)
    text = "".join(islice(parts, LARGEST))
    text.encode()  # which refuses half characters
    return json.loads(text, object_hook=_kept)


def _kept(entries: dict[str, object]) -> dict[str, object] | None:
    kept = {key: each for key, each in entries.items() if each is not None}
    return kept if kept or not entries else None


def _is_block(node: Any) -> bool:
    """Tell whether a node is a mapping with an entry a line, without braces."""
    return getattr(node, "id", "") == "mapping" and not node.flow_style


def _block(key: str, value: object, column: int, remark: str = "") -> list[str]:
    """Return the lines of an entry: a mapping with an entry a line, anything else on one line."""
    head, inner = f"{' ' * column}{_written(key)}:", as_map(value)
    if not inner:
        return [f"{head} {_written(value)}{remark}"]
    return [head + remark, *(line for name, each in inner.items() for line in _block(name, each, column + 2))]


def _written(value: object) -> str:
    """Return a value in YAML on one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _put(data: object, keys: Sequence[str], value: object) -> dict[str, object] | None:
    """Return a mapping with one value set, or taken out where it is None, as is what that leaves empty."""
    entries = as_map(data) or {}
    inner = _put(entries.get(keys[0]), keys[1:], value) if keys[1:] else value
    return _kept({**entries, keys[0]: inner})


def as_map(value: object) -> dict[str, object] | None:
    """Return a mapping with text keys as such, or None."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
