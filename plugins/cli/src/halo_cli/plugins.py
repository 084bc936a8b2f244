"""`halo plugins`: which plugins there are and how they do, and changing which are there."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import to_builtins

from halo_kernel import BadInput, NotFound, add_sites, default_home, is_served

from .installs import install, is_path, is_project, laid_out, remove, roll_back
from .new import kinds, write_project
from .progress import waiting
from .quality.scale import TIERS, Tier
from .terminal import answer, note, plain
from .workspaces import reach

if TYPE_CHECKING:
    from halo_kernel import Plugin, Verdict

    from .quality.standing import Standing

Row = Mapping[str, Any]
_LOOKS = ("list", "check")
_NAMED = ("enable", "disable", "install", "remove", "reload", "new")


def command(argv: Sequence[str]) -> int:
    """List plugins, check them, write one, change which are there; exit code 1 when a check finds something."""
    options = _options(argv)
    logging.disable()  # what a log would tell is in the answer
    home, verb, names = default_home(os.environ), str(options.verb), [plain(each, "name") for each in options.names]
    if options.report:
        from .trials import report

        report(home, names, anew=options.anew)
    if verb == "reload":
        _reload(home, names)
        return 0
    if verb == "new":
        for line in _written(options):
            answer(line)
        return 0
    if verb not in _LOOKS:
        for line in _changed(home, verb, names):
            answer(line)
        return 0
    rows = _listed(names) if verb == "list" else _checked(home, names, tier=options.tier)
    if fault := add_sites(home):
        note(f"{fault.message}; {fault.advice}")
    answer(json.dumps(rows, ensure_ascii=False, indent=2) if options.json else "\n".join(map(_shown, rows)))
    return 1 if any(row["state"] == "fails" for row in rows) else 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo plugins", description="List plugins, check them, write one, change them."
    )
    verbs = (*_LOOKS, "rollback", *_NAMED)
    parser.add_argument("verb", nargs="?", choices=verbs, default="list", help="what to do (default: list)")
    what = "plugins; to install or check, distributions, wheels and folders too"
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--kind", choices=kinds(), help="new: what the plugin provides")
    parser.add_argument("--into", metavar="DIR", default=".", help="new: where its folder is made (default: here)")
    parser.add_argument("--tier", choices=TIERS, help="check: fail below this tier of the quality scale")
    for hidden in ("--report", "--anew"):  # see `trials`
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(list(argv))
    if options.verb in _NAMED and not options.names:
        parser.error(f"{options.verb} needs a NAME")
    if options.verb == "new" and (options.kind is None or len(options.names) > 1):
        parser.error("new needs one NAME and a --kind")
    return options


def _written(options: argparse.Namespace) -> Iterator[str]:
    """Write the project of a new plugin, and yield what to do with it."""
    folder = write_project(options.names[0], kind=options.kind, into=Path(options.into))
    yield f"Written: {folder}"
    yield f"Install it with its tests: pip install -e {folder} --group {folder}/pyproject.toml:test"
    yield f"Then `pytest` in that folder, and `halo plugins check {folder}{os.sep}`."


def _reload(home: Path, names: Sequence[str]) -> None:
    if not is_served(home):
        raise NotFound("no server of this home runs", advice="what is installed counts when one starts")
    with reach() as client:
        for name in names:
            with waiting("Waiting until no turn runs"):
                row = client.post(f"/api/plugins/{quote(name, safe='')}/reload")
            answer(f"{name} {row['version']} has been loaded again, and is in use.")


def _listed(names: Sequence[str]) -> Sequence[Row]:
    with reach() as client:
        rows: list[Row] = client.get("/api/server")["plugins"]
    _refuse_unknown(names, [row["name"] for row in rows])
    return [row for row in rows if row["name"] in (names or row["name"])]


def _checked(home: Path, names: Sequence[str], *, tier: Tier | None = None) -> Sequence[Row]:
    """Return how plugins do: by name, in a wheel or project, or in a folder of distributions; else all.

    Of a project it is told, too, where it stands on the quality scale; below `tier` it fails.
    """
    from .trials import tried

    paths = [name for name in names if is_path(name)]
    projects = [name for name in paths if is_project(name)]
    if tier and (not names or projects != names):
        raise BadInput("--tier is about folders of projects", field="tier", advice="name the folder, such as ./halo-x")
    with ExitStack() as stack, waiting("Trying them out"):
        folders: list[str] = []
        for name in paths:
            is_set = os.path.isdir(name) and not {"pyproject.toml", "setup.py"} & {*os.listdir(name)}
            folders.insert(0, os.path.abspath(name) if is_set else stack.enter_context(laid_out(home, [name])))
        verdicts = list(tried(home, folders, [name for name in names if name not in paths], anew=bool(projects)))
    standings = dict(_standings(projects, verdicts, tier))
    return [_row(each, standings.get(each.distribution), tier) for each in verdicts]


def _standings(
    folders: Sequence[str], verdicts: Sequence[Verdict], tier: Tier | None
) -> Iterator[tuple[str, Standing]]:
    """Yield for each project the distribution that it is of, and where it stands.

    One that cannot be read, such as for another layout, is told of, and an error only where a tier is asked for.
    """
    from .quality.project import read_project
    from .quality.standing import stand

    for folder in folders:
        try:
            project = read_project(Path(folder), verdicts)
            yield project.verdict.distribution, stand(project)
        except BadInput as error:
            if tier:
                raise
            note(f"it has no place on the quality scale: {error.message}")


def _row(verdict: Verdict, standing: Standing | None, tier: Tier | None) -> Row:
    fails = verdict.faults or verdict.remarks or (tier and standing and not standing.reaches(tier))
    row = {"state": "fails" if fails else "passes", **to_builtins(verdict)}
    return row if standing is None else {**row, "quality": {**to_builtins(standing), "told": [*standing.lines()]}}


def _shown(row: Row) -> str:
    took = f", imported in {row['seconds']:.2f} s" if row["seconds"] else ""
    facts = [f"{what}: {', '.join(row[what])}" for what in ("hooks", "capabilities") if row[what]]
    quality = row.get("quality", {}).get("told", ())
    told = [row.get("reason"), row.get("advice") and f"what to do: {row['advice']}"]
    whence = f" ({row['distribution']} {row['version']}{took})" if row["distribution"] else ""
    head = f"{row['name']}: {row['state']}{whence}"
    return "\n  ".join(filter(None, (head, *told, *row.get("faults", ()), *row.get("remarks", ()), *facts, *quality)))


def _changed(home: Path, verb: str, names: Sequence[str]) -> Iterator[str]:
    """Do what changes the plugins of a home, and yield what to say of it."""
    known = _present(home)
    if verb == "install":
        yield f"Installing {', '.join(names)}, and trying it in a process of its own …"
        with waiting("Installing"):
            fresh = install(home, names)
        yield f"Installed: {', '.join(fresh)}. `halo plugins rollback` goes back."
        for name, plugin in _present(home).items():
            if new := {*plugin.capabilities} - {*(known[name].capabilities if name in known else ())}:
                yield f"{name} says that it may reach what it did not before: {', '.join(sorted(new))}."
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


def _present(home: Path) -> Mapping[str, Plugin]:
    """Return the plugins that are installed now, by name."""
    from halo_kernel import Plugins

    add_sites(home)
    return {each.name: each for each in Plugins().discover()}


def _switch(home: Path, names: set[str], *, on: bool) -> None:
    from halo_kernel import PluginSettings, load_kernel_settings
    from halo_lib_settings import write_settings

    settings = load_kernel_settings(home, os.environ)
    now = settings.of(PluginSettings)
    disabled = {*now.disabled} - names if on else {*now.disabled, *names}
    enabled = {*now.enabled, *(names if now.require_enable else ())} if on else {*now.enabled} - names
    new = {"plugins.enabled": sorted(enabled) or None, "plugins.disabled": sorted(disabled) or None}
    write_settings(settings, new)


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise NotFound(f"there is no plugin {name}{hint}", advice="`halo plugins` lists them")
