"""A scripted chat-completions server in a thread, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence

from halo_kernel.testing.openai_responders import RESPONDERS
from halo_kernel.testing.openai_server import Received, Script, ScriptedOpenAI


class ModelServer:
    """Lists the files and reads the readme, as a model would; `say` makes it say something else first."""

    def __init__(self) -> None:
        self._server = ScriptedOpenAI(responder=self._answer)
        self._scripts: deque[Script] = deque()
        self._for_ever: Script | None = None
        self._loop = asyncio.new_event_loop()
        self._up, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._live(),), daemon=True)
        self.times: list[float] = []

    def __enter__(self) -> ModelServer:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def requests(self) -> Sequence[Received]:
        """The completions that were asked for since the last `forget`."""
        return self._server.completions

    def say(self, *scripts: Script) -> None:
        """Answer the next requests with these."""
        self._scripts.extend(scripts)

    def always(self, script: Script) -> None:
        """Answer every request with this, until `forget`."""
        self._for_ever = script

    def forget(self) -> None:
        """Begin anew."""
        self._scripts.clear()
        self._for_ever = None
        self._server.requests.clear()
        self.times.clear()

    async def _live(self) -> None:
        async with self._server:
            self._up.set()
            await self._stop.wait()

    def _answer(self, request: Received) -> Script:
        self.times.append(time.monotonic())
        if self._scripts:
            return self._scripts.popleft()
        answer = self._for_ever or RESPONDERS["files"](request)
        assert isinstance(answer, Script)
        return answer
