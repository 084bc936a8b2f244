"""What a test in another process does with the platform: `POST /control/<verb>` with JSON arguments."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

from .admin import Admin
from .faults import Fault
from .messages import Json
from .people import People
from .platform import Platform
from .web import Answer, Request, json_answer

_PEOPLE = (
    *("add_user", "add_channel", "invite", "archive", "say", "edit", "delete", "react", "stop_stream", "press"),
    *("command", "read", "answers", "beside", "download"),
)
_ADMIN = ("add_app", "describe", "set_app", "verify", "revoke", "revoke_app_token", "reinstall")


class Control:
    """The verbs. Bytes are base64; an answer is `{"result": …}`, or `{"error": …}` with status 400."""

    def __init__(self, platform: Platform, people: People, admin: Admin) -> None:
        self._platform = platform
        self._people = people
        self._admin = admin
        self.verbs: dict[str, Callable[..., Any]] = {
            **{name: getattr(people, name) for name in _PEOPLE},
            **{name: getattr(admin, name) for name in _ADMIN},
            **{each.__name__.lstrip("_"): each for each in self._own()},
        }

    def _own(self) -> tuple[Callable[..., Any], ...]:
        tests = (self._wait_answers, self._wait_count, self._fault, self._clear_faults, self._rates, self._ledger)
        sockets = (self._sockets, self._disconnect, self._refresh, self._silence, self._drop)
        return (*tests, *sockets, self._direct, self._upload, self._open_home)

    async def serve(self, request: Request) -> Answer:
        """Do what is asked."""
        verb = self.verbs.get(request.path.removeprefix("/control/"))
        if verb is None:
            return json_answer({"error": f"verb: none of {', '.join(sorted(self.verbs))}"}, status=404)
        try:
            result = verb(**json.loads(request.body or b"{}"))
            result = await result if inspect.isawaitable(result) else result
        except (LookupError, TypeError, ValueError, TimeoutError) as error:
            return json_answer({"error": f"{type(error).__name__}: {error}"}, status=400)
        return json_answer({"result": _plain(result)})

    def _direct(self, names: list[str]) -> str:
        return self._people.direct(*names)

    def _upload(self, user: str, channel: str, name: str, content: str, **facts: Any) -> str:
        return self._people.upload(user, channel, name, base64.b64decode(content), **facts)

    def _open_home(self, user: str, app: str, tab: str = "home") -> None:
        self._people.open_home(user, self._admin.app(app), tab=tab)

    async def _wait_answers(
        self, channel: str, thread: str | None = None, count: int = 1, timeout: float = 10.0
    ) -> list[Json]:
        def enough() -> list[Json]:
            found = self._people.answers(channel, thread=thread)
            return found if len(found) >= count else []

        found: list[Json] = await self._platform.ledger.wait(enough, timeout=timeout)
        return found

    async def _wait_count(self, name: str, at_least: int = 1, timeout: float = 10.0) -> int:
        counts = self._platform.ledger.counts
        await self._platform.ledger.wait(lambda: counts[name] >= at_least, timeout=timeout)
        return counts[name]

    def _fault(self, **facts: Any) -> None:
        self._platform.faults.add(Fault(**facts))

    def _clear_faults(self) -> None:
        self._platform.faults.clear()

    def _rates(self, on: bool) -> None:
        self._platform.rates.on = on

    def _ledger(self) -> Json:
        return self._platform.ledger.told()

    def _sockets(self) -> list[Json]:
        return [
            {"name": each.name, "app": each.app, "pings": each.pings, "silent": each.silent, "unacked": [*each.unacked]}
            for each in self._platform.sockets.open
        ]

    def _disconnect(self, reason: str, app: str | None = None) -> None:
        self._platform.sockets.disconnect(reason, app=self._admin.app(app) if app else None)

    async def _refresh(self, app: str | None = None) -> None:
        await self._platform.sockets.refresh(self._admin.app(app) if app else None)

    def _silence(self, app: str | None = None, *, new: bool = False) -> int:
        self._platform.sockets.mute = new
        return self._platform.sockets.silence(self._admin.app(app) if app else None)

    def _drop(self, app: str | None = None) -> int:
        return self._platform.sockets.drop(self._admin.app(app) if app else None)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
