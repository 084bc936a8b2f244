"""`python -m tests.platforms.telegram --port 0` prints its address and serves until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal

from .server import TelegramServer


async def serve(port: int) -> None:
    """Serve until a signal ends it."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with TelegramServer(port=port) as server:
        print(server.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.platforms.telegram", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    asyncio.run(serve(parser.parse_args().port))
