"""An echo on python-telegram-bot, as people write one: `python -m tests.platforms.telegram.ptb_bot URL TOKEN`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from telegram import InlineKeyboardButton, InlineKeyboardMarkup, Update
from telegram.error import RetryAfter
from telegram.ext import Application, CallbackQueryHandler, CommandHandler, ContextTypes, MessageHandler, filters

Context = ContextTypes.DEFAULT_TYPE
SECRET = "a-webhook-secret"


async def _patiently(send: Callable[[], Awaitable[Any]]) -> None:
    while True:
        try:
            await send()
            return
        except RetryAfter as error:
            wait = error.retry_after
            await asyncio.sleep(wait if isinstance(wait, int) else wait.total_seconds())


async def _start(update: Update, context: Context) -> None:
    assert update.message is not None
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
    await update.message.reply_html("<b>Ready</b>?", reply_markup=keyboard)


async def _text(update: Update, context: Context) -> None:
    message = update.message
    assert message is not None
    await _patiently(lambda: message.reply_text(f"echo: {message.text}"))


async def _edited(update: Update, context: Context) -> None:
    assert update.edited_message is not None
    await update.edited_message.reply_text(f"edited: {update.edited_message.text}")


async def _photo(update: Update, context: Context) -> None:
    assert update.message is not None
    file = await update.message.photo[-1].get_file()
    await update.message.reply_photo(bytes(await file.download_as_bytearray()), caption=update.message.caption)


async def _document(update: Update, context: Context) -> None:
    assert update.message is not None and update.message.document is not None
    file = await update.message.document.get_file()
    data = bytes(await file.download_as_bytearray())
    await update.message.reply_document(data, filename=update.message.document.file_name)


async def _pressed(update: Update, context: Context) -> None:
    assert update.callback_query is not None
    await update.callback_query.answer("thanks")
    await update.callback_query.edit_message_text(f"pressed: {update.callback_query.data}")


@asynccontextmanager
async def ptb(url: str, token: str, *, webhook: int = 0) -> AsyncIterator[None]:
    """Run the echo by polling, or by a webhook on the port `webhook`."""
    builder = Application.builder().token(token).base_url(f"{url}/bot").base_file_url(f"{url}/file/bot")
    application = builder.concurrent_updates(False).build()
    application.add_handler(MessageHandler(filters.UpdateType.EDITED_MESSAGE, _edited))
    application.add_handler(CommandHandler("start", _start))
    application.add_handler(MessageHandler(filters.PHOTO, _photo))
    application.add_handler(MessageHandler(filters.Document.ALL, _document))
    application.add_handler(MessageHandler(filters.TEXT, _text))
    application.add_handler(CallbackQueryHandler(_pressed))
    async with application:
        await application.bot.set_my_commands([("start", "Begin")])
        await application.start()
        assert application.updater is not None
        if webhook:
            address = f"http://127.0.0.1:{webhook}/hook"
            await application.updater.start_webhook(
                "127.0.0.1", webhook, "hook", webhook_url=address, secret_token=SECRET, bootstrap_retries=0
            )
        else:
            await application.updater.start_polling(timeout=10)
        try:
            yield
        finally:
            await application.updater.stop()
            await application.stop()


async def _forever(url: str, token: str) -> None:
    async with ptb(url, token):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_forever(*sys.argv[1:3]))
