"""The settings of a home without its secrets."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any, cast

from halo_kernel import Settings

_HEAD = "# From a backup without secrets: what is secret, and what no loaded plugin knows, is not here.\n"


def plain_settings(settings: Settings) -> str:
    """Return the home's settings file anew, as YAML, with known settings only.

    A secret is there if it is but a reference: to a variable, or to the keyring.
    """
    from ruamel.yaml import YAML

    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    path = settings.home / "secrets" / "settings.yaml"
    given = _map(yaml.load(path.read_text(encoding="utf-8")) if path.exists() else None)
    kept: dict[str, dict[str, object]] = {}
    for field in settings.at().fields.values():
        section, _, name = field.key.partition(".")
        value = _map(given.get(section)).get(name)
        if value is not None and (not field.secret or (field.written and value == field.written)):
            kept.setdefault(section, {})[name] = value
    text = StringIO()
    if kept:
        yaml.dump(kept, text)
    return _HEAD + text.getvalue()


def has_settings(home: Path) -> bool:
    """Tell whether a home has settings of its own."""
    return (home / "secrets" / "settings.yaml").exists()


def _map(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
