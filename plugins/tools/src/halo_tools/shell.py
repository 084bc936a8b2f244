"""`shell_exec`: a command in the workspace, in a sandbox below full access."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from msgspec import Meta, Struct

from halo_kernel import BadInput, Call, Forbidden, HaloError, ToolSpec
from halo_lib_files import Finished, run

from .arguments import schema
from .environment import full_environment, minimal_environment
from .jail import Bubblewrap, jail_for
from .removal import forbidden_removal
from .work import Work

COMMAND_CHARS = 100_000
_SHOWN = 500
_TELL_SECONDS = 1.0
_DENIED = ("Read-only file system", "Permission denied", "Operation not permitted")


class ShellArguments(Struct, forbid_unknown_fields=True):
    """What `shell_exec` takes."""

    command: Annotated[
        str, Meta(min_length=1, max_length=COMMAND_CHARS, description="Run by bash in the workspace folder.")
    ]


SHELL = ToolSpec(
    name="shell_exec",
    description=(
        "Run a shell command in the workspace. There is no terminal and no input. The output comes back when it ends;"
        " to leave something running, send its output to a file: command > log 2>&1 &"
    ),
    parameters=schema(ShellArguments),
    effect="execute",
)


class CommandFailed(HaloError):
    """A command that failed, was stopped, or ran out of time; the message holds its output."""


@dataclass(frozen=True)
class Shell:
    """Runs commands."""

    sandbox: Bubblewrap

    async def execute(self, work: Work[ShellArguments]) -> str:
        """Run the command and return its output. Raises `CommandFailed`, `Forbidden`, `BadInput`."""
        command = work.arguments.command
        if "\0" in command:
            raise BadInput("the argument command holds a NUL character.", field="command")
        reason = forbidden_removal(command, workspace=work.place.folder, home=work.place.home)
        if reason:
            raise Forbidden(reason)
        argv, env = await self._argv(work, [_bash(), "-c", command])
        settings = work.place.settings
        try:
            finished = await run(
                argv,
                cwd=work.place.folder,
                env=env,
                timeout=settings.shell_timeout,
                limit=settings.shell_output_bytes,
                stop=work.call.cancel.wait,
                on_output=teller(work.call),
            )
        except OSError as error:
            raise CommandFailed(f"The command could not be started: {error.strerror}.") from error
        return answer(work, finished)

    async def _argv(self, work: Work[ShellArguments], argv: list[str]) -> tuple[list[str], dict[str, str]]:
        access = work.reach.access
        if access == "full":
            return argv, full_environment()
        if access == "readonly":
            raise Forbidden("readonly access runs no commands.")
        reason = await self.sandbox.reason()
        if reason:
            raise Forbidden(f"{access} access runs commands only in a sandbox: {reason}.")
        jail = await jail_for(work, self.sandbox, write=True)
        env = {**minimal_environment(), **await asyncio.to_thread(git_identity)}
        return jail.argv(argv, cwd=work.place.folder, setenv=env), env


@cache
def _bash() -> str:
    return shutil.which("bash") or "/bin/sh"


@cache
def git_identity() -> dict[str, str]:
    """Return the person's name and address for commits, as variables: their ~/.gitconfig is hidden in a sandbox."""
    argv = ["git", "config", "--global", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=2)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.removeprefix("user.").partition(" ") for line in done.stdout.splitlines())
    return {f"GIT_{role}_{key.upper()}": value for key, _, value in pairs for role in ("AUTHOR", "COMMITTER")}


def teller(call: Call) -> Callable[[bytes], None]:
    """Return a listener that shows the last line of the output, at most once a second."""
    loop = asyncio.get_running_loop()
    last = loop.time()

    def tell(chunk: bytes) -> None:
        nonlocal last
        lines = chunk.decode("utf-8", "replace").strip().splitlines()
        if lines and loop.time() - last >= _TELL_SECONDS:
            last = loop.time()
            call.progress(lines[-1][:_SHOWN])

    return tell


def answer(work: Work[ShellArguments], finished: Finished) -> str:
    """Return what a command printed. Raises `CommandFailed` unless it ended well by itself."""
    settings, command = work.place.settings, _short(work.arguments.command)
    printed = both_streams(finished, settings.result_chars - _SHOWN - 300)
    if finished.ended == "exited" and finished.code == 0:
        return printed or "(no output)"
    headings = {
        "exited": f"Command failed: {command}\nExit code: {finished.code}",
        "timeout": f"Command timed out after {round(settings.shell_timeout * 1000)}ms: {command}",
        "limit": f"Command stopped, its output passed {settings.shell_output_bytes} bytes: {command}",
        "stopped": f"Command stopped on request: {command}",
    }
    heading = headings[finished.ended]
    raise CommandFailed("\n".join(part for part in (heading, printed, _hint(work, finished)) if part))


def both_streams(finished: Finished, room: int) -> str:
    """Return stdout and what came on stderr, each with its middle cut so that both fit into `room` characters."""
    out, err = finished.stdout.rstrip("\n"), finished.stderr.rstrip("\n")
    half = room // 2
    out_room = max(half, room - len(err))
    out = cut_middle(out, out_room)
    err = cut_middle(err, max(half, room - len(out)))
    return "\n".join(part for part in (out, f"STDERR: {err}" if err else "") if part)


def cut_middle(text: str, room: int) -> str:
    """Keep the beginning and the end of a text and say how much is missing between them."""
    if len(text) <= room:
        return text
    head, tail = room // 2, room - room // 2
    return f"{text[:head]}\n[... {len(text) - room} characters left out ...]\n{text[-tail:]}"


def _short(command: str) -> str:
    return command if len(command) <= _SHOWN else command[:_SHOWN] + "…"


def _hint(work: Work[ShellArguments], finished: Finished) -> str:
    access = work.reach.access
    if access == "full" or not any(word in finished.stdout + finished.stderr for word in _DENIED):
        return ""
    return (
        f"[Sandbox] This session runs at {access} access: commands write only in {work.place.folder} and /tmp"
        " (which is empty at each command)."
    )
