"""A server process for tests that dies by SIGKILL at the n-th time that it comes to a place.

Arguments: the home, the descriptor to say that it is ready on, a place of `PLACES` or '', n, the workspace, and a port
to be pushed to on, 0 to poll.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import halo_telegram
from halo_kernel import Account, Host, ModelRequest, Text, hook
from halo_kernel.server import run
from halo_kernel.testing import Answer, ScriptedModel, SimplePlugin
from halo_telegram.dispatcher import Message
from halo_telegram.intake import Intake

PLACES = ("received", "taken", "asked", "sending", "sent")


def answer(request: ModelRequest) -> Answer:
    """Answer by the number of the message that came last."""
    texts = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    number = re.findall(r"message (\d+)", " ".join(texts))[-1]
    return Answer(f"answer {number}")


def dying(place: str, count: int) -> Callable[[str], None]:
    """Return what kills this process when it is told of a place the n-th time."""
    left = [count]

    def at(here: str) -> None:
        left[0] -= here == place
        if left[0] == 0 and here == place:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def around(owner: type, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Do something before and after a method."""
    method = getattr(owner, name)

    async def stand_in(*args: Any, **more: Any) -> Any:
        before()
        result = await method(*args, **more)
        after()
        return result

    setattr(owner, name, stand_in)


class Accounts:
    """A plugin that makes the account."""

    def __init__(self, workspace: str, port: int) -> None:
        config: dict[str, object] = {"webhook_url": f"http://127.0.0.1:{port}"} if port else {}
        self._account = Account(type="telegram", id="bot", workspace=workspace, config=config)

    @hook
    async def runtime_started(self, host: Host) -> None:
        """Make it, as it was."""
        if self._account not in await host.accounts.list():
            await host.accounts.put(self._account)


def main(home: str, ready: str, place: str, count: str, workspace: str, port: str) -> int:
    """Serve until killed."""
    at = dying(place, int(count))
    around(Intake, "take", lambda: at("received"), lambda: at("taken"))
    around(Message, "send", lambda: at("sending"), lambda: at("sent"))
    model = ScriptedModel()

    def responder(request: ModelRequest) -> Answer:
        at("asked")
        return answer(request)

    model.responder = responder
    extra = {"test": SimplePlugin(model), "telegram": halo_telegram, "accounts": Accounts(workspace, int(port))}
    return run(Path(home), port=int(port), ready_fd=int(ready), quiet=True, extra=extra, discover=False)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
