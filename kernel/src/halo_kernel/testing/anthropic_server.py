"""A real server of the Messages API on loopback that says what a test wants, faults included.

In a test::

    async with ScriptedAnthropic([Script(status=529), Script(text="hello", thinking="hm")]) as server:
        ...  # use server.url, then look at server.requests

It refuses what the real one refuses: calls without results, empty texts, a fifth cache breakpoint, a signature that it
did not give. As a process: `python -m halo_kernel.testing.anthropic_server --port 0 --script file.json` prints its base
URL once it listens. Both answer `GET …/models`, `GET /requests` (what arrived so far) and `POST /scripts` (further
scripts).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .anthropic_script import Messages
from .responders import RESPONDERS, Received, Responder, echo
from .scripted_server import ScriptedServer, run
from .scripts import Script, ScriptedCall

__all__ = ["RESPONDERS", "Received", "Responder", "Script", "ScriptedAnthropic", "ScriptedCall", "echo", "main"]


class ScriptedAnthropic(ScriptedServer):
    """A scripted server of the Messages API."""

    def __init__(
        self,
        scripts: Iterable[Script] = (),
        *,
        responder: Responder = echo,
        models: Sequence[str] = ("scripted",),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__(Messages(), scripts, responder=responder, models=models, host=host, port=port)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    return run(ScriptedAnthropic, "halo_kernel.testing.anthropic_server", __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
