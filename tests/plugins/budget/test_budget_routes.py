"""The routes under `/api/budgets`: setting, raising, removing, and one clear error for what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from halo_kernel import BadFile, BadInput, HaloError, Incoming
from halo_kernel.testing import Workbench

from .conftest import budget, client_of, question_of, settings

PATH = "/api/budgets"


async def test_a_budget_is_set_changed_and_removed(halo: Workbench) -> None:
    """What is set counts at once and is in the settings file; what is removed is gone there."""
    kernel = await halo.start()
    async with client_of(kernel) as client:
        assert (await client.get(PATH)).json()["budgets"] == []
        made = await client.put(f"{PATH}/team", json={"tokens": 500, "agent": "default", "each": "user"})
        assert (made.status_code, made.json()["about"]) == (200, "agent default, each user")
        changed = (await client.put(f"{PATH}/team", json={"money": 2.5, "currency": "EUR"})).json()
        assert (changed["limit"], changed["unit"]) == (2.5, "EUR")
        file = halo.home / "secrets" / "settings.yaml"
        assert "money: 2.5" in file.read_text()
        assert "tokens" not in file.read_text()
        assert (await client.delete(f"{PATH}/team")).json()["budgets"] == []
        assert "team" not in file.read_text()


async def test_a_raise_is_for_today_and_is_told_with_who_did_it(halo: Workbench) -> None:
    """Amounts add up on the account they are for; others of the same budget keep theirs."""
    kernel = await halo.start(env=settings(budgets={"each": {"tokens": 100, "each": "user"}}))
    async with client_of(kernel) as client:
        for amount in (10, 15):
            await client.post(f"{PATH}/each/raise", json={"amount": amount, "of": "ada"})
        found = (await client.get(f"{PATH}/each")).json()
    (account,) = found["accounts"]
    assert (account["of"], account["more"], account["left"]) == ("ada", 25, 125)
    assert [(act["who"], act["of"], act["amount"]) for act in found["acts"]] == [
        ("operator", "ada", 10),
        ("operator", "ada", 15),
    ]


WRONG: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "/New", {"tokens": 1}, 400, "name"),
    ("PUT", "/new", {}, 400, ""),
    ("PUT", "/new", {"tokens": 1, "money": 1}, 400, ""),
    ("PUT", "/new", {"tokens": -1}, 400, "tokens"),
    ("PUT", "/new", {"tokens": 1, "colour": "red"}, 400, "colour"),
    ("PUT", "/new", {"money": 1, "currency": "dollars"}, 400, "currency"),
    ("PUT", "/new", {"tokens": 1, "each": "cat"}, 400, "each"),
    ("DELETE", "/new", {}, 404, ""),
    ("POST", "/new/raise", {"amount": 1}, 404, ""),
    ("POST", "/all/raise", {"amount": 0}, 400, "amount"),
    ("POST", "/all/raise", {"amount": 1.5}, 400, "amount"),
    ("POST", "/all/raise", {"amount": 1, "of": "ada"}, 400, "of"),
    ("POST", "/each/raise", {"amount": 1}, 400, "of"),
    ("GET", "/new", {}, 404, ""),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "field"), WRONG)
async def test_what_is_wrong_is_named_and_changes_nothing(
    halo: Workbench, method: str, path: str, body: dict[str, Any], status: int, field: str
) -> None:
    """One error that names the field; the settings file and the books stay as they were."""
    kernel = await halo.start()
    async with client_of(kernel) as client:
        await client.put(f"{PATH}/all", json={"tokens": 100})
        await client.put(f"{PATH}/each", json={"tokens": 100, "each": "user"})
        before = ((await client.get(PATH)).json(), (halo.home / "secrets" / "settings.yaml").read_text())
        done = await client.request(method, PATH + path, json=body)
        assert done.status_code == status, done.text
        assert field in done.json().get("field", ""), done.text
        assert ((await client.get(PATH)).json(), (halo.home / "secrets" / "settings.yaml").read_text()) == before


async def test_budgets_of_the_environment_are_changed_there(halo: Workbench) -> None:
    """What a variable says goes before the file, so it is not written there for nothing."""
    kernel = await halo.start(env=settings(budgets={"all": {"tokens": 100}}))
    async with client_of(kernel) as client:
        done = await client.put(f"{PATH}/all", json={"tokens": 200})
    assert done.status_code == 400
    assert "HALO_BUDGET_BUDGETS" in done.json()["error"]
    assert (await budget(halo))["limit"] == 100


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budgets": {"A b": {"tokens": 1}}}, "A b"),
        ({"budgets": {"all": {"tokens": 1, "money": 2}}}, "either `tokens` or `money`"),
        ({"budgets": {"all": {"each": "user"}}}, "either `tokens` or `money`"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"step_percent": 1001}, "step_percent"),
        ({"prices": {"a/b": {"currency": "USD", "date": "2026-11-01", "input": -1, "output": 1}}}, ">= 0"),
        ({"prices": {"a/b": {"currency": "USD", "input": 1, "output": 1}}}, "date"),
    ],
)
async def test_settings_that_break_a_rule_are_refused_with_the_rule(
    halo: Workbench, given: dict[str, object], said: str
) -> None:
    """A server with such settings does not start, and says which setting and why."""
    with pytest.raises((BadInput, BadFile)) as refused:
        await halo.start(env=settings(**given))
    error: HaloError = refused.value
    assert said.casefold() in error.message.casefold()


@pytest.mark.parametrize("larger", [True, False])
async def test_a_budget_that_is_changed_lets_those_go_on_who_have_room_then(halo: Workbench, larger: bool) -> None:
    """Who waits for a budget that is larger now, or gone, waits no longer; one that is as small as before waits on."""
    kernel = await halo.start()
    async with client_of(kernel) as client:
        await client.put(f"{PATH}/all", json={"tokens": 0})
        session = await halo.session()
        prompt = session.prompt(Incoming(text="hello"))
        await question_of(session, halo)
        await client.put(f"{PATH}/all", json={"tokens": 0, "agent": "default"})
        assert (await question_of(session, halo)).state == "pending"
        await (client.put(f"{PATH}/all", json={"tokens": 500}) if larger else client.delete(f"{PATH}/all"))
        assert (await asyncio.wait_for(prompt.result, 20)).text == "echo: hello"
        assert [each["waiting"] for each in (await client.get(PATH)).json()["budgets"]] == ([[]] if larger else [])
