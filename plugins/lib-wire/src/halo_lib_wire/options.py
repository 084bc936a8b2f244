"""The agent's wishes in a model request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from halo_kernel import ModelError, ModelRequest


def option(request: ModelRequest, name: str) -> Mapping[str, object]:
    """Return an option that is a mapping, empty if it is not set. Raises `ModelError` of kind `refused` for others."""
    value = request.options.get(name, {})
    if not isinstance(value, Mapping):
        raise ModelError(f"the agent's model option {name!r} must be a mapping", kind="refused")
    return cast("Mapping[str, object]", value)
