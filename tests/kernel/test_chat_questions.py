"""Chats: a question is asked where the person is, answered there once by its number, and a busy agent says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo_kernel import (
    Account,
    Arrival,
    Call,
    Delivery,
    Incoming,
    Kernel,
    Principal,
    Question,
    Receipt,
    Session,
    ToolSpec,
)
from halo_kernel.questions import in_words
from halo_kernel.testing import Answer, Calls, Hang, Postbox, ScriptedModel, journal, running_kernel, until

PASSWORD = "correct horse battery staple 1"
ASK = Calls([("ask", {})])


class Asking:
    """A tool that asks before its effect and notes the answers."""

    spec = ToolSpec(name="ask", description="Ask.", parameters={"type": "object"}, effect="write")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answers: list[tuple[bool, str, str]] = []

    async def run(self, call: Call) -> str:
        if call.answer is None:
            call.ask(self.question)
        assert call.answer is not None
        self.answers.append((call.answer.approved, call.answer.text, call.answer.by))
        return "done"


class Chat:
    """One account of the channel `post`, as its users see it."""

    def __init__(self, kernel: Kernel, account: Account, post: Postbox) -> None:
        self.kernel = kernel
        self.account = account
        self.post = post
        self.sent = 0

    async def say(self, text: str, *, key: str = "", chat: str = "here", user: str = "ann") -> Receipt:
        self.sent += 1
        arrival = Arrival(key=key or f"m{self.sent}", chat=chat, user=user, text=text)
        receipt = await self.kernel.host.accounts.door(self.account).arrive(arrival)
        assert receipt is not None
        return receipt

    async def session(self, receipt: Receipt) -> Session:
        workspace = (await self.kernel.host.workspaces.list())[0].id
        owner = Principal(name=f"{self.account.type}:{self.account.id}:here:", access="full")
        return await self.kernel.host.sessions.open(receipt.session, workspace=workspace, principal=owner)

    async def deliveries(self) -> list[Delivery]:
        """Return what was owed, oldest first."""
        workspace = (await self.kernel.host.workspaces.list())[0].id
        return list(reversed(await self.kernel.host.outbox.list(workspace=workspace)))

    async def told(self, debt: str) -> list[str]:
        return [each.text for each in await self.deliveries() if each.debt == debt]


@asynccontextmanager
async def chat(
    folder: Path, model: ScriptedModel, question: Question | None = None, **account: Any
) -> AsyncGenerator[tuple[Chat, Asking]]:
    """Run a kernel with an account of the channel `post` and a tool that asks."""
    (folder / "w").mkdir(exist_ok=True)
    post, tool = Postbox(), Asking(question or Question(text="Delete it?"))
    env = {"HALO_PASSWORD": PASSWORD}
    async with running_kernel(folder / "home", model=model, tools=[tool], extra={"post": post}, env=env) as kernel:
        settings = {"access": "full", **account}
        mine = Account(type="post", id="me", workspace=str(folder / "w"), **settings)
        await kernel.host.accounts.put(mine)
        yield Chat(kernel, mine, post), tool


async def asked(chat: Chat, receipt: Receipt) -> Session:
    session = await chat.session(receipt)
    await until(lambda: session.info.state == "waiting")
    return session


async def test_a_question_is_answered_by_its_number_in_the_chat(tmp_path: Path) -> None:
    """The question is owed to the chat with its choices, 1 allows, and the turn goes on to its answer."""
    async with chat(tmp_path, ScriptedModel([ASK, Answer("deleted")])) as (here, tool):
        session = await asked(here, await here.say("delete it"))
        (question,) = await here.deliveries()
        assert (question.debt, question.target, question.session) == ("question", "post:me:here", session.info.id)
        assert question.text == "❓ Delete it?\n\n1. ✅\n2. ❌"
        await here.say(" 1 ")
        await until(lambda: session.info.state == "idle")
        assert tool.answers == [(True, "approved", "post:me:ann")]
        assert await here.told("notice") == ["✅"] and await here.told("reply") == ["deleted"]
        kinds = [event.kind for event in await journal(session)]
        assert kinds.index("question.asked") < kinds.index("question.settled") < kinds.index("command.finished")
        assert "1" not in [event.body.text for event in await journal(session) if event.kind == "input.added"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("2", (False, "")), ("3", (True, "the copy")), ("4", (True, "both")), ("/answer {0} 3", (True, "the copy"))],
)
async def test_each_number_is_a_choice(tmp_path: Path, text: str, answer: tuple[bool, str]) -> None:
    """2 refuses, the others choose in their order; a button names its question."""
    question = Question(text="Which?", options=("the copy", "both"))
    async with chat(tmp_path, ScriptedModel([ASK, Answer("ok")]), question) as (here, tool):
        receipt = await here.say("delete it")
        session = await asked(here, receipt)
        workspace = session.info.workspace
        owner = Principal(name=session.info.principal)
        (open_one,) = await here.kernel.host.questions.list(workspace=workspace, principal=owner)
        await here.say(text.format(open_one.id))
        await until(lambda: session.info.state == "idle")
        (settled,) = await here.kernel.host.questions.list(workspace=workspace, principal=owner, everything=True)
        assert (settled.state == "approved", settled.answer) == answer
        assert settled.answered_by == "post:me:ann"
        assert len(tool.answers) == 1 or not answer[0]


async def test_a_number_that_comes_again_is_no_message(tmp_path: Path) -> None:
    """A repeat of the answer, at once or after the question was settled, has the first receipt and no effect."""
    async with chat(tmp_path, (model := ScriptedModel([ASK, Answer("deleted")]))) as (here, tool):
        session = await asked(here, await here.say("delete it"))
        first, second = await asyncio.gather(here.say("1", key="yes"), here.say("1", key="yes"))
        await until(lambda: session.info.state == "idle")
        third = await here.say("1", key="yes")
        assert first == second and third.row == first.row
        assert len(tool.answers) == 1 and len(model.requests) == 2 and await here.told("notice") == ["✅"]


async def test_a_question_is_answered_once(tmp_path: Path) -> None:
    """A second press is told that it was answered, a wrong number which there are, and neither changes anything."""
    async with chat(tmp_path, ScriptedModel([ASK, Answer("deleted"), Answer("5 what?")])) as (here, tool):
        session = await asked(here, await here.say("delete it"))
        await here.say("9")
        assert await here.told("notice") == ["❓ 1 … 2"] and session.info.state == "waiting"
        await here.say("1")
        await until(lambda: session.info.state == "idle")
        await here.say("/answer 1 2", user="ben")
        assert (await here.told("notice"))[1:] == ["✅", "question 1 was approved already"]
        assert tool.answers == [(True, "approved", "post:me:ann")]
        await here.say("5")
        await until(lambda: here.told("reply"))
        await until(lambda: session.info.state == "idle")
        assert (await here.told("reply"))[-1] == "5 what?", "without a question a number is what it says"


async def test_a_question_stays_in_its_chat(tmp_path: Path) -> None:
    """A number in another chat, and a button of another chat's question, answer nothing."""
    async with chat(tmp_path, ScriptedModel([ASK, Answer("hello 1")])) as (here, tool):
        session = await asked(here, await here.say("delete it"))
        await here.say("1", chat="there")
        await until(lambda: here.told("reply"))
        assert await here.told("reply") == ["hello 1"]
        await here.say("/answer 1 1", chat="there")
        assert "There is no command /answer" in (await here.told("notice"))[0]
        assert session.info.state == "waiting" and not tool.answers


