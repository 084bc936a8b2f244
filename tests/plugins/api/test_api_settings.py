"""Settings over HTTP: what is shown of them, and how they are changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

import halo_api
from halo_kernel import Kernel, Secret, Section, WorkspaceInfo, hook
from halo_kernel.testing import Front, front, running_kernel


class Vendor(Struct, frozen=True, kw_only=True):
    """A part that holds a secret."""

    url: str = ""
    key: Secret | None = None


class Acme(Struct, frozen=True, kw_only=True):
    """A plugin's section."""

    token: Annotated[Secret | None, Meta(description="The token.", extra={"env": "ACME_TOKEN"})] = None
    vendors: dict[str, Vendor] = {}
    ratio: Annotated[float, Meta(gt=0, lt=1, description="A share.")] = 0.5
    tags: tuple[str, ...] = ()
    url: Annotated[str, Meta(extra={"restart": True})] = ""


class Plugin:
    """Brings the section."""

    @hook
    def provide_settings(self) -> Iterable[Section]:
        return (Section("acme", Acme),)


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[Kernel]:
    async with running_kernel(
        tmp_path / "home",
        extra={"acme": Plugin(), "api": halo_api},
        env={"HALO_ACME_RATIO": "0.25", "KEY": "from-the-environment"},
    ) as kernel:
        yield kernel


@pytest.fixture
async def workspace(kernel: Kernel, tmp_path: Path) -> WorkspaceInfo:
    (tmp_path / "work").mkdir()
    return await kernel.workspaces.open(tmp_path / "work")


@pytest.fixture
def face(kernel: Kernel) -> Front:
    return front(kernel)


@pytest.fixture
async def client(face: Front) -> AsyncIterator[httpx.AsyncClient]:
    """The operator."""
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost:9527", headers=face.headers, timeout=60
    ) as client:
        yield client


def file(kernel: Kernel) -> Path:
    return kernel.home / "secrets" / "settings.yaml"


async def show(client: httpx.AsyncClient, workspace: str = "") -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    answer = await client.get("/api/settings", params={"workspace": workspace} if workspace else {})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body, {field["key"]: field for field in body["settings"]}


async def change(client: httpx.AsyncClient, changes: dict[str, object], **more: object) -> httpx.Response:
    return await client.patch("/api/settings", json={"changes": changes, **more})


