"""The floor of a start: an application with nothing in it, on the same libraries as the kernel's server."""

from __future__ import annotations

import asyncio

import apsw
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from .serving import ready_parser, serve


async def hello(_: Request) -> PlainTextResponse:
    """Answer."""
    return PlainTextResponse("hello")


def main() -> None:
    """Open one database in WAL mode, then listen."""
    options = ready_parser().parse_args()
    connection = apsw.Connection(options.database)
    list(connection.execute("PRAGMA journal_mode=WAL"))
    connection.execute("CREATE TABLE IF NOT EXISTS notes(id INTEGER PRIMARY KEY, text TEXT)")
    asyncio.run(serve([Route("/", hello)], ready_fd=options.ready_fd))
    connection.close()


if __name__ == "__main__":
    main()
