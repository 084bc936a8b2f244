"""Answers as agents write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from halo_lib_text import parse, plain, split, take_media, utf16_length

from .conftest import shown
from .platforms import check_slack, check_telegram, slack, telegram

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.md"))


@pytest.fixture(params=CORPUS, ids=lambda path: path.stem)
def answer(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_an_answer_in_plain_text(answer: Path) -> None:
    """An answer reads in plain text as the file beside it does."""
    assert plain(answer.read_text()) == answer.with_suffix(".txt").read_text().rstrip("\n")


@pytest.mark.parametrize("limit", [120, 400, 4096])
def test_an_answer_in_pieces(answer: Path, limit: int) -> None:
    """Each piece of an answer is one that the platforms take, and together they say all of it."""
    source = answer.read_text()
    for render, check in ((telegram, check_telegram), (slack, check_slack)):
        chunks = split(source, limit, measure=utf16_length, render=render)
        assert "".join(each.source for each in chunks) == source
        if not any(each.plain for each in chunks):
            assert "".join(shown(each.document) for each in chunks) == shown(parse(source))
        for each in chunks:
            assert utf16_length(each.text) <= limit
            check(each.text)


def test_the_corpus_is_there() -> None:
    """At least fifteen answers are looked at."""
    assert len(CORPUS) >= 15


def test_an_answer_with_files() -> None:
    """The lines that attach files are taken out, the example in a fence stays."""
    path = Path(__file__).parent / "corpus" / "media_markers.md"
    text, paths = take_media(path.read_text())
    assert paths == ("/srv/out/chart_1.png", "/srv/out/data file.csv")
    assert text == "I drew the chart.\n\nIts data is here:\n\n```text\nMEDIA:/this/is/an/example\n```"
