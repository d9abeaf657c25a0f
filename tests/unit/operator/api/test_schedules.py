"""Schedules: when they fire, and which of them never do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harness.operator.api.schedules import CronSchedule, schedule_mistakes, zone_of

SUNDAY_NIGHT = datetime(2026, 11, 29, 23, 0, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "moment", "last", "following"),
    [
        ("0 3 * * *", "Etc/UTC", "2026-11-23T03:00:00", "2026-11-23T03:00", "2026-11-24T03:00"),
        ("0 3 * * *", "Etc/UTC", "2026-11-23T02:59:59", "2026-11-22T03:00", "2026-11-23T03:00"),
        ("*/10 * * * *", "Etc/UTC", "2026-11-23T02:59:59", "2026-11-23T02:50", "2026-11-23T03:00"),
        ("@hourly", "Etc/UTC", "2026-11-23T02:30:00", "2026-11-23T02:00", "2026-11-23T03:00"),
        ("0 0 29 2 *", "Etc/UTC", "2026-11-23T00:00:00", "2024-02-29T00:00", "2028-02-29T00:00"),
        ("0 3 * * *", "Europe/Berlin", "2026-07-01T12:00:00", "2026-07-01T01:00", "2026-07-02T01:00"),
        # The clocks of Berlin skip 02:30 on 29 March, and have it twice on 25 October.
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:45:00", "2026-03-28T01:30", "2026-03-29T01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:35:00", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_times_before_and_after_a_moment(schedule: str, zone: str, moment: str, last: str, following: str) -> None:
    cron = CronSchedule.of(schedule, zone)
    assert (cron.until(at(moment)), cron.after(at(moment))) == (at(last), at(following))


@pytest.mark.parametrize(
    ("schedule", "days"), [("0 3 * * *", 1.0), ("0 3 * * 1-5", 3.0), ("0 3,4 * * *", 23 / 24), ("@weekly", 7.0)]
)
def test_interval_is_the_longer_of_two_pauses(schedule: str, days: float) -> None:
    assert CronSchedule.of(schedule).interval(SUNDAY_NIGHT) == timedelta(days=days)


@pytest.mark.parametrize(
    "schedule", ["0 0 31 2 *", "0 0 30 2 *", "60 * * * *", "* 24 * * *", "* * * 13 *", "*/0 * * * *"]
)
def test_what_never_fires_is_refused_with_its_field_and_a_remedy(schedule: str) -> None:
    (mistake,) = schedule_mistakes("spec.etcd.backup", {"schedule": schedule}, "Etc/UTC")
    assert mistake.field == "spec.etcd.backup.schedule"
    assert f"{schedule!r} is not a schedule that fires" in mistake.message
    assert "is every day at 3" in mistake.remedy


@pytest.mark.parametrize("zone", ["Local", "localtime", "Europe/Nowhere", "../etc/passwd", "", "Europe"])
def test_a_zone_that_no_manager_knows_is_refused_also_without_a_schedule(zone: str) -> None:
    (mistake,) = schedule_mistakes("spec.etcd.backup", {"schedule": None}, zone)
    assert mistake.field == "spec.etcd.backup.timeZone"


def test_zones_and_schedules_that_are_right_have_no_mistake() -> None:
    assert list(schedule_mistakes("f", {"schedule": "0 3 * * MON-FRI"}, "America/New_York")) == []
    assert list(schedule_mistakes("f", {"drill": "weekly"}, "Etc/UTC")) == []
    assert zone_of("Etc/UTC").utcoffset(SUNDAY_NIGHT) == timedelta()
