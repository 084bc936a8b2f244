"""Logs: structured lines on stderr, and a rotated file for the server. No secret is ever in a line."""

from __future__ import annotations

import logging
import re
import sys
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from .secrets import Redactor, private

if TYPE_CHECKING:
    from pathlib import Path

    from .settings import LogSettings

ROOT = "halo"
_CREDENTIAL = re.compile(r"""(?i)([?&](?:token|key|api_key|secret|password)=|\bbearer\s+)[^&\s"'#]+""")
_COMMON: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module or a plugin."""
    wrapped: FilteringBoundLogger = structlog.wrap_logger(
        logging.getLogger(f"{ROOT}.{name}"),
        processors=[structlog.stdlib.filter_by_level, *_COMMON, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return wrapped


def configure(
    settings: LogSettings, *, redactor: Redactor, file: Path | None = None, stream: TextIO | None = None
) -> None:
    """Log to `stream` (stderr), and to `file` where one is given, in place of what was configured before.

    `redactor` takes the secrets that it knows out of every line, tracebacks included.
    """
    reset()
    target, form = stream or sys.stderr, settings.format
    handlers: list[logging.Handler] = [logging.StreamHandler(target)]
    if file is not None:
        size, kept = settings.max_file_size, settings.max_files
        handlers.append(_ServerLog(file, maxBytes=size, backupCount=kept, encoding="utf-8", delay=True))
    for handler in handlers:
        is_text = form == "text" or (form == "auto" and (handler is not handlers[0] or target.isatty()))
        handler.setFormatter(_Formatter(_text if is_text else _json, redactor))
        logging.getLogger().addHandler(handler)
    level: int = getattr(logging, settings.level.upper())
    logging.getLogger().setLevel(logging.INFO if level == logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger(ROOT).setLevel(level)


def reset() -> None:
    """Take away what `configure` added, and close its file."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each.formatter, _Formatter)]:
        root.removeHandler(handler)
        handler.close()


def _named(log: Any, method: str, event: EventDict) -> EventDict:
    """Put first what every line has; a traceback shows no local variables, which may hold secrets."""
    event = structlog.processors.format_exc_info(log, method, event)
    level, module = str(event.pop("level", "")), str(event.pop("logger", ""))
    head = {"time": event.pop("timestamp", ""), "level": "warn" if level == "warning" else level}
    return {**head, "module": module.removeprefix(f"{ROOT}."), "message": event.pop("event", ""), **event}


_json = structlog.processors.JSONRenderer(ensure_ascii=False)


def _text(log: Any, method: str, event: EventDict) -> str:
    """Render `time=… level=… [module] message key=value`, a traceback below it."""
    time, level, module, message = (str(event.pop(name)) for name in ("time", "level", "module", "message"))
    trace = event.pop("exception", "")
    fields = "".join(f" {key}={_shown(value)}" for key, value in event.items())
    line = f"time={time} level={level} [{module}] {message}".replace("\n", "\\n") + fields
    return f"{line}\n{trace}" if trace else line


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text) if re.search(r"[\s=\"]", text) or not text else text


class _Formatter(ProcessorFormatter):
    """Renders a record, ours or another library's, and takes every secret out of the finished line."""

    def __init__(self, renderer: Processor, redactor: Redactor) -> None:
        chain = [ProcessorFormatter.remove_processors_meta, _named, renderer]
        super().__init__(foreign_pre_chain=_COMMON, processors=chain)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return _CREDENTIAL.sub(r"\1***", self._redactor(super().format(record)))


class _ServerLog(RotatingFileHandler):
    """The server's own file, readable by its owner only. A full disk silences it and stops nothing."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing: the line is on stderr."""
