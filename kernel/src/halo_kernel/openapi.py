"""Route records as an OpenAPI 3.1 document.

Format: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from .credentials import COOKIE
from .records import Reply, Route, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(?P<name>\w+)(?::\w+)?\}")
_OPERATOR_SECURITY: list[dict[str, list[str]]] = [{"cookie": []}, {"bearer": []}, {"token": []}]


class Failure(msgspec.Struct, kw_only=True):
    """Every error's body. `type` is the error's class; further facts of that class may follow."""

    error: str
    type: str
    field: str = ""
    advice: str = ""


def describe(routes: Sequence[tuple[str, Route]], *, version: str) -> dict[str, object]:
    """Return the document for `routes`, each with the name of the plugin that answers it."""
    schemas = _Schemas(_types(routes))
    paths: dict[str, dict[str, object]] = {}
    for plugin, route in sorted(routes, key=lambda each: (each[1].path, each[1].method)):
        path = _PARAMETER.sub(r"{\g<name>}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(plugin, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Halo", "version": version},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "bearer": {"type": "http", "scheme": "bearer"},
                "token": {"type": "apiKey", "in": "header", "name": "x-token"},
            },
        },
    }


class _Schemas:
    """The JSON Schemas of all types; one that has none is left out and described as any value."""

    def __init__(self, types: Iterable[Any]) -> None:
        self._known: dict[Any, dict[str, Any]] = {}
        described = [each for each in types if _has_schema(each)]
        schemas, self.components = msgspec.json.schema_components(described, ref_template=_REF)
        for each, schema in zip(described, schemas, strict=True):
            self._known[each] = schema

    def of(self, kind: Any) -> dict[str, Any]:
        return self._known.get(kind, {})


def _has_schema(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except (TypeError, ValueError):
        return False
    return True


def _types(routes: Sequence[tuple[str, Route]]) -> list[Any]:
    found: dict[Any, None] = {Failure: None}
    for _, route in routes:
        for kind in (route.request, route.reply):
            if kind is not None and kind not in (Stream, Reply):
                found[kind] = None
    return list(found)


def _operation(plugin: str, route: Route, schemas: _Schemas) -> dict[str, object]:
    operation: dict[str, object] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [plugin],
        "security": _security(route),
        "responses": {
            "200": _answer(route, schemas),
            "default": {"description": "What went wrong", "content": _json(schemas.of(Failure))},
        },
    }
    names = [found["name"] for found in _PARAMETER.finditer(route.path)]
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if route.request is not None:
        operation["requestBody"] = {"required": True, "content": _json(schemas.of(route.request))}
    return operation


def _answer(route: Route, schemas: _Schemas) -> dict[str, object]:
    if route.reply is Stream:
        stream = {"text/event-stream": {"schema": {"type": "string"}}}
        return {"description": "Server-sent events; `id` is the cursor to resume after", "content": stream}
    if route.reply is None or route.reply is Reply:
        return {"description": "The answer"}
    return {"description": "The answer", "content": _json(schemas.of(route.reply))}


def _security(route: Route) -> list[dict[str, list[str]]]:
    """Return what lets a caller in; a plugin's own scheme is not described here, and an empty entry means anyone."""
    known = _OPERATOR_SECURITY if route.auth == "operator" else []
    return [*known, *([{}] if route.optional else [])]


def _json(schema: dict[str, Any]) -> dict[str, object]:
    return {"application/json": {"schema": schema}}


def _operation_id(route: Route) -> str:
    path = _PARAMETER.sub(r"by_\g<name>", route.path)
    return "_".join([route.method.lower(), *re.findall(r"\w+", path)])
