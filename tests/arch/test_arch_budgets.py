"""Line budgets: code lines only; blank, comment and docstring lines are free."""

from __future__ import annotations

from typing import Any

KERNEL_LINES = 8_500
EXAMPLE_LINES = 250
MODULE_LINES = 400
FUNCTION_LINES = 60
NOT_COUNTED = ("halo_kernel.testing", "halo_kernel.pytest_plugin")


def test_kernel_is_within_its_budget(every: list[Any]) -> None:
    """The kernel has at most 8,500 code lines; the kit for plugin authors is not counted."""
    kernel = next(each for each in every if each.name == "halo-kernel")
    counted = [module for module in kernel.modules if not module.name.startswith(NOT_COUNTED)]
    total = sum(len(module.code_lines) for module in counted)
    print(f"kernel: {total} code lines")
    assert 0 < total <= KERNEL_LINES


def test_examples_are_within_their_budget(example: Any) -> None:
    """An example, which people read whole, has at most 250 code lines."""
    assert sum(len(module.code_lines) for module in example.modules) <= EXAMPLE_LINES


def test_modules_are_within_their_budget(distribution: Any) -> None:
    """A module has at most 400 code lines."""
    long = {module.name: len(module.code_lines) for module in distribution.modules}
    assert {name: lines for name, lines in long.items() if lines > MODULE_LINES} == {}


def test_functions_are_within_their_budget(distribution: Any) -> None:
    """A function has at most 60 code lines."""
    found = [each for module in distribution.modules for each in module.functions()]
    assert [each for each in found if each[1] > FUNCTION_LINES] == []
