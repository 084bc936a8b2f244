"""The home folder and the secrets in it: in files that only their owner can read, or in the system's keyring.

Keyring: https://keyring.readthedocs.io
"""

from __future__ import annotations

import json
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Literal, cast
from urllib.parse import quote

import msgspec

from .errors import BadInput, StorageUnavailable
from .records import Secret
from .records.storable import is_storable

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
SHORTEST_HIDDEN = 8
KEYRING = "keyring:"


def ensure_home(home: Path) -> Path:
    """Make `global/`, `global/logs/` and `secrets/` in a home and return it; all new ones are for their owner alone.

    Raises `BadInput`, `StorageUnavailable` for a home that is half restored.
    """
    folder, advice = home / "secrets", "set HALO_HOME to a folder that you may write to"
    if not is_storable(str(home)):
        raise BadInput(f"the home {str(home)!r} has a name that is not UTF-8 text", field="HALO_HOME", advice=advice)
    try:
        if (home / "swaps.json").exists():  # what is left to do, by whoever restores
            raise StorageUnavailable(f"a restore of {home} was cut", advice="finish it: `halo backup restore --finish`")
        home.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        (home / "global" / "logs").mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        folder.chmod(PRIVATE_FOLDER)
    except OSError as error:
        raise BadInput(f"the home {home} cannot be used: {error}", field="HALO_HOME", advice=advice) from error
    return home


def read_secret(path: Path) -> str | None:
    """Return a secret file's text, or None when there is none."""
    with suppress(FileNotFoundError):
        return path.read_bytes().decode()
    return None


def write_secret(path: Path, text: str) -> None:
    """Replace a secret file (0600) at once; a link stays a link: the file that it points to is replaced."""
    with replacing(path.resolve(), mode=PRIVATE_FILE) as draft:
        draft.write_bytes(text.encode())


@contextmanager
def replacing(path: Path, *, mode: int) -> Generator[Path]:
    """Give a new file to write, and put it in the place of `path` once it is on disk; not if anything is raised.

    A reader, or a crash, sees the old content or the new, never a part.
    """
    draft = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        draft.touch(PRIVATE_FILE, exist_ok=False)
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file)
        draft.chmod(mode)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read; the `opener` of `open`."""
    return os.open(path, flags, PRIVATE_FILE)


def read_variable(env: Mapping[str, str], name: str) -> str | None:
    """Return the variable `name`, or the contents of the file that `<name>_FILE` names; None when both are empty.

    Raises `BadInput` when both are set, or the file cannot be read; it names the variable, never a value.
    """
    value, path = env.get(name, ""), env.get(f"{name}_FILE", "")
    if value and path:
        raise BadInput(f"{name} and {name}_FILE are both set", field=name, advice="unset one of them")
    if path:
        try:
            value = Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = f"{name}_FILE names {path}, which cannot be read: {error}"
            raise BadInput(why, field=f"{name}_FILE") from error
    return value or None


def resolve_secret(text: str, *, field: str) -> str:
    """Return what a reference `keyring:<service>/<name>` stands for; any other text is the secret itself.

    Raises `BadInput` that names `field`.
    """
    found = use_keyring("get", text, field=field) if text.startswith(KEYRING) else text
    if found is None:
        raise BadInput(f"{field}: the keyring holds no {text}", field=field, advice="set it again")
    return found


def use_keyring(act: Literal["get", "set", "delete"], reference: str, *values: str, field: str) -> str | None:
    """Get, set or delete what a reference stands for in the system's keyring. Raises `BadInput` that names `field`."""
    service, _, name = reference.removeprefix(KEYRING).partition("/")
    try:
        import keyring

        return cast("str | None", getattr(keyring, f"{act}_password")(service, name, *values))
    except Exception as error:  # each system's keyring raises its own
        why = f"{field}: the keyring cannot be used: {str(error).rstrip('.')}"
        advice = "unlock it, or: pip install 'halo-kernel[keyring]', or: halo settings set secrets.store file"
        raise BadInput(why, field=field, advice=advice) from error


