"""Commands: `/session`, `/agent`, `/help`, and the short forms of what is asked for most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from halo_kernel import (
    Access,
    Command,
    CommandResult,
    CommandSpec,
    CommandVerb,
    Host,
    Incoming,
    Principal,
    Session,
    SessionInfo,
    fold_access,
)

from .prompts import Prompts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody asks for: the words behind the verb, in which session, and where it is carried out."""

    host: Host
    prompts: Prompts
    session: Session
    message: Incoming
    arguments: str

    @property
    def info(self) -> SessionInfo:
        """The session, as of now."""
        return self.session.info

    @property
    def level(self) -> Access:
        """The most that whoever asks may do here."""
        own = self.info.access
        return fold_access(own, self.message.principal.access, self.message.access or own)

    @property
    def owner(self) -> Principal:
        """Whose session it is: in a chat not the one who writes, but the chat."""
        return Principal(name=self.info.principal, kind=self.info.principal_kind, access=self.info.access)

    async def root(self) -> SessionInfo:
        """Return the root of the session's tree."""
        if self.info.parent is None:
            return self.info
        owner, workspace = self.owner, self.info.workspace
        return (await self.host.sessions.open(self.info.root, workspace=workspace, principal=owner)).info


class Verb(NamedTuple):
    """A verb as help shows it, and what it does."""

    spec: CommandVerb
    act: Callable[[Asked], Awaitable[CommandResult]]


@dataclass(frozen=True, kw_only=True)
class Carried:
    """See `halo_kernel.Command`. `acts` are by verb; '' is what a command without one does."""

    host: Host
    prompts: Prompts
    spec: CommandSpec
    acts: Mapping[str, Callable[[Asked], Awaitable[CommandResult]]]

    async def run(self, verb: str, arguments: str, message: Incoming, session: Session) -> CommandResult:
        """See `halo_kernel.Command.run`. Known secrets, such as in an agent's description, are masked."""
        asked = Asked(host=self.host, prompts=self.prompts, session=session, message=message, arguments=arguments)
        result = await self.acts[verb](asked)
        return replace(result, text=self.host.secrets.mask(result.text))


def specs() -> Sequence[CommandSpec]:
    """Return the commands as lists show them, without their short forms."""
    return [_spec(name, summary, verbs) for name, (summary, verbs) in _objects().items()] + [_HELP]


def resolve(name: str, host: Host, prompts: Prompts) -> Command | None:
    """Return the command of a name or a short form."""
    from .help import show, show_one

    name, objects = _NAMES.get(name, name), _objects()
    if name == "help":
        return Carried(host=host, prompts=prompts, spec=_HELP, acts={"": show})
    if name in objects:
        summary, verbs = objects[name]
        acts = {"": show_one(name)} | {verb: each.act for verb, each in verbs.items()}
        return Carried(host=host, prompts=prompts, spec=_spec(name, summary, verbs), acts=acts)
    if name not in SHORT_FORMS:
        return None
    whole, verb = SHORT_FORMS[name]
    spec, act = objects[whole][1][verb]
    short = CommandSpec(name=name, summary=spec.summary, access=spec.access, arguments=spec.arguments)
    return Carried(host=host, prompts=prompts, spec=short, acts={"": act})


SHORT_FORMS = {
    "sn": ("session", "new"),
    "sl": ("session", "list"),
    "si": ("session", "info"),
    "ss": ("session", "switch"),
    "al": ("agent", "list"),
    "as": ("agent", "switch"),
}
_NAMES = {"s": "session", "a": "agent", "h": "help"}
_HELP = CommandSpec(name="help", summary="What you can ask for by /name.", arguments="[command]")


def _objects() -> Mapping[str, tuple[str, Mapping[str, Verb]]]:
    from .agent_commands import AGENT_VERBS
    from .session_commands import SESSION_VERBS

    return {
        "session": ("This conversation, and your others.", SESSION_VERBS),
        "agent": ("Who answers.", AGENT_VERBS),
    }


def _spec(name: str, summary: str, verbs: Mapping[str, Verb]) -> CommandSpec:
    return CommandSpec(name=name, summary=summary, verbs={verb: each.spec for verb, each in verbs.items()})
