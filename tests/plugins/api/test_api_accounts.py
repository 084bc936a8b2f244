"""Accounts of channels over HTTP: made once their platform says yes, changed, tested, removed, never with a secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

import halo_api
from halo_api import probes
from halo_kernel import (
    Account,
    AccountField,
    Arrival,
    BadInput,
    DeliveryFailed,
    Door,
    Exchange,
    Forbidden,
    Kernel,
    Principal,
    Route,
    hook,
)
from halo_kernel.testing import LineChannel, front, running_kernel, until

GOOD, OTHER, REVOKED, WRONG = (f"guild-{word}-0123456789" for word in ("good", "other", "revoked", "wrong"))
SIGN = "sign-0123456789"
BOTS = {GOOD: ("7", "Lamp bot"), OTHER: ("8", "Other bot")}


class Guild:
    """A channel whose platform knows two bots. What it raises has the token in it, as a platform's address may."""

    type, silence = "guild", None
    fields = (
        AccountField(name="token", label="Bot token", help="Ask the porter for it.", secret=True),
        AccountField(name="sign", label="Signing secret", secret=True),
        AccountField(name="base", label="Address", optional=True),
        AccountField(name="extra", label="Second secret", secret=True, optional=True),
    )

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []
        self.running: dict[str, Account] = {}
        self.fault: BaseException | None = None
        self.waits = False

    @hook
    def provide_channels(self) -> Sequence[Guild]:
        return [self]

    @hook
    def provide_routes(self) -> Sequence[Route]:
        async def greet(exchange: Exchange) -> object:
            return {"name": exchange.principal.name}

        return [Route(method="GET", path="/api/hall/me", handler=greet, summary="Say who", auth="account:hall")]

    async def run(self, account: Account, door: Door) -> None:
        self.running[account.id] = account
        try:
            await asyncio.Event().wait()
        finally:
            del self.running[account.id]

    async def probe(self, account: Account, secrets: Mapping[str, str]) -> Account:
        self.asked.append(dict(secrets))
        token = secrets["token"]
        while self.waits:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not self.waits:
                    raise
        if self.fault:
            raise self.fault
        if token not in BOTS:
            advice = f"ask for another one than {token}"
            raise BadInput(f"https://guild.example/{token}/me says 401", field="token", advice=advice)
        if secrets["sign"] != SIGN:
            raise BadInput("the signing secret is none of this bot's", field="sign")
        id, label = BOTS[token]
        return replace(account, id=id, label=label, access="full", config={**account.config, "name": label})


class Hall(LineChannel):
    """A channel that is not guided, and whose accounts are called by a token."""

    type = kind = "hall"


@pytest.fixture
def guild() -> Guild:
    return Guild()


@pytest.fixture
async def kernel(tmp_path: Path, guild: Guild) -> AsyncIterator[Kernel]:
    extra = {"api": halo_api, "guild": guild, "hall": Hall(type="hall", kind="hall"), "line": LineChannel()}
    async with running_kernel(tmp_path / "home", extra=extra) as kernel:
        (tmp_path / "work").mkdir()
        await kernel.work()
        yield kernel


@pytest.fixture
async def client(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    face = front(kernel)
    where = {"base_url": "http://localhost:9527", "headers": face.headers}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(face.app), **where) as client:
        yield client


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    return {"type": "guild", "workspace": str(tmp_path / "work"), "secrets": {"token": GOOD, "sign": SIGN}}