async def test_who_may_not_do_it_may_not_allow_it(tmp_path: Path) -> None:
    """An answer below the question's level is refused in words, and the question stays."""
    question = Question(text="Delete it?", access="full")
    async with chat(tmp_path, ScriptedModel([ASK]), question, access="workspace") as (here, tool):
        session = await asked(here, await here.say("delete it"))
        await here.say("1")
        assert await here.told("notice") == ["question 1 is answered by somebody with full access"]
        assert session.info.state == "waiting" and not tool.answers


async def test_a_child_asks_in_the_chat_of_its_root(tmp_path: Path) -> None:
    """Nobody waits for a reply of a child: its question goes to where its root's last message came from."""
    async with chat(tmp_path, ScriptedModel([Answer("hi"), ASK, Answer("deleted")])) as (here, tool):
        root = await here.session(await here.say("hello"))
        await until(lambda: here.told("reply"))
        child = await root.start_child("default")
        handle = child.prompt(Incoming(text="delete it"))
        await until(lambda: child.info.state == "waiting")
        assert [(each.target, each.text[:12]) for each in await here.deliveries() if each.debt == "question"] == [
            ("post:me:here", "❓ Delete it?")
        ]
        await here.say("1")
        assert (await handle.result).text == "deleted" and tool.answers == [(True, "approved", "post:me:ann")]


async def test_a_secret_in_a_question_reaches_no_chat(tmp_path: Path) -> None:
    """Known secrets are masked in the question's words and choices, stored and sent."""
    question = Question(text=f"Log in with {PASSWORD}?", options=(f"as {PASSWORD}",))
    async with chat(tmp_path, ScriptedModel([ASK]), question) as (here, _):
        session = await asked(here, await here.say("log in"))
        (owed,) = await here.deliveries()
        assert owed.text == "❓ Log in with <secret server.password>?\n\n1. ✅\n2. ❌\n3. as <secret server.password>"
        assert PASSWORD not in repr(await journal(session))


@pytest.mark.parametrize(("language", "word"), [("en", "Received"), ("zh", "已收到")])
async def test_a_busy_agent_says_that_it_has_heard(tmp_path: Path, language: str, word: str) -> None:
    """A message to a session that runs, or waits for an answer, is confirmed once in the account's language."""
    model = ScriptedModel([Hang(), ASK])
    async with chat(tmp_path, model, language=language) as (here, _):
        receipt = await here.say("work")
        session = await here.session(receipt)
        await until(lambda: model.active)
        await here.say("more", key="more")
        await here.say("more", key="more")
        hints = await here.told("notice")
        assert len(hints) == 1 and hints[0].startswith(word)
        session.interrupt()
        await until(lambda: session.info.state == "waiting")
        await here.say("and this")
        await here.say("/nothing")
        said = await here.told("notice")
        assert len(said) == 3 and said[1].startswith(word) and said[1] != hints[0]


@given(st.text(min_size=1, max_size=200), st.lists(st.text(min_size=1, max_size=40), max_size=8))
def test_every_choice_has_its_number(text: str, options: list[str]) -> None:
    """A question in words ends with its choices, numbered from 1 without a gap."""
    words = in_words(Question(text=text, options=tuple(options)))
    choices = ["✅", "❌", *options]
    ending = "\n".join(f"{number}. {each}" for number, each in enumerate(choices, 1))
    assert words == f"❓ {text}\n\n{ending}"
