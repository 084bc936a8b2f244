"""Amounts and days: exact sums, and days that meet without a gap in every zone."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halo_budget.amounts import TOKENS, amount, estimate, number, tokens, units
from halo_budget.days import day_of, days_before, end_of_day, zone_of
from halo_kernel import Message, ModelRequest, Price, Text, Usage

COUNTS = st.integers(0, 10**9)
USAGES = st.builds(Usage, input=COUNTS, output=COUNTS, cache_read=COUNTS, cache_write=COUNTS)
RATES = st.integers(0, 10**6).map(lambda cents: cents / 100)
PRICES = st.builds(
    Price,
    currency=st.just("USD"),
    date=st.just("2026-11-01"),
    input=RATES,
    output=RATES,
    cache_read=st.none() | RATES,
    cache_write=st.none() | RATES,
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "America/Havana"]
)
INSTANTS = st.integers(1_300_000_000_000, 2_000_000_000_000)


@given(USAGES, PRICES)
def test_money_is_exact_to_a_billionth(usage: Usage, price: Price) -> None:
    """What a call costs is the sum of its parts, in whole billionths, never rounded down."""
    parts = [
        (usage.input, price.input),
        (usage.output, price.output),
        (usage.cache_read, price.input if price.cache_read is None else price.cache_read),
        (usage.cache_write, price.input if price.cache_write is None else price.cache_write),
    ]
    hundredths = sum(count * round(rate * 100) for count, rate in parts)
    assert amount(usage, "USD", price) == hundredths * 10
    assert amount(usage, TOKENS, price) == tokens(usage)
    assert amount(usage, "USD", None) == 0


def test_a_long_request_costs_its_own_price_all_of_it() -> None:
    """Above the limit every token costs more, those of the answer too; what was cached belongs to the request."""
    long = Price(currency="USD", date="2026-11-01", input=4, output=30)
    price = Price(currency="USD", date="2026-11-01", input=2, output=10, long_from=1000, long=long)
    assert number(amount(Usage(input=1000, output=5000), "USD", price), "USD") == pytest.approx(0.002 + 0.05)
    assert number(amount(Usage(input=1, output=5000, cache_read=1000), "USD", price), "USD") == pytest.approx(0.154004)


@given(st.integers(0, 10**15))
def test_an_amount_is_shown_as_it_was_written(value: int) -> None:
    """Tokens and money come back as they went in, to a millionth."""
    assert number(units(value, TOKENS), TOKENS) == value
    money = value % 10**12 / 10**6
    assert number(units(money, "USD"), "USD") == money


@given(st.text(max_size=3000), st.integers(1, 100_000), st.none() | st.integers(1, 200_000))
def test_what_is_set_aside_covers_the_answer_that_was_asked_for(text: str, most: int, asked: int | None) -> None:
    """The answer counts as long as it may be, but no longer than the setting; more text never counts for less."""
    request = ModelRequest(model="m", system=text, messages=(Message("user", (Text(text),)),), max_tokens=asked)
    found = estimate(request, most)
    assert found.output == min(asked or most, most)
    assert found.input * 3.5 >= 2 * len(text)


@given(INSTANTS, ZONES)
@example(1_325_200_000_000, "Pacific/Apia")
@example(1_793_500_000_000, "America/Havana")
def test_days_meet_without_a_gap(now: int, zone: str) -> None:
    """A day ends when the next one begins, whatever the clocks of its zone do; Apia left out one day for good."""
    end, today = end_of_day(now, zone), day_of(now, zone)
    assert now < end
    assert day_of(end - 1, zone) == today
    gap = date.fromisoformat(day_of(end, zone)) - date.fromisoformat(today)
    assert timedelta(days=1) <= gap <= timedelta(days=2)
    assert days_before(day_of(end, zone), gap.days) == today


def test_an_unknown_zone_says_what_to_do() -> None:
    """A zone that is not known here is refused with an example, and what to install where there are none."""
    with pytest.raises(ValueError, match=r"Mars/Base.*Europe/Berlin.*tzdata"):
        zone_of("Mars/Base")