async def test_every_setting_is_shown_with_all_about_it(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """Key, plugin, schema of its type, default, value, where that comes from, and its marks."""
    body, fields = await show(client)
    assert set(fields) == set(kernel.settings.at().fields)
    assert body["findings"] == []
    assert fields["acme.ratio"] == {
        "key": "acme.ratio",
        "plugin": "acme",
        "default": 0.5,
        "value": 0.25,
        "source": "environment HALO_ACME_RATIO",
        "secret": False,
        "restart": False,
        "global_only": False,
        "variables": ["HALO_ACME_RATIO"],
        "written": "",
        "command": "",
        "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "A share."},
    }
    assert fields["acme.tags"]["schema"] == {"type": "array", "items": {"type": "string"}}
    assert fields["logging.level"]["schema"]["enum"] == ["debug", "error", "info", "warn"]
    assert fields["server.port"]["restart"]
    assert fields["server.port"]["global_only"]


async def test_what_a_command_alone_sets_is_refused(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """A password has rules that no type tells: it is left to the command that keeps them; to unset it needs none."""
    _, fields = await show(client)
    assert fields["server.password"]["command"] == "halo password"
    refused = await change(client, {"server.password": "1", "acme.url": "x"})
    assert (refused.status_code, refused.json()["field"]) == (400, "server.password")
    assert "`halo password`" in refused.json()["error"]
    assert not file(kernel).exists()
    assert (await change(client, {"server.password": None})).status_code == 200


async def test_no_secret_is_shown(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """A long one shows two characters at each end, a short one none, wherever it lies; a placeholder stays itself."""
    file(kernel).write_text(
        "acme:\n"
        "  token: <<KEY>>\n"
        "  url: <<KEY>>\n"
        "  vendors: {a: {url: u, key: AKIAIOSFODNN7EXAMPLEST}, b: {key: elevenchars}}\n"
    )
    answer = await client.get("/api/settings")
    _, fields = await show(client)
    assert fields["acme.token"]["value"] == fields["acme.url"]["value"] == "<<KEY>>"
    assert fields["acme.vendors"]["value"] == {"a": {"url": "u", "key": "AK****ST"}, "b": {"url": "", "key": "****"}}
    assert fields["acme.token"]["schema"] == {
        "anyOf": [{"type": "string", "format": "password"}, {"type": "null"}],
        "description": "The token.",
    }
    assert fields["acme.token"]["secret"]
    for secret in ("IOSFODNN7", "elevenchars", "from-the-environment"):
        assert secret not in answer.text


async def test_findings_are_shown(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """Unknown keys and sections with their lines, variables that are not set, and a file that cannot be read."""
    file(kernel).write_text("acme:\n  tokn: x\n  url: <<NOT_SET>>\ngone: {a: 1}\n")
    body, _ = await show(client)
    assert {(each["key"], each["line"]) for each in body["findings"]} == {
        ("acme.tokn", 2),
        ("acme.url", 3),
        ("gone", 4),
    }
    file(kernel).write_text("acme: [\n")
    body, fields = await show(client)
    (finding,) = body["findings"]
    assert finding["text"].startswith(f"{file(kernel)}:1: not valid YAML")
    assert fields["acme.ratio"]["value"] == 0.25


async def test_a_change_counts_and_is_private(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """It is in the file (0600) and counts at once; the answer shows all settings as they are now."""
    seen, _ = await show(client)
    answer = await change(client, {"acme.token": "abcdefghijkl", "acme.tags": ["a"]}, revision=seen["revision"])
    assert answer.status_code == 200
    assert answer.json() == (await show(client))[0]
    assert answer.json()["revision"] != seen["revision"]
    assert kernel.settings.of(Acme).token == Secret("abcdefghijkl")
    assert file(kernel).stat().st_mode & 0o777 == 0o600
    assert kernel.settings.redactor("abcdefghijkl") == "<secret acme.token>"
    await change(client, {"acme.url": "u"})
    await change(client, {"acme.tags": None, "acme.token": None})
    assert kernel.settings.of(Acme) == Acme(ratio=0.25, url="u")


async def test_a_stale_revision_is_a_conflict(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """Who saw another state of the file gets 409, whoever changed it, and changes nothing."""
    seen, _ = await show(client)
    file(kernel).write_text("acme: {url: by hand}\n")
    answer = await change(client, {"acme.tags": ["a"]}, revision=seen["revision"])
    assert (answer.status_code, answer.json()["type"]) == (409, "Conflict")
    assert answer.json()["advice"]
    assert file(kernel).read_text() == "acme: {url: by hand}\n"


async def test_of_two_changes_at_once_one_is_a_conflict(client: httpx.AsyncClient, kernel: Kernel) -> None:
    """Two operators who saw the same state: one changes it, the other is told."""
    seen, _ = await show(client)
    changes = [change(client, {"acme.tags": [str(number)]}, revision=seen["revision"]) for number in range(4)]
    answers = await asyncio.gather(*changes)
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert kernel.settings.of(Acme).tags == (str([answer.status_code for answer in answers].index(200)),)


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"changes": {"acme.tags": ["a"], "acme.ratioo": 1}}, "acme.ratioo", "did you mean acme.ratio?"),
        ({"changes": {"acme.tags": ["a"], "server.port": 70000}}, "server.port", "Expected `int` <= 65535"),
        ({"changes": {"acme.tags": ["a"], "__proto__.x": 1}}, "__proto__.x", "there is no setting"),
        ({"changes": {"acme.vendors.x": {"key": 5}}}, "acme.vendors", "Expected quoted text"),
        ({"changes": {"acme.token": "ab****kl"}}, "acme.token", "must be the secret itself"),
        ({"changes": []}, "changes", "Expected `object`"),
        ({"revision": "x"}, "changes", "required"),
        ({"changes": {}, "scope": "x"}, "scope", "unknown"),
    ],
)
async def test_a_bad_change_names_the_field(
    client: httpx.AsyncClient, kernel: Kernel, body: object, field: str, words: str
) -> None:
    """400 with the field and the rule; nothing of the change counts."""
    answer = await client.patch("/api/settings", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert words in answer.json()["error"]
    assert not file(kernel).exists()


async def test_a_full_disk_is_said(client: httpx.AsyncClient, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be made durable is refused with 503 and why, and does not count."""

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    answer = await change(client, {"acme.tags": ["a"]})
    assert (answer.status_code, answer.json()["type"]) == (503, "StorageUnavailable")
    assert "No space left on device" in answer.json()["error"]
    assert kernel.settings.of(Acme).tags == ()


# workspaces


async def test_a_workspace_has_settings_of_its_own(
    client: httpx.AsyncClient, kernel: Kernel, workspace: WorkspaceInfo
) -> None:
    """What is changed there is shown with the source `workspace`, for it alone, and has its own revision."""
    seen, _ = await show(client, workspace.id)
    more = {"revision": seen["revision"], "workspace": workspace.id}
    assert (await change(client, {"acme.tags": ["w"]}, **more)).status_code == 200
    assert (await change(client, {"acme.tags": ["v"]}, **more)).status_code == 409
    _, fields = await show(client, workspace.id)
    assert (fields["acme.tags"]["value"], fields["acme.tags"]["source"]) == (["w"], "workspace")
    assert fields["acme.ratio"]["source"] == "environment HALO_ACME_RATIO"
    _, fields = await show(client)
    assert (fields["acme.tags"]["value"], fields["acme.tags"]["source"]) == ([], "default")
    assert (Path(workspace.path) / ".halo" / "settings.yaml").read_text() == 'acme:\n  tags: ["w"]\n'
    assert not file(kernel).exists()


@pytest.mark.parametrize(("key", "value"), [("server.port", 1), ("acme.token", "x"), ("acme.vendors", {})])
async def test_what_is_the_servers_is_no_workspaces(
    client: httpx.AsyncClient, workspace: WorkspaceInfo, key: str, value: object
) -> None:
    """Global-only keys and secrets are refused with 400 there, and a file that has them is reported."""
    answer = await change(client, {"acme.tags": ["w"], key: value}, workspace=workspace.id)
    assert (answer.status_code, answer.json()["field"]) == (400, key)
    place = Path(workspace.path) / ".halo" / "settings.yaml"
    assert not place.exists()
    section, _, name = key.partition(".")
    place.write_text(f"{section}:\n  {name}: {value}\n")
    body, _ = await show(client, workspace.id)
    assert [(each["key"], each["line"]) for each in body["findings"]] == [(key, 2)]


async def test_a_workspace_that_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    """An id that nobody knows is 404, when read and when written."""
    assert (await client.get("/api/settings?workspace=nope")).status_code == 404
    assert (await change(client, {"acme.tags": []}, workspace="nope")).status_code == 404


# who may


async def test_only_the_operator_sees_and_changes_settings(face: Front) -> None:
    """A stranger gets 401, and a page of another origin 403, whatever its cookies."""
    transport = httpx.ASGITransport(face.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9527") as stranger:
        assert (await stranger.get("/api/settings")).status_code == 401
        assert (await stranger.patch("/api/settings", json={"changes": {}})).status_code == 401
        headers = {**face.headers, "Origin": "https://evil.example"}
        assert (await stranger.patch("/api/settings", json={"changes": {}}, headers=headers)).status_code == 403


VALUES = {
    "acme.tags": st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3),
    "acme.url": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    "limits.tool_result_render_chars": st.integers(100, 10**9),
    "agent.max_steps": st.integers(1, 10**9),
}


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(sorted(VALUES))), max_size=6), st.data())
async def test_what_is_sent_is_shown(
    client: httpx.AsyncClient, workspace: WorkspaceInfo, steps: list[tuple[bool, str]], data: st.DataObject
) -> None:
    """Whatever is changed, in the home or in a workspace, is what is shown afterwards, and null is the layer below."""
    home = dict.fromkeys(VALUES)
    assert (await change(client, home)).status_code == 200
    assert (await change(client, home, workspace=workspace.id)).status_code == 200
    _, fields = await show(client)
    layers: list[dict[str, object]] = [{key: fields[key]["default"] for key in VALUES}, {}, {}]
    for is_over, key in steps:
        value = data.draw(st.none() | VALUES[key])
        more = {"workspace": workspace.id} if is_over else {}
        assert (await change(client, {key: value}, **more)).status_code == 200
        layers[1 + is_over].pop(key, None)
        if value is not None:
            layers[1 + is_over][key] = value
    for name, expected in (("", layers[0] | layers[1]), (workspace.id, layers[0] | layers[1] | layers[2])):
        _, fields = await show(client, name)
        assert {key: fields[key]["value"] for key in VALUES} == expected
