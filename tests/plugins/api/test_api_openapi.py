"""All routes described as OpenAPI 3.1, from the records that answer them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import httpx
import msgspec

import halo_api
from halo_api.openapi import describe
from halo_kernel import Exchange, Reply, Route, Stream, hook
from halo_kernel.testing import front, running_kernel


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """What is wanted."""

    text: str
    count: int = 1


class Got(msgspec.Struct):
    wanted: list[Wanted]


class Opaque:
    pass


class Described:
    @hook
    def provide_routes(self) -> Iterable[Route]:
        """Provide routes of each kind."""

        async def answer(exchange: Exchange) -> None:
            return None

        return [
            Route(method="POST", path="/api/x/{a}/{b:path}", handler=answer, summary="Do", request=Wanted, reply=Got),
            Route(method="GET", path="/api/x/{a}/{b:path}", handler=answer, summary="Follow", reply=Stream),
            Route(method="GET", path="/api/opaque", handler=answer, summary="Opaque", reply=Opaque, auth="public"),
            Route(method="GET", path="/api/file", handler=answer, summary="A file", reply=Reply, optional=True),
        ]


async def test_all_routes_are_described(tmp_path: Path) -> None:
    """The document is OpenAPI 3.1, names every route, and every reference in it leads somewhere."""
    async with running_kernel(tmp_path / "home", extra={"api": halo_api, "described": Described()}) as kernel:
        face = front(kernel)
        transport = httpx.ASGITransport(face.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            document = (await client.get("/api/openapi.json", headers=face.headers)).json()
    assert document["openapi"] == "3.1.0"
    operation = document["paths"]["/api/x/{a}/{b}"]["post"]
    assert operation["tags"] == ["described"]
    assert [each["name"] for each in operation["parameters"]] == ["a", "b"]
    assert operation["security"][0] == {"cookie": []}
    schema = document["components"]["schemas"]["Wanted"]
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False
    assert "text/event-stream" in document["paths"]["/api/x/{a}/{b}"]["get"]["responses"]["2XX"]["content"]
    assert document["paths"]["/api/opaque"]["get"]["security"] == []
    assert document["paths"]["/api/file"]["get"]["security"][-1] == {}
    assert {"/api/health", "/api/server", "/api/server/stop", "/api/auth/link", "/api/models"} <= set(document["paths"])
    text = msgspec.json.encode(document).decode()
    names = set(re.findall(r"#/components/schemas/([\w.]+)", text))
    assert names <= set(document["components"]["schemas"])
    ids = re.findall(r'"operationId":"([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_the_description_of_nothing_is_whole() -> None:
    """A server without routes has a document, too."""
    document = describe([], version="1")
    assert document["paths"] == {}
    assert "Failure" in str(document["components"])


async def test_the_kernels_own_routes_are_described(tmp_path: Path) -> None:
    """The kernel's routes are under its name, with the types of what they take and give, and need credentials."""
    async with running_kernel(tmp_path / "home", extra={"api": halo_api}) as kernel:
        face = front(kernel)
        transport = httpx.ASGITransport(face.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/api/openapi.json")).status_code == 401
            document = (await client.get("/api/openapi.json", headers=face.headers)).json()
    assert document["paths"]["/api/health"]["get"]["tags"] == ["kernel"]
    methods = document["paths"]["/api/settings"]
    body = methods["patch"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/SettingsWanted"}
    assert set(document["components"]["schemas"]["SettingsField"]["properties"]) >= {"key", "schema", "value", "source"}
    assert methods["get"]["responses"]["2XX"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/SettingsShown"
    }
