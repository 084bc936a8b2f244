"""The stage over HTTP: `POST /control/<verb>` with its arguments as JSON, `GET /control` for what there is."""

from __future__ import annotations

import base64
import inspect
import json
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from .refusals import Refused
from .stage import Stage
from .wire import Request
from .world import World

BYTES = "$bytes"


def encoded(value: Any) -> bytes:
    """Return JSON; bytes go as an object with base64."""
    return json.dumps(value, default=lambda each: {BYTES: base64.b64encode(each).decode()}).encode()


def decoded(data: bytes) -> Any:
    """Return what `encoded` took."""
    return json.loads(data or b"{}", object_hook=lambda each: base64.b64decode(each[BYTES]) if BYTES in each else each)


async def control(world: World, stage: Stage, request: Request) -> tuple[int, Any]:
    """Answer a request of a test: a status and a value."""
    verb = request.path.removeprefix("/control").strip("/")
    if verb == "changes":
        return 200, await _changes(world, request)
    method = getattr(stage, verb, None) if verb and not verb.startswith("_") else None
    if method is None:
        verbs = {name: inspect.getdoc(each) for name, each in inspect.getmembers(stage, inspect.ismethod)}
        named = {name: said for name, said in verbs.items() if not name.startswith("_")}
        return (404 if verb else 200), {"verbs": named}
    try:
        return 200, {"result": json.loads(encoded(method(**decoded(request.body))))}
    except Refused as refused:
        return 400, {"error": refused.description}
    except (TypeError, ValueError, LookupError) as error:
        return 400, {"error": f"{verb}: {type(error).__name__}: {error}"}


async def _changes(world: World, request: Request) -> dict[str, int]:
    """Wait until something has changed since `after`, at most `timeout` seconds."""
    asked = parse_qs(request.query)
    after, timeout = int(asked["after"][0]), float(asked["timeout"][0])
    with suppress(TimeoutError):
        await world.until(lambda: world.changes > after, timeout)
    return {"changes": world.changes}
