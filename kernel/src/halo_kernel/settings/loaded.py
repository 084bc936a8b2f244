"""All settings of a home: what the plugins' sections hold now, and how they are changed."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Struct

from ..errors import BadFile, BadInput, Conflict, NotFound
from ..locks import locked
from ..log import logger
from ..manifests import suggest
from ..records import Secret, Section, WorkspaceInfo
from ..secrets import Redactor, ensure_home, write_secret
from .document import Keys, SettingsFile
from .sections import KERNEL_SECTIONS, SecretSettings
from .values import REFERENCE, Env, Finding, Reading, Sections, SettingsField, secret_texts
from .vault import forget, keep, resolve

S = TypeVar("S", bound=Struct)
FILE = "settings.yaml"
LOCK = f".{FILE}.lock"


class LoadedSettings:
    """The settings that count now. Values are frozen; a file that was changed is read again when they are asked for.

    One that is broken then leaves what counted before. `redactor` knows every secret that is set.
    """

    def __init__(self, home: Path, sections: Sections, env: Env) -> None:
        self.home = home
        self.redactor = Redactor()
        self._file = home / "secrets" / FILE
        self._env = dict(env)
        self._lock = threading.Lock()
        self._refused = {each.type: why for plugin, each in sections if (why := _refusal(plugin, each, sections))}
        self._sections = [(plugin, each) for plugin, each in sections if each.type not in self._refused]
        self._seen: dict[Path, tuple[object, Reading]] = {}
        self.reload()

    def of(self, section: type[S], workspace: WorkspaceInfo | None = None) -> S:
        """See `contracts.Settings.of`."""
        found = self.at(workspace).values.get(section)
        if found is None:
            reason = self._refused.get(section, f"no plugin provides settings of the type {section.__name__}")
            raise NotFound(reason, advice="a plugin returns its sections from provide_settings")
        return cast("S", found)

    def fields(self, workspace: WorkspaceInfo | None = None) -> Sequence[SettingsField]:
        """See `contracts.Settings.fields`."""
        return tuple(self.at(workspace).fields)

    @property
    def secrets(self) -> Sequence[Secret]:
        """Every secret that is set."""
        return tuple(self.at().secrets)

    @property
    def in_keyring(self) -> bool:
        """Whether new secrets go into the keyring."""
        return self.of(SecretSettings).store == "keyring"

    def at(self, workspace: WorkspaceInfo | None = None) -> Reading:
        """Return all that counts now, for a workspace or for the whole server, and what is odd about it."""
        base, path = None if workspace is None else self.at(), self._path(workspace)
        stamp, (seen, reading) = _stamp(path), self._seen.get(path, (None, None))
        if reading is not None and seen == stamp and reading.base is base:
            return reading
        try:
            reading = self._reading(path, base)
        except BadInput as error:
            logger("settings").warning("settings not read", error=error.message)
            kept = reading is not None and reading.base is base
            reading = copy.copy(reading) if reading and kept else self._reading(path, base, SettingsFile(path, ""))
            reading.findings = [Finding(key=error.field, line=getattr(error, "line", 0), text=error.message)]
        self._seen[path] = stamp, reading
        return reading

    def reload(self) -> None:
        """Read the file again. Raises `BadFile` and keeps what counted before."""
        stamp, reading = _stamp(self._file), self._reading(self._file)
        self._seen[self._file] = stamp, reading

    def write(
        self, changes: Mapping[str, object], *, revision: str | None = None, workspace: WorkspaceInfo | None = None
    ) -> str:
        """See `contracts.Settings.write`. Comments and unknown keys stay; what is refused leaves the file as it was."""
        ensure_home(self.home)
        path, base = self._path(workspace), None if workspace is None else self.at()
        with self._lock, locked(self.home / "secrets" / LOCK):
            file = SettingsFile.read(path, is_strange=base is not None)
            if revision is not None and revision != file.revision:
                raise Conflict("the settings were changed meanwhile", advice="read them again, then repeat the change")
            changed = file.changed({self._keys(key, workspace): value for key, value in changes.items()})
            try:
                reading = self._reading(path, base, changed)
            except BadFile as error:
                rule = error.message.removeprefix(f"{error.path}:{error.line}: ")
                raise BadInput(rule, field=error.field, advice=error.advice) from error
            before = self._texts(file)
            changed = changed.changed(self._moved(self._texts(changed).items() - before.items()))
            if changed.text != file.text:
                write_secret(path, changed.text)
            for text in {*before.values()} - {*self._texts(changed).values()}:
                forget(text)
            self._seen[path] = None, reading
            return self.at(workspace).file.revision

    def _path(self, workspace: WorkspaceInfo | None) -> Path:
        return Path(workspace.path, ".halo", FILE) if workspace else self._file

    def _reading(self, path: Path, base: Reading | None = None, file: SettingsFile | None = None) -> Reading:
        file = file or SettingsFile.read(path, is_strange=base is not None)
        reading = Reading(file, self._env, self._sections, base)
        refused = [Finding(key=kind.__name__, line=0, text=text) for kind, text in self._refused.items()]
        reading.findings[:0] = refused
        if base is None:
            self.redactor.learn("settings", reading.secrets)
        return reading

    def _texts(self, file: SettingsFile) -> dict[Keys, str]:
        """Return every secret in a file as it is written, by its keys."""
        raws = [(file.data.get(each.name), each.type, (each.name,)) for _, each in self._sections]
        return {keys: text for raw in raws for keys, text in secret_texts(*raw)}

    def _moved(self, fresh: Iterable[tuple[Keys, str]]) -> dict[Keys, object]:
        """Return the references to put in the place of new secrets, which go into the keyring if settings want that."""
        moved: dict[Keys, object] = {}
        for keys, text in fresh:
            field = ".".join(keys)
            if "****" in text:
                raise BadInput(f"{field} must be the secret itself, not what hides it", field=field)
            resolve(text, field=field)
            if self.in_keyring and not REFERENCE.fullmatch(text):
                moved[keys] = keep(text, self.home, field=field)
        return moved

    def _keys(self, key: str, workspace: WorkspaceInfo | None) -> Keys:
        """Return a dotted key's parts, once it is a setting's or lies within one."""
        fields = self.at().fields
        field = next((each for each in fields if f"{key}.".startswith(f"{each.key}.")), None)
        if field is None:
            raise BadInput(f"there is no setting {key}{suggest(key, [each.key for each in fields])}", field=key)
        if workspace and field.global_only:
            raise BadInput(f"{key} counts for the whole server and cannot be set in a workspace", field=key)
        return tuple(key.split("."))


def _stamp(path: Path) -> object:
    """Return what changes with a file, as far as a look at its folder tells."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return ()


def _refusal(plugin: str, section: Section, sections: Sections) -> str:
    """Return why a section cannot be read, or nothing: another plugin claims its name, or it has no default."""
    rivals = {other for other, each in sections if each.name == section.name and each.type != section.type}
    if rivals:
        return f"the settings section {section.name} is claimed by {' and '.join(sorted({plugin, *rivals}))}"
    try:
        section.type()
    except TypeError as error:
        return f"every field of the settings section {section.name} needs a default: {error}"
    return ""


def load_kernel_settings(home: Path, env: Env) -> LoadedSettings:
    """Read the kernel's own sections alone, for when plugins are not known yet; says nothing about the others."""
    return LoadedSettings(home, [("kernel", section) for section in KERNEL_SECTIONS], env)


def load_settings(home: Path, sections: Sections, env: Env) -> LoadedSettings:
    """Read `<home>/secrets/settings.yaml` and the environment into typed sections, given with their plugin's name.

    Raises `BadFile` (path, line, key, rule) for the file, `BadInput` (the variable's name) for the environment.
    """
    loaded = LoadedSettings(home, sections, env)
    for finding in loaded.at().findings:
        logger("settings").warning(finding.text, key=finding.key, line=finding.line)
    return loaded
