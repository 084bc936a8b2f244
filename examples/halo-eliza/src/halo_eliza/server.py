"""The servers that are asked, and what goes wrong on the way to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import DecodeError
from msgspec.json import decode

from halo_kernel import Egress, HaloError, ModelError, Secret
from halo_lib_egress import Resolver, middleware

from .wire import Fault, Line, kind_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

CREDENTIAL = "eliza.api_key"
PROBE_SECONDS = 1.0
LONGEST = 4 * 1024 * 1024
"""Bytes of a line."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server; `own` is the operator's, which alone gets the key and may be anywhere."""

    url: str
    own: bool
    key: Secret | None = None

    def path(self, name: str) -> str:
        """Return the address of one of its resources."""
        return f"{self.url.rstrip('/')}/{name}"

    @property
    def headers(self) -> dict[str, str]:
        """What goes with a request."""
        return {"Authorization": f"Bearer {self.key.reveal()}"} if self.key else {}


class Servers:
    """Connections: to the operator's server, and by way of the egress to those that agents name."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._sessions: dict[bool, ClientSession] = {}

    async def answers(self, target: Target) -> bool:
        """Tell whether a server is there."""
        session = await self._session(target)
        try:
            with _failures(target):
                async with (
                    asyncio.timeout(PROBE_SECONDS),
                    session.get(target.path("health"), allow_redirects=False) as response,
                ):
                    return response.status == 200
        except ModelError:
            return False

    async def talk(self, target: Target, body: object, *, seconds: float) -> AsyncGenerator[Line, None]:
        """Post a conversation and yield the lines of the answer, which begins in time. Raises `ModelError`."""
        session = await self._session(target)
        asked = session.post(target.path("talk"), json=body, headers=target.headers, allow_redirects=False)
        with _failures(target):
            async with asyncio.timeout(seconds) as patience, asked as response:
                if response.status != 200:
                    raise await _refusal(response, target)
                patience.reschedule(None)  # the kernel watches an answer that has begun
                async for line in response.content:
                    if line.strip():
                        yield decode(line, type=Line)

    async def close(self) -> None:
        """Give all connections back."""
        while self._sessions:
            await self._sessions.popitem()[1].close()

    async def _session(self, target: Target) -> ClientSession:
        await asyncio.to_thread(import_module, "aiohttp")  # for half a second, the first time
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        if target.own not in self._sessions:
            self._sessions[target.own] = ClientSession(
                connector=TCPConnector(resolver=None if target.own else Resolver(self._egress)),
                middlewares=() if target.own else (middleware(self._egress),),
                timeout=ClientTimeout(total=None),
                read_bufsize=LONGEST // 2,
            )
        return self._sessions[target.own]


@contextmanager
def _failures(target: Target) -> Generator[None]:
    """Raise what goes wrong as `ModelError`."""
    from aiohttp import ClientError

    try:
        yield
    except ModelError:
        raise
    except HaloError as error:  # the egress
        raise ModelError(f"{target.url} may not be reached: {error}", advice=error.advice, kind="refused") from error
    except TimeoutError as error:
        raise ModelError(f"Eliza at {target.url} did not answer in time.", kind="network") from error
    except (ClientError, OSError) as error:
        raise ModelError(f"Eliza at {target.url} cannot be reached, or went away: {error}", kind="network") from error
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{target.url} answered with what is not Eliza's wire.", kind="server") from error


async def _refusal(response: ClientResponse, target: Target) -> ModelError:
    """Return what an answer that is none means; the kernel masks a key that is echoed in it."""
    try:
        said = decode(await response.content.read(4096), type=Fault).error[:300]
    except (DecodeError, ValueError):
        said = ""
    wait = response.headers.get("Retry-After", "")
    return ModelError(
        f"Eliza answered {response.status}: {said or response.reason}",
        kind=kind_of(response.status),
        retry_after=float(wait) if wait.isdecimal() else None,
        credential=CREDENTIAL if target.key else "",
    )
