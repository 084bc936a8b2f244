"""`/session`: this conversation, and the others of whose it is."""

from __future__ import annotations

from collections.abc import Mapping

from halo_kernel import BadInput, CommandResult, CommandVerb, Conflict, ContextCut, NotFound, SessionInfo

from .commands import Asked, Verb
from .roots import all_roots, find_root, shown, time_of, title_of
from .session_context import newest, show_context

_WHICH = "<id, number or title>"


async def begin(asked: Asked, agent: str | None) -> SessionInfo:
    """Make a session like the root of this one, about the same folder, or about the workspace if that is gone."""
    root, given = await asked.root(), asked.host.sessions.create
    origin = root.origin or "sid"
    workspace, owner = root.workspace, asked.owner
    try:
        made = await given(workspace=workspace, principal=owner, agent=agent, origin=origin, directory=root.directory)
    except BadInput as error:
        if error.field != "directory":
            raise
        made = await given(workspace=workspace, principal=owner, agent=agent, origin=origin)
    return made.info


async def new(asked: Asked) -> CommandResult:
    """Go on in a new session with the same agent, or the default one if that is gone."""
    root = await asked.root()
    try:
        made = await begin(asked, root.agent)
    except NotFound:
        made = await begin(asked, None)
    where = f" in {made.directory}" if made.directory else ""
    lost = f" The folder {root.directory} is not there any more." if root.directory != made.directory else ""
    return CommandResult(text=f"A new session with {made.agent}{where}: {made.id}.{lost}", session=made.id)


async def list_sessions(asked: Asked) -> CommandResult:
    """List sessions, newest first."""
    found = await all_roots(asked)
    rows = shown(found)
    if not rows:
        return CommandResult(text="There are no sessions.")
    lines = [_line(number, info, asked.info.root) for number, info in enumerate(rows, 1)]
    return CommandResult(text="\n".join(lines))


def _line(number: int, info: SessionInfo, here: str) -> str:
    about = [info.id, info.agent, *_flags(info), time_of(info.created_at)]
    mark = " (this one)" if info.id == here else ""
    return f"{number}. {title_of(info)} – {', '.join(about)}{mark}"


def _flags(info: SessionInfo) -> list[str]:
    return [name for name in ("archived", "stopped", "parked") if getattr(info, name)]


async def _state(asked: Asked, turn: str) -> str:
    """Say what the session does: for as long as a command is carried out, its own state says that something runs."""
    if not turn:
        return ", ".join(_flags(asked.info)) or "idle"
    info, owner = asked.info, asked.owner
    asks = await asked.host.questions.list(workspace=info.workspace, principal=owner, session=info.id)
    return "waits for your answer" if asks else "running"


async def show_info(asked: Asked) -> CommandResult:
    """Tell about this session."""
    info = asked.info
    view, _ = await asked.host.sessions.view(info.id, workspace=info.workspace, principal=asked.owner)
    said = sum(item.kind == "user" for item in view.items.values())
    facts = {
        "Session": info.id,
        "Title": title_of(info),
        "Agent": info.agent,
        "Level": info.access,
        "State": await _state(asked, view.running),
        "Folder": info.directory or "the whole workspace",
        "Below": info.parent or "",
        "Messages": str(said),
        "Tokens": f"{view.tokens:,} in the last call" if view.tokens else "",
        "Marks": ", ".join(info.marks),
        "Begun": time_of(info.created_at),
        "Last changed": time_of(info.updated_at),
    }
    return CommandResult(text="\n".join(f"{name}: {fact}" for name, fact in facts.items() if fact))


async def switch(asked: Asked) -> CommandResult:
    """Go on in another session."""
    info = await find_root(asked, asked.arguments)
    if info.archived:
        raise Conflict(f"session {info.id} is archived, and takes no messages", advice="choose another one")
    if info.id == asked.info.id:
        return CommandResult(text=f"This is {info.id}.")
    return CommandResult(text=f"On to “{title_of(info)}”, {info.id}.", session=info.id)


async def stop(asked: Asked) -> CommandResult:
    """Stop this session and all below it."""
    await asked.session.stop()
    return CommandResult(text="Stopped, with all that was started from here. The next message goes on.")


async def interrupt(asked: Asked) -> CommandResult:
    """Cancel the running turn."""
    was = asked.session.interrupt()
    return CommandResult(text="Interrupted." if was else "Nothing runs here.")


async def compact(asked: Asked) -> CommandResult:
    """Make the model's history shorter."""
    if not await asked.session.compact():
        return CommandResult(text="The history stays as it is.")
    cut = await newest(asked.session, ContextCut)
    return CommandResult(text=(cut and cut.text) or "The history is shorter now.")


async def fork(asked: Asked) -> CommandResult:
    """Go on in a copy of this session."""
    info, title = asked.info, asked.arguments or None
    copy = await asked.host.sessions.fork(info.id, workspace=info.workspace, principal=asked.owner, title=title)
    return CommandResult(text=f"A copy of this session: {copy.info.id}.", session=copy.info.id)


async def archive(asked: Asked) -> CommandResult:
    """Close a session for good, this one if none is named."""
    info = await find_root(asked, asked.arguments) if asked.arguments else asked.info
    session = await asked.host.sessions.open(info.id, workspace=info.workspace, principal=asked.owner)
    await session.archive()
    more = " /session new begins another one." if info.id == asked.info.id else ""
    return CommandResult(text=f"{info.id} is archived, and takes no more messages.{more}")


async def delete(asked: Asked) -> CommandResult:
    """Delete another session than this one."""
    info = await find_root(asked, asked.arguments)
    if info.id == asked.info.root:
        advice = f"go on in another one first (/session new, /session switch), then /session delete {info.id}"
        raise Conflict("this is the session that you are in", advice=advice)
    await asked.host.sessions.delete(info.id, workspace=info.workspace, principal=asked.owner)
    return CommandResult(text=f"{info.id} is deleted.")


async def rename(asked: Asked) -> CommandResult:
    """Give this session a title."""
    info = asked.info
    await asked.host.sessions.rename(info.id, workspace=info.workspace, principal=asked.owner, title=asked.arguments)
    return CommandResult(text=f"This session is called “{title_of(asked.info)}” now.")


SESSION_VERBS: Mapping[str, Verb] = {
    "new": Verb(CommandVerb(summary="Begin another one, with the same agent and folder.", aliases=("n",)), new),
    "list": Verb(CommandVerb(summary="List the newest 50.", aliases=("ls",)), list_sessions),
    "info": Verb(CommandVerb(summary="Tell about this one.", aliases=("i",)), show_info),
    "switch": Verb(CommandVerb(summary="Go on in another one.", aliases=("sw",), arguments=_WHICH), switch),
    "stop": Verb(CommandVerb(summary="Stop this one, and all that was started from it.", aliases=("st",)), stop),
    "interrupt": Verb(CommandVerb(summary="Cancel what runs; what waits is next.", aliases=("int",)), interrupt),
    "compact": Verb(CommandVerb(summary="Summarise what was said, for the model."), compact),
    "context": Verb(
        CommandVerb(summary="Show what the model is given, and what is large.", aliases=("ctx",)), show_context
    ),
    "fork": Verb(CommandVerb(summary="Go on in a copy of this one.", arguments="[title]"), fork),
    "rename": Verb(CommandVerb(summary="Give this one a title.", arguments="<title>"), rename),
    "archive": Verb(CommandVerb(summary="Close one for good; it can be read.", arguments=f"[{_WHICH[1:-1]}]"), archive),
    "delete": Verb(CommandVerb(summary="Delete another one.", access="full", arguments=_WHICH), delete),
}
