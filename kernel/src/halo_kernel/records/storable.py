"""Text that every storage and every wire can carry: neither U+0000 nor surrogates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

_ODD = re.compile("[\0\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def storable_text(text: str) -> str:
    """Return `text` with surrogate pairs joined, and lone surrogates and U+0000 replaced by U+FFFD."""
    if not _ODD.search(text):
        return text
    joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", joined)


def storable(value: object) -> object:
    """Return a value made of JSON's types with all of its text storable."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list | tuple):
        return [storable(each) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {storable(key): storable(each) for key, each in cast("Mapping[object, object]", value).items()}
    return value
