"""Every extension point. A plugin implements any of these with `@hook` and takes only the arguments it wants.

Every function here is one. `provide_*` is plain and fast, called once; a past participle is told after the commit; an
imperative asks a question.
"""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false
# The docstring is the whole body of a specification, which nobody calls.
from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isfunction
from typing import TYPE_CHECKING

import pluggy

from . import contracts, records

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from .errors import PluginFailed
    from .settings import Settings

PROJECT = "halo"
spec = pluggy.HookspecMarker(PROJECT)
hook = pluggy.HookimplMarker(PROJECT)


def provide_settings() -> Iterable[records.Section]:
    """Collect: the plugin's settings sections."""


def provide_storage(settings: Settings) -> Iterable[contracts.Storage]:
    """Collect: storage engines; that of a plugin is used in place of the kernel's own, and two are an error."""


def provide_models(settings: Settings, host: contracts.Host) -> Iterable[contracts.ModelProvider]:
    """Collect: model providers."""


def provide_agents(host: contracts.Host) -> Iterable[contracts.AgentSource]:
    """Collect: sources of agents."""


def provide_routes(host: contracts.Host) -> Iterable[records.Route]:
    """Collect: HTTP routes; two claims on one path are a load error that names both."""


def provide_channels(host: contracts.Host) -> Iterable[contracts.Channel]:
    """Collect: channels, one of a type."""


def provide_dispatchers(host: contracts.Host) -> Iterable[contracts.Dispatcher]:
    """Collect: what carries deliveries, one of a kind."""


def provide_services(host: contracts.Host) -> Iterable[contracts.Service]:
    """Collect: long-lived tasks of the server, supervised; a command's own kernel has none."""


def provide_tools(session: contracts.Session, host: contracts.Host) -> Iterable[contracts.Tool]:
    """Collect: tools for one session."""


async def workspace_opened(workspace: records.WorkspaceInfo, host: contracts.Host) -> None:
    """Notify, awaited: a workspace was opened; seed its files here, never overwriting a person's."""


async def session_opened(session: contracts.Session) -> None:
    """Notify, awaited: a session was opened, before its first turn; what it needs goes to `session.scope`."""


async def runtime_started(host: contracts.Host) -> None:
    """Notify: the server listens."""


async def runtime_stopping(host: contracts.Host) -> None:
    """Notify, awaited: the server stops; give back what `provide_*` made."""


async def message_received(session: records.SessionInfo, receipt: records.Receipt) -> None:
    """Notify: a message is durable."""


async def run_started(session: records.SessionInfo, turn: contracts.Turn) -> None:
    """Notify: a turn has begun."""


async def run_finished(session: records.SessionInfo, result: records.TurnResult) -> None:
    """Notify: a turn has ended."""


async def session_erased(session: records.SessionInfo) -> None:
    """Notify, awaited: a session, or something in it, was erased or deleted; a copy of it is taken out here.

    Out of files too when it was erased. With a session that is `deleted` go all below it.
    """


async def tool_finished(session: records.SessionInfo, event: records.Event) -> None:
    """Notify: a tool's result is in the journal."""


async def model_finished(call: contracts.ModelCall) -> None:
    """Notify: a model call has ended; `call` has its usage or its error, neither when it was cut or waits."""


async def delivery_settled(delivery: records.Delivery) -> None:
    """Notify: all parts of a delivery are sent, failed or uncertain."""


async def plugin_failed(failure: PluginFailed) -> None:
    """Notify: a plugin's hook failed and was left out."""


async def resolve_model(name: str, session: contracts.Session) -> str | None:
    """First: another `<provider>/<id>` for the model name that an agent asks for, such as an alias."""


async def shrink_context(
    reason: records.ShrinkReason,
    session: contracts.Session,
    request: records.ModelRequest,
    history: Sequence[records.Piece],
) -> records.ContextCut | None:
    """First: what shall leave the model's history, of which `request` is made; it may take an hour to tell."""


async def authenticate(request: HTTPConnection, scheme: str) -> records.Principal | None:
    """First: who makes this request, for a scheme of the plugin's own. Raises `WrongCredentials`."""


async def authorize_tool(call: contracts.Call, session: contracts.Session) -> records.Denial | records.Question | None:
    """Guard: refuse a tool call, or ask a person first. All plugins are asked; a failure refuses.

    A denial goes before a question. After an approval all are asked again, and only a denial counts.
    """


async def authorize_model(
    call: contracts.ModelCall, session: contracts.Session
) -> records.Denial | records.Question | None:
    """Guard: refuse a model call, or ask a person first; as `authorize_tool`."""


async def prepare_input(
    batch: Sequence[records.PreparedInput], session: contracts.Session, turn: contracts.Turn
) -> Sequence[records.PreparedInput]:
    """Fold: change what people and the model see of each row of a batch; same rows, same order.

    `turn` is the one that it begins, or that runs when a steering message joins.
    """


async def prepare_context(session: contracts.Session) -> Iterable[records.ContextPart]:
    """Collect: parts of the system prompt."""


async def extend_turn(turn: contracts.Turn, session: contracts.Session) -> Iterable[records.Extension]:
    """Collect: messages that are accepted in the write that ends a turn which succeeded or failed.

    If one is for the turn's own session, what the turn answered is sent as interim, and the next turn replies too.
    """


async def list_commands(session: contracts.Session) -> Iterable[records.CommandSpec]:
    """Collect: the commands that people have in a session."""
    return ()


async def resolve_command(name: str, session: contracts.Session) -> contracts.Command | None:
    """First: the command of a name, or of one of its aliases."""


async def report_health(host: contracts.Host) -> Iterable[records.HealthCheck]:
    """Collect: what `halo doctor` should say of the plugin's own matters, such as a program that it needs."""


_SPECIFICATIONS = [spec(each) for each in [*globals().values()] if isfunction(each) and each.__module__ == __name__]
