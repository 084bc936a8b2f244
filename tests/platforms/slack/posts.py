"""HTTP: events as signed JSON, commands and presses as signed forms, to the request URLs of an app."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from .clock import within
from .faults import Fault
from .ledger import Attempt, Delivered
from .messages import Json
from .signing import signed
from .team import App

if TYPE_CHECKING:
    from .platform import Platform

_STALE = 400  # seconds; Slack tells apps to refuse what is older than 300


class Posts:
    """Posts to apps."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._client = httpx.AsyncClient(timeout=None, trust_env=False)

    async def stop(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def verify(self, app: App) -> bool:
        """Send the challenge of the request URL; return whether it came back."""
        challenge = self._platform.team.new_id("challenge")
        asked = {"token": app.verification_token, "challenge": challenge, "type": "url_verification"}
        answer = await self._post(app, app.request_url or "", json.dumps(asked).encode(), "application/json", {})
        return answer.status_code == 200 and challenge in answer.text

    async def carry(self, app: App, delivered: Delivered, attempt: Attempt, fault: Fault | None) -> bool:
        """Post once and return whether the answer was 2xx in time."""
        attempt.via = "http"
        body, content_type = _encoded(delivered)
        headers = _retry_headers(attempt)
        self._platform.ledger.count("posts")
        try:
            sending = self._post(app, _address(app, delivered), body, content_type, headers, fault)
            answer = await within(self._platform.clock, self._platform.pace.ack, sending)
        except TimeoutError:
            attempt.outcome = "http_timeout"
            return False
        except httpx.TransportError:
            attempt.outcome = "connection_failed"
            return False
        attempt.status = answer.status_code
        delivered.reply = _reply(answer)
        if not answer.is_success:
            attempt.outcome = "no_retry" if answer.headers.get("x-slack-no-retry") == "1" else "http_error"
        return answer.is_success

    async def _post(
        self, app: App, url: str, body: bytes, content_type: str, headers: Json, fault: Fault | None = None
    ) -> httpx.Response:
        now, kind = self._platform.clock.now() // 1000, fault.kind if fault else ""
        secret = "wrong" if kind == "wrong_signature" else app.signing_secret
        signs = signed(secret, now - _STALE if kind == "stale_signature" else now, body)
        agent = {"User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)", "Content-Type": content_type}
        return await self._client.post(url, content=body, headers={**agent, **signs, **headers})


def _address(app: App, delivered: Delivered) -> str:
    own = {"interactive": app.interactivity_url, "slash_commands": app.commands_url}.get(delivered.kind)
    return own or app.request_url or ""


def _encoded(delivered: Delivered) -> tuple[bytes, str]:
    form = "application/x-www-form-urlencoded"
    if delivered.kind == "interactive":
        return urlencode({"payload": json.dumps(delivered.payload)}).encode(), form
    if delivered.kind == "slash_commands":
        return urlencode(delivered.payload).encode(), form
    return json.dumps(delivered.payload).encode(), "application/json"


def _retry_headers(attempt: Attempt) -> dict[str, str]:
    if attempt.number == 0:
        return {}
    return {"X-Slack-Retry-Num": str(attempt.number), "X-Slack-Retry-Reason": attempt.reason}


def _reply(answer: httpx.Response) -> Any:
    if answer.headers.get("content-type", "").startswith("application/json"):
        try:
            return answer.json()
        except ValueError:
            return None
    return {"text": answer.text} if answer.text else None
