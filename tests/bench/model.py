"""The model as a process: every answer is twenty words, the first and the last of which say how long the model took.

A question may hold `first=SECONDS` (before the first word) and `delay=SECONDS` (before each other one). The words keep
to a timetable that begins when the question has arrived, so one that is late delays no other. They are `first:SECONDS`,
eighteen times `quark`, and `whole:SECONDS`: the time since the question had arrived, by this process's own clock.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import time

import msgspec

WORDS = 20
MODELS = b'{"object":"list","data":[{"id":"scripted","object":"model"}]}'
_PACE = re.compile(r"\b(first|delay)=([0-9.]+)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_CHUNK = 'data: {"id":"1","object":"chat.completion.chunk","model":"scripted","choices":[{"index":0,%s}]}\n\n'
_STOP = _CHUNK % '"delta":{},"finish_reason":"stop"'
_USAGE = 'data: {"id":"1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\n'
_END = _STOP + _USAGE + "data: [DONE]\n\n"


class Said(msgspec.Struct):
    """A message of a question."""

    content: str = ""


class Question(msgspec.Struct):
    """What is asked: the last message counts."""

    messages: list[Said]


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what comes on one connection until it ends."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if head.startswith(b"POST"):
                await _answer(msgspec.json.decode(body, type=Question), writer)
            else:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(MODELS)
                )
                writer.write(MODELS)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _answer(question: Question, writer: asyncio.StreamWriter) -> None:
    began = time.perf_counter()
    pace = {name: float(value) for name, value in _PACE.findall(question.messages[-1].content)}
    first, delay = pace.get("first", 0.0), pace.get("delay", 0.0)
    writer.write(_HEAD)
    for number in range(WORDS):
        left = began + first + number * delay - time.perf_counter()
        if left > 0:
            await asyncio.sleep(left)
        _send(
            _CHUNK % f'"delta":{{"content":"{_word(number, time.perf_counter() - began)} "}},"finish_reason":null',
            writer,
        )
    _send(_END, writer)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _word(number: int, took: float) -> str:
    return {0: f"first:{took:.6f}", WORDS - 1: f"whole:{took:.6f}"}.get(number, "quark")


def _send(text: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(text), text.encode()))


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int, required=True)
    ready_fd = parser.parse_args().ready_fd
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=2**20, backlog=512)
    os.write(ready_fd, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n".encode())
    os.close(ready_fd)
    await stopping.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
