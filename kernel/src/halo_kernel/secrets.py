"""The home folder and the small secret files in it, which only their owner can read."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from .errors import BadInput
from .records import Secret

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
SHORTEST_HIDDEN = 8


def default_home(env: Mapping[str, str]) -> Path:
    """Return the home that `HALO_HOME` names, else `~/.halo`, as an absolute path."""
    named = env.get("HALO_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else Path.home() / ".halo"


def ensure_home(home: Path) -> Path:
    """Make `global/`, `global/logs/` and `secrets/` (0700) in a home and return it. Raises `BadInput`."""
    private = home / "secrets"
    try:
        (home / "global" / "logs").mkdir(parents=True, exist_ok=True)
        private.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        if os.name == "posix" and private.stat().st_mode & 0o077:
            private.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise BadInput(
            f"the home {home} cannot be used: {error.strerror or error}",
            field="HALO_HOME",
            advice="set HALO_HOME to a folder that you may write to",
        ) from error
    return home


def read_secret(path: Path) -> str | None:
    """Return a secret file's text, or None when there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write_secret(path: Path, text: str) -> None:
    """Replace a secret file (0600) at once: a reader, or a crash, sees the old text or the new, never a part.

    A link stays a link: the file that it points to is replaced.
    """
    target = path.resolve()
    descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other processes out of `path` while it is read and written again; a lock file beside it stays."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_variable(env: Mapping[str, str], name: str) -> str | None:
    """Return the variable `name`, or the contents of the file that `<name>_FILE` names; None when both are empty.

    Raises `BadInput` when both are set, or the file cannot be read; it names the variable, never a value.
    """
    value, path = env.get(name, ""), env.get(f"{name}_FILE", "")
    if value and path:
        raise BadInput(f"{name} and {name}_FILE are both set", field=name, advice="unset one of them")
    if not path:
        return value or None
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInput(f"{name}_FILE names {path}, which cannot be read: {why}", field=f"{name}_FILE") from error
    return text.rstrip("\r\n") or None


class Redactor:
    """Replaces known secret values, of 8 characters or more, by their handles' names, escaped ones too."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._names = {
            form: repr(secret)
            for secret in secrets
            if len(secret.reveal()) >= SHORTEST_HIDDEN
            for form in _forms(secret.reveal())
        }
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._pattern.sub(lambda found: self._names[found[0]], text)


def _forms(value: str) -> set[str]:
    """Return a value as it looks by itself and inside JSON, Python's `repr` and URLs."""
    quoted = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    encoded = value.encode("utf-8", "surrogatepass")
    return {value, quote(encoded), quote(encoded, ""), *(each[1:-1] for each in quoted)}
