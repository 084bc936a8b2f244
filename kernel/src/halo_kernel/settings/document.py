"""The settings file: YAML that people edit. A change replaces the lines of one entry; every other line stays."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import BadFile, BadInput
from ..records import Secret

Keys = tuple[str, ...]
LARGEST = 262_144
_PLAIN = re.compile(r"(?!(?i:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./-]*")
# characters that YAML forbids, or folds as line breaks, even between quotes
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class SettingsFile:
    """One state of the file. A missing file is an empty one. Raises `BadFile` with path, line and key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
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

    @property
    def revision(self) -> str:
        """A name for exactly this text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def line(self, keys: Sequence[str]) -> int:
        """Return the line, from 1, of the deepest of these keys that is in the file, or 0."""
        node, line = self._root, 0
        for key in keys:
            found = _entry(node, key)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line

    def changed(self, changes: Mapping[Keys, object]) -> SettingsFile:
        """Return the file with each value set, or taken out where it is None.

        Raises `BadFile` where that would change something else too, such as an alias or a file within braces.
        """
        file = self
        for keys, value in changes.items():
            file = file._with(keys, _plain(value, ".".join(keys)))
        return file

    def _with(self, keys: Keys, value: object) -> SettingsFile:
        try:
            file = SettingsFile(self.path, self._edited(keys, value))
        except BadFile:
            file = self
        if file.data != (_put(self.data, keys, value) or {}):
            dotted, line = ".".join(keys), self.line(keys)
            message = f"{self.path}:{line}: {dotted} is written in a way that only a person can change"
            raise BadFile(message, path=str(self.path), line=line, field=dotted, advice="edit the file")
        return file

    def _edited(self, keys: Keys, value: object) -> str:
        """Return the text with one entry's lines replaced. An entry within braces is replaced with all they hold."""
        lines = self.text.splitlines(keepends=True)
        node, data, at, column = self._root, cast("object", self.data), len(lines), 0
        for depth, key in enumerate(keys):
            if getattr(node, "value", None):
                column = int(node.value[0][0].start_mark.column)
            found, data = _entry(node, key), (as_map(data) or {}).get(key)
            if found is None:
                return self._spliced(lines, at, at, keys[depth:], value, column)
            name, node = found
            at = name.end_mark.line + 1
            if depth + 1 == len(keys) or not _is_open(node):
                end = _end(lines, at, column)
                remark, whole = _remark(lines, name, node), _put(data, keys[depth + 1 :], value)
                return self._spliced(lines, at - 1, end, (key,), whole, column, remark)
            column += 2
        return self.text

    def _spliced(
        self, lines: list[str], start: int, end: int, keys: Keys, value: object, column: int, remark: str = ""
    ) -> str:
        newline = "\r\n" if "\r\n" in self.text else "\n"
        new = [f"{' ' * (column + 2 * depth)}{_written(key)}:" for depth, key in enumerate(keys)]
        new[-1] += f" {_written(value)}{remark}"
        lines[start:end] = [] if value is None else [line + newline for line in new]
        if start < len(lines) and start and not lines[start - 1].endswith(("\r", "\n")):
            lines[start - 1] += newline
        return "".join(lines)


def _parsed(path: Path, text: str) -> tuple[dict[str, object], Any]:
    if not text.strip():
        return {}, None
    from ruamel.yaml import YAML  # here, because most homes have no such file
    from ruamel.yaml.error import YAMLError

    yaml: Any = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        data = as_map(yaml.constructor.construct_document(root)) if root else {}
        data = data and (as_map(_tidy(data, iter(range(LARGEST)))) or {})
    except (YAMLError, ValueError, RecursionError) as error:  # ValueError: a date or number that looks right and is not
        raise _broken(path, text, error) from error
    if data is None:
        raise BadFile(f"{path}:1: the file must hold sections, such as `server:`", path=str(path), line=1)
    return data, root


