"""`halo channels`: the accounts by which a chat platform, or a page, reaches the agents of a workspace."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote

from halo_kernel import BadInput, NotFound
from halo_lib_client import Client

from .guide import ASKING, can_ask, settle
from .progress import waiting
from .terminal import answer, note, plain
from .values import ID, Body, Field, given, inherit
from .workspaces import choose_folder, needs, open_workspace, reach

_ACCOUNTS, _CHANNELS = "/api/accounts", "/api/channels"
Account = Mapping[str, Any]
Act = Callable[[Client, argparse.Namespace], int]


def command(argv: Sequence[str]) -> int:
    """List accounts, or make, change, test or remove one. Exit code 1 when a test fails."""
    options = _options(argv)
    acts: dict[str, Act] = {
        "list": _list,
        "add": _add,
        "set": _set,
        "test": _test,
        "rotate": _rotate,
        "enable": _switch,
        "disable": _switch,
        "remove": _remove,
        "token": _token,
    }
    with reach() as client, needs(client, "api"):
        return acts[options.verb](client, options)


# looking


def _list(client: Client, options: argparse.Namespace) -> int:
    rows = client.get(_where(options.type or ""))["accounts"]
    if options.json:
        answer(_json(rows))
        return 0
    names = ("type", "id", "label", "workspace", "access")
    table = [[*(str(row[name]) for name in names), _state(client, row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        answer("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    if not rows:
        note(f"There is no account. `halo channels add TYPE` makes one, of: {', '.join(_channels(client)) or 'none'}.")
    return 0


def _state(client: Client, row: Account) -> str:
    if not row["enabled"]:
        return "disabled"
    if client.embedded:
        return "no server is running"
    return "ready" if row["readiness"]["ready"] else f"not ready: {row['readiness']['reason']}"


def _test(client: Client, options: argparse.Namespace) -> int:
    account = _one(client, options)
    with waiting(ASKING):
        found = client.post(f"{_path(account)}/test")
    if options.json:
        answer(_json(found))
    else:
        answer(found["text"])
        if found["advice"]:
            note(found["advice"])
    return 0 if found["ok"] else 1


# making and changing


def _add(client: Client, options: argparse.Namespace) -> int:
    channel = _channel(client, options.type)
    fields: Sequence[Field] = channel["fields"] or ()
    values = given(fields, options.set, options.secret_file)
    inherit(fields, values)
    _, folder = open_workspace(client, choose_folder(options.workspace))
    body = {"type": options.type, "id": plain(options.id, "id"), "workspace": folder, **_plain(options), **values}
    probe = f"{_CHANNELS}/{quote(options.type, safe='')}/probe"
    made = settle(
        body,
        (*fields, ID),
        lambda: client.post(_ACCOUNTS, body),
        lambda: client.post(probe, {name: body[name] for name in ("id", "config", "secrets")}),
    )
    token = client.post(f"{_path(made)}/token")["token"] if channel["token"] else ""
    if options.json:
        answer(_json({**made, "token": token} if token else made))
    else:
        _tell(client, made, token)
    return 0


def _tell(client: Client, made: Account, token: str) -> None:
    called = f" ({made['label']})" if made["label"] else ""
    answer(f"{_name(made)}{called} is added: it speaks for {made['workspace']}, with {made['access']} access.")
    if token:
        answer(f"Its token, which is shown this once: {token}")
    elif not made["allowed"] and made["access"] != "readonly":
        note(f"Whoever finds it may write to it with {made['access']} access, unless `--allow` says who alone may.")
    if client.embedded:
        note("No server is running. It begins when one does, such as by `halo up -d`.")


def _set(client: Client, options: argparse.Namespace) -> int:
    account = _one(client, options)
    body: Body = {**_plain(options), "config": given(_fields(client, account["type"]), options.set, ())["config"]}
    if options.workspace is not None:
        body["workspace"] = open_workspace(client, choose_folder(options.workspace))[1]
    if options.allow_all:
        body["allowed"] = []
    return _changed(client.request("PATCH", _path(account), body), options, "changed")


def _rotate(client: Client, options: argparse.Namespace) -> int:
    account = _one(client, options)
    body = given([], (), options.secret_file)
    secrets = [each for each in _fields(client, account["type"]) if each["secret"]]
    inherit(secrets, body)
    fields = [each for each in secrets if each["name"] in body["secrets"]] or secrets
    if can_ask():
        kept = {"optional": True, "else": "keeps it"}
        fields = [{**each, **kept} if each["name"] in account["secrets"] else each for each in fields]

    def store() -> Any:
        if not body["secrets"]:
            raise BadInput("no secret was given, and nothing is changed", advice="--secret-file NAME=FILE gives one")
        return client.request("PATCH", _path(account), {"secrets": body["secrets"]})

    return _changed(settle(body, fields, store), options, "changed: its platform takes the new secrets")


def _switch(client: Client, options: argparse.Namespace) -> int:
    account, enabled = _one(client, options), options.verb == "enable"
    return _changed(client.request("PATCH", _path(account), {"enabled": enabled}), options, f"{options.verb}d")


def _changed(account: Account, options: argparse.Namespace, how: str) -> int:
    answer(_json(account) if options.json else f"{_name(account)} is {how}.")
    return 0


def _remove(client: Client, options: argparse.Namespace) -> int:
    account = _one(client, options)
    client.request("DELETE", _path(account))
    note(f"{_name(account)} is removed. What was said through it stays.")
    return 0


def _token(client: Client, options: argparse.Namespace) -> int:
    answer(client.post(f"{_path(_one(client, options))}/token")["token"])
    note("It is shown this once, and takes the place of an older one.")
    return 0


# accounts and channels by name


def _one(client: Client, options: argparse.Namespace) -> Account:
    """Return the account that is named, or the only one of its type. Raises `NotFound`."""
    rows: list[Account] = client.get(_where(plain(options.type, "type")))["accounts"]
    found = [each for each in rows if options.id in (None, each["id"])]
    if len(found) == 1:
        return found[0]
    if found:
        said = f"there are several {options.type} accounts: {', '.join(each['id'] for each in found)}"
        raise NotFound(said, advice="name one of them")
    name = f"{options.type} account" if options.id is None else f"{options.type} account {plain(options.id, 'id')}"
    raise NotFound(f"there is no {name}", advice="`halo channels` lists them")


def _channel(client: Client, type: str) -> Mapping[str, Any]:
    """Return a channel that is loaded. Raises `NotFound`."""
    rows = _channels(client)
    if type not in rows:
        near = get_close_matches(type, rows, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        advice = f"there is: {', '.join(rows) or 'none'}; `halo plugins install` brings others"
        raise NotFound(f"there is no channel {plain(type, 'type')}{hint}", advice=advice)
    return rows[type]


def _fields(client: Client, type: str) -> Sequence[Field]:
    """Return what accounts of a channel need, as far as it is loaded and says so."""
    fields: Sequence[Field] | None = _channels(client).get(type, {}).get("fields")
    return fields or ()


def _channels(client: Client) -> Mapping[str, Mapping[str, Any]]:
    return {each["type"]: each for each in client.get(_CHANNELS)["channels"]}


def _name(account: Account) -> str:
    return f"{account['type']} {account['id']}"


def _path(account: Account) -> str:
    return f"{_ACCOUNTS}/{quote(account['type'], safe='')}/{quote(account['id'], safe='')}"


def _where(type: str) -> str:
    return f"{_ACCOUNTS}?type={quote(type, safe='')}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


# options


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    """Return what is given of those values that every account has."""
    wanted = {"label": options.label, "access": options.access, "language": options.language, "allowed": options.allow}
    words = [options.label or "", *(options.allow or ())]
    for each in words:
        plain(each, "option")
    return {name: value for name, value in wanted.items() if value is not None}


_ONE = {
    "test": ("ask its platform", "Ask the platform of an account whether its secrets are good."),
    "rotate": (
        "give it new secrets",
        "Ask for the secrets of an account anew; nothing counts before its platform agrees.",
    ),
    "enable": ("let it run", "Let an account run again."),
    "disable": ("let it rest", "Let an account rest: nothing comes in through it."),
    "remove": ("take it out", "Take an account out, with its secrets and its token."),
    "token": (
        "make a new token",
        "Make a new token for an account, in place of the older one, and print it, this once.",
    ),
}


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo channels",
        description="List the accounts by which channels reach your agents; make, change, test or remove one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="|".join(["list", "add", "set", *_ONE]))
    listed = verbs.add_parser("list", help="list them", description="List accounts, one line each.")
    listed.add_argument("type", metavar="TYPE", nargs="?", help="of this channel only")
    about = "Make an account: what its channel needs is asked for, and tried, one by one."
    add = verbs.add_parser("add", help="make one", description=about)
    add.add_argument("type", metavar="TYPE", help="the channel, such as telegram")
    add.add_argument("--id", default="", help="its name, where its platform gives it none")
    one = {verb: verbs.add_parser(verb, help=help, description=said) for verb, (help, said) in _ONE.items()}
    change = verbs.add_parser("set", help="change it", description="Change an account; what is not named stays.")
    for each in (change, *one.values()):
        each.add_argument("type", metavar="TYPE")
        each.add_argument("id", metavar="ID", nargs="?", help="needed where there are several")
    for each in (add, change):
        _add_plain(each)
    change.add_argument("--allow-all", action="store_true", help="let everybody write")
    for each in (add, one["rotate"]):
        said = "read a secret from a file (default: HALO_CHANNEL_NAME, else it is asked for, or read from a pipe)"
        each.add_argument("--secret-file", metavar="NAME=FILE", action="append", default=[], help=said)
    for each in (parser, listed, add, change, one["test"], one["rotate"], one["enable"], one["disable"]):
        each.add_argument("--json", action="store_true", help="print JSON", default=argparse.SUPPRESS)
    parser.set_defaults(verb="list", type=None, json=False)
    parser.epilog = "\n".join(each.format_help() for each in (listed, add, change, *one.values()))
    options = parser.parse_args(list(argv))
    if options.verb == "set" and not (_plain(options) or options.set or options.workspace or options.allow_all):
        change.error("nothing is to be changed")
    return options


def _add_plain(parser: argparse.ArgumentParser) -> None:
    """Add the options for what every account has, and for its channel's own values."""
    add = parser.add_argument
    add(
        "-w", "--workspace", metavar="DIR", help="the folder that it speaks for (default of a new one: the current one)"
    )
    add("--label", help="what people call it (default of a new one: what its platform does)")
    levels = ("full", "workspace", "readonly")
    add("--access", choices=levels, help="the most that anybody who writes may do (default of a new one: readonly)")
    add("--language", choices=("en", "zh"), help="of what it says by itself (default of a new one: en)")
    add("--allow", metavar="USER", action="append", help="who alone may write, by the platform's own id; once for each")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="what its channel needs to know; no secret")
