"""What a search finds, and what it shows of it."""

from __future__ import annotations

from typing import Any


def texts(answer: dict[str, Any]) -> list[str]:
    return ["".join(piece["text"] for piece in hit["snippet"]) for hit in answer["hits"]]


async def test_smoke(say, search) -> None:
    s = await say("Hello world, 今天天气很好 🎉", "second thing")
    r = await search("天气")
    print(r)
    assert texts(r)
    for q in ("🎉", "worl", '"hello world"', "hello -second", "天", "很好 hello", "SECOND"):
        r = await search(q)
        print(q, texts(r), [(h["kind"], h["seq"]) for h in r["hits"]])
        assert r["hits"], q
    ev = [u.event async for u in s.events() if u.event]
    print([(e.seq, e.kind) for e in ev])
