"""Accounts of channels: made once their platform says yes, shown without their secrets, tested, changed, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from halo_kernel import (
    Access,
    Account,
    BadInput,
    Conflict,
    Exchange,
    HaloError,
    Host,
    NotFound,
    Readiness,
    Reply,
    Route,
)

from .channels import refuse_less, token_types
from .probes import Probes
from .workspaces import absolute

ACCOUNTS = "/api/accounts"
ACCOUNT = ACCOUNTS + "/{type}/{account}"
_PLAIN = ("workspace", "label", "enabled", "access", "language", "allowed")
Label = Annotated[str, Meta(max_length=200)]
User = Annotated[str, Meta(min_length=1, max_length=200)]


class AccountShown(Account, frozen=True, kw_only=True):
    """An account, whether it hears its platform, and the names of its secrets."""

    readiness: Readiness
    secrets: Sequence[str]


class AccountList(Struct, frozen=True):
    """Accounts, by type and id."""

    accounts: Sequence[AccountShown]


class AccountRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account. `workspace` is an absolute path; the platform may say `id`, and `label` and more of `config`."""

    type: str
    workspace: str
    id: str = ""
    label: Label = ""
    enabled: bool = True
    access: Access = "readonly"
    language: Literal["en", "zh"] = "en"
    allowed: tuple[User, ...] = ()
    config: dict[str, Any] = {}
    secrets: dict[str, str | None] = {}


class AccountChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be otherwise; null leaves it, in `config` and `secrets` it takes the value of that name away."""

    workspace: str | None = None
    label: Label | None = None
    enabled: bool | None = None
    access: Access | None = None
    language: Literal["en", "zh"] | None = None
    allowed: tuple[User, ...] | None = None
    config: dict[str, Any] = {}
    secrets: dict[str, str | None] = {}


class AccountTest(Struct, frozen=True, kw_only=True):
    """What a platform says of an account, and what to do if that is not well."""

    ok: bool
    text: str
    advice: str = ""


class AccountToken(Struct, frozen=True):
    """A token, which is shown this once."""

    token: str


@dataclass(frozen=True)
class _Accounts:
    host: Host
    probes: Probes
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def list(self, exchange: Exchange) -> AccountList:
        refuse_less(exchange)
        shown: list[AccountShown] = []
        for account in await self.host.accounts.list(exchange.query.get("type") or None):
            with suppress(NotFound):  # it was removed just now
                shown.append(await self._shown(account))
        return AccountList(shown)

    async def add(self, exchange: Exchange) -> Reply:
        refuse_less(exchange)
        wanted = exchange.body
        assert isinstance(wanted, AccountRequest)
        plain = {name: getattr(wanted, name) for name in ("type", "id", *_PLAIN)}
        async with self.changing:
            account, secrets = await self.probes.settle(_account(plain), {}, wanted.config, wanted.secrets)
            if not account.id:
                raise BadInput(f"a {account.type} account needs an id: a name of your choice", field="id")
            if await self._find(account.type, account.id):
                said = f"there is a {account.type} account {account.id} already"
                raise Conflict(said, advice="change that one, or remove it")
            await self.host.accounts.put(account, secrets=secrets)
        return Reply(body=await self._shown(account), status=201)

    async def change(self, exchange: Exchange) -> AccountShown:
        refuse_less(exchange)
        wanted = exchange.body
        assert isinstance(wanted, AccountChange)
        plain = {name: value for name in _PLAIN if (value := getattr(wanted, name)) is not None}
        async with self.changing:
            account, secrets = await self._get(exchange)
            account = _account({**structs.asdict(account), **plain})
            if wanted.config or wanted.secrets:
                account, secrets = await self.probes.settle(account, secrets, wanted.config, wanted.secrets)
            await self.host.accounts.put(account, secrets=secrets)
        return await self._shown(account)

    async def test(self, exchange: Exchange) -> AccountTest:
        refuse_less(exchange)
        account, secrets = await self._get(exchange)
        state = await self.host.accounts.readiness(account.type, account.id)
        here = "it is ready" if state.ready else f"it is not ready: {state.reason}"
        if not self.probes.is_guided(account.type):
            advice = "" if state.ready else "see what its platform says of it"
            return AccountTest(ok=state.ready, text=f"its channel asks its platform nothing; {here}", advice=advice)
        try:
            found = await self.probes.run(account, secrets)
        except HaloError as error:
            return AccountTest(ok=False, text=error.message, advice=error.advice or "correct it, then test it again")
        return AccountTest(ok=True, text=f"its platform knows it, as {found.label or found.id}; {here}")

    async def issue(self, exchange: Exchange) -> Reply:
        refuse_less(exchange)
        account, _ = await self._get(exchange)
        if account.type not in token_types(self.host):
            raise BadInput(f"nothing takes the token of a {account.type} account", field="type")
        return Reply(body=AccountToken(await self.host.accounts.issue_token(account.type, account.id)), status=201)

    async def remove(self, exchange: Exchange) -> None:
        refuse_less(exchange)
        async with self.changing:
            await self.host.accounts.remove(exchange.params["type"], exchange.params["account"])

    async def _shown(self, account: Account) -> AccountShown:
        state = await self.host.accounts.readiness(account.type, account.id)
        secrets = sorted(await self.host.accounts.secrets(account.type, account.id))
        return AccountShown(**structs.asdict(account), readiness=state, secrets=secrets)

    async def _get(self, exchange: Exchange) -> tuple[Account, Mapping[str, str]]:
        """Return the account that a path names, with its secrets. Raises `NotFound`."""
        type, id = exchange.params["type"], exchange.params["account"]
        account = await self._find(type, id)
        if account is None:
            raise NotFound(f"there is no {type} account {id}")
        secrets = await self.host.accounts.secrets(type, id)
        return account, {name: secret.reveal() for name, secret in secrets.items()}

    async def _find(self, type: str, id: str) -> Account | None:
        return next((each for each in await self.host.accounts.list(type) if each.id == id), None)


def _account(values: Mapping[str, Any]) -> Account:
    return Account(**{**values, "workspace": absolute(values["workspace"], "workspace")})


def account_routes(host: Host) -> list[Route]:
    """Return the routes of accounts."""
    on = _Accounts(host, Probes(host))
    return [
        Route(
            method="GET",
            path=ACCOUNTS,
            handler=on.list,
            reply=AccountList,
            summary="List accounts of channels, with whether each hears its platform",
        ),
        Route(
            method="POST",
            path=ACCOUNTS,
            handler=on.add,
            request=AccountRequest,
            reply=AccountShown,
            summary="Make an account, once its platform has said yes",
        ),
        Route(
            method="PATCH",
            path=ACCOUNT,
            handler=on.change,
            request=AccountChange,
            reply=AccountShown,
            summary="Change an account; other secrets, or another config, once its platform has said yes",
        ),
        Route(
            method="DELETE",
            path=ACCOUNT,
            handler=on.remove,
            summary="Remove an account with its secrets and its token",
        ),
        Route(
            method="POST",
            path=ACCOUNT + "/test",
            handler=on.test,
            reply=AccountTest,
            summary="Ask the platform of an account what it says of it",
        ),
        Route(
            method="POST",
            path=ACCOUNT + "/token",
            handler=on.issue,
            reply=AccountToken,
            summary="Make a new token of an account, in place of an older one, and show it this once",
        ),
    ]
