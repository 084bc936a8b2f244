"""An app as people write them with slack-bolt: it says back what it hears, wherever it is spoken to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.http_retry.async_handler import AsyncRetryHandler
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
    AsyncServerErrorRetryHandler,
)
from slack_sdk.web.async_client import AsyncWebClient

from .slack import SlackServer

PING = 0.1  # seconds between two looks of the client at its socket
PATIENCE = (AsyncConnectionErrorRetryHandler, AsyncRateLimitErrorRetryHandler, AsyncServerErrorRetryHandler)


def client(slack: SlackServer, *, token: str | None = None, patient: bool = False) -> AsyncWebClient:
    """Return Slack's client for the app's bot; a patient one tries again as it is documented to."""
    handlers: list[AsyncRetryHandler] = [each(max_retry_count=2) for each in PATIENCE] if patient else []
    return AsyncWebClient(token or slack.app.token, base_url=slack.api_url, retry_handlers=handlers)


def echo_app(slack: SlackServer) -> AsyncApp:
    """Return the app."""
    app = AsyncApp(client=client(slack, patient=True), signing_secret=slack.app.signing_secret)
    slack.app.commands.add("/echo")

    @app.event("app_mention")
    async def mentioned(event: dict[str, Any], client: AsyncWebClient) -> None:
        await _answer(client, event, thread=event.get("thread_ts") or event["ts"])

    @app.event({"type": "message", "subtype": "file_share"})
    async def shared(event: dict[str, Any], client: AsyncWebClient) -> None:
        await _turn_around(slack, event, client)

    @app.event("message")
    async def said(event: dict[str, Any], client: AsyncWebClient) -> None:
        if event["channel_type"] == "im" and "subtype" not in event:
            await _answer(client, event, thread=event.get("thread_ts"))

    @app.command("/echo")
    async def commanded(ack: Any, command: dict[str, Any], respond: Any) -> None:
        await ack(f"heard {command['text']}")
        await respond(f"told {command['text']}", response_type="in_channel")

    @app.action("yes")
    async def pressed(ack: Any, action: dict[str, Any], respond: Any) -> None:
        await ack()
        await respond(f"chosen {action['value']}", replace_original=True)

    return app


async def _answer(client: AsyncWebClient, event: dict[str, Any], *, thread: str | None) -> None:
    text = f"echo: {event['text']}"
    button = {"type": "button", "action_id": "yes", "value": "42", "text": {"type": "plain_text", "text": "Yes"}}
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text}},
        {"type": "actions", "elements": [button]},
    ]
    await client.chat_postMessage(channel=event["channel"], text=text, blocks=blocks, thread_ts=thread)


async def _turn_around(slack: SlackServer, event: dict[str, Any], client: AsyncWebClient) -> None:
    if event.get("bot_id"):
        return
    file = event["files"][0]
    headers = {"Authorization": f"Bearer {slack.app.token}"}
    async with aiohttp.ClientSession() as session, session.get(file["url_private"], headers=headers) as answer:
        content = await answer.read()
    await client.files_upload_v2(
        channel=event["channel"], content=content[::-1], filename=f"back-{file['name']}", initial_comment="turned"
    )


@asynccontextmanager
async def over_socket(slack: SlackServer, app: AsyncApp) -> AsyncIterator[AsyncSocketModeHandler]:
    """Run the app in Socket Mode."""
    handler = AsyncSocketModeHandler(app, slack.app.app_token, ping_interval=PING)
    await handler.connect_async()
    await slack.connected()
    try:
        yield handler
    finally:
        await handler.close_async()
        await handler.client.aiohttp_client_session.close()


@asynccontextmanager
async def over_http(slack: SlackServer, app: AsyncApp) -> AsyncIterator[None]:
    """Run the app's own HTTP server, and let events go there."""
    runner = web.AppRunner(app.server(port=0).web_app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    slack.admin.set_app(slack.app.name, request_url=f"http://127.0.0.1:{port}/slack/events")
    try:
        yield
    finally:
        await runner.cleanup()
