"""Amounts as whole numbers: tokens, or billionths of a currency; and what calls cost in them."""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec

from halo_kernel import ModelRequest, Price, Usage

TOKENS = "tokens"
_NANO = 10**9
_CHARS_A_TOKEN = 3.5
_encoder = msgspec.json.Encoder(enc_hook=str)


def estimate(request: ModelRequest, answer_tokens: int) -> Usage:
    """Return what a call may take: its characters by 3.5, and the longest answer up to `answer_tokens`."""
    chars = len(_encoder.encode((request.system, request.messages, request.tools)).decode())
    return Usage(
        input=math.ceil(chars / _CHARS_A_TOKEN), output=min(request.max_tokens or answer_tokens, answer_tokens)
    )


def tokens(usage: Usage) -> int:
    """Return all tokens, those of the cache too."""
    return usage.input + usage.output + usage.cache_read + usage.cache_write


def amount(usage: Usage, unit: str, price: Price | None) -> int:
    """Return what one reply is in a unit: its tokens, or billionths of the price's currency, rounded up.

    Without a price it costs no money.
    """
    if unit == TOKENS or price is None:
        return tokens(usage) if unit == TOKENS else 0
    if price.long is not None and tokens(usage) - usage.output > (price.long_from or 0):
        price = price.long
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    parts = (
        (usage.input, price.input),
        (usage.output, price.output),
        (usage.cache_read, read),
        (usage.cache_write, write),
    )
    return math.ceil(sum(count * Decimal(str(rate)) * (_NANO // 10**6) for count, rate in parts))


def units(value: float, unit: str) -> int:
    """Return an amount that people wrote as a whole number of the unit's smallest part."""
    return int(value) if unit == TOKENS else int(Decimal(str(value)) * _NANO)


def number(value: int, unit: str) -> int | float:
    """Return an amount as people write it."""
    return value if unit == TOKENS else float(Decimal(value) / _NANO)


def shown(value: int, unit: str) -> str:
    """Return an amount with its unit, for people."""
    return f"{value:,} tokens" if unit == TOKENS else f"{Decimal(value) / _NANO:,.4f} {unit}"
