"""What the code has and what docs/reference names are the same set."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from halo_kernel import errors, hookspecs
from halo_kernel.records import events

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def named(page: str) -> set[str]:
    """Collect what a reference page documents: the code span that a heading or a table's row begins with."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return set(re.findall(r"^(?:#{2,4} |\| )`([^`]+)`", text, flags=re.MULTILINE))


def test_every_hook_is_documented() -> None:
    """docs/reference/hooks.md names every hook and its arguments, and no other."""
    found = {
        f"{name}({', '.join(inspect.signature(hook).parameters)})"
        for name, hook in vars(hookspecs).items()
        if hasattr(hook, f"{hookspecs.PROJECT}_spec")
    }
    assert named("hooks.md") == found


def test_every_error_is_documented() -> None:
    """docs/reference/errors.md names every error, and no other."""
    found = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, errors.HaloError)
    }
    assert named("errors.md") == found


def test_every_event_kind_is_documented() -> None:
    """docs/reference/events.md names every kind of event with the fields of its body, and no other."""
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \|", (REFERENCE / "events.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    found = {
        kind: ", ".join(name for name in body.__struct_fields__ if name != "v") for kind, body in events.KINDS.items()
    }
    assert dict(rows) == found
