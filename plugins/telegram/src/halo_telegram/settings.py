"""The settings of the section `telegram`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import Secret, Section


class TelegramSettings(Struct, frozen=True, kw_only=True):
    """Where the Bot API is, how it is asked, and one account for those who have no other way to make one."""

    base_url: Annotated[
        str,
        Meta(
            description="Where the Bot API is; a server of one's own can stand in.",
            pattern=r"^https?://\S+$",
            extra={"restart": True},
        ),
    ] = "https://api.telegram.org"
    poll_seconds: Annotated[
        int, Meta(ge=1, le=50, description="How long one call for updates waits.", extra={"restart": True})
    ] = 25
    draft_seconds: Annotated[
        float,
        Meta(ge=0, le=60, description="How often an answer that is written is shown in a private chat; 0: never."),
    ] = 1.0
    token: Annotated[
        Secret | None,
        Meta(description="Token of a bot, for accounts that have none of their own.", extra={"restart": True}),
    ] = None
    workspace: Annotated[
        str,
        Meta(description="Folder that the account `main` speaks for; empty: there is none.", extra={"restart": True}),
    ] = ""
    users: Annotated[
        tuple[str, ...],
        Meta(description="Who may write to `main`: numbers or @names; empty: all.", extra={"restart": True}),
    ] = ()


SECTION = Section("telegram", TelegramSettings, global_only=True)
