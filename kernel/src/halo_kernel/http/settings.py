"""The kernel's routes that show and change settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from msgspec import Struct, structs, to_builtins

from ..errors import BadInput
from ..records import Exchange, Route, Secret, WorkspaceInfo
from ..runtime import Kernel
from ..settings import Finding, Reading, SettingsField

_PATH = "/api/settings"


class SettingsShown(Struct, frozen=True, kw_only=True):
    """All settings of the server or of a workspace; `revision` names the state of the file that a change goes to."""

    revision: str
    settings: tuple[SettingsField, ...]
    findings: tuple[Finding, ...]


class SettingsWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values by dotted key, null for the default; refused when the file is not the one of `revision` any more."""

    changes: dict[str, Any]
    revision: str | None = None
    workspace: str = ""


@dataclass(frozen=True, kw_only=True)
class SettingsDesk:
    """Answers the routes of the settings."""

    kernel: Kernel

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        show = Route(method="GET", path=_PATH, handler=self.show, summary="Show settings", reply=SettingsShown)
        change = replace(show, method="PATCH", handler=self.change, summary="Change settings", request=SettingsWanted)
        return [show, change]

    async def show(self, exchange: Exchange) -> SettingsShown:
        """Show all settings of the server, or of the workspace of the query, secrets masked."""
        workspace = await self._workspace(exchange.query.get("workspace", ""))
        return _shown(await asyncio.to_thread(self.kernel.settings.at, workspace))

    async def change(self, exchange: Exchange) -> SettingsShown:
        """Change all of the given settings, or none, and show what they are now."""
        wanted, settings = cast("SettingsWanted", exchange.body), self.kernel.settings
        workspace = await self._workspace(wanted.workspace)
        for field in settings.fields():
            if field.command and wanted.changes.get(field.key) is not None:
                said = f"{field.key} has rules that `{field.command}` keeps, and is set with that alone"
                raise BadInput(said, field=field.key)
        await asyncio.to_thread(settings.write, wanted.changes, revision=wanted.revision, workspace=workspace)
        return _shown(await asyncio.to_thread(settings.at, workspace))

    async def _workspace(self, name: str) -> WorkspaceInfo | None:
        return await self.kernel.workspaces.get(name) if name else None


def _shown(reading: Reading) -> SettingsShown:
    plain = partial(to_builtins, enc_hook=Secret.masked)
    fields = [
        structs.replace(each, default=plain(each.default), value=each.written or plain(each.value))
        for each in reading.fields.values()
    ]
    return SettingsShown(revision=reading.file.revision, settings=tuple(fields), findings=tuple(reading.findings))
