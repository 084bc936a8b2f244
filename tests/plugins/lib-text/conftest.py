"""Made-up markdown, and walks over the model."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from halo_lib_text import Code, Document, Emphasis, Image, Link, Node, Strike, Strong, Text, children_of

# What people see as one letter, each of several code points.
LETTERS = [
    "e\u0301",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "👍🏽",
    "🇩🇪",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\u1112\u1161\u11ab",
    "क्ष",
    "ก็",
    "\ud83d\ude00",
    "\r\n",
]
WORDS = [
    "word",
    "snake_case_name",
    "中文句子。",
    "价格：",
    "שלום",
    "مرحبا",
    "𝒳𝒴",
    "a*b",
    "5 < 6 & 7",
    "C:\\dir",
    "\x00",
    "\t",
    "…",
]
MARKS = [
    "*",
    "**",
    "_",
    "~~",
    "`",
    "``",
    "```",
    "[",
    "](",
    ")",
    "<",
    ">",
    "&",
    "\\",
    "|",
    "#",
    "-",
    "\n",
    "\n\n",
    "    ",
]
LEAVES = [
    "`code_span_x`",
    "``a ` b``",
    "[a_link_b](https://example.org/a_b_c?d=e_f&g=*h*)",
    "https://example.org/x_y_z_(w)/__init__.py",
    "<https://example.org/auto_link>",
    "![an image](https://example.org/i_1.png)",
    "&amp;",
    "&#128512;",
    "\\*",
    "<br>",
    "<u>html</u>",
]

words = st.one_of(st.sampled_from(WORDS), st.sampled_from(LETTERS), st.sampled_from(LEAVES), st.text(max_size=8))
spaced = st.lists(words, min_size=1, max_size=8).map(" ".join)
wrapped = st.tuples(st.sampled_from(["**", "*", "_", "~~", "***"]), spaced).map(
    lambda each: each[0] + each[1] + each[0]
)
lines = st.lists(st.one_of(words, wrapped), min_size=1, max_size=12).map(" ".join)
solid = st.lists(st.one_of(words, wrapped, st.sampled_from(MARKS)), min_size=1, max_size=30).map("".join)


def _indented(text: str, by: str) -> str:
    return "\n".join(by + each for each in text.split("\n"))


def _fence(parts: tuple[str, str, list[str]]) -> str:
    mark, language, body = parts
    return f"{mark}{language}\n" + "\n".join(body) + f"\n{mark}"


def _table(rows: list[list[str]]) -> str:
    cells = [[each.replace("|", "\\|").replace("\n", " ") for each in row] for row in rows]
    shown = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([shown[0], "|---|:-:|", *shown[1:]])


_code_lines = st.one_of(st.text(max_size=20), st.sampled_from(["x = 1", "", "    if a_b:", "é" * 90, "`" * 3 + "x"]))
_plain_blocks = st.one_of(
    lines,
    solid,
    lines.map(lambda text: "# " + text),
    st.just("---"),
    st.tuples(
        st.sampled_from(["```", "~~~", "````"]), st.sampled_from(["", "python", "c++ x"]), st.lists(_code_lines)
    ).map(_fence),
    st.lists(st.lists(spaced, min_size=2, max_size=2), min_size=1, max_size=5).map(_table),
)
_blocks = st.recursive(
    _plain_blocks,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: _indented("\n\n".join(each), "> ")),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda each: "\n".join("- " + _indented(x, "  ")[2:] for x in each)
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda each: "\n".join("3. " + _indented(x, "   ")[3:] for x in each)
        ),
    ),
    max_leaves=6,
)
markdown = st.lists(_blocks, min_size=0, max_size=6).map("\n\n".join)


@st.composite
def long_markdown(draw: st.DrawFn) -> str:
    """Up to 60,000 characters of the same kinds of things, in an order that is drawn."""
    parts = draw(st.lists(_blocks, min_size=4, max_size=10))
    picks = draw(st.randoms(use_true_random=False))
    text = ""
    while len(text) < 40_000:
        text += picks.choice(parts) + picks.choice(["\n\n", "\n", " "])
        text += "\n" if text.count("\n") < 3 else ""
    return text[:60_000]


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it."""
    yield node
    for child in children_of(node):
        yield from walk(child)


def shown(document: Document) -> str:
    """Return the characters of a document without markup and layout."""
    return "".join(node.text for node in walk(document) if isinstance(node, Text))


def wholes(node: Node) -> Iterator[Node]:
    """Yield the outermost parts of lines that are to stay whole."""
    for child in children_of(node):
        if isinstance(child, Code | Emphasis | Image | Link | Strike | Strong) or (
            isinstance(child, Text) and not child.verbatim
        ):
            yield child
        else:
            yield from wholes(child)
