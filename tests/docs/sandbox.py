"""A machine of its own for the commands of one page: a home, a folder to work in, and programs as a person has them.

Four programs are not quite what a person has. `halo up` goes to the background and is stopped, for nobody is there to
press Ctrl-C; `halo password` is told one; `pip install` knows the distributions of this clone, and lays out folders in
the sandbox; `uv run` runs its command here. Vendors of models are scripted servers on this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .pages import ROOT, Block

SECONDS = 240.0
_OURS = re.compile(r"HALO_.*|OPENAI_.*|.*_API_KEY|DISPLAY|WAYLAND_DISPLAY|BROWSER|VIRTUAL_ENV|TOX_.*|PYTEST_.*|COV.*")
_MARK = "\x1e"
_PYTHON = shlex.quote(sys.executable)
_HALO = f"""#!/bin/sh
halo() {{ {_PYTHON} -m halo_kernel "$@"; }}
case "$1" in
    up)
        shift
        case " $* " in
            *" -d "*) halo up --no-browser "$@";;
            *) halo up -d --no-browser "$@" && halo stop;;
        esac;;
    password) echo "a password 1" | halo password;;
    *) halo "$@";;
esac
"""
_PIP = f'#!/bin/sh\nexec {_PYTHON} {shlex.quote(str(Path(__file__).with_name("installer.py")))} "$@"\n'
_UV = '#!/bin/sh\nif [ "$1" = run ]; then shift; exec "$@"; fi\nexec "$UV_ITSELF" "$@"\n'
_PYTEST = f'#!/bin/sh\nexec {_PYTHON} -m pytest -p no:cacheprovider --color=no "$@"\n'
_SITE = "import os, site\nsite.addsitedir(os.path.dirname(__file__))\n"


@dataclass(frozen=True)
class Step:
    """A command of a block; `shown` is what the page says that it prints, `code` how it ends."""

    command: str
    shown: str = ""
    code: int = 0


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a block: in `sh` all of it is one, in `console` those after `$ `, each with its output."""
    if block.language == "sh":
        yield Step(f"set -e\n{block.text}set +e")
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command}\n{more}"
        code = re.search(r"# ends with (\d+)$", command)
        yield Step(command, shown, int(code[1]) if code else 0)


def is_shown(shown: str, printed: str) -> bool:
    """Tell whether a page shows what was printed; `…` stands for anything, alone in a line for any lines or none."""
    lines = (
        "(?:.*\n)?" if line == "…" else ".*".join(map(re.escape, f"{line}\n".split("…"))) for line in shown.split("\n")
    )
    wanted = "".join(lines).removesuffix("\\\n")
    return not shown.strip() or re.fullmatch(wanted, f"{printed.strip()}\n", flags=re.DOTALL) is not None


class Sandbox:
    """One page's machine below `folder`; `vendors` are the URLs of the scripted servers by plugin."""

    def __init__(self, folder: Path, vendors: Mapping[str, str]) -> None:
        self.work = folder / "work"
        self._home = folder / "home" / ".halo"
        self._site = folder / "site"
        programs = folder / "bin"
        for each in (self.work, self._site, programs, self._home / "global" / "models"):
            each.mkdir(parents=True)
        (self._site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
        for name, text in {"halo": _HALO, "pip": _PIP, "uv": _UV, "pytest": _PYTEST}.items():
            (programs / name).write_text(text, encoding="utf-8")
            (programs / name).chmod(0o755)
        _write_vendors(self._home / "global" / "models", vendors)
        env = {name: value for name, value in os.environ.items() if not _OURS.fullmatch(name)}
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), env.get("PATH", "")])
        ours = {"HOME": str(folder / "home"), "PATH": path, "PYTHONPATH": str(self._site), "HALO_PORT": "0"}
        self.env = {**env, **_tools(), **ours, "LANG": "C.UTF-8", "SITE": str(self._site), "TMPDIR": str(folder)}

    def run(self, examples: Sequence[Block]) -> Iterator[tuple[Block, Step, str, int | None]]:
        """Run what is to be run, in order, and yield each command with what it printed and its exit code."""
        parts, told = ["exec 2>&1 </dev/null"], list[tuple[Block, Step]]()
        for block in examples:
            if block.path:
                parts.append(_file(block))
                continue
            for step in steps(block):
                parts.append(f"printf '{_MARK}'\n{step.command}\nprintf '{_MARK}%s' $?")
                told.append((block, step))
        pieces = self._printed("\n".join(parts)).split(_MARK)[1:]
        pieces += [""] * (2 * len(told) - len(pieces))
        for (block, step), printed, after in zip(told, pieces[::2], pieces[1::2], strict=True):
            code = re.match(r"\d+", after)
            yield block, step, printed, int(code[0]) if code else None

    def _printed(self, script: str) -> str:
        """Run a script and return what it printed; what it left running is ended."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            ["bash", "-c", script], cwd=self.work, env=self.env, stdout=pipe, text=True, start_new_session=True
        ) as process:
            try:
                return process.communicate(timeout=SECONDS)[0]
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if (self._home / "global" / "supervisor.json").exists():
                    self.python("-m", "halo_kernel", "stop", "--force")

    def python(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter here, with `more` variables."""
        env, command = {**self.env, **more}, [sys.executable, *words]
        return subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True, timeout=SECONDS)

    def pytest(self, *files: str) -> subprocess.CompletedProcess[str]:
        """Run tests here, with the kit and without what else this environment has for pytest."""
        plugins = ("-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "-p", "halo_kernel.pytest_plugin")
        options = ("--import-mode=importlib", "-o", "asyncio_default_fixture_loop_scope=function")
        return self.python("-m", "pytest", "-q", *plugins, *options, *files, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def _file(block: Block) -> str:
    path = Path(block.path.replace("~", "$HOME"))
    return f'mkdir -p "{path.parent}"\ncat > "{path}" <<\'END_OF_FILE\'\n{block.text}END_OF_FILE'


def _tools() -> dict[str, str]:
    """Return what the real uv needs to be found, and to find its cache, from another home."""
    uv = shutil.which("uv") or "uv"
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    return {"UV_ITSELF": uv, "UV_CACHE_DIR": cache, "PYENV_ROOT": pyenv}


def _write_vendors(folder: Path, urls: Mapping[str, str]) -> None:
    """Let each vendor of a plugin be its scripted server, as a person's own file may say, and none be local."""
    for path in (ROOT / "plugins").glob("*/src/*/vendors/*.toml"):
        vendor = tomllib.loads(path.read_text(encoding="utf-8"))
        url = "http://127.0.0.1:9/v1" if vendor.get("local") else urls[path.parents[3].name]
        text = f"id: {vendor['id']}\ndefaultEndpoint: {url}\n"
        (folder / f"{vendor['id']}.yaml").write_text(text, encoding="utf-8")
