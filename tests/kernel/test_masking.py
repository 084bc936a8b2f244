"""Known secrets never reach a journal, a model, or whoever follows: their names stand in their place."""

from __future__ import annotations

from pathlib import Path

from halo_kernel import Incoming
from halo_kernel.testing import Calls, NoteTool, Pieces, ScriptedModel, a_session, journal, running_kernel

PASSWORD = "correct horse battery staple 1"


class Leaky(NoteTool):
    """A tool whose result holds the server's password."""

    async def run(self, call: object) -> str:
        return f"it is {PASSWORD}!"


async def test_a_secret_reaches_no_journal_no_model_and_no_follower(tmp_path: Path) -> None:
    """What a person types, a tool returns or a model streams in pieces is masked before it is stored or shown."""
    text = f"The password is {PASSWORD}, as you know."
    model = ScriptedModel([Calls([("note", {})]), Pieces([text[at : at + 3] for at in range(0, len(text), 3)])])
    async with running_kernel(
        tmp_path / "home", model=model, tools=[Leaky()], env={"HALO_PASSWORD": PASSWORD}
    ) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        follower = session.events(live=True)
        result = await session.prompt(Incoming(text=f"my password is {PASSWORD}")).result
        told = ""
        async for update in follower:
            told += repr(update)
            if update.event is not None and update.event.kind == "turn.ended":
                break
        await follower.aclose()
        assert result.text == "The password is <secret server.password>, as you know."
        assert PASSWORD not in told and PASSWORD not in repr(await journal(session))
        assert PASSWORD not in repr(model.requests) and repr(model.requests).count("<secret server.password>") >= 2
    files = [path for path in (tmp_path / "w" / ".halo").iterdir() if path.is_file()]
    assert files and all(PASSWORD.encode() not in path.read_bytes() for path in files)
