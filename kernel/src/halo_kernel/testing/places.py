"""Where code is: the line that a person should look at, of a frame, a thread or a coroutine that waits."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

_STDLIB = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep
_INSTALLED = os.sep + "site-packages" + os.sep


def current_frames() -> Mapping[int, FrameType]:
    """Return the innermost frame of every thread, by the thread's ident."""
    return sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented for debuggers


def frames_of(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and those that called it, innermost first."""
    found: list[FrameType] = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def told(frame: FrameType) -> str:
    """Return `file:line in function: source`."""
    path, line = frame.f_code.co_filename, frame.f_lineno
    return f"{path}:{line} in {frame.f_code.co_qualname}: {linecache.getline(path, line).strip()}"


def place_of(frames: Sequence[FrameType]) -> str:
    """Return the first line of a stack, innermost first, that is not the standard library's."""
    own = [frame for frame in frames if not _is_stdlib(frame)] or frames
    return told(own[0]) if own else "an unknown place"


def frames_of_coroutine(work: Any) -> list[FrameType]:
    """Return where a suspended coroutine waits and what awaits it there, innermost first."""
    frames: list[FrameType] = []
    while work is not None:
        frame = _attribute(work, "cr_frame", "ag_frame", "gi_frame")
        frames += [frame] if frame is not None else []
        work = _attribute(work, "cr_await", "ag_await", "gi_yieldfrom")
    return frames[::-1]


def _attribute(thing: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(thing, name, None)) is not None), None)


def _is_stdlib(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith("<frozen") or (os.path.realpath(path).startswith(_STDLIB) and _INSTALLED not in path)
