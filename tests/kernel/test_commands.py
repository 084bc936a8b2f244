"""Commands: what a person asks of the server itself is done once, answered where it was asked, and seen by no model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    OPERATOR,
    Access,
    BadInput,
    Command,
    CommandFinished,
    CommandResult,
    CommandSpec,
    CommandVerb,
    Incoming,
    Principal,
    Session,
    hook,
)
from halo_kernel.sessions.commands import is_command
from halo_kernel.testing import Hang, Postbox, ScriptedModel, a_session, journal, running_kernel, until


class Bird:
    """A command with verbs, and a plugin that has it."""

    spec = CommandSpec(
        name="bird",
        summary="Birds.",
        verbs={
            "see": CommandVerb(summary="See one.", aliases=("s",), arguments="<name>"),
            "ring": CommandVerb(summary="Ring one.", access="full"),
            "lose": CommandVerb(summary="Fail."),
            "crash": CommandVerb(summary="Fail badly."),
            "follow": CommandVerb(summary="Go on elsewhere."),
            "sleep": CommandVerb(summary="Archive this session."),
        },
    )

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []
        self.next = ""

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        self.ran.append((verb, arguments))
        match verb:
            case "crash":
                raise RuntimeError("bang")
            case "lose":
                raise BadInput("the bird is gone", field="bird", advice="look again")
            case "follow":
                return CommandResult(text="on", session=self.next)
            case "sleep":
                await session.archive()
        return CommandResult(text=f"{verb or 'nothing'}: {arguments}")

    @hook
    async def resolve_command(self, name: str, session: Session) -> Command | None:
        return self if name in ("bird", "b") else None

    @hook
    async def list_commands(self, session: Session) -> Sequence[CommandSpec]:
        return [self.spec]


async def ask(session: Session, text: str, **options: object) -> tuple[str, str]:
    result = await session.prompt(Incoming(text=text, **options)).result  # type: ignore[arg-type]
    assert result.turn == ""
    return result.outcome, result.text


async def test_a_command_is_done_and_answered(tmp_path: Path) -> None:
    """A command starts no turn; the journal has it with its answer, people see both, and the model never does."""
    bird, model = Bird(), ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"birds": bird}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert await ask(session, " /bird see  a heron\nand more ") == ("succeeded", "see: a heron\nand more")
        assert model.requests == []
        (body,) = [e.body for e in await journal(session) if isinstance(e.body, CommandFinished)]
        assert (body.said, body.ok, body.sender) == (" /bird see  a heron\nand more ", True, "operator")
        view, _ = await kernel.host.sessions.view(session.info.id, workspace=session.info.workspace, principal=OPERATOR)
        assert [(item.kind, item.text) for item in view.items.values()] == [
            ("user", body.said),
            ("notice", body.text),
        ]
        await session.prompt(Incoming(text="hello")).result
        assert "heron" not in str(model.requests[0].messages)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/bird", ("succeeded", "nothing: ")),
        ("/b s robin", ("succeeded", "see: robin")),
        ("/bird fly", ("failed", "/bird does not fly. It knows see, ring, lose, crash, follow, sleep.")),
        ("/bird lose", ("failed", "the bird is gone. look again")),
        ("/bird crash", ("failed", "/bird failed: RuntimeError('bang')")),
        ("/bird see\nrobin", ("succeeded", "see: robin")),
        ("/brid see", ("failed", "There is no command /brid. /help lists those that there are.")),
    ],
)
async def test_what_a_command_answers(tmp_path: Path, text: str, answer: tuple[str, str]) -> None:
    """Verbs have other words; what is unknown and what fails is a clear answer, and no error of the sender's."""
    async with running_kernel(tmp_path / "home", extra={"birds": Bird()}) as kernel:
        assert await ask(await a_session(kernel, tmp_path / "w"), text) == answer


@pytest.mark.parametrize(("access", "allowed"), [("full", True), ("workspace", False), ("readonly", False)])
async def test_a_level_that_is_too_low_is_refused(tmp_path: Path, access: Access, allowed: bool) -> None:
    """Edges 14: whoever has less than a verb asks for is told so, and the command does not run."""
    bird = Bird()
    async with running_kernel(tmp_path / "home", extra={"birds": bird}) as kernel:
        outcome, text = await ask(await a_session(kernel, tmp_path / "w"), "/bird ring", access=access)
        assert (outcome, bool(bird.ran)) == (("succeeded", True) if allowed else ("failed", False))
        assert allowed or text == "/bird ring needs the level full."


