"""Trying plugins out in a process of their own: what ends or blocks that process is a fault of one of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import NoReturn

from msgspec import DecodeError, json, structs

from halo_kernel import BadInput, HaloError, Plugin, Plugins, Verdict, add_sites, judge

from .launch import PYTHON

SECONDS = 30.0  # for one plugin: three times what an import may take before a server leaves it
_FROZEN = bool(getattr(sys, "frozen", False))


def tried(home: Path, folders: Sequence[str], names: Sequence[str] = (), *, anew: bool = False) -> Iterator[Verdict]:
    """Yield a verdict on every plugin of `names` and in `folders`, or without any on all that are installed.

    What lies in `folders` comes before what the environment and the home have, and is told by its path in there: they
    may be gone afterwards. With `anew` each is loaded once more, as a reload does. Raises `BadInput` when there is no
    plugin in them.
    """
    with _searching(home, folders):
        known = {each.name: each for each in Plugins().discover()}
        inside = [each.name for each in Plugins(path=folders).discover()] if folders else []
    if folders and not inside:
        raise BadInput(f"there is no plugin in {' '.join(folders)}", advice="Halo's own are named halo-…")
    waiting = list(dict.fromkeys([*names, *inside] or known))
    while waiting:
        with _Trial(home, [*(["--anew"] if anew else []), *folders], waiting) as trial:
            while waiting:
                name, verdicts = waiting.pop(0), trial.verdicts()
                found = verdicts or [_fault(known.get(name, Plugin(name=name)), trial.end())]
                yield from (_seen_from(folders, each) for each in found)
                if not verdicts:
                    break


def _seen_from(folders: Sequence[str], verdict: Verdict) -> Verdict:
    """Return a verdict with paths in `folders` as they are in there."""
    inside = re.compile("|".join(re.escape(folder + os.sep) for folder in folders) or r"(?!)")
    faults, remarks = ([inside.sub("", each) for each in found] for found in (verdict.faults, verdict.remarks))
    return structs.replace(verdict, faults=tuple(faults), remarks=tuple(remarks))


def report(home: Path, words: Sequence[str], *, anew: bool) -> NoReturn:
    """Print, for `tried`, a line of verdicts on each plugin that is named after the folders, and end this process."""
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no verdict
    with _searching(home, [word for word in words if os.sep in word]):
        found = Plugins().discover()
        for name in (word for word in words if os.sep not in word):
            verdicts = json.encode(list(_judged(name, [each for each in found if each.name == name], anew=anew)))
            sys.stdout.flush()  # before the verdict: whoever reads that may end us
            told.write(verdicts + b"\n")
            told.flush()
    os._exit(0)  # a thread that a plugin has started would keep us


def _judged(name: str, claims: Sequence[Plugin], *, anew: bool) -> Iterator[Verdict]:
    """Yield a verdict on a plugin, or on all that claim its name, as far as each got."""
    if any(each.state != "loaded" for each in claims):
        yield from map(judge, claims)
        return
    plugins = Plugins()
    plugins.load(only=[name])
    for each in plugins.list():
        if each.name == name:
            yield structs.replace(judge(each), stays=_stays(plugins, each) if anew else "")


def _stays(plugins: Plugins, plugin: Plugin) -> str:
    """Return why a plugin that says that it can be loaded anew cannot, as a server would."""
    if plugin.state != "loaded" or plugin.reload != "live":
        return ""
    try:
        plugins.stage(plugin.name)
    except HaloError as error:
        return error.message
    return ""


@contextmanager
def _searching(home: Path, folders: Sequence[str]) -> Generator[None]:
    """Let this process find what is installed in a home, and before that and the environment what lies in folders."""
    before = [*sys.path]
    add_sites(home)
    sys.path[:0] = folders
    try:
        yield
    finally:
        sys.path[:] = before


class _Trial:
    """A process that tries plugins out, one after the other; it ends with the context."""

    def __init__(self, home: Path, words: Sequence[str], names: Sequence[str]) -> None:
        program = [sys.executable] if _FROZEN else [*PYTHON, "-m", "halo_kernel"]
        self._process = subprocess.Popen(
            [*program, "plugins", "check", "--report", *words, *names],
            env={**os.environ, "HALO_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # it can be ended with all that its plugins start
        )
        self._late = False

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, *failure: object) -> None:
        self._kill()
        self._process.wait()

    def verdicts(self) -> list[Verdict]:
        """Return what is said of the next plugin; nothing when it has ended the process, or takes too long."""
        assert self._process.stdout
        clock = Timer(SECONDS, self._give_up)
        clock.start()
        try:
            return json.decode(self._process.stdout.readline(), type=list[Verdict])
        except DecodeError:
            self._process.wait()
            return []
        finally:
            clock.cancel()

    def end(self) -> str:
        """Return how the process has ended."""
        code = self._process.wait()
        if self._late:
            return f"the process that tried it out did not go on within {SECONDS:g} s"
        how = f"the exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"the process that tried it out was ended, with {how}"

    def _give_up(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        """End it, and where the system can what its plugins have started, which would hold the pipe."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL) if os.name == "posix" else self._process.kill()


def _fault(plugin: Plugin, how: str) -> Verdict:
    """Return the verdict on a plugin that a trial has not outlived."""
    return Verdict(
        name=plugin.name,
        distribution=plugin.distribution,
        version=plugin.version,
        faults=(how,),
        remarks=(),
        hooks=(),
        capabilities=plugin.capabilities,
        seconds=0.0,
    )