def _broken(path: Path, text: str, error: Exception) -> BadFile:
    """Return what is wrong with a text that is not YAML, without any value that is in it."""
    lines = text.splitlines()
    mark: Any = getattr(error, "problem_mark", None)
    position: Any = getattr(error, "position", None)
    line = min(mark.line + 1, len(lines)) if mark else 0 if position is None else text.count("\n", 0, position) + 1
    problem = str(getattr(error, "problem", None) or error).partition(" with value ")[0].splitlines()[0]
    key = (["", *re.findall(r"^[ \t]*([\w-]+)[ \t]*:", "\n".join(lines[:line]), re.MULTILINE)])[-1]
    message = f"{path}:{line}: not valid YAML: {problem}" + (f" (near {key})" if key else "")
    return BadFile(message, path=str(path), line=line, field=key, advice="correct that line")


def _tidy(value: object, room: Iterator[int]) -> object:
    """Return a value with text as all keys, and without keys that hold nothing, down to None: those mean the default.

    Raises `ValueError` when there is no `room`: a few aliases of aliases stand for more than fits into memory.
    """
    if next(room, None) is None:
        raise ValueError("it holds too much")
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value).items()
        known = {str(key).lower() if isinstance(key, bool) else str(key): each for key, each in entries}
        kept = {key: tidy for key, each in known.items() if (tidy := _tidy(each, room)) is not None}
        return kept if kept or not known else None
    return [_tidy(each, room) for each in cast("list[object]", value)] if isinstance(value, list) else value


def _entry(node: Any, key: str) -> tuple[Any, Any] | None:
    """Return the nodes of a mapping's key and value, or of a list's item, twice."""
    if getattr(node, "id", "") == "sequence":
        return (node.value[int(key)],) * 2 if key.isdigit() and int(key) < len(node.value) else None
    pairs = node.value if getattr(node, "id", "") == "mapping" else ()
    return next((pair for pair in pairs if pair[0].value == key), None)


def _is_open(node: Any) -> bool:
    """Tell whether entries can be written on lines below: a mapping without braces, or nothing yet."""
    return not node.flow_style if node.id == "mapping" else not node.value and not getattr(node, "style", "")


def _end(lines: Sequence[str], start: int, column: int) -> int:
    """Return where the lines of an entry end, given the line after its key's; comments below it are not part of it."""
    end = start
    for number, line in enumerate(lines[start:], start=start + 1):
        content = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if content and content[0] != "#":
            if indent < column or (indent == column and content[0] != "-"):
                break
            end = number
    return end


def _remark(lines: Sequence[str], name: Any, node: Any) -> str:
    """Return the comment behind a value that stands on its key's line, else the one behind the key."""
    last = node.end_mark if node.end_mark.line == name.end_mark.line and node.value else name.end_mark
    found = re.compile(r"\s+#[^\r\n]*").search(lines[int(name.end_mark.line)], last.column)
    return found[0] if found else ""


def _put(data: object, keys: Keys, value: object) -> object:
    """Return `data` with one value set, or taken out where it is None; what that leaves empty is taken out too."""
    if not keys:
        return value
    entries = as_map(data) or {}
    entries = {**entries, keys[0]: _put(entries.get(keys[0]), keys[1:], value)}
    return {key: each for key, each in entries.items() if each is not None} or None


def _plain(value: object, key: str) -> object:
    """Return a value as plain JSON values, secrets as their text. Raises `BadInput` for what no file can hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=Secret.reveal)
        text.encode()
    except (AttributeError, TypeError, ValueError) as error:
        rule = "can hold text, numbers, true, false, lists and mappings, without half characters and infinity"
        raise BadInput(f"{key} {rule}", field=key) from error
    return cast("object", json.loads(text))


def _written(value: object) -> str:
    """Return a value in YAML on one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def as_map(value: object) -> dict[str, object] | None:
    """Return a mapping with text keys as such, or None."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
