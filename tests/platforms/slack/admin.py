"""What an administrator does with the apps of the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from .messages import Json
from .platform import Platform
from .team import App


class Admin:
    """Apps go by their names."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def app(self, name: str) -> App:
        """Return an app."""
        found = next((each for each in self._platform.team.apps.values() if each.name == name), None)
        if found is None:
            raise LookupError(f"app: there is no {name!r}")
        return found

    def add_app(self, name: str) -> Json:
        """Make an app and install it; return its tokens, secret and ids."""
        self._platform.team.add_app(name)
        return self.describe(name)

    def describe(self, name: str) -> Json:
        """Return an app's tokens, secret, ids and settings."""
        told = asdict(self.app(name))
        return {key: sorted(value) if isinstance(value, set) else value for key, value in told.items()}

    def set_app(
        self,
        name: str,
        *,
        scopes: Sequence[str] | None = None,
        events: Sequence[str] | None = None,
        commands: Sequence[str] | None = None,
        request_url: str | None = None,
    ) -> Json:
        """Change what is given; an empty `request_url` goes back to Socket Mode."""
        app = self.app(name)
        app.scopes = app.scopes if scopes is None else set(scopes)
        app.events = app.events if events is None else set(events)
        app.commands = app.commands if commands is None else set(commands)
        app.request_url = app.request_url if request_url is None else request_url or None
        return self.describe(name)

    async def verify(self, name: str) -> bool:
        """Send the challenge to the request URL, as Slack does when it is saved."""
        return await self._platform.posts.verify(self.app(name))

    def revoke(self, name: str) -> None:
        """Revoke the bot's token, and tell the app."""
        app = self.app(name)
        app.revoked = True
        self._platform.events.revoked(app, ts=self._platform.board.new_ts())
        self._platform.ledger.changed()

    def revoke_app_token(self, name: str) -> None:
        """Revoke the token that opens sockets; those that are open stay."""
        self.app(name).app_token_revoked = True

    def reinstall(self, name: str) -> str:
        """Give the bot a new token, which is returned; the former one is unknown from now on."""
        app = self.app(name)
        app.token, app.revoked = f"{app.token}+", False
        self._platform.ledger.changed()
        return app.token
