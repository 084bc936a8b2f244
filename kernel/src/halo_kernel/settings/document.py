"""The settings file: YAML that people edit, with the line of each setting."""

from __future__ import annotations

import json
import stat
from itertools import islice
from pathlib import Path
from typing import Any, cast

from ..errors import BadFile

LARGEST = 262_144


class SettingsFile:
    """One state of the file. A missing file is an empty one. Raises `BadFile` with path, line and key.

    `data` is what it means, without entries that hold nothing, and `root` its YAML node, None where there is none.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.data, self.root = _parsed(path, text)

    @classmethod
    def read(cls, path: Path, *, is_strange: bool = False) -> SettingsFile:
        """Read the file as it is now; one that `is_strange` may come from anybody: no link, no device, not large."""
        try:
            if is_strange and not (stat.S_ISREG((found := path.lstat()).st_mode) and found.st_size <= LARGEST):
                raise BadFile(f"{path} must be a file, not a link, of at most {LARGEST} bytes", path=str(path))
            return cls(path, path.read_bytes().decode())
        except FileNotFoundError:
            return cls(path, "")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", "it is not UTF-8 text")
            raise BadFile(f"{path} cannot be read: {why}", path=str(path), advice="mend or restore it") from error

    def line(self, key: str) -> int:
        """Return the line, from 1, of the deepest part of a dotted key that is in the file, or 0."""
        node, line = self.root, 0
        for part in key.split("."):
            entries = node.value if getattr(node, "id", "") == "mapping" else ()
            entry = next((each for each in entries if each[0].value == part), None)
            if entry is None:
                break
            node, line = entry[1], entry[0].start_mark.line + 1
        return line

    def bad(self, key: str, rule: str, advice: str = "") -> BadFile:
        """Return the error that what is at a dotted key breaks a rule."""
        line, path = self.line(key), str(self.path)
        return BadFile(f"{path}:{line}: {key} {rule}", path=path, line=line, field=key, advice=advice)


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
    except (YAMLError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:  # of tags, too
        mark: Any = getattr(error, "problem_mark", None)
        line = min(mark.line + 1, len(text.splitlines())) if mark else 0
        problem = str(getattr(error, "problem", None) or error).partition(" with value ")[0].partition("\n")[0]
        message = f"{path}:{line}: not valid YAML: {problem}"
        raise BadFile(message, path=str(path), line=line, advice="correct that line") from error
    if getattr(root, "id", "mapping") != "mapping":
        raise BadFile(f"{path}:1: the file must hold sections, such as `server:`", path=str(path), line=1)
    return as_map(data) or {}, root


def _tidy(value: object) -> object:
    """Return a value as JSON holds it, without entries that hold nothing: those mean the default.

    Raises `ValueError`, also where it never ends: a few aliases of aliases stand for more than fits into memory.
    """
    parts = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).iterencode(value)
    text = "".join(islice(parts, LARGEST))
    text.encode()  # which refuses half characters
    return json.loads(text, object_hook=_kept)


def _kept(entries: dict[str, object]) -> dict[str, object] | None:
    kept = {key: each for key, each in entries.items() if each is not None}
    return kept if kept or not entries else None


def as_map(value: object) -> dict[str, object] | None:
    """Return a mapping with text keys as such, or None."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
