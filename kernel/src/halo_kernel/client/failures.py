"""Errors, from what a server tells of them."""

from __future__ import annotations

import inspect
from typing import Any, cast

from .. import errors
from ..errors import HaloError


def rebuild(body: object) -> HaloError:
    """Return the error that a shape tells about; one of an unknown type becomes a plain `HaloError`."""
    told = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    kind = getattr(errors, str(told.get("type", "")), HaloError)
    if not (isinstance(kind, type) and issubclass(kind, HaloError)):
        kind = HaloError
    message = str(told.get("error") or "The server answered with an error that it did not explain.")
    accepted = {name for name in inspect.signature(kind).parameters if name != "message"}
    facts = cast("dict[str, Any]", {name: value for name, value in told.items() if name in accepted})
    try:
        return kind(message, **facts)
    except TypeError:  # an older server leaves out a fact that this class needs
        return HaloError(message)


def is_failure(data: object) -> bool:
    """Tell whether a value has the shape of an error."""
    return isinstance(data, dict) and {"error", "type"} <= set(cast("dict[str, object]", data))
