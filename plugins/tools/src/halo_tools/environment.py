"""The environment of child processes: never Halo's own secrets, nor the keys that model providers read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# HALO_* holds passwords, tokens and keys; HALO_HOME alone says where the home is.
_OURS = re.compile(r"HALO_(?!HOME$).*")
_KEYS = re.compile(r".*_API_KEY(_FILE)?|AWS_BEARER_TOKEN_BEDROCK(_FILE)?")
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def full_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the server's environment (or `given`) without Halo's variables and any `*_API_KEY`."""
    source = os.environ if given is None else given
    return {name: value for name, value in source.items() if not (_OURS.fullmatch(name) or _KEYS.fullmatch(name))}


def minimal_environment() -> dict[str, str]:
    """Return what a sandboxed command gets: where programs and the home folder are, and the language."""
    home = os.path.expanduser("~")
    env = {name: os.environ[name] for name in _LOCALE if name in os.environ}
    env.setdefault("LANG", "C.UTF-8")
    env["PATH"] = f"{home}/.local/bin:{os.environ.get('PATH', PATH)}"
    return {**env, "HOME": home, "TERM": "xterm-256color"}
