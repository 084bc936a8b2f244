"""A client of the Bot API for one bot: calls, files, and what a failure says about what was done.

Source of wire facts: https://core.telegram.org/bots/api
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
CONNECT_SECONDS = 10.0
CALL_SECONDS = 45.0  # below the minute in which the kernel ends an attempt
FILE_SECONDS = 55.0


class BotError(Exception):
    """A call that failed; its text is for people and never has the token."""


@dataclass(eq=False)
class Refused(BotError):
    """The platform has said no: nothing was done.

    `retry_after` in seconds, 0 for none; `moved_to` is the new number of a chat that became another.
    """

    method: str
    code: int
    description: str
    retry_after: int = 0
    moved_to: int = 0

    def __str__(self) -> str:
        return f"Telegram refused {self.method}: {self.code} {self.description}"


class Unreached(BotError):
    """The platform was not reached: nothing was sent."""


class Unclear(BotError):
    """The call was sent and its answer is lost: it may have been done."""


class _Parameters(msgspec.Struct):
    retry_after: int = 0
    migrate_to_chat_id: int = 0


class _Envelope(msgspec.Struct):
    ok: bool
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: _Parameters = msgspec.field(default_factory=_Parameters)


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file on its way out, in the field `field`."""

    field: str
    name: str
    data: bytes


class Bot:
    """One bot, by its token; connections are opened with the first call, and `close` gives them back."""

    def __init__(self, base_url: str, token: str) -> None:
        self._base, self._token = base_url.rstrip("/"), token
        self._session: aiohttp.ClientSession | None = None

    def is_of(self, base_url: str, token: str) -> bool:
        """Tell whether it is the bot of a token at an address."""
        return (self._base, self._token) == (base_url.rstrip("/"), token)

    async def call(
        self, method: str, wanted: type[T], arguments: Mapping[str, object] = {}, *, seconds: float = CALL_SECONDS
    ) -> T:
        """Call a method and return its result as `wanted`; arguments that are None are left out.

        Raises `Refused`, `Unreached`, `Unclear`.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        body, headers = msgspec.json.encode(given), {"content-type": "application/json"}
        return _result(method, *await self._post(method, body, headers, seconds), wanted)

    async def upload(self, method: str, upload: Upload, wanted: type[T], arguments: Mapping[str, object]) -> T:
        """Call a method with a file. Raises as `call`."""
        import aiohttp

        form = aiohttp.FormData(quote_fields=False)
        for name, value in arguments.items():
            if value is not None:
                form.add_field(name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
        form.add_field(upload.field, upload.data, filename=upload.name)
        return _result(method, *await self._post(method, form, {}, FILE_SECONDS), wanted)

    async def download(self, path: str, *, limit: int) -> bytes:
        """Return a file of a path that `getFile` gave. Raises `BotError`, also when it is over `limit` bytes."""
        session, found = await self._opened(), bytearray()
        with _Failures("a file"):
            async with session.get(
                f"{self._base}/file/bot{self._token}/{path}", timeout=_timeout(FILE_SECONDS), allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise Refused("a file", response.status, response.reason or "")
                async for piece in response.content.iter_chunked(65536):
                    found += piece
                    if len(found) > limit:
                        raise Refused("a file", 413, f"it is over {limit} bytes")
        return bytes(found)

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(self, method: str, body: Any, headers: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        session = await self._opened()
        with _Failures(method):
            async with session.post(
                f"{self._base}/bot{self._token}/{method}",
                data=body,
                headers=headers,
                timeout=_timeout(seconds),
                allow_redirects=False,
            ) as response:
                return response.status, await response.read()

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # The import takes 150 ms: not on the loop that other sessions run on.
            await asyncio.to_thread(import_module, "aiohttp")
            import aiohttp

            if self._session is None or self._session.closed:
                # Proxies from the environment are for the world outside.
                outside = not self._base.startswith(("http://127.", "http://localhost", "http://[::1]"))
                self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=outside)
        return self._session


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    import aiohttp

    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


class _Failures:
    """Turns what the client raises into a `BotError`; never chained, for aiohttp's errors hold the address."""

    def __init__(self, method: str) -> None:
        self._method = method

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import aiohttp

        match error:
            case (
                aiohttp.ClientConnectorError()
                | aiohttp.ConnectionTimeoutError()
                | aiohttp.ClientHttpProxyError()
                | aiohttp.InvalidURL()
            ):
                why = getattr(error, "strerror", None) or type(error).__name__
                raise Unreached(f"Telegram was not reached for {self._method}: {why}") from None
            case TimeoutError():
                raise Unclear(f"Telegram did not answer {self._method} in time") from None
            case aiohttp.ClientError() | OSError():
                raise Unclear(f"the connection broke in {self._method}: {type(error).__name__}") from None
            case _:
                return


def _result(method: str, status: int, body: bytes, wanted: type[T]) -> T:
    try:
        said = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if 300 <= status < 500:  # a proxy's own page
            raise Refused(method, status, "without a reason") from None
        raise Unclear(f"Telegram answered {method} with {status} and no JSON") from None
    if said.ok:
        try:
            return msgspec.json.decode(said.result, type=wanted)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unclear(f"Telegram answered {method} with something else than {wanted!r}") from None
    code, more = said.error_code or status, said.parameters
    if code >= 500:
        raise Unclear(f"Telegram answered {method} with {code} {said.description}")
    raise Refused(method, code, said.description, more.retry_after, more.migrate_to_chat_id)
