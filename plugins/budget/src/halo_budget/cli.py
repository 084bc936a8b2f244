"""`halo budget`: how budgets stand today, setting one, raising one for today, taking one away."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from halo_kernel import BadInput
from halo_lib_client import Client, connect

_PATH = "/api/budgets"
_ABOUT = ("workspace", "agent", "channel", "user", "job", "session")
_NONE = "No budget is set. Set one with `halo budget set NAME --tokens N`, or `--money N`."
State = Mapping[str, Any]


def command(argv: Sequence[str]) -> int:
    """Show, set, raise or remove budgets."""
    options = _options(argv)
    act: Callable[[Client, argparse.Namespace], None] = {
        "show": _show,
        "set": _set,
        "raise": _raise,
        "remove": _remove,
    }[options.action]
    with connect() as client:
        act(client, options)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo budget",
        description="Show how budgets stand today, set one, raise one for today, or remove one.",
        epilog="A budget is an amount a day. Without any of --workspace to --session it is about everything.",
    )
    add = parser.add_argument
    add("action", nargs="?", choices=("show", "set", "raise", "remove"), default="show")
    add("name", nargs="?", help="the budget's name")
    add("amount", nargs="?", type=_amount, help="with raise: how much more may be spent today")
    add("--tokens", type=int, metavar="N", help="with set: tokens a day")
    add("--money", type=float, metavar="N", help="with set: money a day")
    add("--currency", metavar="CODE", help="with set: of the money (default: USD)")
    for name in _ABOUT:
        add(f"--{name}", metavar=name.upper(), help=f"with set: only for this {name}")
    add("--each", choices=_ABOUT, help="with set: this amount for each of them")
    add("--of", metavar="WHICH", default="", help="with raise: which agent, user or other it is raised for")
    add("--json", action="store_true", help="print all that is known")
    options = parser.parse_args(list(argv))
    if options.name is None and options.action != "show":
        parser.error(f"{options.action} needs the name of a budget")
    if (options.amount is None) == (options.action == "raise"):
        parser.error("raise needs an amount" if options.amount is None else f"{options.action} takes no amount")
    return options


def _amount(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _path(options: argparse.Namespace) -> str:
    return f"{_PATH}/{quote(options.name, safe='')}"


def _show(client: Client, options: argparse.Namespace) -> None:
    if options.name:
        _tell(client.get(_path(options)), options)
        return
    found = client.get(_PATH)
    if options.json:
        _print(_json(found))
        return
    for each in found["budgets"]:
        _tell(each, options)
    ends = datetime.fromtimestamp(found["ends_at"] / 1000).strftime("%Y-%m-%d %H:%M")
    _print(f"The day {found['day']} ({found['timezone']}) ends at {ends} here." if found["budgets"] else _NONE)


def _set(client: Client, options: argparse.Namespace) -> None:
    given = {name: getattr(options, name) for name in ("tokens", "money", "currency", "each", *_ABOUT)}
    wish = {name: value for name, value in given.items() if value is not None}
    if ("tokens" in wish) == ("money" in wish):
        raise BadInput("a budget has either --tokens or --money", field="tokens", advice="Make two to limit both.")
    _tell(client.request("PUT", _path(options), wish), options)


def _raise(client: Client, options: argparse.Namespace) -> None:
    done = client.post(f"{_path(options)}/raise", {"amount": options.amount, "of": options.of})
    if options.json:
        _print(_json(done))
        return
    _tell(done["budget"], options)
    if done["resumed"]:
        _print(f"{done['resumed']} waiting turn{'s go' if done['resumed'] > 1 else ' goes'} on.")


def _remove(client: Client, options: argparse.Namespace) -> None:
    found = client.request("DELETE", _path(options))
    _print(_json(found) if options.json else f"The budget {options.name} is removed.")


def _tell(budget: State, options: argparse.Namespace) -> None:
    _print(_json(budget) if options.json else "\n".join(_lines(budget)))


def _lines(budget: State) -> Iterator[str]:
    unit = budget["unit"]
    yield f"{budget['name']}: {_shown(budget['limit'], unit)} a day for {budget['about']}"
    for each in budget["accounts"]:
        of = f"{each['of']}: " if each["of"] else ""
        more = f", {_shown(each['more'], unit)} more allowed" if each["more"] else ""
        held = f", {_shown(each['set_aside'], unit)} set aside" if each["set_aside"] else ""
        left = f"{_shown(each['left'], unit)} left" if each["left"] > 0 else "nothing left"
        yield f"  {of}{_shown(each['spent'], unit)} spent{more}{held}, {left}"
        for model, count in each["unpriced"].items():
            yield f"    not counted: {count:,} tokens of {model}, whose price in {unit} nobody has said"
    for turn in budget["waiting"]:
        yield f"  waits: session {turn['session']}, question {turn['question']}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _shown(value: float, unit: str) -> str:
    return f"{int(value):,} tokens" if unit == "tokens" else f"{value:,.4f} {unit}"


def _print(text: str) -> None:
    """Print others' words so that a terminal shows them rather than obeys them."""
    print("".join(each if each.isprintable() or each == "\n" else f"\\x{ord(each):02x}" for each in text))
