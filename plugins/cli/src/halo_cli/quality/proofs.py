"""Rules about what tests show: which parts of the kit they use, and what they are allowed."""

from __future__ import annotations

from collections.abc import Iterator

from .module import called, calls
from .project import Project

# The contract suite of what each hook provides; a protocol is a plugin that says so in `provides`.
CONTRACTS = {
    "provide_tools": "ToolContract",
    "provide_channels": "ChannelContract",
    "provide_models": "ModelContract",
    "provide_dispatchers": "DispatcherContract",
    "provide_services": "ServiceContract",
    "provide_storage": "StorageContract",
}
PROTOCOLS = "protocols", "ProtocolContract"
_KIT = "halo_kernel.testing."
_CLIENT = "halo_lib_client.connect"
# What a test imports that brings a kernel, and what it imports, or calls, to go the way of a user.
_KERNELS = {_CLIENT, *(_KIT + name for name in ("Workbench", "running_kernel", *CONTRACTS.values(), PROTOCOLS[1]))}
_USERS = {_CLIENT, "subprocess", "socket", "urllib.request.urlopen"} | {
    _KIT + name
    for name in ("listening", "front", "ChannelContract", "DispatcherContract", "ProtocolContract", "ServiceContract")
}
_FIXTURE, _ASK = "halo", "ask"
_KILLS = {"crash_points", "CrashPoints", "CrashingStorage", "SIGKILL", "ServiceContract"}
_OWES = ("data.open", "outbox.owe")


def contracts(project: Project) -> Iterator[str]:
    """Whatever others rely on is tested as the kernel relies on it."""
    wanted = {suite for hook, suite in CONTRACTS.items() if hook in project.verdict.hooks}
    if PROTOCOLS[0] in project.manifest.get("provides", ()):
        wanted.add(PROTOCOLS[1])
    found = {base for each in project.tests for base in each.bases}
    yield from (f"no test inherits {suite}" for suite in sorted(wanted - found))


def real_kernel(project: Project) -> Iterator[str]:
    """It works where it will work."""
    if not (_imports(project) & _KERNELS or _FIXTURE in _words(project)):
        yield "no test has a kernel" if project.tests else "there are no tests"


def nothing_left(project: Project) -> Iterator[str]:
    """The kit's guards hold for all tests."""
    if not project.tests:
        yield "there are no tests"
    for module in project.tests:
        if "halo_may_leak" in module.words:
            yield f"{module.name} has tests that may leave something behind"


def user_level(project: Project) -> Iterator[str]:
    """What users do is tried."""
    if not (_imports(project) & _USERS or _ASK in _words(project)):
        yield "no test goes the way of a user"


def crash_tested(project: Project) -> Iterator[str]:
    """What was promised outlives the process."""
    owing = [
        f"{module.at(call)} calls {called(call.func)}"
        for module in project.modules
        for call in calls(module.tree)
        if called(call.func).endswith(_OWES)
    ]
    if owing and not _words(project) & _KILLS:
        yield f"{owing[0]}, and no test kills it"


def property_tests(project: Project) -> Iterator[str]:
    """What nobody thought of is tried."""
    if "given" not in _words(project):
        yield "no test uses hypothesis.given"


def benchmark(project: Project) -> Iterator[str]:
    """What it costs is known."""
    if not any(each.name.rpartition("/")[2].startswith("test_bench") for each in project.tests):
        yield "there is no test_bench_….py"


def _imports(project: Project) -> frozenset[str]:
    return frozenset(name for each in project.tests for name in each.imports)


def _words(project: Project) -> frozenset[str]:
    return frozenset[str]().union(*(each.words for each in project.tests))
