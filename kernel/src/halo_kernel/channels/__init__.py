"""What every channel shares: accounts, their tokens, and the one way in for what they receive."""

from .accounts import Accounts as Accounts
from .door import Door as Door
