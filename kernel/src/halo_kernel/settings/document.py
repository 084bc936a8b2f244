"""The settings file: YAML with positions, changed in place, so that everything a person wrote around a value stays."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode

from ..errors import BadFile, BadInput
from ..records import Secret

Keys = tuple[str, ...]
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_RESERVED = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))
# characters that YAML forbids, or folds as line breaks, even between quotes
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

# line ends of YAML that are none to `_line_end`
_ODD_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


@dataclass(frozen=True)
class _Node:
    """A value's place in the text; `pairs` of a mapping, `items` of a list.

    An alias stands at its anchor's place and is never changed: the check that follows every change refuses it.
    """

    start: int
    end: int
    line: int
    column: int
    flow: bool
    text: str = ""
    alias: bool = False
    is_map: bool = False
    pairs: tuple[tuple[_Node, _Node], ...] = ()
    items: tuple[_Node, ...] = ()

    def pair(self, key: str) -> tuple[_Node, _Node] | None:
        """Return the key and the value of a mapping's entry."""
        return next((pair for pair in self.pairs if pair[0].text == key), None)

    @property
    def content_end(self) -> int:
        """The index after the last character of the value, without comments that follow it."""
        inner = self.pairs[-1][1] if self.pairs else self.items[-1] if self.items else None
        return self.end if inner is None or self.flow else inner.content_end


class SettingsFile:
    """One state of the file. A missing file is an empty one. Raises `BadFile` with path, line and key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.data, self._root = _parsed(path, text)

    @classmethod
    def read(cls, path: Path) -> SettingsFile:
        """Read the file as it is now."""
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            raw = b""
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
        try:
            return cls(path, raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise BadFile(f"{path}:{line}: this is not UTF-8 text", path=str(path), line=line) from error

    @property
    def revision(self) -> str:
        """A name for exactly this text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def line(self, keys: Sequence[str]) -> int:
        """Return the line, from 1, of the deepest of these keys that is in the file, or 0."""
        node, line = self._root, 0
        for key in keys:
            if node is None:
                break
            if node.items and key.isdigit() and int(key) < len(node.items):
                node = node.items[int(key)]
                line = node.line
            elif found := node.pair(key):
                line, node = found[0].line, found[1]
            else:
                break
        return line

    def changed(self, changes: Mapping[Keys, object]) -> SettingsFile:
        """Return the file with each value set, or taken out where it is None. All else stays as it is."""
        file = self
        for keys, value in changes.items():
            plain = _plain(value, ".".join(keys))
            text = file._removed(keys) if plain is None else file._set(keys, plain)
            file = file._verified(text, keys, plain)
        return file

    def _verified(self, text: str, keys: Keys, value: object) -> SettingsFile:
        dotted = ".".join(keys)
        message = f"{self.path}: {dotted} is written in a way that only a person can change"
        by_hand = BadFile(message, path=str(self.path), line=self.line(keys), field=dotted, advice="edit the file")
        try:
            file = SettingsFile(self.path, text)
        except BadFile as error:
            raise by_hand from error
        if _empty_out(file.data) != _empty_out(_with(self.data, keys, value)) or _ODD_BREAK.search(self.text):
            raise by_hand
        return file

    def _found(self, keys: Keys) -> list[tuple[_Node, tuple[_Node, _Node]]]:
        """Return, for as many of the keys as exist, the mapping and its entry."""
        steps: list[tuple[_Node, tuple[_Node, _Node]]] = []
        node = self._root
        for key in keys:
            entry = node.pair(key) if node else None
            if node is None or entry is None:
                break
            steps.append((node, entry))
            node = entry[1]
        return steps

    def _set(self, keys: Keys, value: object) -> str:
        steps = self._found(keys)
        rest = keys[len(steps) :]
        node = steps[-1][1][1] if steps else self._root
        if node and node.alias:
            return self.text
        if not rest and node:
            key = steps[-1][1][0]
            if not node.flow and node.line > key.line:
                return self._lifted(key, node, _flow(value))
            return self._spliced(node.start, node.content_end, _flow(value), node)
        if node and node.flow and node.is_map:
            more = ", " if node.pairs else ""
            entry = "".join(f"{_flow(key)}: {{" for key in rest[:-1]) + f"{_flow(rest[-1])}: {_flow(value)}"
            return self._spliced(node.start + 1, node.start + 1, entry + "}" * (len(rest) - 1) + more, node)
        if not steps or not node:
            end = "" if not self.text or self.text.endswith("\n") else self._newline
            return self.text + end + self._block(rest, value, 0) + self._newline
        key = steps[-1][1][0]
        if node.is_map or node.start == node.end:
            at = self._line_end(key.end)
            column = node.pairs[0][0].column if node.pairs else key.column + 2
            return self._spliced(at, at, self._newline + self._block(rest, value, column), node)
        return self._spliced(node.start, node.end, self._newline + self._block(rest, value, key.column + 2), node)

    def _lifted(self, key: _Node, node: _Node, text: str) -> str:
        """Put `text` behind the key in place of a list or mapping whose lines stand below it."""
        at = self.text.index(":", key.end) + 1
        start = self.text.rfind("\n", 0, node.start) + 1
        return f"{self.text[:at]} {text}{self.text[at:start]}{self.text[self._lines_end(node) :]}"

    def _lines_end(self, node: _Node) -> int:
        """Return the index behind the last line of a value, a remark on that line included."""
        return self.text.find("\n", node.content_end) + 1 or len(self.text)

    def _removed(self, keys: Keys) -> str:
        steps = self._found(keys)
        if len(steps) < len(keys):
            return self.text
        parent, (key, value) = steps[-1]
        if parent.flow:
            at = parent.pairs.index((key, value))
            if at + 1 < len(parent.pairs):
                return self._spliced(key.start, parent.pairs[at + 1][0].start, "", value)
            start = parent.pairs[at - 1][1].content_end if at else key.start
            return self._spliced(start, value.content_end, "", value)
        return self._spliced(self.text.rfind("\n", 0, key.start) + 1, self._lines_end(value), "", value)

    def _spliced(self, start: int, end: int, text: str, node: _Node) -> str:
        if node.alias:
            return self.text
        before = self.text[:start]
        space = " " if text and end == start and before.endswith(":") and not text.startswith(self._newline) else ""
        return before + space + text + self.text[end:]

    def _block(self, keys: Keys, value: object, column: int) -> str:
        lines = [f"{' ' * (column + 2 * depth)}{_flow(key)}:" for depth, key in enumerate(keys)]
        return self._newline.join(lines) + f" {_flow(value)}"

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _line_end(self, at: int) -> int:
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found - (self.text[found - 1] == "\r")


