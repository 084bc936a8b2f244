"""Sessions: messages in, turns run one at a time, answers out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from halo_kernel import (
    MALFORMED,
    OPERATOR,
    AssistantCut,
    AssistantDiscarded,
    AssistantMessage,
    BadInput,
    Call,
    ContextPart,
    Denial,
    History,
    Incoming,
    InputAdded,
    Kernel,
    NotFound,
    Principal,
    QueueFull,
    Session,
    Stopping,
    ToolCall,
    ToolFinished,
    ToolResult,
    TurnEnded,
    TurnStarted,
    View,
    hook,
)
from halo_kernel.testing import (
    Answer,
    Calls,
    Fail,
    Hang,
    NoteTool,
    Pieces,
    ScriptedModel,
    VirtualClock,
    a_session,
    journal,
    running_kernel,
    until,
)


async def test_a_message_is_answered(tmp_path: Path) -> None:
    """A message becomes one turn with one answer, all of it in the journal in order."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="hello")).result
        assert (result.outcome, result.text) == ("succeeded", "echo: hello")
        assert await session.output() == "echo: hello"
        kinds = [event.kind for event in await journal(session)]
        assert kinds == [
            "session.created",
            "turn.started",
            "session.titled",
            "input.added",
            "context.prepared",
            "assistant.message",
            "usage.recorded",
            "turn.ended",
        ]
        assert session.info.title == "hello"
        await until(lambda: session.info.state == "idle")


