"""Days: which one an instant belongs to, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@lru_cache(maxsize=8)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises `ValueError` for one that is not known here."""
    if name == "UTC":  # a machine without the database of zones knows it too
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "use a name such as Europe/Berlin; where there are no zones at all, install the package tzdata"
        raise ValueError(f"the time zone {name!r} is not known here: {hint}") from error


def day_of(now: int, zone: str) -> str:
    """Return the day, as ISO 8601 says it, of an instant in UTC milliseconds."""
    return _local(now, zone).date().isoformat()


def end_of_day(now: int, zone: str) -> int:
    """Return when the day of an instant ends; both in UTC milliseconds."""
    tomorrow = _local(now, zone).date() + timedelta(days=1)
    return round(datetime.combine(tomorrow, time(), zone_of(zone)).timestamp() * 1000)


def days_before(day: str, count: int) -> str:
    """Return the day `count` days before."""
    return (datetime.fromisoformat(day) - timedelta(days=count)).date().isoformat()


def clock_time(at: int, zone: str) -> str:
    """Return an instant for people."""
    return f"{_local(at, zone):%Y-%m-%d %H:%M} {zone}"


def _local(now: int, zone: str) -> datetime:
    return datetime.fromtimestamp(now / 1000, zone_of(zone))
