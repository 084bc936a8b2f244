"""The scripted model as a process: every answer has the same words; the question says how fast they come.

A question may hold `first=SECONDS` (before the first word) and `delay=SECONDS` (before each other one).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal

from halo_kernel.testing.openai_server import Received, Script, ScriptedOpenAI

WORD = "quark "
PIECES = 20
_PACE = re.compile(r"\b(first|delay)=([0-9.]+)")


def answer(request: Received) -> Script:
    """Return twenty words at the pace that the question asks for."""
    pace = {name: float(value) for name, value in _PACE.findall(request.question)}
    return Script(text=WORD * PIECES, pieces=PIECES, first_delay=pace.get("first", 0.0), delay=pace.get("delay", 0.0))


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int, required=True)
    ready_fd = parser.parse_args().ready_fd
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with ScriptedOpenAI(responder=answer) as server:
        os.write(ready_fd, f"{server.url}\n".encode())
        os.close(ready_fd)
        while not stopping.is_set():
            server.requests.clear()  # nobody looks at them, and they would grow for ever
            await asyncio.wait({asyncio.ensure_future(stopping.wait())}, timeout=1.0)


if __name__ == "__main__":
    asyncio.run(main())
