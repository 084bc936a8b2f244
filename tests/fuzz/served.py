"""A server for clients that are not asynchronous: a kernel with every plugin, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halo_kernel import OPERATOR, Call, Incoming, Kernel, ModelRequest, Question, ToolSpec
from halo_kernel.testing import Answer, Calls, Front, Pieces, ScriptedModel, Step, listening, running_kernel


class Asker:
    """A tool that asks before it does anything."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    async def run(self, call: Call) -> str:
        """Ask, then tell what was answered."""
        if call.answer is None:
            call.ask(Question(text="May I?", options=("yes", "no")))
        return f"told {call.answer.text}"


def reply(request: ModelRequest) -> Step:
    """Ask a person now and then, else answer, at once or in pieces."""
    steps: list[Step] = [Answer("done"), Pieces(["a", "b"], 0.001), Calls([("ask", {})])]
    return steps[len(request.messages) % len(steps)]


@dataclass(frozen=True)
class Served:
    """Where the server is, the operator's headers, and what a client may find there by the names of parameters."""

    url: str
    headers: dict[str, str]
    known: dict[str, list[Any]]


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Run the server in `folder`, with a workspace, two sessions, a message to each and a question."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    found: list[Served] = []
    up = threading.Event()

    async def live() -> None:
        model = ScriptedModel(responder=reply)
        async with (
            running_kernel(folder / "home", model=model, tools=[Asker()], discover=True) as kernel,
            listening(kernel) as face,
        ):
            found.append(await _furnished(kernel, face, folder / "work"))
            up.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), name="served")
    thread.start()
    try:
        while not up.wait(0.1):
            assert thread.is_alive(), "the server did not start"
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _furnished(kernel: Kernel, face: Front, folder: Path) -> Served:
    folder.mkdir()
    workspace = (await kernel.host.workspaces.open(folder)).id
    sessions = [await kernel.host.sessions.create(workspace=workspace, principal=OPERATOR) for _ in range(2)]
    receipts = [await session.submit(Incoming(text="hello")) for session in sessions]
    wrong = (None, -1, "x", [0], {"a": 0})
    fields = [key for key in kernel.settings.at().fields if not key.startswith("server.")]  # those are our way in
    known: dict[str, list[Any]] = {
        "changes": [{key: value} for key in fields for value in wrong],
        "workspace": [workspace],
        "session": [session.info.id for session in sessions],
        "row": [str(receipt.row) for receipt in receipts],
        "cursor": [receipt.cursor for receipt in receipts],
        "question": ["1", "2"],
        "delivery": ["1"],
        "path": [str(folder), str(folder / "none"), str(folder.parent / "a.backup"), "index.html", "../x", "", "\0"],
    }
    return Served(url=face.url, headers=face.headers, known=known)