def _parsed(path: Path, text: str) -> tuple[dict[str, object], _Node | None]:
    try:
        composed, loaded = _yaml().compose(text), _yaml().load(text)
    except (YAMLError, ValueError) as error:  # ValueError: a date or number that looks right and is not
        line = _error_line(error, text)
        problem = re.sub(r" with value .*", "", str(getattr(error, "problem", None) or error), flags=re.DOTALL)
        key = _key_near(text, line)
        where = f" (near {key})" if key else ""
        message = f"{path}:{line}: not valid YAML: {problem.splitlines()[0]}{where}"
        raise BadFile(message, path=str(path), line=line, field=key, advice="correct that line") from error
    if loaded is None:
        return {}, None
    data = as_map(_text_keys(loaded))
    if data is None:
        raise BadFile(f"{path}:1: the file must hold sections, such as `server:`", path=str(path), line=1)
    return data, _node(composed, text, set())


def _yaml() -> Any:
    return YAML(typ="safe", pure=True)


def _error_line(error: Exception, text: str) -> int:
    mark: Any = getattr(error, "problem_mark", None)
    if mark is not None:
        return min(int(mark.line), text.count("\n", 0, len(text.rstrip()))) + 1
    position: Any = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 0


def _key_near(text: str, line: int) -> str:
    """Return the dotted key on a line, or on the nearest line above it."""
    keys: list[str] = []
    indent = None
    for number in range(min(line, len(text.splitlines())) - 1, -1, -1):
        found = re.match(r"([ \t]*)([\w-]+)\s*:", text.splitlines()[number])
        if found and (indent is None or len(found[1]) < indent):
            keys.insert(0, found[2])
            indent = len(found[1])
    return ".".join(keys)


