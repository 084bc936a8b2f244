"""Who speaks, what arrives at a session, and what a session tells about itself."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .deliveries import Pointer

Access = Literal["full", "workspace", "readonly"]
Mode = Literal["steer", "follow_up", "interrupt_soft", "interrupt_hard"]
PrincipalKind = Literal["person", "agent", "unattended", "remote"]
State = Literal["closed", "running", "waiting", "idle"]
ShrinkReason = Literal["threshold", "overflow", "manual", "turn_end"]


class Principal(Struct, frozen=True, kw_only=True):
    """Who acts: `name` is unique within its kind, `access` the most this principal may do, `scheme` who vouched.

    Name and kind together are who owns a session, and whose the keys of messages are; the other two are not compared.
    """

    name: str
    kind: PrincipalKind = "person"
    access: Access = "full"
    scheme: str = "operator"


OPERATOR = Principal(name="operator")


class Incoming(Struct, frozen=True, kw_only=True):
    """A message for a session. `key` is the source's own, 1 to 300 characters; None makes one up.

    A key is its principal's, across all sessions of a workspace: a repeat writes nothing and gives the first receipt,
    also when that is of another session. `route` is where the turn's answer goes,
    `<dispatcher>:<account>:<chat>[:<thread>]`, '' for a source that reads the journal. `reply_to` makes the session's
    tree report there once it rests. `cause` is `message` for what somebody says, which people see as said; a plugin's
    own word, such as `reminder`, makes it a notice. What a principal of the kind `person` says with the cause `message`
    is a command when it begins with `/name`.
    """

    text: str
    key: str | None = None
    mode: Mode = "interrupt_soft"
    principal: Principal = OPERATOR
    access: Access | None = None
    route: str = ""
    reply_to: Pointer | None = None
    cause: str = "message"


class Receipt(Struct, frozen=True, kw_only=True):
    """Proof that a message is durable: it survives `kill -9` and is consumed exactly once.

    All that comes of it comes after `cursor` in the session's journal. `question` is the open question, if one keeps
    the session waiting.
    """

    session: str
    row: int
    key: str
    at: int
    cursor: str
    question: int | None = None


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session as lists and plugins see it.

    `folder` is the workspace's absolute path, `directory` the part of it that the session is about, relative, '' for
    all; times are UTC milliseconds.
    """

    id: str
    root: str
    workspace: str
    folder: str
    agent: str
    access: Access
    principal: str
    principal_kind: PrincipalKind = "person"
    parent: str | None = None
    origin: str = ""
    title: str = ""
    directory: str = ""
    model: str = ""
    state: State = "idle"
    marks: tuple[str, ...] = ()
    head: int = 0
    created_at: int = 0
    updated_at: int = 0
    stopped: bool = False
    archived: bool = False
    deleted: bool = False
    parked: bool = False


class TurnResult(Struct, frozen=True, kw_only=True):
    """How a turn ended: `text` is its last answer, `error` a sentence for people, `kind` what of error it is.

    `kind` is the `kind` of a `ModelError` (such as `account`), the name of another error's class (`PromptTooLarge`),
    `max_steps`, `internal` for what a plugin or the kernel raised, `crash`, `fork`, or '' for no error.
    """

    session: str
    turn: str
    outcome: Literal["succeeded", "failed", "cancelled", "interrupted", "yielded"]
    text: str = ""
    error: str = ""
    kind: str = ""


class WorkspaceInfo(Struct, frozen=True, kw_only=True):
    """A workspace: `id` is random and lives in its database, `path` is absolute."""

    id: str
    path: str


class ModelChoice(Struct, frozen=True, kw_only=True):
    """An agent's wish for a model: `<provider>/<id>`, its own endpoint, answer length, and provider options.

    `fallbacks` are asked in their order when it fails, None: those of the setting.
    """

    model: str
    fallbacks: tuple[str, ...] | None = None
    endpoint: str | None = None
    max_tokens: int | None = None
    options: dict[str, object] = {}


class AgentSpec(Struct, frozen=True, kw_only=True):
    """An agent that can run sessions.

    `tools` whitelists tool names, None allows all; `team` names the agents that it may start sessions of, None or
    nothing: none. `source` says where it is defined. `context_tokens` is how long a conversation may get, None: as its
    model takes; `compress_at` at which part of that it is shortened, None: as set.
    """

    id: str
    name: str
    description: str = ""
    model: ModelChoice | None = None
    tools: tuple[str, ...] | None = None
    team: tuple[str, ...] | None = None
    priority: int = 0
    internal: bool = False
    source: str = ""
    context_tokens: int | None = None
    compress_at: float | None = None


Slot = Literal["profile", "agent", "team", "instructions", "knowledge", "place", "root", "all", "skills", "tools"]


class ContextPart(Struct, frozen=True, kw_only=True):
    """A piece of the system prompt. The kernel orders parts by slot, plugin and `source`."""

    slot: Slot
    source: str
    text: str


class PreparedInput(Struct, frozen=True, kw_only=True):
    """One inbox row on its way into the history: `text` for people, `content` for the model.

    Of a message with a route `content` begins with a line `[channel: <kind> | user: <user>]`, of one by another session
    with `(from: session <id>)`; plugins add to it by `prepare_input`.
    """

    row: int
    text: str
    content: str
    sender: str
    stamp: str


class Extension(Struct, frozen=True, kw_only=True):
    """A message that a plugin adds when a turn ends, for the session `session` of the workspace, '' for the turn's own.

    It is accepted with what ends the turn, at the turn's level or a lower one; `message.reply_to` does not count.
    """

    message: Incoming
    session: str = ""


class Denial(Struct, frozen=True):
    """Why a call is refused, a sentence for the model and for people."""

    reason: str
