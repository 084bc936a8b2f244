"""Every tool of this plugin holds to the contract of tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from halo_kernel.testing import ToolContract, assert_plugin_ok


def test_the_plugin_keeps_the_rules() -> None:
    """It loads, declares what it imports, and imports its own modules relatively."""
    assert_plugin_ok("halo_tools")


class _Files(ToolContract):
    @pytest.fixture
    def halo_plugins(self) -> list[str]:
        return ["halo_tools"]

    def prepare(self, folder: Path) -> None:
        (folder / "notes.md").write_text("milk\nbread\n")
        (folder / "src").mkdir()
        (folder / "src" / "main.py").write_text("print('milk')\n")


class TestFileRead(_Files):
    tool_name = "file_read"
    good = {"path": "notes.md"}
    bad = ({"path": "none.md"}, {"path": "notes.md", "offset": 0}, {"path": "/etc/../../x\0"})


class TestFileWrite(_Files):
    tool_name = "file_write"
    good = {"path": "new/list.md", "content": "butter\n"}
    bad = ({"path": "", "content": "x"}, {"path": "src", "content": "a folder"})


class TestFileEdit(_Files):
    tool_name = "file_edit"
    good = {"path": "notes.md", "old_string": "milk", "new_string": "oat milk"}
    bad = ({"path": "notes.md", "old_string": "wine", "new_string": "water"},)


class TestFileList(_Files):
    tool_name = "file_list"
    good = {"path": ".", "recursive": True}
    bad = ({"path": "none"},)


class TestGlob(_Files):
    tool_name = "glob"
    good = {"pattern": "**/*.py"}
    bad = ({"pattern": "../*"},)


class TestGrep(_Files):
    tool_name = "grep"
    good = {"pattern": "milk"}
    bad = ({"pattern": "("}, {"pattern": "x", "max_results": 0.5})


class TestShellExec(_Files):
    tool_name = "shell_exec"
    good = {"command": "cat notes.md"}
    bad = ({"command": ""}, {"command": "cat \0"})
    slow = {"command": "sleep 60"}
