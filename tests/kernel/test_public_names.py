"""The flat public names: what type checkers see and what a program gets are one set."""

from __future__ import annotations

import ast
import inspect
from importlib.resources import files

import halo_kernel
from halo_kernel import Section, contracts, errors, records, testing


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


def test_dir_shows_the_public_names() -> None:
    """`dir` of the kernel and of the kit has every public name, and nothing that they import themselves."""
    shown = dir(halo_kernel)
    own = {name for module in (contracts, errors, records) for name in vars(module) if name[0] != "_"}
    assert {*seen(), "Access", "MALFORMED", "OPERATOR", "Value", "Incoming", "Host", "BadInput"} <= {*shown}
    assert {*shown} <= own | {*seen(), "__version__"}
    assert {"Any", "Literal", "Struct", "Path", "dataclass", "annotations", "TYPE_CHECKING"}.isdisjoint(shown)
    assert [name for name in shown if not hasattr(halo_kernel, name)] == []
    assert "ToolContract" in dir(testing) and [name for name in dir(testing) if not hasattr(testing, name)] == []


def test_help_can_look_at_every_public_class() -> None:
    """The signature of each public class can be asked for, whatever its fields are called."""
    assert str(inspect.signature(Section)).startswith("(name: str, type: ")
    for name in dir(halo_kernel):
        if inspect.isclass(value := getattr(halo_kernel, name)) and value.__module__.startswith(records.__name__):
            inspect.signature(value)
