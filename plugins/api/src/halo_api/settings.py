"""Settings of the server and of workspaces: a look at them, and changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from msgspec import Struct, structs, to_builtins

from halo_kernel import BadInput, Exchange, Host, Route, Secret, SettingsField, SettingsFinding, WorkspaceInfo
from halo_lib_settings import revision_of, write_settings

SETTINGS = "/api/settings"


class SettingsShown(Struct, frozen=True, kw_only=True):
    """All settings of the server or of a workspace; `revision` names the state of the file that a change goes to."""

    revision: str
    settings: Sequence[SettingsField]
    findings: Sequence[SettingsFinding]


class SettingsWanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values by dotted key, null for the default; refused when the file is not the one of `revision` any more."""

    changes: dict[str, Any]
    revision: str | None = None
    workspace: str = ""


@dataclass(frozen=True)
class _Settings:
    host: Host

    async def show(self, exchange: Exchange) -> SettingsShown:
        return await self._shown(await self._workspace(exchange.query.get("workspace", "")))

    async def change(self, exchange: Exchange) -> SettingsShown:
        wanted = cast("SettingsWanted", exchange.body)
        settings, workspace = self.host.settings, await self._workspace(wanted.workspace)
        for field in settings.at().fields.values():
            if field.command and wanted.changes.get(field.key) is not None:
                said = f"{field.key} has rules that `{field.command}` keeps, and is set with that alone"
                raise BadInput(said, field=field.key)
        revision, values = wanted.revision, wanted.changes
        await asyncio.to_thread(write_settings, settings, values, revision=revision, workspace=workspace)
        return await self._shown(workspace)

    async def _workspace(self, name: str) -> WorkspaceInfo | None:
        return await self.host.workspaces.get(name) if name else None

    async def _shown(self, workspace: WorkspaceInfo | None) -> SettingsShown:
        """Return all settings as people may see them: secrets masked, and references as they are written."""
        reading, plain = (
            await asyncio.to_thread(self.host.settings.at, workspace),
            partial(to_builtins, enc_hook=Secret.masked),
        )
        fields = [
            structs.replace(each, default=plain(each.default), value=each.written or plain(each.value))
            for each in reading.fields.values()
        ]
        return SettingsShown(revision=revision_of(reading.file), settings=fields, findings=reading.findings)


def settings_routes(host: Host) -> list[Route]:
    """Return the routes of settings."""
    on = _Settings(host)
    return [
        Route(
            method="GET",
            path=SETTINGS,
            handler=on.show,
            reply=SettingsShown,
            summary="Show all settings, secrets masked, with where each value is from",
        ),
        Route(
            method="PATCH",
            path=SETTINGS,
            handler=on.change,
            request=SettingsWanted,
            reply=SettingsShown,
            summary="Change all of the given settings, or none, and show what they are now",
        ),
    ]
