"""Schedules in the notation of cron: when they fire, in which time zone, and what is wrong with one.

Fields and names are those of a CronJob. Over a change of the clock, a time that does not exist fires at the first that
does, and one that exists twice fires once, as Debian's cron does. https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import StringConstraints

from harness.kube.kinds.page import SpecMistake

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
WORDS = {"daily": "@daily", "weekly": "@weekly"}  # of what is done besides, as people say it
CRON_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
# Five words, or a macro. What the words may be, and whether they ever come true, `schedule_mistakes` tells.
_WORD = "[0-9A-Za-z*,/#-]+"
CronText = Annotated[str, StringConstraints(pattern=rf"^({'|'.join(MACROS)}|{_WORD}( {_WORD}){{4}})$", max_length=100)]
WordOrCron = Annotated[
    str, StringConstraints(pattern=rf"^({'|'.join((*WORDS, *MACROS))}|{_WORD}( {_WORD}){{4}})$", max_length=100)
]
ZoneName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$", max_length=64)]
UTC_NAME = "Etc/UTC"
SECOND = timedelta(seconds=1)  # cron knows minutes: what is less than one decides on which side of a time a moment is


@dataclass(frozen=True)
class CronSchedule:
    """A schedule that fires at some time; all of its times are in UTC."""

    expression: str
    zone: tzinfo

    @staticmethod
    def of(text: str, zone: str = UTC_NAME) -> CronSchedule:
        """Return the schedule of a text and a time zone.

        Raises:
            ValueError: there is no such zone, or the text is not a schedule, or names a time that never comes.
        """
        expression = WORDS.get(text, text)
        schedule = CronSchedule(MACROS.get(expression, expression), zone_of(zone))
        schedule.after(datetime.now(UTC))
        return schedule

    def after(self, moment: datetime) -> datetime:
        """Return the first time after a moment."""
        return self._first(moment, reverse=False)

    def until(self, moment: datetime) -> datetime:
        """Return the last time up to a moment, the moment included."""
        return self._first(moment + SECOND, reverse=True)

    def interval(self, moment: datetime) -> timedelta:
        """Return the longer of the pause that a moment is in and the one before it: weekends are longer than nights."""
        last = self.until(moment)
        return max(self.after(moment) - last, last - self.until(last - SECOND))

    def _first(self, moment: datetime, *, reverse: bool) -> datetime:
        try:
            following = next(iter(CronSim(self.expression, moment.astimezone(self.zone), reverse=reverse)), None)
        except CronSimError as error:
            raise ValueError(str(error)) from error
        if following is None:
            raise ValueError("it never comes true")
        return following.astimezone(UTC)


def zone_of(name: str) -> tzinfo:
    """Return a time zone of the IANA database.

    Raises:
        ValueError: there is none of the name; the zone of a host is none, because managers move.
    """
    try:
        if name.casefold() in ("local", "localtime"):
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise ValueError(f"there is no time zone {name}") from error


def schedule_mistakes(field: str, schedules: Mapping[str, str | None], zone: str) -> Iterator[SpecMistake]:
    """Yield what is wrong with schedules and their time zone.

    Args:
        field: that all are in.  schedules: by their names there; that of the zone is `timeZone`.
    """
    try:
        zone_of(zone)
    except ValueError as error:
        yield SpecMistake(f"{field}.timeZone", str(error), 'use a name such as "Etc/UTC" or "Europe/Berlin"')
        return
    for name, schedule in schedules.items():
        try:
            if schedule is not None:
                CronSchedule.of(schedule, zone)
        except ValueError as error:
            wrong = f"{schedule!r} is not a schedule that fires: {str(error)[:1].lower()}{str(error)[1:]}"
            remedy = f'write {", ".join(CRON_FIELDS)}: "0 3 * * *" is every day at 3'
            yield SpecMistake(f"{field}.{name}", wrong, remedy)
