"""A kernel to try things on: started when a test asks for it, and gone with all that it opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from ..contracts import Clock, ModelProvider, Tool
from ..errors import NotFound
from ..hookspecs import provide_models
from ..records import OPERATOR, Access, Incoming, Mode, Principal, TurnResult
from ..runtime import Kernel
from ..sessions import Session
from .blocking import LoopWatch
from .faults import FaultyStorage
from .kernels import running_kernel
from .model import ScriptedModel

Plugins = Mapping[str, object] | Iterable[object]


class Workbench:
    """A home, a workspace's folder, a scripted model and the plugins under test; `start` makes a kernel of them.

    `plugins` are modules, names of modules, or objects with hooks, or such by the plugin's name. Storage calls every
    write function twice, as the contract allows, unless `storage` is another plugin. What `watch` sees of a start is
    not counted, for a server serves nobody then.
    """

    def __init__(
        self,
        folder: Path,
        *,
        plugins: Plugins = (),
        model: ScriptedModel | None = None,
        clock: Clock | None = None,
        storage: object | None = None,
        workspace: Path | None = None,
        watch: LoopWatch | None = None,
    ) -> None:
        self.home = folder / "home"
        self.folder = workspace or folder / "workspace"
        self.model = model or ScriptedModel()
        self.plugins = named(plugins)
        self.kernel: Kernel | None = None
        self._clock = clock
        self._storage = storage
        self._watch = watch
        self._open = AsyncExitStack()

    async def start(
        self,
        *,
        plugins: Plugins = (),
        tools: Sequence[Tool] = (),
        env: Mapping[str, str] | None = None,
        discover: bool = False,
        recover: bool = True,
    ) -> Kernel:
        """Start a kernel on this home, after closing the one that runs: what a server's restart does.

        `plugins` and `tools` are further ones, `env` the variables it reads settings from, `discover` adds installed
        plugins. Raises `HaloError` when a plugin does not load.
        """
        await self.close()
        extra = {"storage": self._storage or FaultyStorage(), **self.plugins, **named(plugins)}
        running = running_kernel(
            self.home,
            model=self.model,
            tools=tools,
            extra=extra,
            discover=discover,
            clock=self._clock,
            recover=recover,
            env=env,
        )
        with self._watch.paused() if self._watch else nullcontext():
            self.kernel = await self._open.enter_async_context(running)
        return self.kernel

    async def session(
        self,
        name: str = "",
        *,
        principal: Principal = OPERATOR,
        agent: str | None = None,
        access: Access | None = None,
    ) -> Session:
        """Return a new session in the workspace, starting a kernel if none runs.

        With a `name`, which is its id then, the one that was made before is opened again.
        """
        kernel = self.kernel or await self.start()
        self.folder.mkdir(parents=True, exist_ok=True)
        workspace = await kernel.host.workspaces.open(self.folder)
        sessions = kernel.host.sessions
        if name:
            return await sessions.open(name, workspace=workspace.id, principal=principal, agent=agent, create=True)
        return await sessions.create(workspace=workspace.id, principal=principal, agent=agent, access=access)

    async def ask(
        self, text: str, *, session: Session | None = None, key: str | None = None, mode: Mode = "interrupt_soft"
    ) -> TurnResult:
        """Send a message, in a new session unless one is given, and return how its turn ended."""
        asked = session or await self.session()
        return await asked.prompt(Incoming(text=text, key=key, mode=mode)).result

    async def provider(self, name: str) -> ModelProvider:
        """Return a model provider of the plugins, made for this test and closed with the kernel."""
        kernel = self.kernel or await self.start()
        found = [
            provider
            for _, provider in await kernel.hooks.gather(provide_models, settings=kernel.settings, host=kernel.host)
        ]
        for each in found:
            if each is not self.model:
                self._open.push_async_callback(each.close)
        names = ", ".join(each.name for each in found)
        wanted = next((each for each in found if each.name == name), None)
        if wanted is None:
            raise NotFound(f"the plugins provide no model provider {name}; there are: {names}")
        return wanted

    async def close(self) -> None:
        """Close the kernel that runs, with its sessions, databases and tasks."""
        self.kernel = None
        stack, self._open = self._open, AsyncExitStack()
        await stack.aclose()


def named(plugins: Plugins) -> dict[str, object]:
    """Return plugins by name, modules of names imported: `halo_hello` is `hello`, an object goes by its type's name."""
    if isinstance(plugins, Mapping):
        given = cast("Mapping[str, object]", plugins)
        return {name: _found(plugin) for name, plugin in given.items()}
    found: dict[str, object] = {}
    for plugin in map(_found, plugins):
        name = plugin.__name__.removeprefix("halo_") if isinstance(plugin, ModuleType) else type(plugin).__name__
        if name in found:
            raise ValueError(f"two plugins would be called {name}; give them as a mapping by name")
        found[name] = plugin
    return found


def _found(plugin: object) -> object:
    return import_module(plugin) if isinstance(plugin, str) else plugin
