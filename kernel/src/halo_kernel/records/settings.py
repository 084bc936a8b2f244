"""Typed settings: a section is a frozen struct whose fields carry their defaults, descriptions and marks."""

from __future__ import annotations

import builtins

from msgspec import Struct


class Secret:
    """A handle on a secret value; its text appears nowhere but in `reveal()`."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str = "secret") -> None:
        self._value = value
        self._name = name

    def reveal(self) -> str:
        """Return the secret itself; never log, store or send it anywhere but to its own service."""
        return self._value

    def masked(self) -> str:
        """Return what people may see of it: `AK****ST`, or `****` when it has less than 12 characters."""
        return f"{self._value[:2]}****{self._value[-2:]}" if len(self._value) >= 12 else "****"

    def __repr__(self) -> str:
        return f"<secret {self._name}>"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class Section(Struct, frozen=True):
    """A plugin's settings: `name` is the key in the file, `type` a frozen struct with a default for every field.

    A field is declared as `Annotated[T, msgspec.Meta(description="...", extra={...})]`; `extra` may hold `env` (a
    further environment variable's name), `restart: True`, `global_only: True`, and `command`: what alone sets it, by
    rules that a type does not tell. A field of type `Secret | None` is a secret. `.halo/settings.yaml` of a workspace
    goes before the home's file, but not for secrets and what is `global_only`: a field, or with the argument here all.
    """

    name: str
    type: builtins.type[Struct]
    global_only: bool = False
