"""The kernel's own verbs `plugins` and `doctor`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from .client import Client, connect
from .command import wanted_plugins
from .doctor import examine_home, failed
from .errors import NotFound, Stopping
from .hooks import in_daemon_thread
from .installs import install, laid_out, remove, roll_back
from .manifests import suggest
from .plugins import Plugins
from .presence import is_served
from .records import HealthCheck
from .settings import PluginSettings, load_kernel_settings
from .sites import add_sites, default_home

PATIENCE = 30.0
_NAMED = ("enable", "disable", "install", "remove")


def doctor(argv: Sequence[str]) -> int:
    """Look at the home, its server and its plugins; exit code 1 when something is not well."""
    options = _parsed(argparse.ArgumentParser(prog="halo doctor", description="Say what is well and what not."), argv)
    checks = _examined(default_home(os.environ))
    well = all(check.ok for check in checks)
    if options.json:
        print(json.dumps({"ok": well, "checks": to_builtins(checks)}, ensure_ascii=False, indent=2))
    for check in () if options.json else checks:
        todo = f"\n     what to do: {check.advice}" if check.advice else ""
        print(f"{'ok  ' if check.ok else 'BAD '} {check.name}: {check.text}{todo}")
    return 0 if well else 1


def _examined(home: Path) -> Sequence[HealthCheck]:
    """Return what the server of this home finds, else a kernel of our own, else what can be found without one."""
    try:
        with connect(home, only=wanted_plugins(os.environ)) as client:
            answer = in_daemon_thread("doctor", lambda: _asked(client)).result(PATIENCE)
        if not isinstance(answer, Exception):
            return convert(answer["checks"], list[HealthCheck])
        error = answer
    except TimeoutError:
        error = Stopping("the server does not answer", advice="`halo stop --force` ends it")
    except Exception as raised:
        error = raised
    return [*examine_home(home), failed("kernel", error)]


def _asked(client: Client) -> Any:
    try:
        return client.get("/api/doctor")
    except Exception as error:
        return error


def plugins(argv: Sequence[str]) -> int:
    """List plugins, check them, change which are there; exit code 1 when a check finds something."""
    parser = argparse.ArgumentParser(prog="halo plugins", description="List plugins, check them, change them.")
    verbs = ("list", "check", "rollback", *_NAMED)
    parser.add_argument("verb", nargs="?", choices=verbs, default="list", help="what to do (default: list)")
    what = "plugins; to install or check, distributions, wheels and folders too"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    options = _parsed(parser, argv)
    home, verb, names = default_home(os.environ), str(options.verb), list[str](options.names)
    if verb in _NAMED and not names:
        parser.error(f"{verb} needs a NAME")
    if verb not in ("list", "check"):
        for line in _changed(home, verb, names):
            print(line, flush=True)
        return 0
    rows = _listed(home, names) if verb == "list" else _checked(home, names)
    print(json.dumps(rows, ensure_ascii=False, indent=2) if options.json else "\n".join(map(_row, rows)))
    return 1 if any(row["state"] == "fails" for row in rows) else 0


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_intermixed_args(list(argv))
    logging.disable()  # what a log would tell is in the answer
    return options


def _listed(home: Path, names: Sequence[str]) -> Sequence[dict[str, Any]]:
    with connect(home, only=wanted_plugins(os.environ)) as client:
        rows: list[dict[str, Any]] = client.get("/api/server")["plugins"]
    _refuse_unknown(names, [row["name"] for row in rows])
    return [row for row in rows if row["name"] in (names or row["name"])]


def _checked(home: Path, names: Sequence[str]) -> Sequence[dict[str, Any]]:
    """Return how plugins do: by name, in a wheel or project, or in a folder of distributions; else all."""
    from .testing.checks import judge  # an author's rules are the kit's

    add_sites(home)
    paths = [name for name in names if os.sep in name]
    with ExitStack() as stack, redirect_stdout(sys.stderr):  # what a plugin prints is no answer
        for name in paths:
            is_set = os.path.isdir(name) and not {"pyproject.toml", "setup.py"} & {*os.listdir(name)}
            sys.path.insert(0, os.path.abspath(name) if is_set else stack.enter_context(laid_out(home, [name])))
        inside = [each.name for each in Plugins(path=sys.path[: len(paths)]).discover()]
        plugins = Plugins()
        plugins.load(only=[*{*names} - {*paths}, *inside] if names else None)
        verdicts = [judge(each) for each in plugins.list() if each.state != "disabled"]
    return [{"state": "fails" if each.faults or each.remarks else "passes", **to_builtins(each)} for each in verdicts]


def _row(row: dict[str, Any]) -> str:
    took = f", imported in {row['seconds']:.2f} s" if row["seconds"] else ""
    facts = [f"{what}: {', '.join(row[what])}" for what in ("hooks", "capabilities") if row[what]]
    told = [row.get("reason"), row.get("advice") and f"what to do: {row['advice']}"]
    head = f"{row['name']}: {row['state']} ({row['distribution']} {row['version']}{took})"
    return "\n  ".join(filter(None, (head, *told, *row.get("faults", ()), *row.get("remarks", ()), *facts)))


def _changed(home: Path, verb: str, names: Sequence[str]) -> Iterator[str]:
    """Do what changes the plugins of a home, and yield what to say of it."""
    add_sites(home)
    known = {each.name: each for each in Plugins().discover()}
    if verb == "install":
        yield f"Installing {', '.join(names)}, and trying it in a process of its own …"
        yield f"Installed: {', '.join(install(home, names))}. `halo plugins rollback` goes back."
        add_sites(home)
        for each in Plugins().discover():
            if new := {*each.capabilities} - {*(known[each.name].capabilities if each.name in known else ())}:
                yield f"{each.name} says that it may reach what it did not before: {', '.join(sorted(new))}."
    elif verb == "rollback":
        yield f"The former set counts again: {', '.join(roll_back(home)) or 'nothing'}. Once more undoes this."
    elif verb == "remove":
        remove(home, [known[name].distribution if name in known else name for name in names])
        yield f"Removed: {', '.join(names)}. `halo plugins rollback` goes back."
    else:
        _refuse_unknown(names, list(known))
        _switch(home, {*names}, on=verb == "enable")
        yield f"{', '.join(names)}: {verb}d."
    restart = "Restart the server to use it: `halo stop`, then start it."
    yield restart if is_served(home) else "This counts from the next start on."


def _switch(home: Path, names: set[str], *, on: bool) -> None:
    settings = load_kernel_settings(home, os.environ)
    now = settings.of(PluginSettings)
    disabled = {*now.disabled} - names if on else {*now.disabled, *names}
    enabled = {*now.enabled, *(names if now.require_enable else ())} if on else {*now.enabled} - names
    settings.write({"plugins.enabled": sorted(enabled) or None, "plugins.disabled": sorted(disabled) or None})


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise NotFound(f"there is no plugin {name}{suggest(name, known)}", advice="`halo plugins` lists them")