async def test_tools_run_in_order_and_their_results_go_back(tmp_path: Path) -> None:
    """A batch runs in the order of its calls; an unknown tool is an error result and the turn goes on."""
    note = NoteTool()
    model = ScriptedModel([Calls([("note", {"text": "a"}), ("nope", {}), ("note", {"text": "b"})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert result.text == "done" and note.seen == ["a", "b"]
        results = [block for block in model.requests[1].messages[-1].content if isinstance(block, ToolResult)]
        assert results[0].text == "noted a"
        assert 'unknown tool "nope"' in results[1].text and results[1].error
        calls = [block.id for block in model.requests[1].messages[-2].content if isinstance(block, ToolCall)]
        assert len(set(calls)) == 3 and all(len(call) == 16 for call in calls)


async def test_a_readonly_session_changes_nothing(tmp_path: Path) -> None:
    """Below its effect's level a tool is neither offered nor run."""
    note, look = NoteTool(), NoteTool("look", effect="read")
    model = ScriptedModel([Calls([("note", {"text": "a"}), ("look", {"text": "b"})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note, look]) as kernel:
        session = await a_session(kernel, tmp_path / "w", Principal(name="guest", access="readonly"))
        await session.prompt(Incoming(text="go", principal=Principal(name="guest", access="readonly"))).result
        assert (note.seen, look.seen) == ([], ["b"])
        assert [tool.name for tool in model.requests[0].tools] == ["look"]


async def test_a_principal_sees_only_its_own_sessions(tmp_path: Path) -> None:
    """A foreign session answers exactly like one that does not exist."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        workspace = session.info.workspace
        other = Principal(name="other")
        with pytest.raises(NotFound):
            await kernel.host.sessions.open(session.info.id, workspace=workspace, principal=other)
        assert await kernel.host.sessions.list(workspace=workspace, principal=other) == []


async def test_the_same_key_gives_one_message_and_the_same_receipt(tmp_path: Path) -> None:
    """S37: the same id accepted twice is one record, one consumption, the same receipt."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="once", key="k1"))
        receipt = await first.accepted
        assert await session.submit(Incoming(text="twice", key="k1")) == receipt
        assert (await first.result).text == "echo: once"
        again = session.prompt(Incoming(text="thrice", key="k1"))
        assert await again.accepted == receipt
        assert (await again.result).text == "echo: once"
        assert [e.body.text for e in await journal(session) if isinstance(e.body, InputAdded)] == ["once"]


@pytest.mark.parametrize("text", ["", "  \n", "a\0b", "x" * 1_000_001])
async def test_bad_text_is_refused_and_leaves_no_trace(tmp_path: Path, text: str) -> None:
    """S40: a message that breaks a rule names the field and writes nothing."""
    async with running_kernel(tmp_path / "home") as kernel:
        session = await a_session(kernel, tmp_path / "w")
        with pytest.raises(BadInput) as caught:
            await session.submit(Incoming(text=text))
        assert caught.value.field == "text"
        assert len(await journal(session)) == 1


async def test_a_full_queue_refuses(tmp_path: Path) -> None:
    """S40: beyond the cap a message is refused with a typed error, and nothing of it stays."""
    model = ScriptedModel([Hang()])
    env = {"HALO_SESSION_MAX_QUEUE_SIZE": "2"}
    async with running_kernel(tmp_path / "home", model=model, env=env) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="run"))
        await until(lambda: model.active)
        for text in ("a", "b"):
            await session.submit(Incoming(text=text))
        with pytest.raises(QueueFull):
            await session.submit(Incoming(text="c"))
        session.interrupt()
        await until(lambda: session.info.state == "idle")
        assert [e.body.text for e in await journal(session) if isinstance(e.body, InputAdded)] == ["run", "a", "b"]


async def test_cancel_on_the_next_line_calls_no_model(tmp_path: Path) -> None:
    """S5: a prompt cancelled before its write is committed is cancelled; no model is called, no turn starts."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="no"))
        handle.cancel()
        assert (await handle.result).outcome == "cancelled"
        await until(lambda: session.info.state == "idle")
        assert model.requests == [] and "turn.started" not in [e.kind for e in await journal(session)]


async def test_interrupt_keeps_what_was_streamed_and_what_waits(tmp_path: Path) -> None:
    """Cancel ends the active run, keeps its text as cut, and the waiting message runs next."""
    model = ScriptedModel([Hang("half an ans")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="one"))
        await until(lambda: model.active)
        second = session.prompt(Incoming(text="two"))
        await second.accepted
        await asyncio.sleep(0.05)
        assert session.interrupt()
        assert (await first.result).outcome == "cancelled"
        assert (await second.result).text == "echo: two"
        cut = [e.body for e in await journal(session) if isinstance(e.body, AssistantCut)]
        assert [c.text for c in cut] == ["half an ans"]
        assert not session.interrupt()


async def test_waiting_messages_become_one_turn(tmp_path: Path) -> None:
    """S38: when a turn ends, all that waits and may merge is answered by one turn, in order."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="run"))
        await until(lambda: model.active)
        handles = [session.prompt(Incoming(text=text, mode="follow_up")) for text in "abc"]
        for handle in handles:
            await handle.accepted
        session.interrupt()
        results = [await handle.result for handle in handles]
        assert len({result.turn for result in results}) == 1
        started = [e.body for e in await journal(session) if isinstance(e.body, TurnStarted)]
        assert len(started) == 2 and len(started[1].rows) == 3


async def test_rows_of_another_level_run_in_a_turn_of_their_own(tmp_path: Path) -> None:
    """S38: a row of another access level never joins a turn; it runs next, with the tools of its own level."""
    model = ScriptedModel([Hang()])
    async with running_kernel(tmp_path / "home", model=model, tools=[NoteTool()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.submit(Incoming(text="run"))
        await until(lambda: model.active)
        full = session.prompt(Incoming(text="full"))
        low = session.prompt(Incoming(text="low", access="readonly"))
        await low.accepted
        session.interrupt()
        assert (await full.result).turn != (await low.result).turn
        assert [len(request.tools) for request in model.requests[1:]] == [1, 0]


async def test_steering_joins_the_running_turn(tmp_path: Path) -> None:
    """S38: steering is consumed inside the active turn; a follow-up never inside the turn in which it was queued."""
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    model = ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        later = session.prompt(Incoming(text="later", mode="follow_up"))
        steer = session.prompt(Incoming(text="steer", mode="steer"))
        await later.accepted
        await steer.accepted
        held.set()
        assert (await steer.result).turn == (await first.result).turn
        assert (await first.result).text == "echo: steer"
        assert (await later.result).turn != (await first.result).turn


async def test_a_soft_interrupt_ends_the_turn_after_its_batch(tmp_path: Path) -> None:
    """The default mode of a busy session: the batch ends, then one merged turn answers both messages."""
    held = asyncio.Event()
    note = NoteTool(wait=lambda call: held.wait())
    model = ScriptedModel([Calls([("note", {"text": "x"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        second = session.prompt(Incoming(text="newer"))
        await second.accepted
        held.set()
        assert await first.result == await second.result
        ends = [e.body.outcome for e in await journal(session) if isinstance(e.body, TurnEnded)]
        assert ends == ["yielded", "succeeded"]


async def test_a_hard_interrupt_aborts_at_once(tmp_path: Path) -> None:
    """`interrupt_hard` ends the running tool and its turn; calls that never started are marked as not run."""
    note = NoteTool(wait=lambda call: asyncio.sleep(60))
    model = ScriptedModel([Calls([("note", {"text": "x"}), ("note", {"text": "y"})])])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        first = session.prompt(Incoming(text="run"))
        await until(lambda: note.seen)
        second = session.prompt(Incoming(text="now", mode="interrupt_hard"))
        assert (await first.result).outcome == "interrupted"
        assert (await second.result).text == "echo: now"
        outcomes = [e.body.outcome for e in await journal(session) if isinstance(e.body, ToolFinished)]
        assert outcomes == ["interrupted", "not_run"]


async def test_failed_attempts_are_retried_and_recorded(tmp_path: Path) -> None:
    """A throttled, a failed and a cut call are retried within the bound; each attempt is one event."""
    model = ScriptedModel([Fail("throttle"), Fail("server", text="half"), Pieces(["cut"], cut=True), Answer("at last")])
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert result.text == "at last"
        bodies = [e.body for e in await journal(session)]
        discarded = [b for b in bodies if isinstance(b, AssistantDiscarded)]
        assert [(b.reason, b.attempt, b.text) for b in discarded] == [
            ("throttle", 1, ""),
            ("server", 2, "half"),
            ("network", 3, "cut"),
        ]
        assert len([b for b in bodies if isinstance(b, AssistantMessage)]) == 1


async def test_attempts_are_bounded_and_end_in_a_typed_error(tmp_path: Path) -> None:
    """After the last attempt the turn fails with the model's error kind, and the session goes on."""
    model = ScriptedModel([Fail("server", "boom")] * 5)
    async with running_kernel(tmp_path / "home", model=model, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert (result.outcome, result.kind) == ("failed", "server") and "boom" in result.error
        assert len(model.requests) == 5
        assert (await session.prompt(Incoming(text="again")).result).text == "echo: again"


async def test_a_wrong_key_is_not_retried(tmp_path: Path) -> None:
    """An account error fails at once."""
    model = ScriptedModel([Fail("account", "401: wrong key")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert (result.kind, len(model.requests)) == ("account", 1)


async def test_a_silent_model_times_out(tmp_path: Path) -> None:
    """Without data for the idle timeout a call is a timeout, retried like one."""
    model = ScriptedModel([Hang("so far"), Answer("better")])
    env = {"HALO_MODEL_IDLE_TIMEOUT": "0.2"}
    async with running_kernel(tmp_path / "home", model=model, env=env, clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "better"


class Guarded:
    """A plugin that refuses a tool and adds to prompt and input."""

    @hook
    async def authorize_tool(self, call: Call) -> Denial | None:
        return Denial("not today") if call.arguments.get("text") == "bad" else None

    @hook
    async def prepare_context(self, session: Session) -> list[ContextPart]:
        return [ContextPart(slot="all", source="b", text="B"), ContextPart(slot="agent", source="a", text="A")]

    @hook
    async def prepare_input(self, batch: list[object], session: Session) -> list[object]:
        from msgspec.structs import replace

        return [replace(row, content=f"[{row.stamp}] {row.content}") for row in batch]  # type: ignore[attr-defined,type-var]


async def test_plugins_take_part_in_a_turn(tmp_path: Path) -> None:
    """A guard's denial is the call's result; parts are ordered by slot; prepared input is what the model gets."""
    note = NoteTool()
    model = ScriptedModel([Calls([("note", {"text": "bad"}), ("note", {"text": "good"})]), Answer("done")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note], extra={"guarded": Guarded()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go")).result
        assert note.seen == ["good"]
        assert model.requests[0].system == "A\n\nB"
        content = model.requests[0].messages[0].content[0].text  # type: ignore[union-attr]
        assert content.startswith("[20") and content.endswith("Z] go")
        denied = next(e.body for e in await journal(session) if isinstance(e.body, ToolFinished))
        assert denied.outcome == "denied" and "not today" in denied.text


class Broken:
    """A plugin whose context hook fails."""

    @hook
    async def prepare_context(self, session: Session) -> list[ContextPart]:
        raise RuntimeError("broken part")


async def test_half_a_prompt_is_worse_than_none(tmp_path: Path) -> None:
    """When a plugin's part of the prompt fails, the turn ends with an error that names it; no model is called."""
    model = ScriptedModel()
    async with running_kernel(tmp_path / "home", model=model, extra={"broken": Broken()}) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        result = await session.prompt(Incoming(text="go")).result
        assert result.outcome == "failed" and "broken" in result.error and model.requests == []


async def test_a_long_tool_result_is_cut_and_says_so(tmp_path: Path) -> None:
    """The model gets the head of a long result and how long it was."""

    class Long(NoteTool):
        async def run(self, call: Call) -> str:
            return "x" * 20_000

    model = ScriptedModel([Calls([("note", {})]), Answer("ok")])
    async with running_kernel(tmp_path / "home", model=model, tools=[Long()]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        await session.prompt(Incoming(text="go")).result
        result = model.requests[1].messages[-1].content[0]
        assert isinstance(result, ToolResult) and "20000 chars total, showing first 8000" in result.text
        assert len(result.text) < 8200


async def test_a_deaf_tool_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S13: a tool that ignores its cancel holds nobody up for longer than its deadline."""
    monkeypatch.setattr("halo_kernel.turns.cancel.DEAF_SECONDS", 0.2)
    monkeypatch.setattr("halo_kernel.turns.batch._GRACE_SECONDS", 0.1)
    free = asyncio.Event()

    async def deaf() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    note = NoteTool(wait=lambda call: deaf())
    async with running_kernel(tmp_path / "home", model=ScriptedModel([Calls([("note", {})])]), tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        handle = session.prompt(Incoming(text="go"))
        await until(lambda: note.seen)
        started = asyncio.get_running_loop().time()
        session.interrupt()
        assert (await handle.result).outcome == "cancelled"
        assert asyncio.get_running_loop().time() - started < 3
        free.set()


async def test_stopping_lands_the_turn_and_the_next_boot_goes_on(tmp_path: Path) -> None:
    """S19: a clean stop in the middle of a turn loses nothing: the next boot cuts the turn and answers."""
    home, folder = tmp_path / "home", tmp_path / "w"
    model = ScriptedModel([Hang("half")])
    async with running_kernel(home, model=model) as kernel:
        session = await a_session(kernel, folder)
        handle = session.prompt(Incoming(text="question"))
        await until(lambda: model.active)
        await asyncio.sleep(0.05)
        name, workspace = session.info.id, session.info.workspace
    with pytest.raises(Stopping):
        await handle.result
    second = ScriptedModel()
    async with running_kernel(home, model=second) as kernel:
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await until(lambda: second.requests and session.info.state == "idle")
        bodies = [e.body for e in await journal(session)]
        assert [b.outcome for b in bodies if isinstance(b, TurnEnded)] == ["interrupted", "succeeded"]
        assert [b.text for b in bodies if isinstance(b, AssistantCut)] == ["half"]
        assert "question" in str(second.requests[0].messages) and "restarted" in str(second.requests[0].messages)


async def uncleanly(kernel: Kernel, folder: Path) -> None:
    """Make the last stop one that landed nothing, as after a crash."""
    workspace = await kernel.host.workspaces.open(folder)
    await kernel.workspaces.seats[workspace.id].database.write(lambda tx: tx.one("UPDATE runs SET landed = 0"))


async def test_the_third_crash_in_a_row_parks_the_tree(tmp_path: Path) -> None:
    """A tree whose run was active at three unclean boots is parked; a person's message frees it."""
    home, folder = tmp_path / "home", tmp_path / "w"
    name = workspace = ""
    for boot in range(3):
        model = ScriptedModel([Hang()])
        async with running_kernel(home, model=model, recover=False) as kernel:
            if boot == 0:
                session = await a_session(kernel, folder)
                name, workspace = session.info.id, session.info.workspace
                await session.submit(Incoming(text="deadly"))
            await uncleanly(kernel, folder)
            await kernel.recover()
            await until(lambda model=model: model.active)
    model = ScriptedModel()
    async with running_kernel(home, model=model, recover=False) as kernel:
        await uncleanly(kernel, folder)
        await kernel.recover()
        session = await kernel.host.sessions.open(name, workspace=workspace, principal=OPERATOR)
        await asyncio.sleep(0.3)
        assert model.requests == []
        assert (await session.prompt(Incoming(text="and now?")).result).outcome == "succeeded"


async def test_clean_stops_park_nothing(tmp_path: Path) -> None:
    """However often a server is stopped in the middle of a long turn, the next start goes on with it."""
    home, folder = tmp_path / "home", tmp_path / "w"
    for boot in range(5):
        model = ScriptedModel([Hang()])
        async with running_kernel(home, model=model) as kernel:
            if boot == 0:
                await (await a_session(kernel, folder)).submit(Incoming(text="long"))
            await until(lambda model=model: model.active)


async def test_live_and_replayed_folds_agree(tmp_path: Path) -> None:
    """S47: folding the live stream gives what folding the stored journal gives."""
    note = NoteTool()
    model = ScriptedModel(
        [Calls([("note", {"text": "a"})], text="let me"), Fail("server"), Pieces(["one ", "two"]), Answer("x")]
    )
    async with running_kernel(tmp_path / "home", model=model, tools=[note], clock=VirtualClock()) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        live = session.events(live=True)
        history, view, seen = History(), View(), []
        first = session.prompt(Incoming(text="go"))
        await first.result
        second = session.prompt(Incoming(text="on"))
        await second.result
        head = len(await journal(session))
        async for update in live:
            if update.event:
                history.apply(update.event)
                view.apply(update.event)
                seen.append(update.event)
                if update.event.seq == head:
                    break
        await live.aclose()
        replayed = await journal(session)
        assert seen == replayed
        again, other = History(), View()
        for event in replayed:
            again.apply(event)
            other.apply(event)
        assert (history, view) == (again, other)


async def test_a_made_up_tool_name_is_kept_short(tmp_path: Path) -> None:
    """A tool name of any length costs the journal no more than its head."""
    model = ScriptedModel([Calls([("x" * 100_000, {})]), Answer("sorry")])
    async with running_kernel(tmp_path / "home", model=model) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "sorry"
        names = [event.body.name for event in await journal(session) if isinstance(event.body, ToolFinished)]
        assert names == ["x" * 256]


async def test_malformed_arguments_never_reach_the_tool(tmp_path: Path) -> None:
    """A call whose arguments are no JSON object is an error result that quotes them; the tool does not run."""
    note = NoteTool()
    model = ScriptedModel([Calls([("note", {MALFORMED: '{"text": "x'})]), Answer("sorry")])
    async with running_kernel(tmp_path / "home", model=model, tools=[note]) as kernel:
        session = await a_session(kernel, tmp_path / "w")
        assert (await session.prompt(Incoming(text="go")).result).text == "sorry"
        result = model.requests[1].messages[-1].content[0]
        assert note.seen == []
        assert isinstance(result, ToolResult) and result.error and '{"text": "x' in result.text