async def test_a_repeat_is_not_run_again(tmp_path: Path) -> None:
    """The same key gives the same receipt and the first answer; at once or later, the command runs once."""
    bird = Bird()
    async with running_kernel(tmp_path / "home", extra={"birds": bird}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = await session.submit(Incoming(text="/bird see x", key="k"))
        assert await session.submit(Incoming(text="/bird see x", key="k")) == first
        assert await ask(session, "/bird see x", key="k") == ("succeeded", "see: x") and len(bird.ran) == 1


async def test_a_command_does_not_wait_for_a_turn(tmp_path: Path) -> None:
    """A command is carried out while a turn runs, which goes on; a full queue does not keep it out."""
    bird, model = Bird(), ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"birds": bird}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        running = session.prompt(Incoming(text="go"))
        await until(lambda: model.active)
        assert await ask(session, "/bird see x") == ("succeeded", "see: x")
        assert model.active == 1 and not running.result.done()  # type: ignore[attr-defined]
        session.interrupt()
        assert (await running.result).outcome == "cancelled"


async def test_the_answer_goes_where_it_was_asked(tmp_path: Path) -> None:
    """A command that came through a route is answered there, and owes no other route anything."""
    post, model = Postbox(), ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, extra={"birds": Bird(), "post": post}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="go", route="post:me:turn"))
        await until(lambda: model.active)
        await session.submit(Incoming(text="/bird see x", route="post:me:here"))
        await until(lambda: post.arrived)
        await asyncio.sleep(0.05)
        assert [(part.target, part.text) for part in post.arrived] == [("post:me:here", "see: x")]


async def test_a_stopped_or_archived_session_still_takes_commands(tmp_path: Path) -> None:
    """Commands leave a stopped session stopped, and work in an archived one, such as the one that they archived."""
    async with running_kernel(tmp_path / "home", extra={"birds": Bird()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.stop()
        assert (await ask(session, "/bird see x"))[0] == "succeeded" and session.info.stopped
        assert (await ask(session, "/bird sleep"))[0] == "succeeded" and session.info.archived
        assert (await ask(session, "/bird see x"))[0] == "succeeded"


async def test_only_people_have_commands(tmp_path: Path) -> None:
    """What an agent or a program says is said to the agent, whatever it begins with; so is a path."""
    async with running_kernel(tmp_path / "home", extra={"birds": (bird := Bird())}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        for kind in ("agent", "unattended", "remote"):
            who = Principal(name="x", kind=kind)  # type: ignore[arg-type]
            result = await session.prompt(Incoming(text="/bird see x", principal=who)).result
            assert result.turn and not bird.ran
        for text in ("/etc/hosts: what is it?", "/ bird", "//bird", "/Bird see", "look at /bird see"):
            assert (await session.prompt(Incoming(text=text)).result).turn and not bird.ran


async def test_a_conversation_goes_on_elsewhere(tmp_path: Path) -> None:
    """A command may name the session that follows: the event says so, and a chat's next message goes there."""
    bird = Bird()
    async with running_kernel(tmp_path / "home", extra={"birds": bird}) as kernel:
        session, other = await a_session(kernel, tmp_path / "w"), await a_session(kernel, tmp_path / "w")
        bird.next = other.info.id
        database = kernel.workspaces.seats[session.info.workspace].database
        name = session.info.id
        await database.write(lambda tx: tx.one("INSERT INTO chats(chat, session) VALUES ('c', ?)", (name,)))
        await ask(session, "/bird follow")
        (body,) = [e.body for e in await journal(session) if isinstance(e.body, CommandFinished)]
        chat = await database.read(lambda tx: tx.one("SELECT session FROM chats"))
        assert body.session == other.info.id and chat == (other.info.id,)


@given(st.text(max_size=30))
def test_any_text_is_a_command_or_none(text: str) -> None:
    """A command is `/` and a name of small letters, digits, `_` and `-`, then nothing, or space and something."""
    words = text.strip().split(None, 1)
    name = words[0][1:] if words and words[0].startswith("/") else ""
    expected = bool(name) and name[0] in "abcdefghijklmnopqrstuvwxyz" and len(name) <= 32
    expected = expected and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert is_command(Incoming(text=text)) == expected
