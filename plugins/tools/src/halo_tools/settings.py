"""The section `tools` of the settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# Below the kernel's own cap on a result (8000), so that the line saying how to go on is never cut away.
RESULT_CHARS = 7800
# A relative path would depend on where the server was started.
Anchored = Annotated[str, Meta(pattern="^[/~]")]


class ToolSettings(Struct, frozen=True, kw_only=True):
    """How far the tools go."""

    shell_timeout: Annotated[float, Meta(gt=0, le=86_400, description="Seconds a shell command may take.")] = 120.0
    shell_output_bytes: Annotated[
        int, Meta(ge=1024, le=104_857_600, description="Bytes of output after which a shell command is stopped.")
    ] = 5_242_880
    grep_default_matches: Annotated[
        int, Meta(ge=1, le=1000, description="Matches that a search shows when the model does not say how many.")
    ] = 50
    result_chars: Annotated[
        int,
        Meta(ge=500, description="Characters of a result; keep it below limits.tool_result_render_chars."),
    ] = RESULT_CHARS
    hidden_dirs: Annotated[
        tuple[Anchored, ...],
        Meta(description="Folders hidden from sessions below full access, beside the built-in ones."),
    ] = ()
    hidden_files: Annotated[
        tuple[Anchored, ...],
        Meta(description="Files hidden from sessions below full access, beside the built-in ones."),
    ] = ()
    writable_dirs: Annotated[
        tuple[Anchored, ...],
        Meta(description="Folders beside the workspace that sessions at workspace access may write."),
    ] = ()
    sandbox_network: Annotated[
        bool, Meta(description="Whether shell commands below full access reach the network.")
    ] = True
