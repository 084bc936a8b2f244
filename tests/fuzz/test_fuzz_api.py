"""Requests made from what the server says of itself: each answer is one that it describes, and none is a defect."""

from __future__ import annotations

import json
import logging
import urllib.parse
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi

from .amount import SECONDS, amount
from .served import Served, served

pytestmark = pytest.mark.timeout(SECONDS)

# What ends or swaps what is tested.
DANGEROUS = {"POST /api/server/stop", "POST /api/plugins/{plugin}/reload"}
# What has no end by itself: only the beginning of the answer is looked at.
ENDLESS = {
    "GET /api/workspaces/{workspace}/sessions/{session}/stream",
    "GET /api/page/subscribe",
    "POST /api/page/chat",
}
# After these there is nothing left of the session or workspace: they get one of their own.
LAST = {
    "DELETE /api/workspaces/{workspace}/sessions/{session}",
    "POST /api/workspaces/{workspace}/sessions/{session}/archive",
}
CHECKS = [
    checks.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_schema_conformance,
    openapi.response_headers_conformance,
]
_NUMBERS = ["0", "1", "-1", "500", "501", "9" * 15, "9" * 18, "9" * 19, "9" * 40, "1e3", "٣", " 1", ""]
ODD = st.one_of(st.sampled_from(["", "\0", "..", "\ud7ff", "%00", "a" * 5000, *_NUMBERS]), st.text(max_size=8))
QUERY = ("after", "before", "cursor", "since", "limit", "format", "all", "unsettled", "q", "workspace", "session")


class Defects(logging.Handler):
    """Collects the failures that the server logs with a traceback: nothing that a client sends is worth one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[object] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what has a traceback."""
        said = record.msg if isinstance(record.msg, dict) else {}
        if record.exc_info or {"exc_info", "exception"} & said.keys():
            self.found.append(record.msg)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    defects = Defects()
    logging.getLogger("halo").addHandler(defects)
    try:
        with served(tmp_path_factory.mktemp("served")) as found:
            yield found
    finally:
        logging.getLogger("halo").removeHandler(defects)
    assert not defects.found


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=20) as found:
        yield found


@pytest.fixture(scope="module")
def stranger(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as found:
        yield found


@pytest.fixture(scope="module")
def everything(client: httpx.Client) -> list[Any]:
    schema = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
    found = [result.ok() for result in schema.get_all_operations()]
    assert {each.label for each in found} >= DANGEROUS | ENDLESS | LAST, "a route has another name now"
    return found


@pytest.fixture(scope="module")
def operations(everything: list[Any]) -> list[Any]:
    return [each for each in everything if each.label not in DANGEROUS]


@st.composite
def known(draw: st.DrawFn, values: dict[str, Any], server: Served) -> dict[str, Any]:
    """Return parameters of which most name something that is there; a path is always one that may be written to."""
    return {
        name: draw(st.sampled_from(server.known[name]))
        if name in server.known and (name == "path" or draw(st.integers(0, 9)))
        else value
        for name, value in values.items()
    }


def check_failure(status: int, body: Any) -> None:
    """An error has the same shape everywhere, whatever refused the request."""
    assert status < 500, (status, body)
    if status >= 400:
        assert body["error"] and body["type"][0].isupper(), body
        assert isinstance(body.get("field", ""), str) and isinstance(body.get("advice", ""), str), body


@amount(400)
@given(data=st.data())
def test_every_answer_is_described(
    operations: list[Any], server: Served, client: httpx.Client, data: st.DataObject
) -> None:
    """Of a request that fits its description, and of one that does not, the answer is described and no defect."""
    operation = data.draw(st.sampled_from([each for each in operations if each.label not in ENDLESS]))
    case = data.draw(operation.as_strategy(generation_mode=data.draw(st.sampled_from(list(GenerationMode)))))
    case.path_parameters = data.draw(known(case.path_parameters or {}, server))
    if isinstance(case.body, dict):
        case.body = data.draw(known(case.body, server))
    if operation.label in LAST:
        made = client.post(f"/api/workspaces/{server.known['workspace'][0]}/sessions", json={})
        case.path_parameters["session"] = made.json()["id"]
    response = case.call(base_url=server.url, headers=server.headers, timeout=20)
    case.validate_response(response, checks=CHECKS)
    if response.status_code >= 400:
        check_failure(response.status_code, response.json())


STRANGERS = st.one_of(
    st.just({}),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40).flatmap(
        lambda text: st.sampled_from(
            [
                {"Authorization": f"Bearer {text}"},
                {"Authorization": text},
                {"Cookie": f"halo={text}"},
                {"X-Forwarded-For": "127.0.0.1", "Authorization": "Basic Og=="},
            ]
        )
    ),
)


