"""What a search finds, in which order, and what it shows of it."""

from __future__ import annotations

from typing import Any

import pytest

from halo_kernel import Incoming, Principal
from halo_kernel.testing import Answer, Calls

from .conftest import Desk

ANNA = Principal(name="anna", kind="person", access="full")


async def test_a_chinese_word_of_two_characters_is_found(desk: Desk) -> None:
    """A two-character word is found inside a sentence, as is one character; what is only near each other is not."""
    await desk.say("今天天气很好", "气天")
    assert await desk.texts("天气") == ["今天天气很好"]
    assert await desk.texts("气") == ["气天", "今天天气很好"]
    assert await desk.texts("天好") == []


async def test_emoji_are_found(desk: Desk) -> None:
    """An emoji is found by itself, one of several parts too, and whatever its colour."""
    await desk.say("shipped 🎉", "by 👩‍🚀 and 👍🏽")
    assert await desk.texts("🎉") == ["shipped 🎉"]
    assert await desk.texts("👩‍🚀") == await desk.texts("👍") == ["by 👩‍🚀 and 👍🏽"]


async def test_what_is_written_otherwise_is_found(desk: Desk) -> None:
    """Case, width and composition make no difference; words, phrases, beginnings and what is left out count."""
    await desk.say("The Café of Straße 12", "the ｃａｆｅ of nobody")
    assert await desk.texts("CAFÉ") == ["The Café of Straße 12"]
    assert await desk.texts("cafe") == ["the ｃａｆｅ of nobody"]
    assert await desk.texts("12 stra") == ["The Café of Straße 12"]
    assert await desk.texts('"of nobody"') == await desk.texts("of -12") == ["the ｃａｆｅ of nobody"]
    assert await desk.texts('"nobody of"') == await desk.texts("aff") == []


async def test_a_foreign_principal_finds_nothing(desk: Desk) -> None:
    """What is of another principal is not found, nor one's own by a service of the same name."""
    await desk.say("hers alone", principal=ANNA)
    await desk.say("alone too", principal=Principal(name="operator", kind="agent", access="full"))
    assert await desk.search("alone") == {"hits": [], "next": None, "complete": True, "indexed": 1.0}
    await desk.say("mine alone")
    assert await desk.texts("alone") == ["mine alone"]


async def test_every_kind_is_found_but_for_results(desk: Desk) -> None:
    """Titles, messages, answers, names of tools and their short arguments are found; what a tool gave back is not."""
    desk.bench.model.then(Calls([("note", {"text": "argumentum"})]), Answer("responsum"))
    await desk.say("quaestio")
    kinds = {}
    for q in ("quaestio", "responsum", "note", "argumentum", "noted"):
        kinds[q] = {hit["kind"] for hit in (await desk.search(f'"{q}"'))["hits"]}
    assert kinds == {
        "quaestio": {"title", "user"},
        "responsum": {"assistant"},
        "note": {"tool"},
        "argumentum": {"tool"},
        "noted": set(),
    }


async def test_sessions_below_others_and_archived_ones_are_found(desk: Desk) -> None:
    """A child's texts are found like its parent's; those of an archived session too, which the hit says."""
    parent = await desk.say("first needle")
    child = await parent.start_child("default")
    await child.prompt(Incoming(text="second needle")).result
    await parent.archive()
    hits = [hit for hit in (await desk.search("needle"))["hits"] if hit["kind"] == "user"]
    assert {hit["session"]: hit["archived"] for hit in hits} == {parent.info.id: True, child.info.id: True}


async def test_better_matches_come_first(desk: Desk) -> None:
    """A title goes before a message, that before an answer; a short text that says it often before a long one."""
    await desk.say("filler " * 80 + "needle", "needle, needle!")
    await desk.say("needle in the title")
    hits = (await desk.search("needle"))["hits"]
    kinds = [hit["kind"] for hit in hits]
    assert kinds[0] == "title" and kinds.index("user") < kinds.index("assistant")
    users = ["".join(piece["text"] for piece in hit["snippet"]) for hit in hits if hit["kind"] == "user"]
    assert users[0] == "needle, needle!" and users[-1].startswith("…")


async def test_pages_are_one_list(desk: Desk) -> None:
    """Pages joined are what one page would have, each hit once, though more is said meanwhile."""
    session = await desk.say(*(f"needle {number}" for number in range(7)))
    whole = (await desk.search("needle", limit=100))["hits"]
    hits: list[dict[str, Any]] = []
    page = await desk.search("needle", limit=4)
    while page["next"]:
        hits += page["hits"]
        await desk.say("one more needle", session=session)
        page = await desk.search("needle", limit=4, after=page["next"])
    hits += page["hits"]
    assert [(hit["seq"], hit["kind"]) for hit in hits] == [(hit["seq"], hit["kind"]) for hit in whole]
    assert len(hits) == 15


async def test_long_texts_hold_up_nobody(desk: Desk) -> None:
    """Texts of 48,000 characters are indexed and shown while the loop goes on; the fixture watches it."""
    await desk.say("今天天气很好" * 8_000 + "末尾")
    assert len((await desk.search("末尾"))["hits"]) == 2


@pytest.mark.parametrize(
    ("params", "field", "says"),
    [
        ({}, "q", "must not be empty"),
        ({"q": "x" * 201}, "q", "at most 200 characters"),
        ({"q": "!"}, "q", "a letter, a digit or an emoji"),
        ({"q": "one", "limit": "0"}, "limit", "from 1 to 100"),
        ({"q": "one", "limit": "1e2"}, "limit", "from 1 to 100"),
        ({"q": "one", "after": "x"}, "after", "the `next` of an answer"),
        ({"q": "one", "after": "1.1.99999"}, "after", "the `next` of an answer"),
    ],
)
async def test_bad_input_is_one_error(desk: Desk, params: dict[str, str], field: str, says: str) -> None:
    """What breaks a rule is answered with 400, the field and the rule."""
    reply = await desk.client.get("/search", params=params)
    assert reply.status_code == 400
    assert reply.json()["field"] == field and says in reply.json()["error"]


async def test_an_unknown_workspace_is_not_found(desk: Desk) -> None:
    """A workspace that there is not is answered with 404."""
    url = str(desk.client.base_url).rstrip("/") + "x/search?q=one"
    assert (await desk.client.get(url)).status_code == 404
