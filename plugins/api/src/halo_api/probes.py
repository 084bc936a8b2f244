"""What channels say that their accounts need, and the question to a platform whether what was given is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from msgspec import structs

from halo_kernel import Account, AccountField, BadInput, GuidedChannel, HaloError, Host, PluginFailed, Secret

PROBE_SECONDS = 20.0
T = TypeVar("T")
Given = Mapping[str, T | None]


@dataclass(frozen=True)
class Probes:
    """Accounts, as their channels see them before they are stored."""

    host: Host

    def fields(self, type: str) -> Sequence[AccountField] | None:
        """Return what accounts of a channel need, None for one that does not say. Raises `BadInput` for one not there.

        A channel that is not guided takes any `config` and `secrets`.
        """
        if type not in self.host.accounts.channels:
            loaded = ", ".join(sorted(self.host.accounts.channels)) or "none"
            advice = "install or enable the plugin that brings it"
            raise BadInput(f"there is no channel {type} here (there is: {loaded})", field="type", advice=advice)
        guided = self._guided(type)
        return None if guided is None else guided.fields

    async def settle(
        self, account: Account, secrets: Mapping[str, str], config: Given[object], more: Given[str]
    ) -> tuple[Account, Mapping[str, str]]:
        """Return an account and its secrets with `config` and `more` secrets put in, as its platform knows it.

        What is null is taken out. Raises `BadInput` naming the field, and what `run` raises.
        """
        fields = self.fields(account.type)
        if fields is not None:
            _refuse_unknown(account.type, fields, config, more)
        _refuse_blank({**config, **more})
        account = structs.replace(account, config=_merged(account.config, config))
        secrets = _merged(secrets, more)
        _refuse_missing(account.type, fields or (), {*account.config, *secrets})
        return await self.run(account, secrets), secrets

    async def run(self, account: Account, secrets: Mapping[str, str]) -> Account:
        """Ask the platform, and return the account with its id, its config, and a label if it had none.

        Where the channel cannot ask, that is the account itself. Raises `BadInput` naming the field, and `PluginFailed`
        for a platform that is silent or a channel that is broken; none of them shows a secret.
        """
        guided, redactor, name = self._guided(account.type), self.host.settings.redactor, f"channel {account.type}"
        if guided is None:
            return account
        redactor.learn(
            f"{account.type}:{account.id} as tried",
            [Secret(text, f"{account.type}:{each}") for each, text in secrets.items()],
        )
        try:
            found = await _within(PROBE_SECONDS, guided.probe(account, secrets))
        except TimeoutError:
            said = f"the {name} had no answer of its platform within {PROBE_SECONDS:g} s"
            raise PluginFailed(said, plugin=account.type, hook="probe", advice="try again later") from None
        except HaloError as error:
            error.message, error.advice = redactor(error.message), redactor(error.advice)
            raise
        except Exception as error:
            self.host.log.error("an account cannot be tried", channel=account.type, exc_info=True)
            said = redactor(f"the {name} failed to ask its platform: {error!r}")
            raise PluginFailed(said, plugin=account.type, hook="probe", advice="see `halo logs`") from None
        if account.id not in ("", found.id):
            said = f"what was given belongs to the {account.type} account {found.id}, not to {account.id}"
            raise BadInput(said, field="id")
        return structs.replace(account, id=found.id, label=account.label or found.label, config=found.config)

    def is_guided(self, type: str) -> bool:
        """Tell whether the channel, which may not be there, can ask its platform."""
        return self._guided(type) is not None

    def _guided(self, type: str) -> GuidedChannel | None:
        channel = self.host.accounts.channels.get(type)
        return cast("GuidedChannel", channel) if hasattr(channel, "probe") else None


async def _within(seconds: float, work: Awaitable[T]) -> T:
    """Return what a plugin's work comes to; deaf work is left behind. Raises `TimeoutError`."""
    task = asyncio.ensure_future(_contained(work))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise TimeoutError
        if task.cancelled():
            raise RuntimeError("it gave up")
        return task.result()
    finally:
        task.cancel()


async def _contained(work: Awaitable[T]) -> T:
    """Await work; `SystemExit` and its like, which would end the event loop, are its error."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(repr(error)) from error


def _merged(kept: Mapping[str, T], given: Given[T]) -> dict[str, T]:
    """Return values with others in place of those of their names, without what is null, and without blanks around."""
    plain = {name: cast("T", value.strip()) if isinstance(value, str) else value for name, value in given.items()}
    return {name: value for name, value in {**kept, **plain}.items() if value is not None}


def _refuse_unknown(type: str, fields: Sequence[AccountField], config: Given[object], secrets: Given[str]) -> None:
    """Raise `BadInput` for a value that no field has, or that a field of the other kind has."""
    kinds = {field.name: field.secret for field in fields}
    for name, is_secret in [*((each, False) for each in config), *((each, True) for each in secrets)]:
        if name not in kinds:
            named = ", ".join(kinds) or "none"
            raise BadInput(f"a {type} account has no {name} (it has: {named})", field=name)
        if kinds[name] != is_secret:
            place = "secrets" if kinds[name] else "config"
            raise BadInput(f"{name} is {'a' if kinds[name] else 'no'} secret, and belongs into {place}", field=name)


def _refuse_blank(values: Mapping[str, object]) -> None:
    """Raise `BadInput` for a text with nothing in it."""
    for name, value in values.items():
        if isinstance(value, str) and not value.strip():
            raise BadInput(f"{name} is empty", field=name)


def _refuse_missing(type: str, fields: Sequence[AccountField], values: Collection[str]) -> None:
    """Raise `BadInput` for a value that is needed and not there."""
    for field in fields:
        if not field.optional and field.name not in values:
            raise BadInput(f"a {type} account needs {field.name}: {field.label}", field=field.name, advice=field.help)
