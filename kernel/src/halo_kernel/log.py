"""Logs: structured lines on stderr, and a rotated file for the server."""

from __future__ import annotations

import logging
from typing import cast

import structlog
from structlog.typing import FilteringBoundLogger

ROOT = "halo"


def logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a module or a plugin."""
    wrapped = structlog.wrap_logger(
        logging.getLogger(f"{ROOT}.{name}"),
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return cast("FilteringBoundLogger", wrapped)
