"""The flat public names: what type checkers see and what a program gets are one set."""

from __future__ import annotations

import ast
from importlib.resources import files

import halo_kernel
from halo_kernel import contracts, errors, records


def seen() -> dict[str, str]:
    """Return the names of the stub with the module that each is from; a star's names are its module's."""
    tree = ast.parse(files(halo_kernel).joinpath("__init__.pyi").read_text())
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: line.module or "" for line in lines for alias in line.names if alias.name != "*"}


def test_the_stub_and_the_lazy_names_are_one_set() -> None:
    """Every name that type checkers see can be imported from where they see it, and no other is lazy."""
    lazy = {name: module for module, names in halo_kernel._HOMES.items() for name in names.split()}
    assert seen() == lazy
    for name in lazy:
        assert getattr(halo_kernel, name) is not None


def test_records_errors_and_contracts_are_public() -> None:
    """What the three modules of the boundary define can be imported from the package itself."""
    for module in (contracts, errors, records):
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith("halo_")}
        assert own and all(getattr(halo_kernel, name) is not None for name in own)
