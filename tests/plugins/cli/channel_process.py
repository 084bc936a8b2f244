"""A server as a process of its own, with channels to try commands on: `channel_process.py HOME`.

The platform of `guild` knows the tokens in `HOME/bots`, a JSON object of `{token: [id, label]}`; `guild` says on which
port it listens in `HOME/port`. `hall` is called by a token. `POST /t/owe` owes to `post`, which knows only the targets
in `HOME/targets`, and to `vague`, which loses all.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

import halo_api
from halo_kernel import Account, AccountField, BadInput, DeliveryFailed, Door, Exchange, Host, Owed, Part, Route, hook
from halo_kernel.server import run
from halo_kernel.testing import LineChannel, Lost, Postbox, ScriptedModel, SimplePlugin

HOME = Path(sys.argv[1])
SIGN = "sign-0123456789"


class Guild(LineChannel):
    """A guided channel of lines. What its platform says has the token in it, as a platform's address may."""

    fields = (
        AccountField(name="token", label="Bot token", help="Ask the porter for it.", secret=True),
        AccountField(name="sign", label="Signing secret", secret=True),
        AccountField(name="base", label="Address", help="Where the guild is.", optional=True),
        AccountField(name="extra", label="Second secret", secret=True, optional=True),
    )

    async def run(self, account: Account, door: Door) -> None:
        async def tell() -> None:
            await self.ready.wait()
            (HOME / "port").write_text(str(self.port))

        async with asyncio.TaskGroup() as group:
            group.create_task(tell())
            await super().run(account, door)

    async def probe(self, account: Account, secrets: Mapping[str, str]) -> Account:
        token, base = secrets["token"], account.config.get("base", "")
        bots: dict[str, tuple[str, str]] = json.loads((HOME / "bots").read_text())
        if token not in bots:
            raise BadInput(f"https://guild.example/{token}/me says 401", field="token", advice="ask for another one")
        if secrets["sign"] != SIGN:
            raise BadInput("the signing secret is none of this bot's", field="sign")
        if base == "broken":
            raise ValueError(f"no plan for {token}")
        if base == "down":
            raise DeliveryFailed(f"guild.example/{token} cannot be reached")
        if base not in ("", "http://guild"):
            raise BadInput(f"{base} is no guild", field="base")
        id, label = bots[token]
        return replace(account, id=id, label=label, config={**account.config, "name": label})


class Post(Postbox):
    """A postbox that knows the targets of the file as it is now."""

    async def deliver(self, part: Part) -> str:
        self.targets = (HOME / "targets").read_text().splitlines()
        return await super().deliver(part)


class Debts:
    """A route that owes."""

    @hook
    def provide_routes(self, host: Host) -> Iterable[Route]:
        async def owe(exchange: Exchange) -> object:
            wanted = await exchange.raw.json()
            return await host.outbox.owe(Owed(**wanted["owed"]), workspace=wanted["workspace"])

        async def greet(exchange: Exchange) -> object:
            return {"name": exchange.principal.name}

        return [
            Route(method="POST", path="/t/owe", handler=owe, summary="Owe"),
            Route(method="GET", path="/t/me", handler=greet, summary="Say who", auth="account:hall"),
        ]


extra = {
    "test": SimplePlugin(ScriptedModel()),
    "api": halo_api,
    "guild": Guild(type="guild", kind="guild"),
    "hall": LineChannel(type="hall", kind="hall"),
    "debts": Debts(),
    "post": Post(),
    "vague": Postbox(kind="vague", guarantee="none", fates=[Lost(arrived=False)] * 9),
}
if __name__ == "__main__":
    sys.exit(run(HOME, discover=False, extra=extra, port=0, env={}))
