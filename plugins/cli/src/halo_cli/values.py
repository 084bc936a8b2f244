"""The values that an account is made of: from options, files and variables, typed or piped in; no secret is shown."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from getpass import getpass
from pathlib import Path
from typing import Any

from halo_kernel import BadInput

from .terminal import note, plain, shown

Field = Mapping[str, Any]
Body = dict[str, Any]  # of a request, with `config` and `secrets` by name
ID: Field = {"name": "id", "label": "Id", "help": "A short name of your choice.", "secret": False, "optional": False}


def place(body: Body, field: Field) -> dict[str, Any]:
    """Return where in a request the value of a field is."""
    values: dict[str, Any] = body if field is ID else body["secrets" if field["secret"] else "config"]
    return values


def given(fields: Sequence[Field], pairs: Sequence[str], files: Sequence[str]) -> Body:
    """Return config and secrets, of `name=value` pairs and of `name=path` files.

    Raises `BadInput` for a pair that is none, for a secret among the first, and for a file that cannot be read.
    """
    config = {name: plain(value, name) for name, value in (_split(each, "--set") for each in pairs)}
    for field in fields:
        name = field["name"]
        if field["secret"] and name in config:
            said = f"{name} is a secret, which others would see on the command line and find in the shell's history"
            advice = f"it is asked for, or comes from --secret-file {name}=FILE, or from {_variable(name)}"
            raise BadInput(said, field=name, advice=advice)
    secrets = {name: _read(path, name) for name, path in (_split(each, "--secret-file") for each in files)}
    return {"config": config, "secrets": secrets}


def inherit(fields: Sequence[Field], body: Body) -> None:
    """Put in what the environment has of fields that are missing: a variable, or a file that one names."""
    for field in fields:
        name = field["name"]
        if name not in place(body, field) and (value := _from_environment(name)):
            place(body, field)[name] = value


def pipe_in(fields: Sequence[Field], body: Body) -> None:
    """Put in a line of standard input for each needed secret that is missing, in order, as far as there are lines."""
    for field in fields:
        if field["secret"] and not field["optional"] and field["name"] not in body["secrets"]:
            try:
                line = sys.stdin.readline().strip()
            except UnicodeDecodeError:
                raise BadInput(f"what was given for {field['name']} is not UTF-8 text", field=field["name"]) from None
            if line:
                body["secrets"][field["name"]] = line


def ask(field: Field, body: Body) -> bool:
    """Have a person type a value, and tell whether there is one: an optional one may be left out.

    Raises `BadInput` at the end of the input.
    """
    name = field["name"]
    place(body, field).pop(name, None)
    if field["help"]:
        note(field["help"])
    hint = f" (Enter {field.get('else', 'for none')})" if field["optional"] else ""
    while not (text := type_in(f"{field['label']}{hint}: ", name, secret=field["secret"])):
        if field["optional"]:
            return False
        note("It is needed. Ctrl-C ends this, and nothing is changed.")
    place(body, field)[name] = text
    return True


def type_in(prompt: str, name: str, *, secret: bool = False) -> str:
    """Return a line that a person types, unseen if it is a secret. Raises `BadInput` at the end of the input."""
    try:
        if secret:
            return plain(getpass(shown(prompt, sys.stderr)), name).strip()
        print(shown(prompt, sys.stderr), end="", file=sys.stderr, flush=True)
        return plain(input(), name).strip()
    except UnicodeDecodeError:
        raise BadInput(f"the {name} is not UTF-8 text", field=name) from None
    except EOFError:
        raise BadInput(f"nothing was given for {name}, and nothing is changed", field=name) from None


def _split(pair: str, option: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    if not (name and value):
        raise BadInput(f"{option} takes NAME={'VALUE' if option == '--set' else 'FILE'}", field=name)
    return name, value


def _variable(name: str) -> str:
    return f"HALO_CHANNEL_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"


def _from_environment(name: str) -> str:
    variable = _variable(name)
    value, path = os.environ.get(variable, ""), os.environ.get(f"{variable}_FILE", "")
    if value and path:
        raise BadInput(f"{variable} and {variable}_FILE are both set", field=name, advice="unset one of them")
    return _read(path, name) if path else plain(value, variable).strip()


def _read(path: str, name: str) -> str:
    """Return what is in the file of a value. Raises `BadInput`."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"the file {path} of {name} cannot be read: {why}", field=name) from None
    if not text:
        raise BadInput(f"the file {path} of {name} is empty", field=name)
    return text
