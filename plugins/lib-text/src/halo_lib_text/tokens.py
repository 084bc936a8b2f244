"""markdown-it's tokens, with the places that its inline tokens came from, which it does not keep."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock, blockquote, list_block
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

from .inlines import SPAN
from .letters import CJK

NESTING = 24
_DEEPEST = NESTING - 4  # a list takes two levels, and what is at NESTING would be dropped
_DELIMITERS = ("emphasis", "strikethrough")
_WRAPPED = ("newline", "escape", "backticks", "link", "image", "autolink", "html_inline", "entity", *_DELIMITERS)

_SCHEME = re.compile(r"(?<![A-Za-z0-9+.-])https?\Z", re.IGNORECASE)
_ADDRESS = re.compile(r"://[A-Za-z0-9][!#-;=?-Z_a-z~]*")
_PRODUCT = re.compile(r"[0-9][0-9A-Za-z]|[A-Za-z][0-9]")
_TRAILING = "?!.,:;*_~'&"

_LINK: tuple[tuple[str, Literal[-1, 0, 1]], ...] = (("link_open", 1), ("text", 0), ("link_close", -1))

InlineRule = Callable[[StateInline, bool], bool]
BlockRule = Callable[[StateBlock, int, int, bool], bool]


class _State(StateInline):
    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803 - the library's names
        """Say whether a `*` opens or closes, in two cases otherwise than CommonMark.

        Chinese, Japanese and Korean letters stand where it asks for a space, for they have none. `2*3*n` is a product.
        """
        scanned = super().scanDelims(start, canSplitWord)
        end = start + scanned.length
        before = self.src[start - 1] if start else " "
        after = self.src[end] if end < self.posMax else " "
        if scanned.length == 1 and _PRODUCT.fullmatch(before + after):
            return Scanned(False, False, 1)
        if not canSplitWord:
            return scanned
        opens = scanned.can_open or (CJK.match(before) is not None and not after.isspace())
        closes = scanned.can_close or (CJK.match(after) is not None and not before.isspace())
        return Scanned(opens, closes, scanned.length)


class _Inline(ParserInline):
    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


class _Markdown(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
        """Encode an address, in which half a surrogate pair has no bytes."""
        whole = url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return super().normalizeLink(whole)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of CommonMark, tables, strikethrough and bare addresses; HTML blocks are paragraphs."""
    return _markdown().parse(text)


@cache
def _markdown() -> MarkdownIt:
    markdown = _Markdown()
    markdown.inline = _Inline()
    markdown.configure("commonmark", {"maxNesting": NESTING})
    markdown.enable(["table", "strikethrough"])
    markdown.inline.ruler.enable("linkify")
    markdown.disable(["html_block", "fragments_join", "text_join"])  # joining would lose the places
    rules = dict(zip(markdown.inline.ruler.get_active_rules(), markdown.inline.ruler.getRules(""), strict=True))
    for name in _WRAPPED:
        markdown.inline.ruler.at(name, _placed(rules[name], name in _DELIMITERS))
    markdown.inline.ruler.at("linkify", _bare_address)
    interrupting = ["paragraph", "reference", "blockquote"]
    markdown.block.ruler.at("blockquote", _bounded(blockquote), {"alt": [*interrupting, "list"]})
    markdown.block.ruler.at("list", _bounded(list_block), {"alt": interrupting})
    return markdown


def _bounded(rule: BlockRule) -> BlockRule:
    def run(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:  # noqa: N803
        return state.level < _DEEPEST and rule(state, startLine, endLine, silent)

    return run


def _placed(rule: InlineRule, delimiters: bool) -> InlineRule:
    mark = _mark_run if delimiters else _mark_whole

    def run(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.tokens)
        found = rule(state, silent)
        if found and not silent:
            mark(state.tokens, known, start, state.pos)
        return found

    return run


def _mark_whole(tokens: list[Token], known: int, start: int, end: int) -> None:
    for token in tokens[known:]:
        if token.type != "text" and SPAN not in token.meta:
            token.meta[SPAN] = start, end


def _mark_run(tokens: list[Token], known: int, start: int, end: int) -> None:
    """Mark the delimiters of one run, which are texts until they find their partners."""
    for token in reversed(tokens[known:]):
        if end <= start:
            return
        token.meta[SPAN] = end - len(token.content), end
        end -= len(token.content)


def _bare_address(state: StateInline, silent: bool) -> bool:
    """Take an address that stands in the text as a link, before its underscores become emphasis."""
    if silent or state.linkLevel or state.src[state.pos] != ":":
        return False
    scheme = _SCHEME.search(state.pending[-6:])
    match = scheme and _ADDRESS.match(state.src, state.pos, state.posMax)
    if not scheme or not match:
        return False
    word = scheme.group() + _trimmed(match.group())
    start = state.pos - len(scheme.group())
    state.pending = state.pending[: -len(scheme.group())]
    for kind, nesting in _LINK:
        token = state.push(kind, "", nesting)
        token.meta[SPAN] = start, start + len(word)
        token.attrs = {"href": word} if nesting == 1 else {}
        token.info = "auto"  # as of addresses in angle brackets
        token.content = "" if nesting else word
    state.pos = start + len(word)
    return True


def _trimmed(address: str) -> str:
    """Leave out what ends the sentence rather than the address, as GitHub does."""
    spare = address.count(")") - address.count("(")
    end = len(address)
    while end > 4 and (address[end - 1] in _TRAILING or (spare > 0 and address[end - 1] == ")")):
        spare -= address[end - 1] == ")"
        end -= 1
    return address[:end]
