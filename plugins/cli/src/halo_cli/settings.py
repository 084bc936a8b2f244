"""`halo settings`: what is set, by whom, and how to set it otherwise."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from getpass import getpass
from typing import Any

from halo_kernel import BadInput
from halo_lib_client import Client

from .terminal import answer, note, plain
from .workspaces import choose_folder, needs, open_workspace, reach

_PATH = "/api/settings"
Field = Mapping[str, Any]


def command(argv: Sequence[str]) -> int:
    """List, show or change settings, of the whole server or of one workspace."""
    options = _options(argv)
    with reach() as client, needs(client, "api"):
        workspace = "" if options.workspace is None else open_workspace(client, choose_folder(options.workspace))[0]
        act: Callable[[Client, str, argparse.Namespace], None] = {
            "list": _list,
            "get": _get,
            "set": _change,
            "unset": _change,
        }[options.action]
        act(client, workspace, options)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="halo settings",
        description="List settings with their values and where these come from, show one, set one, or unset one.",
        epilog="A secret is not given here, where others could see it: it is asked for, or read from standard input.",
    )
    parser.add_argument("action", nargs="?", choices=("list", "get", "set", "unset"), default="list")
    parser.add_argument("key", nargs="?", help="such as model.default")
    parser.add_argument("value", nargs="?", help="text, a number, true, false, or JSON")
    parser.add_argument(
        "-w", "--workspace", metavar="DIR", help="of the workspace in this folder, not the whole server"
    )
    parser.add_argument("--json", action="store_true", help="print all that is known about them")
    options = parser.parse_args(list(argv))
    if (options.key is None) != (options.action == "list"):
        parser.error(f"{options.action} needs a key" if options.key is None else "list takes no key")
    if options.value is not None and options.action != "set":
        parser.error(f"{options.action} takes no value")
    return options


def _read(client: Client, workspace: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = client.get(f"{_PATH}?workspace={workspace}" if workspace else _PATH)
    return found


def _list(client: Client, workspace: str, options: argparse.Namespace) -> None:
    found = _read(client, workspace)
    if options.json:
        answer(json.dumps(found, ensure_ascii=False, indent=2))
        return
    for field in found["settings"]:
        answer(f"{field['key']} = {_shown(field['value'])}  ({field['source']})")
    for finding in found["findings"]:
        note(f"line {finding['line']}: {finding['text']}" if finding["line"] else finding["text"])


def _get(client: Client, workspace: str, options: argparse.Namespace) -> None:
    field = _field(_read(client, workspace)["settings"], options.key)
    if field["key"] != options.key:
        raise BadInput(f"{options.key} lies within {field['key']}", field=options.key, advice="Ask for that.")
    answer(json.dumps(field, ensure_ascii=False, indent=2) if options.json else _shown(field["value"]))


def _change(client: Client, workspace: str, options: argparse.Namespace) -> None:
    key = options.key
    field = _field(_read(client, workspace)["settings"], key)
    value = None if options.action == "unset" else _value(field, key, options.value)
    done = client.request("PATCH", _PATH, {"changes": {key: value}, "workspace": workspace})
    now = _field(done["settings"], key)
    if now["restart"] and now["value"] != field["value"] and not client.embedded:
        note(f"{key} counts from the next start of the server.")
    if now["source"].startswith("environment"):
        note(f"The {now['source']} goes before it.")


def _field(fields: Sequence[Field], key: str) -> Field:
    """Return the setting of a key, or the one that it lies within. Raises `BadInput`."""
    found = next((field for field in fields if f"{key}.".startswith(f"{field['key']}.")), None)
    if found is None:
        near = get_close_matches(key, [field["key"] for field in fields], n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise BadInput(f"there is no setting {key}{hint}", field=key, advice="`halo settings` lists them.")
    return found


def _value(field: Field, key: str, text: str | None) -> object:
    """Return what was typed as JSON would say it; the server has the last word on what a setting may hold."""
    if field["command"]:
        raise BadInput(f"{key} has rules of its own", field=key, advice=f"Set it with `{field['command']}`.")
    if field["secret"]:
        text = _secret(key, text)
    elif text is None:
        raise BadInput(f"{key} needs a value", field=key, advice=f"Say `halo settings set {key} VALUE`.")
    text = plain(text, "value")
    kinds = {each.get("type") for each in (field["schema"], *field["schema"].get("anyOf", ()))}
    if "string" in kinds or (field["secret"] and key != field["key"]):
        return text
    with suppress(ValueError):
        return json.loads(text)
    if text.startswith(("[", "{")):
        wanted = """Write a list as a,b or as JSON, '["a", "b"]', and a mapping as JSON."""
        raise BadInput(f"{key} is not valid: {text} begins as JSON does, and is none", field=key, advice=wanted)
    return [part.strip() for part in text.split(",") if part.strip()] if "array" in kinds else text


def _secret(key: str, text: str | None) -> str:
    """Return a secret that is typed unseen or piped in; a word of the command line may refer to one, not be it."""
    from halo_lib_settings import REFERENCE

    if text is not None and not REFERENCE.fullmatch(text):
        said = f"{key} is a secret, which others would see on the command line and find in the shell's history"
        raise BadInput(said, field=key, advice=f"Say `halo settings set {key}`: it is asked for, or read from a pipe.")
    try:
        text = text or (getpass(f"{key}: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n"))
    except UnicodeDecodeError:
        raise BadInput(f"what was given for {key} is not UTF-8 text", field=key) from None
    except EOFError:
        text = ""
    if not text:
        raise BadInput(f"nothing was given for {key}, and nothing is changed", field=key)
    return text


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
