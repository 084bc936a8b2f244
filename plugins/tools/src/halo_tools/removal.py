"""The guard before `rm` and `rmdir`: refuses to remove what nobody means to. A help against slips, not a boundary."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from halo_lib_files import FilesError, expand_braces

from .hidden import is_database
from .shellwords import Piece, Word, commands_in

SYSTEM = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/var"),
        *("/System", "/Library", "/Applications", "/Users", "/Volumes", "/private", "/cores"),
    }
)
SHARED = frozenset({"/tmp", "/root", "/var/tmp", "/private/tmp", "/mnt", "/media"})
_RESERVED = frozenset(["then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "time"])
# Programs that run another one, with those of their options that take a word of their own.
_WRAPPERS = {
    **dict.fromkeys(("command", "builtin", "nohup", "setsid", "busybox", "unbuffer"), ""),
    "sudo": "ugpCrtUhDR",
    "doas": "uC",
    "env": "uCS",
    "nice": "n",
    "ionice": "cnpP",
    "timeout": "sk",
    "xargs": "nIPdLEsa",
    "stdbuf": "ioe",
    "exec": "a",
    "time": "fo",
}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_DURATION = re.compile(r"[\d.]+[smhd]?")
_ALL = re.compile(r"[*?.!\[\]^-]*[*?\]][*?.!\[\]^-]*")
_MAX_DEPTH = 5


@dataclass(frozen=True)
class Expanded:
    """A word as a command gets it; `bare[i]` tells that character i was not quoted."""

    text: str
    bare: tuple[bool, ...]


@dataclass
class Guard:
    """Follows one command line. `home` is HALO_HOME; `variables` are those that are known."""

    workspace: str
    home: str
    folder: str
    variables: dict[str, str]
    depth: int = 0
    _outer: list[str] = field(default_factory=list[str])

    def check(self, text: str) -> str:
        """Return why a text must not be run, or ''."""
        for item in commands_in(text):
            if item == "(":
                self._outer.append(self.folder)
            elif item == ")":
                self.folder = self._outer.pop() if self._outer else self.folder
            elif reason := self._command(item):
                return reason
        return ""

    def _command(self, words: list[Word]) -> str:
        for piece in chain.from_iterable(word.pieces for word in words):
            if piece.kind == "command" and (reason := self._nested(piece.text)):
                return reason
        expanded = list(chain.from_iterable(map(self._expand, words)))
        texts = [each.text for each in expanded]
        start = self._skip_to_program(texts)
        if start == len(texts):
            self._assign(texts)
            return ""
        name, rest = os.path.basename(texts[start]), texts[start + 1 :]
        if name in ("cd", "pushd"):
            self._change_folder(rest)
        elif name in _SHELLS and "-c" in rest[:-1]:
            return self._nested(rest[rest.index("-c") + 1])
        elif name == "eval":
            return self._nested(" ".join(rest))
        elif name in ("rm", "rmdir"):
            reasons = (self._target(word) for word in operands(expanded[start + 1 :]))
            return next((reason for reason in reasons if reason), "")
        return ""

    def _nested(self, text: str) -> str:
        if self.depth >= _MAX_DEPTH:
            return ""
        inner = Guard(self.workspace, self.home, self.folder, dict(self.variables), self.depth + 1)
        return inner.check(text)

    # Words

    def _expand(self, word: Word) -> Iterator[Expanded]:
        text, bare = "", list[bool]()
        for piece in word.pieces:
            value = self._value(piece)
            text += value
            bare += [not piece.quoted] * len(value)
        if text.startswith("~") and bare[0] and text[1:2] in ("", "/"):
            home = self.variables["HOME"]
            text, bare = home + text[1:], [False] * len(home) + bare[1:]
        if "{" in (char for char, free in zip(text, bare, strict=True) if free):
            yield from (Expanded(each, (True,) * len(each)) for each in _alternatives(text))
        elif text or any(piece.quoted for piece in word.pieces):
            yield Expanded(text, tuple(bare))

    def _value(self, piece: Piece) -> str:
        if piece.kind == "text":
            return piece.text
        if piece.kind == "variable":
            return self.folder if piece.text == "PWD" else self.variables.get(piece.text, piece.default)
        return self.folder if piece.text.strip() == "pwd" else ""

    def _skip_to_program(self, words: list[str]) -> int:
        """Return where the name of the program stands, behind keywords, assignments and programs that run others."""
        at = 0
        while at < len(words):
            name = os.path.basename(words[at])
            if words[at] in _RESERVED or _ASSIGNMENT.match(words[at]):
                at += 1
            elif name in _WRAPPERS:
                at = _past_options(words, at + 1, _WRAPPERS[name])
                at += name == "timeout" and at < len(words) and _DURATION.fullmatch(words[at]) is not None
            else:
                break
        return at

    def _assign(self, words: list[str]) -> None:
        for word in words:
            name, _, value = word.partition("=")
            if _ASSIGNMENT.match(word):
                self.variables[name.rstrip("+")] = value

    def _change_folder(self, words: list[str]) -> None:
        target = next((word for word in words if not word.startswith("-")), self.variables["HOME"])
        self.folder = os.path.normpath(os.path.join(self.folder, target))

    # Targets

    def _target(self, word: Expanded) -> str:
        if not word.text:
            return ""
        named, whole = _judged(word)
        full = os.path.normpath(os.path.join(self.folder, named))
        paths = {full, os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))}
        if whole or word.text.endswith("/"):
            paths.add(os.path.realpath(full))
        for path in sorted(paths):
            if reason := self._reason(os.path.normpath(path)):
                return (
                    f'[Sandbox] rm blocked: "{word.text}" resolves to {path}, which is {reason}.'
                    " Name the exact files or folders to remove."
                )
        return ""

    def _reason(self, path: str) -> str:
        kept = {
            self.variables["HOME"]: "your home folder",
            self.home: "where Halo keeps its own files",
            os.path.join(self.workspace, ".halo"): "where Halo keeps this workspace's sessions",
            self.workspace: "the workspace itself",
        }
        if path == "/":
            return "the root of the file system"
        if path in kept:
            return kept[path]
        if is_database(path, self.home):
            return "one of Halo's databases"
        above = next((name for name in kept if name.startswith(path + "/")), None)
        if above is not None:
            return f"above {above}, {kept[above]}"
        if path.startswith(self.workspace + "/"):
            return ""
        if path in SYSTEM or path in SHARED:
            return "a folder of the system"
        return f"directly in the system's {os.path.dirname(path)}" if os.path.dirname(path) in SYSTEM else ""


def operands(words: list[Expanded]) -> Iterator[Expanded]:
    """Yield the words that are no options."""
    only = False
    for word in words:
        if not only and word.text == "--":
            only = True
        elif only or not word.text.startswith("-"):
            yield word


def _past_options(words: list[str], at: int, with_word: str) -> int:
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if len(words[at]) == 2 and words[at][1] in with_word else 1
    return at + 1 if words[at : at + 1] == ["--"] else at


def _alternatives(text: str) -> list[str]:
    try:
        return expand_braces(text)
    except FilesError:
        return [text]


def _judged(word: Expanded) -> tuple[str, bool]:
    """Return the path that a word is judged by, and whether it stands for all that is in that folder."""
    start = 0
    for part in word.text.split("/"):
        free = word.bare[start : start + len(part)]
        if any(char in "*?[" and bare for char, bare in zip(part, free, strict=True)):
            folder = word.text[:start] or "."
            return (folder, True) if _ALL.fullmatch(part) else (folder + part, False)
        start += len(part) + 1
    return word.text, False


def forbidden_removal(command: str, *, workspace: str, home: str) -> str:
    """Return why `command`, run in the workspace, must not be run, or ''. `home` is HALO_HOME."""
    person = os.path.expanduser("~")
    guard = Guard(workspace, home, workspace, {"HOME": person, "PWD": workspace, "TMPDIR": "/tmp"})
    return guard.check(command)
