"""What the tools do: each takes a caller and checked arguments, and returns what its answer says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from halo_kernel import AgentSpec, BadInput, Conflict, LimitSettings, NotFound, QueueFull, SessionInfo, SessionSettings

from .arguments import (
    AgentArguments,
    Arguments,
    InterruptArguments,
    SendArguments,
    SessionArguments,
    StartArguments,
)
from .caller import Caller
from .tree import count_present, is_working, status

Facts = Mapping[str, object]
MOST_LISTED = 500
_TITLE = 60
_MARGIN = 500  # of a result's cap, for what is around the text
_NOT_FOR_READERS = {"file_write", "file_edit", "shell_exec", "web_fetch"}


async def start_session(caller: Caller, given: StartArguments) -> Facts:
    """Make a session of another agent below the caller's, and give it its task."""
    agent = await caller.agent(given.agent_id)
    await _check_depth(caller)
    title = " ".join((given.title or given.message).split())[:_TITLE].rstrip()
    try:
        child = await caller.call.session.start_child(
            agent.id, access=caller.call.access, title=title, directory=given.working_dir
        )
    except BadInput as error:
        if error.field == "directory":
            raise BadInput(f"working_dir {error.message}", field="working_dir") from None
        raise
    parts = (f"[Session {child.info.id}]", given.system_prompt_context.strip(), given.message)
    await child.submit(caller.message("\n\n".join(filter(None, parts))))
    return {"session_id": child.info.id}


async def _check_depth(caller: Caller) -> None:
    most = caller.host.settings.of(SessionSettings).max_nesting_depth
    if len([info async for info in caller.line()]) >= most:
        advice = "Do the work yourself, or report to the session above you what is left to do."
        raise Conflict(f"Maximum nesting depth ({most}) reached. {advice}")


async def query_session(caller: Caller, given: SendArguments) -> Facts:
    """Send a message: an idle session answers it, a busy one when its tools at hand are done."""
    session = await caller.session(given.target_session_id)
    busy = session.info.state == "running"
    try:
        receipt = await session.submit(caller.message(given.message))
    except QueueFull:
        most = caller.host.settings.of(SessionSettings).max_queue_size
        raise QueueFull(f"session {session.info.id} message queue is full ({most}/{most}).") from None
    how = "is busy: it takes your message up after the tools it runs" if busy else "has your message"
    how = how if receipt.question is None else "waits for a person: it takes your message up after the answer"
    return {"message": f"Session {session.info.id} {how}. It reports when it is done."}


async def interrupt_session(caller: Caller, given: InterruptArguments) -> Facts:
    """Send a message that ends at once what the session does."""
    session = await caller.session(given.session_id)
    await session.submit(caller.message(given.message, "interrupt_hard"))
    return {"message": f"Session {session.info.id} was interrupted and has your message. It reports when it is done."}


async def stop_session(caller: Caller, given: SessionArguments) -> Facts:
    """Cancel a session and all below it; they can be asked again."""
    session = await caller.below(given.session_id, "stop")
    await session.stop()
    return {"message": f"Stopped session {session.info.id} and all below it. A message starts it again."}


async def archive_session(caller: Caller, given: SessionArguments) -> Facts:
    """End a session and all below it for good."""
    session = await caller.below(given.session_id, "archive")
    count = await count_present(caller.host, session)
    await session.archive()
    return {"message": f"Archived {count} session{'' if count == 1 else 's'}."}


async def session_list(caller: Caller, given: Arguments) -> Facts:
    """List the sessions right below the caller's, those with the latest news first, as many as a result holds."""
    present = [each for each in await caller.call.session.children() if not each.archived]
    present.sort(key=lambda each: (each.updated_at, each.id), reverse=True)
    working = {each.id for each in await caller.call.session.children(working=True)}
    names = {each.id: each.name for each in await caller.agents()}
    room, shown = _room(caller), list[Facts]()
    for info in present[:MOST_LISTED]:
        line = _line(info, names.get(info.agent, info.agent), status(info, working=info.id in working))
        room -= len(msgspec.json.encode(line).decode()) + 1
        if room < 0:
            break
        shown.append(line)
    left = len(present) - len(shown)
    return {"sessions": shown, "count": len(shown), **({"left_off": left} if left else {})}


def _line(info: SessionInfo, agent: str, doing: str) -> Facts:
    return {
        "id": info.id,
        "parentId": info.parent,
        "agentId": info.agent,
        "agentName": agent,
        "title": info.title,
        "status": doing,
        "accessLevel": info.access,
        "createdAt": info.created_at,
        "updatedAt": info.updated_at,
    }


async def get_session_output(caller: Caller, given: SessionArguments) -> Facts:
    """Tell what a session said last, and whether it works on."""
    session = await caller.session(given.session_id)
    text = await session.output() or "(no output yet)"
    return {
        "status": status(session.info, working=await is_working(caller.host, session.info)),
        "output": tail(text, _room(caller)),
        "last_activity_at": session.info.updated_at,
    }


async def query_agent(caller: Caller, given: AgentArguments) -> Facts:
    """Describe an agent of the team; every refusal reads as if there were no such agent."""
    try:
        agent = await caller.agent(given.agent_id)
    except (Conflict, NotFound):
        raise NotFound(f'agent "{given.agent_id}" not found.') from None
    model = agent.model.model if agent.model else "chosen by the server"
    lines = (
        f"Name: {agent.name} ({agent.id})",
        f"Description: {agent.description or '-'}",
        f"Model: {model}",
        f"Tools: {_tools(agent, is_reader=caller.call.access == 'readonly')}",
    )
    return {"content": "\n".join(lines)}


def tail(text: str, room: int) -> str:
    """Return `text`, its end kept and the cut named before it when JSON needs more than `room` characters for it."""
    kept = text[-room:]
    while (over := len(msgspec.json.encode(kept).decode()) - room) > 0:
        kept = kept[over:]
    if len(kept) == len(text):
        return text
    return f"[Output truncated: {len(text)} chars total, showing last {len(kept)}.]\n{kept}"


def _tools(agent: AgentSpec, *, is_reader: bool) -> str:
    if agent.tools is None:
        return "all that its access level allows"
    return ", ".join(name for name in agent.tools if not (is_reader and name in _NOT_FOR_READERS)) or "none"


def _room(caller: Caller) -> int:
    return caller.host.settings.of(LimitSettings).tool_result_render_chars - _MARGIN
