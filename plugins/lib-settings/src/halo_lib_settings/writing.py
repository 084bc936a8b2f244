"""Writing settings: all of a change or nothing, by one writer at a time, checked before it counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import cast

from halo_kernel import (
    BadFile,
    BadInput,
    Conflict,
    Reading,
    Secret,
    Settings,
    SettingsField,
    SettingsFile,
    StorageUnavailable,
    WorkspaceInfo,
    ensure_home,
    locked,
    resolve_secret,
    write_secret,
)

from .document import changed
from .secrets import OURS, REFERENCE, forget, kept

_LOCK = "secrets/.settings.yaml.lock"


def revision_of(file: SettingsFile) -> str:
    """Return a name for exactly this text."""
    return hashlib.sha256(file.text.encode()).hexdigest()[:16]


def write_settings(
    settings: Settings,
    changes: Mapping[str, object],
    *,
    revision: str | None = None,
    workspace: WorkspaceInfo | None = None,
) -> str:
    """Set dotted keys durably (None goes back to the default) and return the file's new revision.

    Comments and unknown keys stay; what is refused leaves the file as it was. Raises `Conflict` when the file is not
    the one of `revision`, `BadInput` for a value that breaks a rule, a secret or what is `global_only` in a workspace's
    file, a keyring that does not take a secret, and `StorageUnavailable`, such as on a full disk.
    """
    try:
        ensure_home(settings.home)
        with locked(settings.home / _LOCK):
            return _Change(settings, changes, workspace).write(revision)
    except OSError as error:
        raise StorageUnavailable(f"The settings were not written: {error.strerror}.") from error


class _Change:
    """New values for the file of the server or of a workspace, made while nobody else writes one."""

    def __init__(self, settings: Settings, values: Mapping[str, object], workspace: WorkspaceInfo | None) -> None:
        self._settings = settings
        self._values = values
        self._workspace = workspace
        self._before = settings.at(workspace)

    def write(self, revision: str | None) -> str:
        file = SettingsFile.read(self._before.file.path, is_strange=self._workspace is not None)
        if revision not in (None, revision_of(file)):
            raise Conflict("the settings were changed meanwhile", advice="read them again, then repeat the change")
        self._made(file, keep=False)  # all is checked before anything is put into the keyring
        new = self._made(file, keep=True)
        if new is not file:
            write_secret(file.path, new.text)
        for reference in {*OURS.findall(file.text)} - {*OURS.findall(new.text)}:
            forget(reference)
        return revision_of(self._settings.at(self._workspace).file)

    def _made(self, file: SettingsFile, *, keep: bool) -> SettingsFile:
        """Return the file with all the new values. Raises `BadInput` for one that breaks a rule."""
        for key, value in self._values.items():
            file = changed(file, key, self._stored(key, value, keep=keep))
        try:
            self._before.after(file)
        except BadFile as error:
            raise BadInput(error.message.partition(": ")[2], field=error.field) from error
        return file

    def _stored(self, key: str, value: object, *, keep: bool) -> object:
        """Return what to write into the file for a new value: for a secret that may be a reference to the keyring."""
        field = _field(self._before, key)
        if field.global_only and self._workspace is not None:
            raise BadInput(f"{key} counts for the whole server and cannot be set in a workspace", field=key)
        if field.secret and isinstance(value, Mapping):
            entries = cast("Mapping[str, object]", value).items()
            return {name: self._stored(f"{key}.{name}", each, keep=keep) for name, each in entries}
        text = value.reveal() if isinstance(value, Secret) else value
        if not field.secret or not isinstance(text, str):
            return value
        if "****" in text:
            raise BadInput(f"{key} must be the secret itself, not what hides it", field=key)
        resolve_secret(text, field=key)
        is_kept = keep and not REFERENCE.fullmatch(text) and "$ref" not in str(field.schema)
        return kept(self._settings, text, field=key) if is_kept else text


def _field(reading: Reading, key: str) -> SettingsField:
    """Return the setting that a dotted key is, or is a part of. Raises `BadInput`."""
    for field in reading.fields.values():
        if f"{key}.".startswith(f"{field.key}."):
            return field
    close = get_close_matches(key, list(reading.fields), n=1)
    raise BadInput(f"there is no setting {key}{f', did you mean {close[0]}?' if close else ''}", field=key)
