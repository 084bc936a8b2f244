"""Route records as an OpenAPI 3.1 document.

Format: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import msgspec

from halo_kernel import COOKIE, Exchange, Reply, Route, Stream, __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from halo_kernel import Host

    _Schemas = Mapping[type, dict[str, Any]]

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(?P<name>\w+)(?::\w+)?\}")
_OPERATOR: Mapping[str, object] = {
    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    "bearer": {"type": "http", "scheme": "bearer"},
    "token": {"type": "apiKey", "in": "header", "name": "x-token"},
}


class Failure(msgspec.Struct, kw_only=True):
    """Every error's body. `type` is the error's class; further facts of that class may follow."""

    error: str
    type: str
    field: str = ""
    advice: str = ""


def openapi_routes(host: Host) -> Sequence[Route]:
    """Return the route that describes all routes."""

    async def answer(exchange: Exchange) -> Mapping[str, object]:
        routes = host.lookup("routes", "all")
        return describe(cast("Sequence[tuple[str, Route]]", routes), version=__version__)

    return [Route(method="GET", path="/api/openapi.json", handler=answer, summary="Describe all routes")]


def describe(routes: Sequence[tuple[str, Route]], *, version: str) -> dict[str, object]:
    """Return the document for `routes`, each with the name of the plugin that answers it.

    A type that has no JSON Schema is described as any value.
    """
    wanted = [Failure, *(kind for _, route in routes for kind in (route.request, route.reply))]
    types = [kind for kind in dict.fromkeys(wanted) if kind not in (None, Stream, Reply) and _has_schema(kind)]
    found, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = dict(zip(types, found, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for plugin, route in sorted(routes, key=lambda each: (each[1].path, each[1].method)):
        path = _PARAMETER.sub(r"{\g<name>}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(plugin, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Halo", "version": version},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _OPERATOR},
    }


def _has_schema(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except (TypeError, ValueError):
        return False
    return True


def _operation(plugin: str, route: Route, schemas: _Schemas) -> dict[str, object]:
    names = [found["name"] for found in _PARAMETER.finditer(route.path)]
    body = {} if route.request is None else {"requestBody": {"required": True, **_json(route.request, schemas)}}
    # A plugin's own scheme is not described.
    security: list[dict[str, list[str]]] = [{name: []} for name in _OPERATOR] if route.auth == "operator" else []
    return {
        "operationId": "_".join(
            [route.method.lower(), *re.findall(r"\w+", _PARAMETER.sub(r"by_\g<name>", route.path))]
        ),
        "summary": route.summary,
        "tags": [plugin],
        "security": [*security, *([{}] if route.optional else [])],
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {
            "2XX": _answer(route.reply, schemas),  # a handler says which, such as 201 of what is made
            "default": {"description": "What went wrong", **_json(Failure, schemas)},
        },
        **body,
    }


def _answer(reply: type | None, schemas: _Schemas) -> dict[str, object]:
    if reply is Stream:
        stream = {"text/event-stream": {"schema": {"type": "string"}}}
        return {"description": "Server-sent events; `id` is the cursor to resume after", "content": stream}
    return {"description": "The answer", **({} if reply in (None, Reply) else _json(reply, schemas))}


def _json(kind: type, schemas: _Schemas) -> dict[str, object]:
    return {"content": {"application/json": {"schema": schemas.get(kind, {})}}}
