"""Known secrets never reach a journal, a model, or whoever follows: their names stand in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halo_kernel import OPERATOR, Call, Denial, Incoming, Kernel, ModelCall, Question, Session, hook
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    NoteTool,
    Pieces,
    Postbox,
    Refused,
    ScriptedModel,
    a_session,
    journal,
    running_kernel,
    until,
)

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


async def all_settled(kernel: Kernel, session: Session) -> bool:
    return not await kernel.host.outbox.list(workspace=session.info.workspace, unsettled=True)


async def test_a_secret_in_an_error_reaches_nobody(tmp_path: Path) -> None:
    """Of a model that is refused, a guard, a skipped hook, a delivery and a provider's defect only the name is told."""

    class Guard:
        budget = 5

        @hook
        async def authorize_model(self, call: ModelCall) -> Denial | None:
            self.budget -= 1
            return None if self.budget else Denial(f"spent, says {PASSWORD}")

        @hook
        async def authorize_tool(self, call: Call) -> Denial | None:
            return Denial(f"not with {PASSWORD}")

        @hook
        async def prepare_input(self, batch: Any) -> Any:
            raise ValueError(f"no {PASSWORD}")

    steps = [
        Fail("account", message=f"wrong key {PASSWORD}"),
        Calls([("note", {})]),
        Answer("done"),
        Fail("throttle", message=f"slow down, {PASSWORD}"),
        Answer("done"),
    ]
    model, post = ScriptedModel(steps), Postbox(fates=[Refused(permanent=True, message=f"no room for {PASSWORD}")])
    async with running_kernel(
        tmp_path / "home",
        model=model,
        tools=[NoteTool()],
        extra={"guard": Guard(), "post": post},
        env={"HALO_PASSWORD": PASSWORD},
    ) as kernel:
        session, outbox = await a_session(kernel, tmp_path / "w"), kernel.host.outbox
        refused = await session.prompt(Incoming(text="one")).result
        assert refused.error == "wrong key <secret server.password>"
        for text in ("two", "three"):
            assert (await session.prompt(Incoming(text=text, route="post:me:here")).result).outcome == "succeeded"
        guarded = await session.prompt(Incoming(text="four")).result
        assert guarded.error.endswith("spent, says <secret server.password>")
        await until(lambda: all_settled(kernel, session), what="the end of all deliveries")
        owed = (await outbox.list(workspace=session.info.workspace))[-1]
        assert owed.parts[0].error == "no room for <secret server.password>"
        events = await journal(session)
        kinds = [event.kind for event in events if "<secret server.password>" in repr(event)]
        assert {"assistant.discarded", "turn.ended", "tool.finished", "context.skipped"} <= set(kinds)
        assert PASSWORD not in repr(events) and PASSWORD not in repr(model.requests)
    files = [path for path in (tmp_path / "w" / ".halo").iterdir() if path.is_file()]
    assert files and all(PASSWORD.encode() not in path.read_bytes() for path in files)


async def test_what_a_vendor_says_is_cut_once_it_is_masked(tmp_path: Path) -> None:
    """A secret that lies across the end of a long error leaves no half of itself."""
    long = "x" * (2_000 - 8)
    model = ScriptedModel([Fail("account", message=f"{long}{PASSWORD}{'y' * 9_000}")])
    async with running_kernel(tmp_path / "home", model=model, env={"HALO_PASSWORD": PASSWORD}) as kernel:
        result = await (await a_session(kernel, tmp_path / "w")).prompt(Incoming(text="go")).result
        assert result.error == f"{long}<secret "


async def test_a_secret_in_an_answer_to_a_question_reaches_nobody(tmp_path: Path) -> None:
    """What a person says with a refusal is masked like all that they write."""

    class Asking(NoteTool):
        async def run(self, call: Any) -> str:
            return str((call.answer or call.ask(Question(text="Really?"))).text)

    model = ScriptedModel([Calls([("note", {})]), Answer("as you like")])
    env = {"HALO_PASSWORD": PASSWORD}
    async with running_kernel(tmp_path / "home", model=model, tools=[Asking()], env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle, questions = session.prompt(Incoming(text="go")), kernel.host.questions
        await until(lambda: session.info.state == "waiting")
        who: dict[str, Any] = {"workspace": session.info.workspace, "principal": OPERATOR}
        (asked,) = await questions.list(**who)
        await questions.answer(asked.id, **who, approved=False, text=f"not with {PASSWORD}")
        await handle.result
        assert PASSWORD not in repr(model.requests) and "not with <secret server.password>" in repr(model.requests)
    files = [path for path in (tmp_path / "w" / ".halo").iterdir() if path.is_file()]
    assert files and all(PASSWORD.encode() not in path.read_bytes() for path in files)