async def accounts(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    reply = await client.get("/api/accounts")
    assert reply.status_code == 200, reply.text
    return list(reply.json()["accounts"])


async def kept(kernel: Kernel, id: str = "7") -> dict[str, str]:
    """Return the secrets that are stored of an account."""
    return {name: each.reveal() for name, each in (await kernel.host.accounts.secrets("guild", id)).items()}


async def test_channels_say_what_their_accounts_need(client: httpx.AsyncClient) -> None:
    """Each loaded channel is listed with its fields, and with whether its accounts are called by a token."""
    channels = {each["type"]: each for each in (await client.get("/api/channels")).json()["channels"]}
    assert list(channels) == ["guild", "hall", "line"]
    first = {"name": "token", "label": "Bot token", "help": "Ask the porter for it.", "secret": True, "optional": False}
    assert channels["guild"]["fields"][0] == first
    assert channels["line"] == {"type": "line", "fields": None, "token": False}
    assert [each["token"] for each in channels.values()] == [False, True, False]


async def test_an_account_is_what_its_platform_says_it_is(
    client: httpx.AsyncClient, kernel: Kernel, guild: Guild, wanted: dict[str, Any]
) -> None:
    """The platform gives id, label and config; access is the person's; it runs at once, and no secret is shown."""
    more = {"access": "workspace", "language": "zh", "allowed": ["ann"], "config": {"base": " http://guild.example "}}
    reply = await client.post("/api/accounts", json=wanted | more)
    assert reply.status_code == 201, reply.text
    made = reply.json()
    assert (made["type"], made["id"], made["label"], made["access"]) == ("guild", "7", "Lamp bot", "workspace")
    assert made["config"] == {"base": "http://guild.example", "name": "Lamp bot"}
    assert made["secrets"] == ["sign", "token"]
    assert made["readiness"]["ready"] is True
    assert await accounts(client) == [made]
    assert (await client.get("/api/accounts?type=line")).json() == {"accounts": []}
    await until(lambda: guild.running.keys() == {"7"})
    assert await kept(kernel) == {"token": GOOD, "sign": SIGN}


async def test_a_person_s_label_goes_before_the_platform_s(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """What somebody calls an account is what it is called."""
    reply = await client.post("/api/accounts", json=wanted | {"label": "Front desk"})
    assert reply.json()["label"] == "Front desk"


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"type": "gild"}, "type", "no channel gild here (there is: guild, hall, line)"),
        ({"secrets": {"sign": SIGN}}, "token", "needs token: Bot token"),
        ({"secrets": {"token": " \n", "sign": SIGN}}, "token", "token is empty"),
        ({"secrets": {"token": None, "sign": SIGN}}, "token", "needs token"),
        (
            {"secrets": {"token": GOOD, "sign": SIGN, "tokn": GOOD}},
            "tokn",
            "no tokn (it has: token, sign, base, extra)",
        ),
        ({"config": {"extra": "x"}}, "extra", "belongs into secrets"),
        ({"secrets": {"token": GOOD, "sign": SIGN, "base": "x"}}, "base", "belongs into config"),
        ({"secrets": {"token": WRONG, "sign": SIGN}}, "token", "says 401"),
        ({"secrets": {"token": GOOD, "sign": "sign-of-another"}}, "sign", "signing secret is none of this bot's"),
        ({"secrets": {"token": GOOD, "sign": 5}}, "", "str"),
        ({"id": "9"}, "id", "belongs to the guild account 7, not to 9"),
        ({"workspace": "work"}, "workspace", "workspace must be absolute"),
        ({"access": "root"}, "", "access"),
        ({"language": "fr"}, "", "language"),
        ({"allowed": [""]}, "", "allowed"),
        ({"label": "x" * 201}, "", "label"),
        ({"tokens": 1}, "", "tokens"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_stored(
    client: httpx.AsyncClient, guild: Guild, wanted: dict[str, Any], change: dict[str, Any], field: str, words: str
) -> None:
    """A value that is missing, blank, unknown, misplaced or refused by the platform names its field."""
    reply = await client.post("/api/accounts", json=wanted | change)
    assert reply.status_code == 400 and words in reply.json()["error"], reply.text
    assert reply.json().get("field", "") == field or not field
    for secret in (GOOD, WRONG):
        assert secret not in reply.text
    assert await accounts(client) == [] and guild.running == {}


async def test_a_workspace_that_is_none_stores_nothing(
    client: httpx.AsyncClient, wanted: dict[str, Any], tmp_path: Path
) -> None:
    """A folder that is not there is refused after all."""
    reply = await client.post("/api/accounts", json=wanted | {"workspace": str(tmp_path / "nowhere")})
    assert reply.status_code == 409 and reply.json()["type"] == "WorkspaceUnusable"
    assert await accounts(client) == []


async def test_an_account_that_is_there_stays_as_it_is(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """A second one of the same id is refused, of two at once too, and changes nothing."""
    both = await asyncio.gather(*(client.post("/api/accounts", json=wanted | {"label": each}) for each in "ab"))
    assert sorted(reply.status_code for reply in both) == [201, 409]
    refused = next(reply for reply in both if reply.status_code == 409)
    assert "there is a guild account 7 already" in refused.json()["error"]
    assert [each["label"] for each in await accounts(client)] == [next(r for r in both if r != refused).json()["label"]]


async def test_a_channel_that_is_not_guided_takes_what_it_is_given(
    client: httpx.AsyncClient, kernel: Kernel, wanted: dict[str, Any]
) -> None:
    """Its account has any config and secrets, but it needs an id of one's own."""
    bare = wanted | {"type": "line", "config": {"port": 5}}
    reply = await client.post("/api/accounts", json=bare)
    assert reply.status_code == 400 and reply.json()["field"] == "id"
    reply = await client.post("/api/accounts", json=bare | {"id": "a b"})
    assert reply.status_code == 400 and reply.json()["field"] == "id"
    reply = await client.post("/api/accounts", json=bare | {"id": "a"})
    assert reply.status_code == 201
    assert (reply.json()["config"], reply.json()["secrets"]) == ({"port": 5}, ["sign", "token"])


async def test_what_there_could_be_is_tried_and_not_stored(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """A try says what the platform knows, refuses as the real thing does, and leaves nothing."""
    reply = await client.post("/api/channels/guild/probe", json={"secrets": wanted["secrets"]})
    assert (reply.status_code, reply.json()) == (200, {"id": "7", "label": "Lamp bot"})
    reply = await client.post("/api/channels/guild/probe", json={"secrets": {"token": WRONG, "sign": SIGN}})
    assert (reply.status_code, reply.json()["field"]) == (400, "token") and WRONG not in reply.text
    reply = await client.post("/api/channels/nothing/probe", json={})
    assert (reply.status_code, reply.json()["field"]) == (400, "type")
    assert await accounts(client) == []


async def test_a_change_is_partial(
    client: httpx.AsyncClient, kernel: Kernel, guild: Guild, wanted: dict[str, Any]
) -> None:
    """What is not named stays; the platform is asked only about other secrets, or another config."""
    await client.post("/api/accounts", json=wanted)
    guild.asked.clear()
    reply = await client.patch("/api/accounts/guild/7", json={"access": "full", "allowed": ["ann"]})
    assert (reply.status_code, reply.json()["access"], reply.json()["label"]) == (200, "full", "Lamp bot")
    reply = await client.patch("/api/accounts/guild/7", json={"enabled": False})
    assert (reply.json()["enabled"], reply.json()["allowed"]) == (False, ["ann"])
    assert reply.json()["readiness"]["reason"] == "it is disabled"
    assert guild.asked == [] and guild.running == {}
    assert await kept(kernel) == {"token": GOOD, "sign": SIGN}

    changes = {"enabled": True, "config": {"base": "http://b"}, "secrets": {"extra": "extra-012345"}}
    reply = await client.patch("/api/accounts/guild/7", json=changes)
    assert reply.json()["config"] == {"name": "Lamp bot", "base": "http://b"}
    assert guild.asked == [{"token": GOOD, "sign": SIGN, "extra": "extra-012345"}]
    await until(lambda: guild.running["7"].config["base"] == "http://b")
    reply = await client.patch("/api/accounts/guild/7", json={"config": {"base": None}, "secrets": {"extra": None}})
    assert (reply.json()["config"], reply.json()["secrets"]) == ({"name": "Lamp bot"}, ["sign", "token"])


async def test_a_secret_is_rotated_once_its_platform_takes_it(
    client: httpx.AsyncClient, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    """A new secret replaces that one; one that is refused, needed, or another account's leaves all as it was."""
    await client.post("/api/accounts", json=wanted)
    monkeypatch.setitem(BOTS, REVOKED, ("7", "Lamp bot"))
    reply = await client.patch("/api/accounts/guild/7", json={"secrets": {"token": REVOKED}})
    assert reply.status_code == 200 and await kept(kernel) == {"token": REVOKED, "sign": SIGN}
    before = await accounts(client)
    for secrets, field in (({"token": WRONG}, "token"), ({"token": OTHER}, "id"), ({"sign": None}, "sign")):
        body = {"secrets": secrets, "label": "changed"}
        reply = await client.patch("/api/accounts/guild/7", json=body)
        assert (reply.status_code, reply.json()["field"]) == (400, field), reply.text
    assert await accounts(client) == before and await kept(kernel) == {"token": REVOKED, "sign": SIGN}


async def test_an_account_is_tested_by_a_real_call(
    client: httpx.AsyncClient, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says what the platform knows it as; when it does not, why, and what to do."""
    await client.post("/api/accounts", json=wanted)
    reply = await client.post("/api/accounts/guild/7/test")
    said = "its platform knows it, as Lamp bot; it is ready"
    assert (reply.status_code, reply.json()) == (200, {"ok": True, "text": said, "advice": ""})
    monkeypatch.delitem(BOTS, GOOD)
    found = (await client.post("/api/accounts/guild/7/test")).json()
    assert not found["ok"] and "says 401" in found["text"] and "ask for another one" in found["advice"]
    assert GOOD not in str(found)


async def test_a_channel_that_cannot_ask_says_so(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """A test of its account is whether it is ready."""
    await client.post("/api/accounts", json=wanted | {"type": "line", "id": "a"})
    found = (await client.post("/api/accounts/line/a/test")).json()
    assert found == {"ok": True, "text": "its channel asks its platform nothing; it is ready", "advice": ""}
    await client.patch("/api/accounts/line/a", json={"enabled": False})
    found = (await client.post("/api/accounts/line/a/test")).json()
    assert (found["ok"], found["text"]) == (
        False,
        "its channel asks its platform nothing; it is not ready: it is disabled",
    )


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (DeliveryFailed(f"guild.example/{GOOD} cannot be reached"), 500, "cannot be reached"),
        (ValueError(f"broken over {GOOD}"), 500, "the channel guild failed to ask its platform: ValueError"),
        (SystemExit(3), 500, "the channel guild failed to ask its platform: RuntimeError('SystemExit(3)')"),
        (asyncio.CancelledError(), 500, "failed to ask its platform: RuntimeError('it gave up')"),
    ],
)
async def test_a_platform_or_a_channel_that_fails(
    client: httpx.AsyncClient,
    guild: Guild,
    wanted: dict[str, Any],
    fault: BaseException,
    status: int,
    words: str,
) -> None:
    """Whatever a try ends with is told without the secret, and stores nothing."""
    guild.fault = fault
    reply = await client.post("/api/accounts", json=wanted)
    assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text
    assert GOOD not in reply.text
    assert await accounts(client) == []


async def test_a_deaf_platform_is_waited_for_a_while(
    client: httpx.AsyncClient, guild: Guild, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try that does not end, not even when it is told to, keeps nobody longer than its time."""
    monkeypatch.setattr(probes, "PROBE_SECONDS", 0.1)
    guild.waits = True
    reply = await asyncio.wait_for(client.post("/api/accounts", json=wanted), 5)
    assert reply.status_code == 500 and "no answer of its platform within 0.1 s" in reply.json()["error"]
    guild.waits = False
    assert (await client.post("/api/accounts", json=wanted)).status_code == 201


async def test_a_token_is_shown_once_and_works(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """It is the account's from then on, in place of an older one; a channel that nobody calls has none."""
    await client.post("/api/accounts", json=wanted | {"type": "hall", "id": "a"})
    tokens = []
    for _ in range(2):
        reply = await client.post("/api/accounts/hall/a/token")
        assert reply.status_code == 201
        tokens.append(reply.json()["token"])
    answers = [await client.get("/api/hall/me", headers={"Authorization": f"Bearer {each}"}) for each in tokens]
    assert [reply.status_code for reply in answers] == [401, 200]
    assert answers[1].json() == {"name": "hall:a"}
    listed = (await client.get("/api/accounts")).text
    assert not any(token in listed for token in tokens)
    await client.post("/api/accounts", json=wanted)
    reply = await client.post("/api/accounts/guild/7/token")
    assert (reply.status_code, reply.json()["field"]) == (400, "type")


async def test_an_account_is_removed(client: httpx.AsyncClient, guild: Guild, wanted: dict[str, Any]) -> None:
    """It runs no more and is gone; what is not there is said to be so."""
    await client.post("/api/accounts", json=wanted)
    assert (await client.delete("/api/accounts/guild/7")).status_code == 204
    assert await accounts(client) == [] and guild.running == {}
    for method, path, body in (
        ("DELETE", "", None),
        ("PATCH", "", {}),
        ("POST", "/test", None),
        ("POST", "/token", None),
    ):
        reply = await client.request(method, f"/api/accounts/guild/7{path}", json=body)
        assert (reply.status_code, reply.json()["error"]) == (404, "there is no guild account 7")


async def test_an_account_whose_channel_is_gone_can_be_seen_and_removed(
    client: httpx.AsyncClient, kernel: Kernel, tmp_path: Path
) -> None:
    """It says why it is not ready; its secrets cannot be changed, since nobody can say whether they are right."""
    await kernel.host.accounts.put(Account(type="gone", id="a", workspace=str(tmp_path / "work")), secrets={"x": SIGN})
    (shown,) = await accounts(client)
    assert shown["readiness"]["reason"] == "no plugin brings the channel gone"
    assert (await client.post("/api/accounts/gone/a/test")).json()["ok"] is False
    reply = await client.patch("/api/accounts/gone/a", json={"secrets": {"x": "y"}})
    assert (reply.status_code, reply.json()["field"]) == (400, "type")
    assert (await client.patch("/api/accounts/gone/a", json={"label": "old"})).json()["label"] == "old"
    assert (await client.delete("/api/accounts/gone/a")).status_code == 204


async def test_no_secret_is_in_an_answer_or_a_journal(
    client: httpx.AsyncClient, kernel: Kernel, guild: Guild, wanted: dict[str, Any], tmp_path: Path
) -> None:
    """Secrets that were kept, refused or part of a failure are in no file but the one for them, and in no answer."""
    texts = [(await client.post("/api/accounts", json=wanted)).text]
    texts.append((await client.patch("/api/accounts/guild/7", json={"secrets": {"token": WRONG}})).text)
    guild.fault = ValueError(f"broken over {OTHER}")
    texts.append((await client.patch("/api/accounts/guild/7", json={"secrets": {"token": OTHER}})).text)
    door = kernel.host.accounts.door((await kernel.host.accounts.list("guild"))[0])
    assert await door.arrive(Arrival(key="1", chat="c", user="ann", text=f"my token is {GOOD}"))
    for route in ("/api/accounts", "/api/channels", "/api/doctor", "/api/server", "/api/settings"):
        texts.append((await client.get(route)).text)
    for secret in (GOOD, WRONG, OTHER, SIGN):
        assert not any(secret in text for text in texts)
        files = [path for path in tmp_path.rglob("*") if path.is_file() and "secrets" not in path.parts]
        assert files and not any(secret.encode() in path.read_bytes() for path in files)


async def test_accounts_take_full_access(kernel: Kernel) -> None:
    """What everybody comes in by is for somebody with full access, and nobody else."""
    routes = [each for _, each in kernel.routes if each.path.startswith(("/api/accounts", "/api/channels"))]
    assert len(routes) == 8
    for route in routes:
        exchange = Exchange(
            principal=Principal(name="guest", access="workspace"),
            body=None,
            params={"type": "guild", "account": "7"},
            query={},
            last_event_id=None,
            address="",
            raw=None,  # type: ignore[arg-type]
        )
        with pytest.raises(Forbidden):
            await route.handler(exchange)
