"""`check_plugin`: every rule that an installed plugin breaks is found, and a good one breaks none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from halo_kernel.testing import assert_plugin_ok, check_plugin

GOOD = """
from halo_kernel import ContextPart, hook

@hook
async def prepare_context(session):
    return []
"""
RANGE = ">=0.1,<0.2"


class Site:
    """A directory that plugins are installed into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        name: str,
        code: str = GOOD,
        *,
        toml: str = f'kernel = "{RANGE}"',
        needs: Sequence[str] = (f"halo-kernel{RANGE}",),
    ) -> str:
        """Lay a plugin out as an installer does and return its module's name."""
        package = self.folder / f"kit_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(code)
        (package / "part.py").write_text("")
        (package / "halo.toml").write_text(toml)
        info = self.folder / f"kit_{name}-1.0.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: kit-{name}", "Version: 1.0", *(f"Requires-Dist: {e}" for e in needs)]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[halo.plugins]\n{name} = {package.name}\n")
        return package.name


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield Site(folder)
    for name in [each for each in sys.modules if each.startswith("kit_")]:
        del sys.modules[name]


def told(plugin: str) -> list[str]:
    return [str(each) for each in check_plugin(plugin)]


def test_a_good_plugin_has_no_findings(site: Site) -> None:
    """It is found by module, by module's name and by distribution, and nothing is wrong with it."""
    name = site.install("good")
    assert check_plugin(name) == check_plugin("kit-good") == check_plugin("Kit_Good") == []
    assert check_plugin(import_module(name)) == []
    assert_plugin_ok(name)


def test_what_is_not_installed_is_said() -> None:
    """A name that nobody installed is one finding that says what to do."""
    (found,) = told("kit_missing")
    assert found.startswith("fault: no installed distribution has kit_missing under halo.plugins: install it")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from halo_kernel import hook\n@hook\ndef prepare_context(session): ...", "must be async def"),
        ("from halo_kernel import hook\n@hook\nasync def prepare_context(seance): ...", "the argument seance"),
        ("from halo_kernel import hook\n@hook\ndef provide_toolz(): ...", "did you mean provide_tools?"),
        ("raise OSError('no')", "its import failed: OSError: no"),
    ],
)
def test_what_keeps_it_from_working_is_a_fault(site: Site, code: str, message: str) -> None:
    """A hook of the wrong colour, an unknown argument or hook and a failing import are told as the kernel does."""
    (found,) = told(site.install("broken", code))
    assert found.startswith("fault: ")
    assert message in found


def test_another_kernel_is_a_fault(site: Site) -> None:
    """A range that excludes this kernel is told."""
    found = told(site.install("newer", toml='kernel = ">=9"', needs=["halo-kernel>=9"]))
    assert any(each.startswith("fault: needs halo-kernel >=9") for each in found)


def test_imports_are_looked_at(site: Site) -> None:
    """Its own modules by their full name, private modules of the kernel, and undeclared packages are told by line."""
    code = "import kit_imports.part\nfrom halo_kernel.runtime import Kernel\nimport pytest\nimport json\n" + GOOD
    found = told(site.install("imports", code))
    assert [each.partition(":")[0] for each in found] == ["remark"] * 3
    for line, name in ((1, "kit_imports.part"), (2, "halo_kernel.runtime"), (3, "pytest")):
        assert any(f"__init__.py:{line}: " in each and name in each for each in found)


def test_ranges_agree(site: Site) -> None:
    """`halo.toml` and the dependencies name the same kernels, in any order."""
    assert told(site.install("order", toml='kernel = "<0.2, >=0.1"')) == []
    (found,) = told(site.install("apart", needs=["halo-kernel"]))
    assert found == 'kernel-range: halo.toml says kernel = ">=0.1,<0.2", its dependencies say halo-kernel'


def test_no_plugin_needs_another(site: Site) -> None:
    """A dependency that is a plugin itself is told."""
    site.install("good")
    (found,) = told(site.install("second", needs=[f"halo-kernel{RANGE}", "kit-good"]))
    assert found.startswith("other-plugin: it depends on kit-good")


def test_a_slow_import_is_told(site: Site) -> None:
    """An import that computes for long is told with its time; one that only waits is not."""
    busy = "import time\nend = time.process_time() + 0.7\nwhile time.process_time() < end: pass\n"
    (found,) = told(site.install("busy", busy + GOOD))
    assert found.startswith("import-time: its import takes 0.")
    assert told(site.install("waits", "import time\ntime.sleep(0.7)\n" + GOOD)) == []
    with pytest.raises(AssertionError, match="import-time: its import takes"):
        assert_plugin_ok("kit_busy")
    assert_plugin_ok("kit_busy", import_seconds=10)
