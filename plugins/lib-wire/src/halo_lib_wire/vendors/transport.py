"""HTTP to model servers: one pool of connections, every failure a `ModelError`, no key in any of them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from halo_kernel import ModelError

from .endpoint import Endpoint

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS = 10.0
_ERROR_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.2


class Transport:
    """Connections shared by all vendors; aiohttp is imported with the first one."""

    def __init__(self) -> None:
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    @asynccontextmanager
    async def post(
        self, endpoint: Endpoint, path: str, *, body: bytes, headers: Mapping[str, str], service: str
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Post a call below the base URL and yield the answer; leaving early closes its connection.

        There is no bound on the whole: who waits for the answer bounds that. Raises `ModelError` of kind `network` when
        the server cannot be reached or goes away, also from within the block, and `refused` for a TLS failure.
        """
        session = await self._session(endpoint)
        sent = {"content-type": "application/json", "accept": "text/event-stream", **headers}
        with _failures(service, endpoint):
            # A redirect would turn the POST into a GET, or take the key elsewhere.
            async with session.post(
                endpoint.path(path), data=io.BytesIO(body), headers=sent, allow_redirects=False
            ) as response:
                yield response

    async def get(
        self, endpoint: Endpoint, path: str, *, headers: Mapping[str, str], seconds: float
    ) -> tuple[int, bytes]:
        """Return status and body of a short answer. Raises `ModelError` of kind `network`, also after `seconds`."""
        session = await self._session(endpoint)
        with _failures("the server", endpoint):
            async with (
                asyncio.timeout(seconds),
                session.get(endpoint.path(path), headers=headers, allow_redirects=False) as response,
            ):
                return response.status, await response.content.read(_ERROR_BYTES * 16)

    async def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _session(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        direct = endpoint.is_loopback
        session = self._sessions.get(direct)
        if session is not None and not session.closed:
            return session
        # The import takes 150 ms: not on the loop that other sessions run on.
        await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp

        if direct not in self._sessions or self._sessions[direct].closed:
            self._sessions[direct] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                # Proxies from the environment are for the world outside.
                trust_env=not direct,
            )
        return self._sessions[direct]


async def read_error(response: aiohttp.ClientResponse) -> bytes:
    """Return the beginning of a refusal's body."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) >= _ERROR_BYTES:
            break
    return bytes(body)


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read what follows the end of an answer, which is nothing, so that the connection can be used again."""
    if response.content.at_eof():
        return
    reading = asyncio.ensure_future(response.content.readany())
    await asyncio.wait({reading}, timeout=_DRAIN_SECONDS)
    if reading.done() and not reading.cancelled():
        reading.exception()
    reading.cancel()


@contextmanager
def _failures(service: str, endpoint: Endpoint) -> Generator[None]:
    """Turn what the client raises into `ModelError`; never chained, for aiohttp's errors hold the request's headers."""
    import aiohttp

    where = f"{service} at {endpoint.shown}"
    try:
        yield
    except aiohttp.ClientSSLError as error:
        why = getattr(error, "certificate_error", None) or error.strerror or "TLS failed"
        raise ModelError(f"{where}: {why}", kind="refused", advice="Check the base URL and its certificate.") from None
    except aiohttp.InvalidURL:
        raise ModelError(f"{where}: the URL is not valid", kind="refused", advice="Check the base URL.") from None
    except TimeoutError:
        raise ModelError(f"{where} did not answer in time", kind="network") from None
    except aiohttp.ClientConnectorDNSError:
        advice = "Check the base URL and the network."
        raise ModelError(f"{where}: the host name is not known", kind="network", advice=advice) from None
    except aiohttp.ClientConnectorError as error:
        advice = "Check that it runs." if endpoint.is_loopback else "Check the network."
        raise ModelError(f"{where} cannot be reached: {error.strerror}", kind="network", advice=advice) from None
    except (aiohttp.ClientError, ConnectionError, OSError) as error:
        raise ModelError(f"{where} broke off in the middle", kind="network", advice="Try again.") from error
