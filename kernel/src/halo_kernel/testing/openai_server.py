"""A real chat-completions server on loopback that says what a test wants, faults included.

In a test::

    async with ScriptedOpenAI([Script(status=429), Script(text="hello")]) as server:
        ...  # use server.url, then look at server.requests

As a process: `python -m halo_kernel.testing.openai_server --port 0 --script file.json` prints its base URL once it
listens. Both answer `GET …/models`, `GET /requests` (what arrived so far) and `POST /scripts` (further scripts).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .openai_script import ChatCompletions
from .responders import RESPONDERS, Received, Responder, echo
from .scripted_server import ScriptedServer, run
from .scripts import Script, ScriptedCall

__all__ = ["RESPONDERS", "Received", "Responder", "Script", "ScriptedCall", "ScriptedOpenAI", "echo", "main"]


class ScriptedOpenAI(ScriptedServer):
    """A scripted server of chat completions; its base URL ends in `/v1`."""

    def __init__(
        self,
        scripts: Iterable[Script] = (),
        *,
        responder: Responder = echo,
        models: Sequence[str] = ("scripted",),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__(ChatCompletions(), scripts, responder=responder, models=models, host=host, port=port)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    return run(ScriptedOpenAI, "halo_kernel.testing.openai_server", __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
