"""What every tool, and every plugin, has to hold to."""

from halo_kernel.testing import ToolContract, check_plugin


class TestTransfer(ToolContract):
    """The kit's tests of a tool."""

    tool_name = "transfer_money"
    good = {"account": "ann", "amount": 12.5, "note": "lunch"}
    bad = [
        {"account": "ann", "amount": -1, "note": ""},
        {"account": "ann", "amount": True, "note": ""},
        {"account": "ann", "amount": 1.234, "note": ""},
        {"account": " ", "amount": 1, "note": ""},
    ]


def test_the_rules_are_kept() -> None:
    """The plugin is packed and declared as the kernel wants it."""
    assert check_plugin("halo_ledger") == []
