"""Logs: structured lines on stderr, and a rotated file for the server. No secret is ever in a line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from .records import Secret
from .secrets import PRIVATE_FILE, Redactor

if TYPE_CHECKING:
    from pathlib import Path

    from .settings import LogSettings

ROOT = "halo"
_MARK = "halo."
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_CREDENTIAL = re.compile(r"""(?i)([?&](?:token|key|api_key|secret|password)=|\bbearer\s+)[^&\s"'#]+""")
_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module or a plugin."""
    wrapped: Any = structlog.wrap_logger(
        logging.getLogger(f"{ROOT}.{name}"),
        processors=[structlog.stdlib.filter_by_level, *_COMMON, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return cast("FilteringBoundLogger", wrapped)


def configure(
    settings: LogSettings,
    *,
    secrets: Iterable[Secret] = (),
    file: Path | None = None,
    stream: TextIO | None = None,
) -> None:
    """Log to `stream` (stderr), and to `file` where one is given, in place of what was configured before.

    `secrets` are replaced by their names in every line, tracebacks included.
    """
    redactor = Redactor(secrets)
    target = sys.stderr if stream is None else stream
    handlers: list[logging.Handler] = [logging.StreamHandler(target)]
    handlers[0].setFormatter(_Formatter(_renderer(settings.format, target), redactor))
    if file is not None:
        handlers.append(_ServerLog(file, settings.max_file_size, settings.max_files))
        handlers[1].setFormatter(_Formatter(_json() if settings.format == "json" else _line, redactor))
    level = _LEVELS[settings.level]
    root = logging.getLogger()
    reset()
    for number, handler in enumerate(handlers):
        handler.name = f"{_MARK}{number}"
        root.addHandler(handler)
    root.setLevel(logging.INFO if level == logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger(ROOT).setLevel(level)


def reset() -> None:
    """Take away what `configure` added, and close its file."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if (each.name or "").startswith(_MARK)]:
        root.removeHandler(handler)
        handler.close()


def _renderer(form: str, stream: TextIO) -> Processor:
    terminal = stream.isatty()
    if form == "json" or (form == "auto" and not terminal):
        return _json()
    if not terminal:
        return _line
    colors = not os.environ.get("NO_COLOR")
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)


def _json() -> Processor:
    renderer = structlog.processors.JSONRenderer(ensure_ascii=False)

    def render(log: Any, method: str, event: EventDict) -> str:
        named = {"time": event.pop("timestamp", ""), "level": _level(event), "module": _module(event)}
        return str(renderer(log, method, {**named, "message": event.pop("event", ""), **event}))

    return _plain_errors(render)


def _line(log: Any, method: str, event: EventDict) -> str:
    """Render `time=… level=… [module] message key=value`, a traceback below it."""
    return str(_plain_errors(_text)(log, method, event))


def _text(log: Any, method: str, event: EventDict) -> str:
    head = f"time={event.pop('timestamp', '')} level={_level(event)} [{_module(event)}] {event.pop('event', '')}"
    trace = event.pop("exception", "")
    fields = "".join(f" {key}={_shown(value)}" for key, value in event.items())
    return head.replace("\n", "\\n") + fields + (f"\n{trace}" if trace else "")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text) if re.search(r"[\s=\"]", text) or not text else text


def _level(event: EventDict) -> str:
    level = str(event.pop("level", ""))
    return "warn" if level == "warning" else level


def _module(event: EventDict) -> str:
    return str(event.pop("logger", "")).removeprefix(f"{ROOT}.")


def _plain_errors(render: Processor) -> Processor:
    """Turn `exc_info` into a traceback without local variables, which may hold secrets."""

    def processor(log: Any, method: str, event: EventDict) -> Any:
        return render(log, method, structlog.processors.format_exc_info(log, method, event))

    return processor


class _Formatter(ProcessorFormatter):
    """Renders a record, ours or another library's, and takes every secret out of the finished line."""

    def __init__(self, renderer: Processor, redactor: Redactor) -> None:
        super().__init__(foreign_pre_chain=_COMMON, processors=[ProcessorFormatter.remove_processors_meta, renderer])
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return _CREDENTIAL.sub(r"\1***", self._redactor(super().format(record)))


class _ServerLog(RotatingFileHandler):
    """The server's own file, readable by its owner only. A full disk silences it and stops nothing."""

    def __init__(self, path: Path, size: int, kept: int) -> None:
        super().__init__(path, maxBytes=size, backupCount=kept, encoding="utf-8", delay=True)

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=_private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing: the line is on stderr."""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE_FILE)
