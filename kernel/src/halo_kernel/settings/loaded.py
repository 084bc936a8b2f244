"""All settings of a home: what the plugins' sections hold now, and how they are changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Struct

from ..errors import BadFile, BadInput, Conflict, NotFound
from ..log import logger
from ..manifests import suggest
from ..records import Secret, Section
from ..secrets import ensure_home, locked, write_secret
from .document import Keys, SettingsFile
from .sections import KERNEL_SECTIONS
from .values import Finding, Reading, SettingsField

S = TypeVar("S", bound=Struct)
FILE = "settings.yaml"


class LoadedSettings:
    """The settings that count now. Values are frozen; `write` and `reload` put new ones in their place."""

    def __init__(
        self, home: Path, sections: Sequence[tuple[str, Section]], env: Mapping[str, str], *, file: SettingsFile
    ) -> None:
        self.home = home
        self._env = dict(env)
        self._lock = threading.Lock()
        self._refused = {each.type: why for plugin, each in sections if (why := _refusal(plugin, each, sections))}
        self._sections = [(plugin, each) for plugin, each in sections if each.type not in self._refused]
        self._now = Reading(file, self._env, self._sections)

    def of(self, section: type[S]) -> S:
        """Return the values of a section's struct. Raises `NotFound` when no plugin provides it, or it was refused."""
        found = self._now.values.get(section)
        if found is None:
            reason = self._refused.get(section, f"no plugin provides settings of the type {section.__name__}")
            raise NotFound(reason, advice="a plugin returns its sections from provide_settings")
        return cast("S", found)

    def fields(self) -> Sequence[SettingsField]:
        """Return every setting with its rule, default, value and source."""
        return tuple(self._now.fields)

    @property
    def revision(self) -> str:
        """A name for the state of the file that these settings were read from."""
        return self._now.file.revision

    @property
    def secrets(self) -> Sequence[Secret]:
        """Every secret that is set."""
        return tuple(self._now.secrets)

    @property
    def findings(self) -> Sequence[Finding]:
        """What is odd: keys in the file that nobody knows, variables that are not set, sections that were refused."""
        refused = [Finding(key=kind.__name__, line=0, text=text) for kind, text in self._refused.items()]
        return (*refused, *self._now.findings)

    def reload(self) -> None:
        """Read the file again. Raises `BadFile` and keeps what counted before."""
        with self._lock:
            self._now = Reading(SettingsFile.read(self._now.file.path), self._env, self._sections)

    def write(self, changes: Mapping[str, object], *, revision: str | None = None) -> str:
        """Set dotted keys (None goes back to the default), make them durable, and return the new revision.

        Comments and unknown keys stay. Raises `Conflict` when the file is no longer the one of `revision`, `BadInput`
        naming the key for a value that breaks a rule; each leaves the file as it was.
        """
        ensure_home(self.home)
        path = self._now.file.path
        with self._lock, locked(path):
            file = SettingsFile.read(path)
            if revision is not None and revision != file.revision:
                raise Conflict("the settings were changed meanwhile", advice="read them again, then repeat the change")
            changed = file.changed({self._keys(key): value for key, value in changes.items()})
            try:
                reading = Reading(changed, self._env, self._sections)
            except BadFile as error:
                rule = error.message.removeprefix(f"{error.path}:{error.line}: ")
                raise BadInput(rule, field=error.field, advice=error.advice) from error
            if changed.text != file.text:
                write_secret(path, changed.text)
            self._now = reading
            return reading.file.revision

    def _keys(self, key: str) -> Keys:
        """Return a dotted key's parts, once it is a setting's or lies within one."""
        known = [field.key for field in self._now.fields]
        if not any(f"{key}.".startswith(f"{each}.") for each in known):
            raise BadInput(f"there is no setting {key}{suggest(key, known)}", field=key)
        return tuple(key.split("."))


def _refusal(plugin: str, section: Section, sections: Sequence[tuple[str, Section]]) -> str:
    """Return why a section cannot be read, or nothing: another plugin claims its name, or it has no default."""
    rivals = {other for other, each in sections if each.name == section.name and each.type != section.type}
    if rivals:
        return f"the settings section {section.name} is claimed by {' and '.join(sorted({plugin, *rivals}))}"
    try:
        section.type()
    except TypeError as error:
        return f"every field of the settings section {section.name} needs a default: {error}"
    return ""


def load_kernel_settings(home: Path, env: Mapping[str, str]) -> LoadedSettings:
    """Read the kernel's own sections alone, for when plugins are not known yet; says nothing about the others."""
    sections = [("kernel", section) for section in KERNEL_SECTIONS]
    return LoadedSettings(home, sections, env, file=SettingsFile.read(home / "secrets" / FILE))


def load_settings(home: Path, sections: Sequence[tuple[str, Section]], env: Mapping[str, str]) -> LoadedSettings:
    """Read `<home>/secrets/settings.yaml` and the environment into typed sections, given with their plugin's name.

    Raises `BadFile` (path, line, key, rule) for the file, `BadInput` (the variable's name) for the environment.
    """
    loaded = LoadedSettings(home, sections, env, file=SettingsFile.read(home / "secrets" / FILE))
    log = logger("settings")
    for finding in loaded.findings:
        log.warning(finding.text, key=finding.key, line=finding.line)
    return loaded
