"""Text that every storage and every wire can carry: neither U+0000 nor surrogates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from ..errors import BadInput

_ODD = re.compile("[\0\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def storable_text(text: str) -> str:
    """Return `text` with surrogate pairs joined, and lone surrogates and U+0000 replaced by U+FFFD."""
    if is_storable(text):
        return text
    joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", joined)


def is_storable(text: str) -> bool:
    """Tell whether every storage keeps a text as it is."""
    return not _ODD.search(text)


def check_storable(**texts: str) -> None:
    """Raise `BadInput` that names the first of these fields whose text is not storable."""
    for field, text in texts.items():
        if not is_storable(text):
            raise BadInput(f"{field} must not contain U+0000 or surrogates", field=field)


def storable(value: object) -> object:
    """Return a value made of JSON's types with all of its text storable."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list | tuple):
        return [storable(each) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {storable(key): storable(each) for key, each in cast("Mapping[object, object]", value).items()}
    return value
