"""What sessions must not see: people's credentials, Halo's own, and ways out of a sandbox."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence

from .settings import ToolSettings

PEOPLE = (
    *("~/.ssh", "~/.aws", "~/.gnupg", "~/.docker", "~/.config/gh", "~/.kube", "~/.azure", "~/.config/gcloud"),
    *("~/.npmrc", "~/.pypirc", "~/.gitconfig", "~/.git-credentials", "~/.config/git/credentials", "~/.netrc"),
    *("~/.bash_history", "~/.zsh_history", "~/.python_history"),
)
HALO = ("secrets", "logs", "global/internal-sessions", "global/logs", "global/*.db*", "global/.replaced")
# Sockets through which a process is started or steered outside the sandbox; mounting read-only does not stop a connect.
SOCKETS = (
    *("/run/user", "/run/dbus", "/run/systemd/private", "/run/snapd.socket", "/run/libvirt"),
    *("/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/var/run/docker.sock"),
)
WORKSPACE = (".halo/sessions", ".halo/logs", ".halo/evo", ".halo/*.db*", ".halo/.replaced")
_DATABASE = re.compile(r"[^/]*\.db(-wal|-shm|-journal|\.members|\.backup-.*)?", re.IGNORECASE)


def is_database(path: str, home: str) -> bool:
    """Tell whether an absolute path has the name of one of Halo's databases or backups, in a workspace or in `home`."""
    folder, name = os.path.split(path)
    if not _DATABASE.fullmatch(name):
        return False
    ours = os.path.basename(folder).casefold() == ".halo" or "/.halo/.replaced/" in path.casefold()
    return ours or path.startswith((f"{home}/global/", f"{home}/secrets/"))


def hidden_paths(home: str, settings: ToolSettings) -> list[str]:
    """Return what exists of the built-in and configured hidden paths, links resolved. `home` is HALO_HOME."""
    own = [os.path.join(base, name) for base in (home, os.path.expanduser("~/.halo")) for name in HALO]
    return _existing([*PEOPLE, *own, *SOCKETS, *settings.hidden_dirs, *settings.hidden_files])


def workspace_masks(folder: str, others: Sequence[str] = ()) -> list[str]:
    """Return what is hidden in a workspace, and the databases of the `others`."""
    databases = [
        os.path.join(glob.escape(other), name)
        for other in others
        if other != folder
        for name in (".halo/*.db*", ".halo/.replaced")
    ]
    return _existing([*(os.path.join(glob.escape(folder), name) for name in WORKSPACE), *databases])


def _existing(patterns: Iterable[str]) -> list[str]:
    found = [path for pattern in patterns for path in glob.glob(os.path.expanduser(pattern), include_hidden=True)]
    return list(dict.fromkeys(os.path.realpath(path) for path in found))
