"""What the tools' texts are read as, and what is quoted of a file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from halo_offline.extracts import extract
from halo_offline.results import Entry, read_hits, read_listing, read_page, read_result

LINE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), max_size=30)
FILENAME = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=20)


@settings(deadline=None)
@given(lines=st.lists(LINE, min_size=1, max_size=30), more=st.integers(0, 500))
def test_a_page_gives_back_its_lines(lines: list[str], more: int) -> None:
    """Every line comes back as it was, and the total counts what was not shown."""
    text = "\n".join(f"{number:>3}\t{line}" for number, line in enumerate(lines, 1))
    tail = f"\n... {more} more line(s) — use offset={len(lines) + 1} to continue." if more else ""
    page = read_page(text + tail)
    assert page.lines == tuple(lines)
    assert page.total == len(lines) + more


def test_a_cut_page_has_no_total() -> None:
    """A result that was cut before its end does not tell how long the file is."""
    page = read_page("1\tone\n2\ttw\n[Content truncated: 99 chars total, showing first 12. Re-run with narrower scope]")
    assert page.lines == ("one", "tw") and page.total is None


@settings(deadline=None)
@given(names=st.lists(st.tuples(FILENAME, st.booleans()), max_size=20))
def test_a_listing_gives_back_its_names(names: list[tuple[str, bool]]) -> None:
    """Every name comes back with its kind."""
    text = "\n".join(f"{'📁' if folder else '📄'} {name}" for name, folder in names)
    assert read_listing(text).entries == tuple(Entry(name, folder) for name, folder in names)


@settings(deadline=None)
@given(path=FILENAME.filter(lambda name: ":" not in name), line=st.integers(1, 9999), text=LINE)
def test_a_hit_gives_back_its_parts(path: str, line: int, text: str) -> None:
    """File, line and content are told apart, whatever colons the content has."""
    (hit,) = read_hits(f"{path}:{line}:{text}")
    assert (hit.path, hit.line, hit.text) == (path, line, text)


def test_a_marker_is_no_part_of_the_text() -> None:
    """A marked result has failed, and its text starts after the marker."""
    assert read_result("__TOOL_WARN__\nno such file", error=False).failed
    assert read_result("__TOOL_ERROR__\nno such file", error=False).text == "no such file"
    assert not read_result("fine", error=False).failed


def test_markdown_is_quoted_without_its_markup() -> None:
    """Title, first sentences and sections come without front matter, badges, links, fences and html."""
    lines = [
        *("---", "title: x", "---", "[![ci](a.svg)](b)", "# The **Heron** [Project](https://example.org)", ""),
        *("<p>Counts birds.</p>", "At [dawn](d.md).", "", "```sh", "# not a heading", "```"),
        *("## Use", "", "Setext", "------", ""),
    ]
    found = extract("README.md", lines)
    assert found.title == "The Heron Project"
    assert found.opening == "Counts birds. At dawn."
    assert found.headings == ("Use", "Setext")


def test_code_data_and_tables_tell_their_names() -> None:
    """Definitions of code, keys of JSON and columns of CSV are told."""
    assert extract("a.py", ['"""Count birds."""', "def count():", "class Bird:"]).names == ("count", "Bird")
    assert extract("a.py", ['"""Count birds."""']).opening == "Count birds."
    assert extract("a.json", ['{"name": 1, "size": 2}']).names == ("name", "size")
    assert extract("a.csv", ["bird,count", "heron,2"]).names == ("bird", "count")


@settings(deadline=None)
@given(st.sampled_from(["a.md", "a.py", "a.json", "a.csv", "a"]), st.lists(LINE, max_size=12))
def test_every_text_can_be_taken_apart(path: str, lines: list[str]) -> None:
    """No text makes it fail, and an opening stays short."""
    assert len(extract(path, lines).opening) <= 320


@settings(deadline=None)
@given(st.lists(st.text("abc", min_size=3, max_size=8), min_size=1, max_size=5))
def test_plain_text_opens_with_its_first_paragraph(words: list[str]) -> None:
    """A text without any markup is quoted from its first word."""
    sentence = " ".join(words) + "."
    assert extract("a.txt", ["", sentence, "", "More."]).opening == sentence