def as_map(value: object) -> dict[str, object] | None:
    """Return a mapping with text keys as such, or None."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """Return a list or tuple as a list, or None."""
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None


def _text_keys(value: object) -> object:
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value).items()
        return {str(key).lower() if isinstance(key, bool) else str(key): _text_keys(each) for key, each in entries}
    if isinstance(value, list):
        return [_text_keys(each) for each in cast("list[object]", value)]
    return value


def _node(composed: Any, text: str, seen: set[int], *, empty: int = 0) -> _Node:
    """Return a composed node as places in `text`; `empty` is the place of a value that is not written at all."""
    start, end = composed.start_mark.index, composed.end_mark.index
    is_map, is_list = isinstance(composed, MappingNode), isinstance(composed, SequenceNode)
    if start == end:  # the parser puts it before the next token, behind any comments
        start = end = empty
    elif not is_map and not is_list:  # a block of text takes the blank lines behind it along
        end = start + len(text[start:end].rstrip())
    alias = id(composed) in seen
    seen.add(id(composed))
    return _Node(
        start=start,
        end=end,
        line=text.count("\n", 0, start) + 1,
        column=start - text.rfind("\n", 0, start) - 1,
        flow=bool(composed.flow_style) if is_map or is_list else True,
        text="" if is_map or is_list else str(composed.value),
        alias=alias,
        is_map=is_map,
        pairs=tuple(_pair(key, value, text, seen) for key, value in composed.value) if is_map and not alias else (),
        items=tuple(_node(item, text, seen) for item in composed.value) if is_list and not alias else (),
    )


def _pair(key: Any, value: Any, text: str, seen: set[int]) -> tuple[_Node, _Node]:
    name = _node(key, text, seen)
    return name, _node(value, text, seen, empty=text.find(":", name.end) + 1)


def _plain(value: object, key: str) -> object:
    """Return a value as plain JSON values. Raises `BadInput` for anything else."""
    match value:
        case Secret():
            return _plain(value.reveal(), key)
        case str():
            return _encodable(value, key)
        case None | bool() | int() | float():
            return value
        case dict():
            given = cast("dict[object, object]", value)
            return {str(name): _plain(each, f"{key}.{name}") for name, each in given.items()}
        case list() | tuple():
            return [_plain(each, key) for each in cast("Sequence[object]", value)]
        case _:
            raise BadInput(f"{key} cannot hold a value of the type {type(value).__name__}", field=key)


def _encodable(text: str, key: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{key} must be text without half characters (surrogates)", field=key) from error
    return text


def _flow(value: object) -> str:
    """Return a value in YAML on one line."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_flow(key)}: {_flow(each)}" for key, each in cast("dict[str, object]", value).items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, cast("list[object]", value))) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _with(data: Mapping[str, object], keys: Keys, value: object) -> dict[str, object]:
    """Return a copy of `data` with one value set, or taken out where it is None."""
    whole = copy.deepcopy(dict(data))
    at = whole
    for key in keys[:-1]:
        if not isinstance(at.get(key), dict):
            at[key] = {}
        at = cast("dict[str, object]", at[key])
    if value is None:
        at.pop(keys[-1], None)
    else:
        at[keys[-1]] = value
    return whole


def _empty_out(value: object) -> object:
    """Return `value` without empty mappings and nulls, which mean the same as nothing."""
    entries = as_map(value)
    if entries is None:
        return value
    kept = {key: _empty_out(each) for key, each in entries.items()}
    return {key: each for key, each in kept.items() if each is not None and each != {}}


def walk(value: object) -> Iterator[object]:
    """Yield a value and everything inside it."""
    yield value
    entries = as_map(value)
    for each in (entries.values() if entries else as_list(value)) or ():
        yield from walk(each)
