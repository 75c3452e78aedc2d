"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jaxtop.base import times

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0
START, END = MIDNIGHT + 10 * HOUR + 20, MIDNIGHT + 11 * HOUR


pytestmark = pytest.mark.usefixtures("in_utc")


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        ("10:32", 32 * 60), ("10:32:05", 32 * 60 + 5), ("10:32:05.5", 32 * 60 + 5.5), (" 10:32 ", 32 * 60),
        ("3m ago", 57 * 60), ("90s ago", 58.5 * 60), ("90 ago", 58.5 * 60), ("0.5h ago", 30 * 60),
        ("1m30s ago", 58.5 * 60), ("1m 30s ago", 58.5 * 60),
        ("+90s", 110), ("+90", 110), ("+2m", 140), ("+0", 20), ("+ 1m", 80),
        (str(int(MIDNIGHT + 10 * HOUR + 60)), 60), (f"{MIDNIGHT + 10 * HOUR + 60.25}", 60.25),
        ("2026-01-02T10:32:05", 32 * 60 + 5), ("2026-01-02 10:32", 32 * 60),
        ("2026-01-02T10:32:05Z", 32 * 60 + 5),
        ("2026-01-02T12:32:05+02:00", 32 * 60 + 5),
    ],
)  # fmt: skip
def test_a_time_is_understood_however_it_is_typed(typed, seconds):
    assert times.parse(typed, START, END) == pytest.approx(MIDNIGHT + 10 * HOUR + seconds)


@pytest.mark.parametrize(("typed", "found"), [("10:00", START), ("11:00", END), ("2026-01-02", START)])
def test_a_minute_or_a_day_in_which_the_session_begins_or_ends_is_its_start_or_end(typed, found):
    assert times.parse(typed, START, END) == found


def test_of_several_days_the_last_one_that_had_this_time_is_meant():
    assert times.parse("10:32", START - 5 * DAY, END) == MIDNIGHT + 10 * HOUR + 32 * 60
    assert times.parse("12:00", START - 5 * DAY, END) == MIDNIGHT - DAY + 12 * HOUR


@pytest.mark.parametrize(
    "typed", ["09:00", "11:30", "2h ago", "+2h", "0", "90", "2026-01-03", "2026-01-02T09:00"]
)
def test_what_is_outside_of_the_session_is_said_to_be_with_the_times_that_there_are(typed):
    with pytest.raises(ValueError, match="is outside of 10:00:20 to 11:00:00") as told:
        times.parse(typed, START, END)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "typed",
    ["", "soon", "25:00", "10:60", "10:32:61", "ago", "+", "+x", "3x ago", "nan", "inf", "1e9", "-5", "1.2.3",
     "9" * 400, "+" + "9" * 400, "0001-01-01T00:00:00+23:59", "10:3", "2026-13-01", "1 + 1", "\x1b[31m"],
)  # fmt: skip
def test_what_is_no_time_is_refused_in_one_line(typed):
    with pytest.raises(ValueError, match=r"is not a time|is outside of") as told:
        times.parse(typed, START, END)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 600


def test_a_session_over_several_days_is_reported_with_its_dates():
    assert times.in_words(START, END + DAY) == "2026-01-02 10:00:20 to 2026-01-03 11:00:00"