@amount(100)
@given(data=st.data(), headers=STRANGERS)
def test_no_stranger_is_let_in(
    everything: list[Any], server: Served, stranger: httpx.Client, data: st.DataObject, headers: dict[str, str]
) -> None:
    """Every route that asks for the operator refuses whoever is not, whatever else is in the request."""
    guarded = [each for each in everything if {} not in (each.definition.raw["security"] or [{}])]
    operation = data.draw(st.sampled_from(guarded))
    names = [each.name for each in operation.path_parameters]
    path = operation.path.format(**data.draw(known(dict.fromkeys(names, "x"), server)))
    answer = stranger.request(operation.method, path, headers=headers)
    check_failure(answer.status_code, answer.json())
    assert answer.status_code in (401, 429), answer.text  # 429 after too many


def ask(client: httpx.Client, method: str, path: str, **more: Any) -> tuple[int, Any]:
    """Return the status of an answer, and what it says where that is an error; of a stream only the beginning."""
    with client.stream(method, path, **more) as response:
        if response.status_code < 400:
            return response.status_code, None
        response.read()
        return response.status_code, response.json()


@amount(300)
@given(data=st.data())
def test_no_parameter_is_a_defect(
    operations: list[Any], server: Served, client: httpx.Client, data: st.DataObject
) -> None:
    """Whatever stands in the path, in the query and in the header of a resumed stream of a reading route."""
    operation = data.draw(st.sampled_from([each for each in operations if each.method == "get"]))
    names = [each.name for each in operation.path_parameters]
    values = data.draw(known({name: data.draw(ODD.filter(_is_segment)) for name in names}, server))
    query = data.draw(st.dictionaries(st.sampled_from(QUERY), ODD, max_size=4).flatmap(lambda it: known(it, server)))
    resumed = data.draw(
        st.none() | st.sampled_from([f"{name}{each.strip()}" for name in ("", "x.") for each in _NUMBERS])
    )
    path = operation.path.format(**{name: _quoted(value) for name, value in values.items()})
    headers = {} if resumed is None else {"Last-Event-ID": resumed.encode()}
    check_failure(*ask(client, "GET", path, params=query, headers=headers))


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _is_segment(text: str) -> bool:
    return bool(text) and text not in (".", "..")


BODIES = st.one_of(
    st.binary(max_size=40),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"[" * 20_000, b'{"a":' * 5_000, b"\xff\xfe", b'"\\ud800"', b"{}", b"null", b"1e999", b" "]),
)


@amount(300)
@given(data=st.data(), body=BODIES)
def test_no_body_is_a_defect(
    operations: list[Any], server: Served, client: httpx.Client, data: st.DataObject, body: bytes
) -> None:
    """Bytes that are no JSON, JSON of another shape and JSON without end are refused by every route that reads one."""
    operation = data.draw(st.sampled_from([each for each in operations if each.method in ("post", "put", "patch")]))
    names = [each.name for each in operation.path_parameters]
    path = operation.path.format(**data.draw(known(dict.fromkeys(names, "x"), server)))
    headers = {"Content-Type": data.draw(st.sampled_from(["application/json", "text/plain", "x", ""]))}
    check_failure(*ask(client, operation.method, path, content=body, headers=headers))
