"""An echo on aiogram, as people write one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramRetryAfter
from aiogram.filters import CommandStart
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    Message,
)


async def _patiently(send: Callable[[], Awaitable[Any]]) -> None:
    while True:
        try:
            await send()
            return
        except TelegramRetryAfter as error:
            await asyncio.sleep(error.retry_after)


async def _start(message: Message) -> None:
    keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="Yes", callback_data="yes")]])
    await message.answer("<b>Ready</b>?", parse_mode="HTML", reply_markup=keyboard)


async def _text(message: Message) -> None:
    await _patiently(lambda: message.answer(f"echo: {message.text}"))


async def _edited(message: Message) -> None:
    await message.answer(f"edited: {message.text}")


async def _photo(message: Message, bot: Bot) -> None:
    assert message.photo
    data = await bot.download(message.photo[-1])
    assert data is not None
    await message.answer_photo(BufferedInputFile(data.read(), "photo.png"), caption=message.caption)


async def _document(message: Message, bot: Bot) -> None:
    assert message.document
    data = await bot.download(message.document)
    assert data is not None
    await message.answer_document(BufferedInputFile(data.read(), message.document.file_name or "file"))


async def _pressed(query: CallbackQuery) -> None:
    await query.answer("thanks")
    assert isinstance(query.message, Message)
    await query.message.edit_text(f"pressed: {query.data}")


@asynccontextmanager
async def aiogram(url: str, token: str) -> AsyncIterator[None]:
    """Run the echo by polling."""
    bot = Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(url)))
    dispatcher = Dispatcher()
    dispatcher.message.register(_start, CommandStart())
    dispatcher.message.register(_photo, F.photo)
    dispatcher.message.register(_document, F.document)
    dispatcher.message.register(_text, F.text)
    dispatcher.edited_message.register(_edited)
    dispatcher.callback_query.register(_pressed)
    await bot.set_my_commands([BotCommand(command="start", description="Begin")])
    started = asyncio.Event()

    async def on_startup() -> None:
        started.set()

    dispatcher.startup.register(on_startup)
    in_order = dispatcher.start_polling(bot, polling_timeout=10, handle_signals=False, handle_as_tasks=False)
    polling = asyncio.ensure_future(in_order)
    await started.wait()
    try:
        yield
    finally:
        await dispatcher.stop_polling()
        await polling
