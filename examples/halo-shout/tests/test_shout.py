"""A server's kernel with the account that the settings name, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from client import Line
from halo_kernel import Account, ModelRequest, Owed, Text
from halo_kernel.testing import Answer, Pieces, Workbench, until
from halo_shout.lines import LIMIT
from halo_shout.outgoing import database


def repeat(request: ModelRequest) -> Answer:
    """Answer with the last line that was said."""
    said = [block.text for message in request.messages for block in message.content if isinstance(block, Text)]
    return Answer(f"You said: {said[-1].splitlines()[-1]}")


async def serve(halo: Workbench, env: Mapping[str, str]) -> None:
    """Start what a server starts, again if it runs."""
    halo.model.responder = repeat
    kernel = await halo.start(env={**env, "HALO_SHOUT_WORKSPACE": str(halo.folder)})
    await kernel.work()


@pytest.fixture
async def server(halo: Workbench, shout_env: Mapping[str, str]) -> Workbench:
    """A workbench whose kernel runs channels."""
    await serve(halo, shout_env)
    return halo


async def waiting(halo: Workbench) -> int:
    """Return how many messages wait for their clients."""
    assert halo.kernel
    rows = await database(halo.kernel.host)
    found = await rows.read(lambda tx: tx.one("SELECT count(*) FROM owed WHERE sent = 0"))
    return int(found[0]) if found else 0


async def one_waits(halo: Workbench) -> None:
    """Return when a message waits."""

    async def waits() -> bool:
        return await waiting(halo) == 1

    await until(waits, what="a message that waits")


async def test_a_message_is_answered(server: Workbench, port: int) -> None:
    """What is said is acknowledged and answered."""
    async with Line(port, "ann") as ann:
        await ann.say("good morning")
        assert (await ann.read()).startswith("OK ")
        assert await ann.message() == "You said: good morning"


@pytest.mark.parametrize("hello", ["HELLO ann wrong", "HELLO a:b a-token-of-the-tests", "PING", "HELLO ann"])
async def test_who_is_not_let_in(server: Workbench, port: int, hello: str) -> None:
    """Without a proper name and the token a client is told how, and cut off."""
    async with Line(port) as line:
        await line.say(hello)
        assert await line.read() == "ERR say HELLO <name> <token>"
        assert await line.read() == ""


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 100, LIMIT + 101, 300_000])
async def test_a_long_line_is_refused_once(server: Workbench, port: int, size: int) -> None:
    """One line gets one refusal, however long it is, and the next line is read."""
    async with Line(port, "ann") as ann:
        await ann.say("x" * size)
        assert await ann.read() == f"ERR a message has at most {LIMIT} bytes"
        assert await ann.is_quiet()


async def test_a_name_has_its_answers_on_all_its_connections(server: Workbench, port: int) -> None:
    """Each client of a name sees its messages, and no client of another."""
    async with Line(port, "ann") as ann, Line(port, "bob") as bob, Line(port, "ann") as other:
        await ann.say("from ann")
        await bob.say("from bob")
        assert await ann.message() == await other.message() == "You said: from ann"
        assert await bob.message() == "You said: from bob"


async def test_who_comes_back_gets_what_was_owed_once(server: Workbench, port: int) -> None:
    """A message for nobody waits, and is sent to the first who comes, with all its lines."""
    assert server.kernel
    workspace = (await server.session()).info.workspace
    owed = Owed(key="meanwhile:1", dispatcher="shout", target="shout:main:ann", text="while you were\naway")
    async with Line(port, "bob"):
        await server.kernel.host.outbox.owe(owed, workspace=workspace)
        await one_waits(server)
        async with Line(port, "ann") as ann:
            assert await ann.message() == "while you were"
            assert await ann.read() == "<| away"
    async with Line(port, "ann") as ann:
        assert await ann.is_quiet()


async def test_an_answer_waits_through_a_restart(server: Workbench, port: int, shout_env: Mapping[str, str]) -> None:
    """A client that went away in the middle gets its answer from the next server."""
    server.model.then(Pieces(["it ", "took ", "long"], delay=0.2))
    async with Line(port, "ann") as ann:
        await ann.say("KEY 1 one")
        assert await ann.read() == "OK 1"
    await one_waits(server)
    await serve(server, shout_env)
    async with Line(port, "ann") as ann:
        assert await ann.message() == "it took long"


async def test_a_key_is_answered_once(server: Workbench, port: int) -> None:
    """A message that is sent again under its key is acknowledged again, and not answered."""
    async with Line(port, "ann") as ann:
        await ann.say("KEY 7 hello")
        await ann.say("KEY 7 hello")
        said = sorted([await ann.read() for _ in range(3)])
        assert said == ["<- You said: hello", "OK 7", "OK 7"]
        assert await ann.is_quiet()


async def test_the_account_is_made_once(server: Workbench, port: int, shout_env: Mapping[str, str]) -> None:
    """The settings name the workspace; what else an operator changed of the account stays."""
    assert server.kernel
    async with Line(port, "ann"):
        (account,) = await server.kernel.host.accounts.list("shout")
    assert account == Account(type="shout", id="main", workspace=str(server.folder))
    changed = Account(type="shout", id="main", workspace=str(server.folder), access="workspace")
    await server.kernel.host.accounts.put(changed)
    await serve(server, shout_env)
    await asyncio.sleep(0.1)
    assert server.kernel
    assert await server.kernel.host.accounts.list("shout") == [changed]