class Redactor:
    """Replaces known secret values, of 8 characters or more, by their handles' names, escaped ones too."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._lock = threading.Lock()
        self._sources: dict[str, set[Secret]] = {}
        self.learn("", secrets)

    def learn(self, source: str, secrets: Iterable[Secret]) -> None:
        """Hide a source's secrets from now on, in place of those that it had before."""
        with self._lock:
            self._sources[source] = set(secrets)
            hidden = (each for found in self._sources.values() for each in found)
            self._names = {form: repr(each) for each in hidden for form in _forms(each.reveal())}
            self._sorted = sorted(self._names)
            self._longest = max(map(len, self._sorted), default=0)
            # backwards, so that a secret comes before those that it begins with
            self._pattern = re.compile("|".join(map(re.escape, reversed(self._sorted))) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._pattern.sub(lambda found: self._names.get(found[0], "<secret>"), text)

    def stream(self) -> MaskedStream:
        """Return what takes the secrets out of a text that comes in pieces."""
        return MaskedStream(self)

    def settled(self, text: str) -> int:
        """Return the length of the beginning that is masked alike whatever follows: no secret may lie on its end."""
        spans = [found.span() for found in self._pattern.finditer(text)]
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            tail = text[at:]
            after = bisect_right(self._sorted, tail)  # what begins with the tail and goes on comes next
            is_begun = any(form.startswith(tail) for form in self._sorted[after : after + 1])
            if is_begun and not any(start < at < end for start, end in spans):
                return at
        return len(text)


class MaskedStream:
    """A text in pieces without secrets: joined, they are the joined text without secrets.

    It holds back the shortest end of what it was fed that could begin a secret.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what can be shown now."""
        text = self._held + text
        cut = self._redactor.settled(text)
        self._held = text[cut:]
        return self._redactor(text[:cut])

    def end(self) -> str:
        """Return the rest."""
        text, self._held = self._held, ""
        return self._redactor(text)


class Secrets:
    """The secrets that a plugin keeps by name: in private files, or in the keyring (the setting `secrets.store`).

    Whatever passes through here is masked in logs and transcripts from then on. Each method blocks for a short file
    operation, or as long as the system's keyring takes. The library `halo-lib-settings` keeps and forgets them.

    One JSON object a plugin, `secrets/<plugin>.secrets`, of texts or references by name.
    """

    def __init__(self, home: Path, redactor: Redactor, plugin: str) -> None:
        self.path = home / "secrets" / f"{quote(plugin, safe='')}.secrets"  # The file, as JSON.
        self._plugin = plugin
        self._redactor = redactor

    def get(self, name: str) -> Secret | None:
        """Return a secret, None when there is none. Raises `BadInput` for a keyring that does not give it."""
        text, field = self._read().get(name), f"{self._plugin}/{name}"
        secret = None if text is None else Secret(resolve_secret(text, field=field), field)
        self._redactor.learn(field, [secret] if secret else [])
        return secret

    def known(self) -> Sequence[str]:
        """Return the names, sorted."""
        return sorted(self._read())

    def mask(self, text: str) -> str:
        """Return `text` with every secret value that the server knows, settings' too, replaced by its handle's name."""
        return self._redactor(text)

    def _read(self) -> dict[str, str]:
        return msgspec.json.decode(read_secret(self.path) or "{}", type=dict[str, str])


def _forms(value: str) -> set[str]:
    """Return a value as it looks by itself and inside JSON, Python's `repr` and URLs; nothing of a short one."""
    quoted = (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value))
    encoded = value.encode("utf-8", "surrogatepass")
    forms = {value, quote(encoded), quote(encoded, ""), *(each[1:-1] for each in quoted)}
    return forms if len(value) >= SHORTEST_HIDDEN else set()
