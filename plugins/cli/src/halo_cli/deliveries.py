"""`halo deliveries`: what a workspace owes to chats and other programs, and another attempt at what did not arrive."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from halo_lib_client import Client

from .terminal import answer, note, plain
from .workspaces import choose_folder, kept_workspace, reach

Delivery = Mapping[str, Any]


def command(argv: Sequence[str]) -> int:
    """List the deliveries of a workspace, or send what failed of some of them again."""
    options = _options(argv)
    with reach() as client:
        workspace = kept_workspace(client, choose_folder(options.workspace), lists=options.action == "list")
        path = f"/api/workspaces/{quote(workspace, safe='')}/deliveries"
        if options.action == "list":
            _list(client, path if workspace else "", options)
        else:
            _retry(client, path, options)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo deliveries",
        description="List what a workspace owes to chats and other programs, newest first; send what failed again.",
        epilog="Of what is uncertain nobody knows whether it arrived: look there before you send it again.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "retry"), default="list")
    parser.add_argument("delivery", nargs="*", type=int, metavar="NUMBER", help="with retry: the deliveries' numbers")
    parser.add_argument("-w", "--workspace", metavar="DIR", help="folder of the workspace (default: the current one)")
    parser.add_argument("-s", "--session", metavar="ID", help="with list: of this session only")
    parser.add_argument("--failed", action="store_true", help="with list: those that failed for good")
    parser.add_argument("--uncertain", action="store_true", help="with list: those that may have arrived, or not")
    parser.add_argument("--open", action="store_true", help="with list: those that are still to be sent")
    parser.add_argument("--json", action="store_true", help="print all that is known")
    options = parser.parse_args(list(argv))
    if bool(options.delivery) != (options.action == "retry"):
        parser.error("list takes no number" if options.delivery else "retry needs a delivery's number")
    return options


def _list(client: Client, path: str, options: argparse.Namespace) -> None:
    kinds = {"failed": options.failed, "uncertain": options.uncertain, "pending,sending": options.open}
    states = ",".join(name for name, is_wanted in kinds.items() if is_wanted)
    session = quote(plain(options.session or "", "session"), safe="")
    found: dict[str, Any] = client.get(f"{path}?session={session}&state={states}") if path else {"deliveries": []}
    if options.json:
        answer(_json(found))
        return
    for each in found["deliveries"]:
        answer("\n".join(_lines(each)))
    if not found["deliveries"]:
        note("There is no such delivery here." if states or session else "Nothing was owed to anybody here yet.")


def _lines(delivery: Delivery) -> Iterator[str]:
    """Yield a line about a delivery, and one for each error of its parts."""
    counts = Counter(part["state"] for part in delivery["parts"])
    states = ", ".join(state if len(delivery["parts"]) == 1 else f"{count} {state}" for state, count in counts.items())
    begin = " ".join(delivery["text"].split())[:40]
    yield f"{delivery['id']}  {_time(delivery['at'])}  {delivery['target']}  {states}  {begin}"
    for part in delivery["parts"]:
        if part["error"]:
            number = "" if len(delivery["parts"]) == 1 else f"part {part['number']}, "
            yield f"    {number}attempt {part['attempt']}: {part['error']}"


def _retry(client: Client, path: str, options: argparse.Namespace) -> None:
    found = [client.post(f"{path}/{number}/retry") for number in options.delivery]
    if options.json:
        answer(_json({"deliveries": found}))
        return
    for each in found:
        answer(f"Delivery {each['id']} is to be sent again, to {each['target']}.")
    if client.embedded:
        note("No server is running. It is sent once one is, such as by `halo up -d`.")


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M:%S")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
