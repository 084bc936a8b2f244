"""Who may be asked: an agent's team, as the tools check it and as its prompt lists it."""

from __future__ import annotations

from collections.abc import Sequence

from halo_kernel import AgentSpec, Host, SessionInfo, WorkspaceInfo

_ADVICE = """\
## Know Your Team Before You Act

Before you begin, decide who does what. These agents can work for you, each in a session of its own beside this one:

{roster}

- Keep what is small, or what needs this conversation. Give away what is long, what can run beside other work, and what
  another agent is made for.
- Give a task whole: goal, files, limits, and what to report. The other session sees nothing of this conversation.
- Start what does not depend on each other at once. Then end your turn: each session reports by itself when it is done,
  and its report wakes you. Do not wait for it with calls, and do not do its work meanwhile.
- Read a report before you rely on it. To go on with a session, ask it again with query_session: it remembers its work.\
"""

_SHORT = """\
## Your Team

These agents can work for you, each in a session of its own that reports to you when it is done:

{roster}"""


def can_delegate(agent: AgentSpec) -> bool:
    """Tell whether an agent has a team at all: that alone gives it the tools and the roster."""
    return not agent.internal and bool(agent.team)


def members(agent: AgentSpec, agents: Sequence[AgentSpec]) -> list[AgentSpec]:
    """Return who is in an agent's team, itself first, the others in the order of `agents`."""
    team = [each for each in agents if each.id in (agent.team or ()) and not each.internal]
    return sorted(team, key=lambda each: each.id != agent.id)


def read_roster(host: Host, info: SessionInfo, agent: AgentSpec) -> str:
    """Return the roster of `agent`, as the agents' files are now: `agent` itself too, if its file can be read.

    Blocks for reading them.
    """
    agents = host.workspaces.agents(WorkspaceInfo(id=info.workspace, path=info.folder))
    own = next((each for each in agents if each.id == agent.id), agent)
    return roster(own, agents, is_root=info.parent is None)


def roster(agent: AgentSpec, agents: Sequence[AgentSpec], *, is_root: bool) -> str:
    """Return an agent's team as its prompt has it: with advice for a root session; '' when nobody is there."""
    lines = [_line(each, agent) for each in members(agent, agents)]
    return (_ADVICE if is_root else _SHORT).format(roster="\n".join(lines)) if lines else ""


def _line(each: AgentSpec, agent: AgentSpec) -> str:
    name = f" {each.name}" if each.name != each.id else ""
    you = " (you)" if each.id == agent.id else ""
    return f"- `{each.id}`{name}{you}" + (f": {' '.join(each.description.split())}" if each.description else "")
