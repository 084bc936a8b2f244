"""The settings of the tools."""

from __future__ import annotations

from pathlib import Path

from halo_kernel import WorkspaceInfo
from halo_kernel.settings import Settings
from halo_tools import ToolSettings, provide_settings


def test_a_workspace_does_not_widen_its_sandbox(tmp_path: Path) -> None:
    """What a workspace's own file says of the tools, which its agents can write, counts nowhere and is reported."""
    file = tmp_path / "work" / ".halo" / "settings.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("tools:\n  writable_dirs: [/]\n  sandbox_network: true\n  shell_timeout: 86400\n")
    settings = Settings(tmp_path / "home", [("tools", section) for section in provide_settings()], {})
    workspace = WorkspaceInfo(id="w", path=str(tmp_path / "work"))
    assert settings.of(ToolSettings, workspace) == ToolSettings()
    found = {finding.key for finding in settings.at(workspace).findings}
    assert found == {"tools.writable_dirs", "tools.sandbox_network", "tools.shell_timeout"}
