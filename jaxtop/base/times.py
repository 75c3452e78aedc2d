"""Times as people type them: `10:32`, `3m ago`, `+90s`, seconds since 1970, ISO; and as JSON has them."""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

FORMS = "10:32, 10:32:05, 3m ago, +90s, seconds since 1970, or ISO"
_DAY = 86_400.0
_SECONDS = {"d": _DAY, "h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?[dhms]\s*)+|\d+(?:\.\d+)?")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms]?)")
# The search for a matching day ends after this many days.
_MOST_DAYS = 400


class _TypedTime(NamedTuple):
    """A moment, and the length of the typed time: `10:32` is a whole minute."""

    at: float
    lasts: float = 1.0


def parse(text: str, start: float, end: float) -> float:
    """Return the moment that the text names, within a session that begins and ends at these times.

    Raises:
        ValueError: The text is not a time, or the time is outside the session.
    """
    found = _read(text.strip(), start, end)
    if found is None:
        raise ValueError(f"{text.strip()!r} is not a time; try {FORMS}")
    # A typed minute or second covers its whole length, even where the session begins or ends within it.
    if not (start - found.lasts < found.at < end + 1.0):
        raise ValueError(f"{text.strip()!r} is outside of {in_words(start, end)}")
    return min(max(found.at, start), end)


def timestamp(at: float) -> str:
    """Format a time in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_words(start: float, end: float) -> str:
    """Format a span of time, with dates if it starts and ends on different days."""
    first, last = time.localtime(start), time.localtime(end)
    form = "%H:%M:%S" if first[:3] == last[:3] else "%Y-%m-%d %H:%M:%S"
    return f"{time.strftime(form, first)} to {time.strftime(form, last)}"


def _read(text: str, start: float, end: float) -> _TypedTime | None:
    if text.endswith("ago"):
        length = _length(text.removesuffix("ago"))
        return None if length is None else _TypedTime(end - length)
    if text.startswith("+"):
        length = _length(text[1:])
        return None if length is None else _TypedTime(start + length)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        return _time_of_day(clock, start, end)
    return _epoch(text) or _iso(text)


def _length(text: str) -> float | None:
    text = text.strip().lower()
    if not _LENGTH.fullmatch(text):
        return None
    length = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return length if math.isfinite(length) else None


def _time_of_day(clock: re.Match[str], start: float, end: float) -> _TypedTime | None:
    """Return this time of day on the last day of the session that has it."""
    hours, minutes, seconds = int(clock[1]), int(clock[2]), float(clock[3] or 0)
    if hours > 23 or minutes > 59 or seconds >= 60:
        return None
    lasts = 60.0 if clock[3] is None else 1.0
    day = datetime.fromtimestamp(end).replace(hour=0, minute=0, second=0, microsecond=0)  # noqa: DTZ006 - local time
    newest = None
    for before in range(_MOST_DAYS):
        # Step by dates, not by 24 hours: a day on which the clocks change has more or fewer hours.
        at = (day - timedelta(days=before)).replace(hour=hours, minute=minutes).timestamp() + seconds
        newest = at if newest is None else newest
        if start - lasts < at < end + 1.0:
            return _TypedTime(at, lasts)
        if at < start:
            break
    return None if newest is None else _TypedTime(newest, lasts)


def _epoch(text: str) -> _TypedTime | None:
    try:
        at = float(text) if re.fullmatch(r"[\d.]+", text) else math.nan
    except ValueError:
        return None
    return _TypedTime(at) if math.isfinite(at) else None


def _iso(text: str) -> _TypedTime | None:
    try:
        at = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    is_date = re.fullmatch(r"[\d-]+", text) is not None
    is_minute = re.fullmatch(r"[\d-]+[T ]\d{2}:\d{2}(Z|[+-][\d:]+)?", text) is not None
    return _TypedTime(at, _DAY if is_date else 60.0 if is_minute else 1.0)
