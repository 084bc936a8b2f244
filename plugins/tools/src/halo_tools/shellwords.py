"""Shell text as the simple commands in it: enough of the grammar to see what a command is told, and nothing is run.

Quotes, escapes, variables, substitutions, comments, redirections, here-documents and grouping are understood; what a
program would compute is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

_NAME = re.compile(r"\{(?P<braced>[A-Za-z_]\w*)(?::?-(?P<default>[^}]*))?[^}]*\}|(?P<bare>[A-Za-z_]\w*)|[0-9@*#?$!-]")
Kind = Literal["text", "variable", "command"]


@dataclass(frozen=True)
class Piece:
    """Part of a word: text, the name of a variable, or the text of a substituted command."""

    kind: Kind
    text: str
    quoted: bool
    default: str = ""


@dataclass
class Word:
    """Pieces that belong together."""

    pieces: list[Piece] = field(default_factory=list[Piece])

    def add(self, kind: Kind, text: str, quoted: bool, default: str = "") -> None:
        """Put a piece at the end."""
        self.pieces.append(Piece(kind, text, quoted, default))


Item = list[Word] | Literal["(", ")"]


@dataclass
class Reader:
    """Reads one text."""

    text: str
    at: int = 0
    items: list[Item] = field(default_factory=list[Item])
    _words: list[Word] = field(default_factory=list[Word])
    _word: Word | None = None
    _skip: bool = False
    _heredocs: list[str] = field(default_factory=list[str])
    _expect_heredoc: bool = False

    def read(self) -> list[Item]:
        """Return the commands in order, with the parentheses of subshells between them."""
        while self.at < len(self.text):
            self._step()
        self._end_command()
        return self.items

    def _step(self) -> None:
        char = self.text[self.at]
        if char in " \t":
            self._end_word()
        elif char == "\n":
            self._end_command()
            self._skip_heredocs()
        elif char == "#" and self._word is None:
            self.at = self._find("\n", self.at) - 1
        elif char in ";&|()":
            self._operator(char)
        elif char in "<>":
            self._redirect(char)
            return
        else:
            self._part(char)
            return
        self.at += 1

    def _operator(self, char: str) -> None:
        if char == "&" and self.text.startswith("&>", self.at):
            self._end_word()
            return
        self._end_command()
        if char in "()":
            self.items.append("(" if char == "(" else ")")

    def _redirect(self, char: str) -> None:
        """Leave the target of a redirection out, or remember a here-document's end mark."""
        if self._word is not None and all(piece.text.isdecimal() for piece in self._word.pieces):
            self._word = None
        self._end_word()
        if self.text.startswith("<<", self.at) and not self.text.startswith("<<<", self.at):
            self.at += 3 if self.text.startswith("<<-", self.at) else 2
            self._expect_heredoc = True
        else:
            while self.at < len(self.text) and self.text[self.at] in "<>&|":
                self.at += 1
            if self.text.startswith("(", self.at):
                return
        self._skip = True

    def _part(self, char: str) -> None:
        word = self._word = self._word or Word()
        if char == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if following != "\n":
                word.add("text", following, True)
            self.at += 2
        elif char == "'":
            end = self._find("'", self.at + 1)
            word.add("text", self.text[self.at + 1 : end], True)
            self.at = end + 1
        elif char == '"':
            self.at += 1
            self._double_quoted(word)
        elif char in "$`":
            self._dollar(word, quoted=False)
        else:
            word.add("text", char, False)
            self.at += 1

    def _double_quoted(self, word: Word) -> None:
        word.add("text", "", True)
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char in "$`":
                self._dollar(word, quoted=True)
                continue
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                self.at += 1
                char = self.text[self.at].replace("\n", "")
            word.add("text", char, True)
            self.at += 1
        self.at += 1

    def _dollar(self, word: Word, *, quoted: bool) -> None:
        if self.text[self.at] == "`":
            end = self._find("`", self.at + 1)
            word.add("command", self.text[self.at + 1 : end], quoted)
            self.at = end + 1
        elif self.text.startswith("$(", self.at):
            end = self._closing(self.at + 2)
            word.add("command", self.text[self.at + 2 : end], quoted)
            self.at = end + 1
        elif self.text.startswith("$'", self.at) and not quoted:
            self.at += 1
        elif named := _NAME.match(self.text, self.at + 1):
            word.add("variable", named["braced"] or named["bare"] or "", quoted, named["default"] or "")
            self.at = named.end()
        else:
            word.add("text", "$", quoted)
            self.at += 1

    def _closing(self, start: int) -> int:
        """Return where the parenthesis that was opened before `start` is closed."""
        depth, at, quote = 1, start, ""
        while at < len(self.text):
            char = self.text[at]
            if char == "\\" and quote != "'":
                at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            else:
                depth += (char == "(") - (char == ")")
                if depth == 0:
                    return at
            at += 1
        return len(self.text)

    def _find(self, what: str, start: int) -> int:
        found = self.text.find(what, start)
        return len(self.text) if found < 0 else found

    def _end_word(self) -> None:
        word, self._word = self._word, None
        if word is None:
            return
        if self._expect_heredoc:
            self._heredocs.append("".join(piece.text for piece in word.pieces))
        elif not self._skip:
            self._words.append(word)
        self._skip = self._expect_heredoc = False

    def _end_command(self) -> None:
        self._end_word()
        self._skip = self._expect_heredoc = False
        if self._words:
            self.items.append(self._words)
            self._words = []

    def _skip_heredocs(self) -> None:
        for mark in self._heredocs:
            while self.at + 1 < len(self.text):
                end = self._find("\n", self.at + 1)
                line, self.at = self.text[self.at + 1 : end], end
                if line.lstrip("\t") == mark:
                    break
        self._heredocs = []


def commands_in(text: str) -> Iterator[Item]:
    """Yield the commands and parentheses of a text."""
    yield from Reader(text).read()
