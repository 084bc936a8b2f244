"""What every channel shares: accounts, their tokens, and the one way in for what they receive."""

from .accounts import Accounts
from .door import Door

__all__ = ["Accounts", "Door"]
