"""`halo backup`: make, verify and restore backups."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from halo_kernel import BadInput, HaloError, StorageUnavailable, default_home
from halo_lib_client import Client, connect

from .meter import Meter, size
from .passphrase import is_given, passphrase

_STEP = 0.2
_WAIT = 30.0


def command(argv: Sequence[str]) -> int:
    """Run `halo backup create`, `verify` or `restore`."""
    options = _parser().parse_args(list(argv))
    act: Callable[[argparse.Namespace], int] = options.act
    return act(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="halo backup",
        description="Make, verify and restore backups.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="create|verify|restore")
    create = verbs.add_parser("create", help="make one, while everything goes on", description=_create.__doc__)
    create.add_argument("file", nargs="?", help="the file to make (default: halo-<time>.backup in this folder)")
    create.add_argument("-w", "--workspace", metavar="DIR", help="save this workspace alone, not the whole home")
    create.add_argument("--secrets", action="store_true", help="save the secrets too, encrypted with a passphrase")
    create.set_defaults(act=_create)
    verify = verbs.add_parser("verify", help="say whether one can be restored", description=_verify.__doc__)
    verify.add_argument("file")
    verify.add_argument("--secrets", action="store_true", help="ask for the passphrase, and look at the secrets too")
    verify.set_defaults(act=_verify)
    restore = verbs.add_parser("restore", help="put one back", description=_restore.__doc__)
    restore.add_argument("file", nargs="?")
    restore.add_argument(
        "-w", "--workspace", metavar="DIR", help="where a workspace's backup goes (default: as it was)"
    )
    restore.add_argument(
        "--map", action="append", default=[], metavar="OLD=NEW", help="a folder that lies elsewhere now"
    )
    restore.add_argument("--no-secrets", action="store_true", help="leave the home's secrets as they are")
    restore.add_argument("--finish", action="store_true", help="do what is left of a restore that was cut, no other")
    restore.set_defaults(act=_restore)
    for each in (create, verify, restore):
        each.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = "\n".join(each.format_help() for each in (create, verify, restore))
    return parser


def _create(options: argparse.Namespace) -> int:
    """Make a backup of the home, or of one workspace; a server may run and write meanwhile."""
    path = Path(options.file or f"halo-{time.strftime('%Y%m%d-%H%M%S')}.backup").expanduser().absolute()
    wish = {"path": str(path), "workspace": "", "passphrase": ""}
    if options.workspace:
        wish["workspace"] = str(Path(options.workspace).expanduser().absolute())
    if options.secrets:
        wish["passphrase"] = passphrase(new=True)
    with connect() as client:
        made = _follow(client, client.post("/api/backups", wish))["made"]
    if options.json:
        print(msgspec.json.encode(made).decode())
        return 0
    print(f"{made['path']}: {size(made['size'])}, {_counts(made['workspaces'], made['databases'], made['files'])}.")
    _say_left_out(made["left_out"])
    return 0


def _follow(client: Client, state: dict[str, Any]) -> dict[str, Any]:
    """Show how far a backup is until it ends; Ctrl-C stops it, and it leaves nothing. Raises why there is none."""
    path = f"/api/backups/{state['id']}"
    with _metered() as meter:
        try:
            while state["state"] == "running":
                meter.tell(state["what"], state["done"], state["total"])
                time.sleep(_STEP)
                state = client.get(path)
        except KeyboardInterrupt:
            with suppress(HaloError):
                state = client.request("DELETE", path)
                deadline = time.monotonic() + _WAIT
                while state["state"] == "running" and time.monotonic() < deadline:
                    time.sleep(_STEP)
                    state = client.get(path)
            if state["state"] != "done":  # it was faster than we
                raise
    if state["state"] == "failed":
        raise HaloError(state["error"], advice=state["advice"])
    if state["state"] == "stopped":
        raise HaloError("the backup was stopped", advice="nothing was left of it")
    return state


def _verify(options: argparse.Namespace) -> int:
    """Say whether a backup is whole and can be restored by this Halo; nothing is changed."""
    from .archive import Archive, Damaged
    from .verify import verify

    path = Path(options.file).expanduser()
    words = passphrase(new=False) if options.secrets else ""
    try:
        with _metered() as meter, Archive(path, meter.tell) as archive:
            found = verify(archive, path, words, meter.tell)
    except Damaged as damage:
        for fault in damage.faults[1:]:
            print(fault, file=sys.stderr)
        raise
    if options.json:
        print(msgspec.json.encode(found).decode())
        return 0
    what = f"the home {found.home}" if found.whole else "the workspace"
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.made_at / 1000))
    print(f"{path} is whole: {what}, made {made} by Halo {found.halo}, {size(found.size)}.")
    print(f"It holds {_counts(len(found.workspaces), found.databases, found.files)}.")
    for folder in found.workspaces:
        print(f"  {folder}")
    told = {"none": "No secrets are in it.", "opened": "The secrets open with this passphrase."}
    print(told.get(found.secrets, "Secrets are in it, encrypted: --secrets looks at them too."))
    _say_left_out(found.left_out)
    return 0


def _restore(options: argparse.Namespace) -> int:
    """Put a backup back into HALO_HOME and its workspaces; what is there now is kept beside, and named."""
    from .archive import Archive
    from .restore import Aim, restore

    others = options.file or options.workspace or options.map or options.no_secrets
    if options.finish and not others:
        return _finish(options)
    if options.finish or not options.file:
        raise BadInput("restore takes the file of a backup, or --finish alone", field="file")
    with _metered() as meter, Archive(Path(options.file).expanduser(), meter.tell) as archive:
        meter.close()
        sealed = archive.manifest.seal is not None and not options.no_secrets
        if sealed and not is_given() and not sys.stdin.isatty():
            raise BadInput(
                "this backup has secrets, which take its passphrase",
                field="passphrase",
                advice="set HALO_BACKUP_PASSPHRASE_FILE, or leave them out with --no-secrets",
            )
        aim = Aim(
            home=default_home(os.environ),
            folder=Path(options.workspace).expanduser() if options.workspace else None,
            moves=dict(_move(text) for text in options.map),
            passphrase=passphrase(new=False) if sealed else "",
        )
        done = restore(archive, aim, meter.tell)
    if options.json:
        print(msgspec.json.encode(done).decode())
        return 0
    print(f"Restored {f'the home {done.home}' if done.whole else done.workspaces[0]}: ", end="")
    print(f"{_counts(len(done.workspaces), done.databases, done.files)}.")
    for folder in done.workspaces if done.whole else ():
        print(f"  {folder}")
    for folder in done.kept:
        print(f"What was there before is in {folder}")
    if done.whole and not done.secrets:
        print("The secrets of this home are as they were.")
    _say_left_out(done.left_out)
    return 0


def _finish(options: argparse.Namespace) -> int:
    from .restore import finish

    home = default_home(os.environ).absolute()
    with _metered():
        done = finish(home)
    if options.json:
        print(msgspec.json.encode({"home": str(home), "finished": done}).decode())
    elif done:
        print(f"Finished the restore of {home} that was cut.")
    else:
        print(f"No restore of {home} was cut: there is nothing to finish.")
    return 0


def _move(text: str) -> tuple[Path, Path]:
    former, _, now = text.partition("=")
    if not former.startswith("/") or not now:
        raise BadInput(f"--map takes OLD=NEW, two folders, the former absolute, not {text!r}", field="map")
    return Path(former), Path(now).expanduser().resolve()


@contextmanager
def _metered() -> Generator[Meter]:
    meter = Meter()
    try:
        yield meter
    except OSError as error:
        raise StorageUnavailable(f"{error.filename or 'a file'} cannot be used: {error.strerror}") from error
    finally:
        meter.close()


def _counts(workspaces: int, databases: int, files: int) -> str:
    return ", ".join(
        f"{count} {what}{'' if count == 1 else 's'}"
        for count, what in ((workspaces, "workspace"), (databases, "database"), (files, "file"))
    )


def _say_left_out(left_out: Iterable[str]) -> None:
    for each in left_out:
        print(f"Not in it: {each}")
