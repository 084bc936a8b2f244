"""Serve a Slack until SIGINT or SIGTERM: `python -m tests.platforms.slack --port 0` prints its address first."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from .clock import Pace
from .server import SlackServer


def main(argv: Sequence[str] | None = None) -> int:
    """Serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.platforms.slack", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--app", default="halo", help="the name of the app that is installed")
    parser.add_argument("--ack", type=float, default=Pace.ack, help="seconds in which an app must acknowledge")
    parser.add_argument("--retries", default="0,60,300", help="seconds before each new attempt of an event")
    chosen = parser.parse_args(argv)
    pace = Pace(ack=chosen.ack, retries=tuple(float(each) for each in chosen.retries.split(",") if each))
    asyncio.run(_serve(SlackServer(app=chosen.app, port=chosen.port, pace=pace)))
    return 0


async def _serve(server: SlackServer) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with server:
        print(server.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main())
