"""What a report looks at, from options and surroundings: which history, which nights of it, and which plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from harness.errors import BadInput
from harness.history.file import content
from harness.history.lines import History, read, with_records
from harness.history.record import Record
from harness.history.store import open_store
from harness.plan.goal import goal_of
from harness.plan.tiers import tier_cells
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.nights import key_of
from harness.report.analysis.planned import Planned
from harness.report.records import collect
from harness.report.words import plural
from harness.session.selection import profile_of
from harness.spec import Spec
from harness.spec.settings import Settings

ALL = "all"
NIGHTLY = "nightly"  # the tier that is looked at when none is named, if the history has it
DAYS = 365.0
AHEAD = timedelta(days=1)  # by which a host's clock may be ahead of this one's
MERGE_REQUEST = "CI_MERGE_REQUEST_IID"
PIPELINES = ("MATRIX_PIPELINE_ID", "CI_PIPELINE_ID")


@dataclass(frozen=True)
class Asked:
    """What was asked for; None: as it makes sense here. `all`: do not choose.

    histories: files and runs' directories instead of the store.  days: how far back.
    pipeline: is looked at as the last night.
    """

    histories: tuple[Path, ...] = ()
    tier: str | None = None
    branch: str | None = None
    infra: str | None = None
    pipeline: str | None = None
    days: float = DAYS


def looked_at(
    asked: Asked,
    spec: Spec,
    settings: Settings,
    *,
    environment: Mapping[str, str],
    now: datetime,
    warn: Callable[[str], None],
) -> tuple[Analysis, History]:
    """Return the judgement on the history, and the history.

    Args:
        warn: told what the report has to do without.

    Raises:
        BadInput: there is no such tier or file.  InfraError: the store cannot be read.
    """
    history = history_of(asked.histories, spec, settings, environment)
    focus = selection_of(asked, history.records, environment).focus
    records = _begun(history.records, focus, now, warn)
    selection = selection_of(asked, records, environment)
    _refuse_profile(asked.infra, {*spec.infras, *(record.infra for record in history.records)})
    nights = [r for r in records if r.tier == selection.tier and r.night and selection.infra in (None, r.infra)]
    last = max(nights, key=lambda record: record.started, default=None)
    planned = planned_of(selection, spec, settings, warn, night=last.night if last is not None else "")
    return analyse(records, planned, selection, now), history


def _begun(
    records: Sequence[Record], focus: str | None, now: datetime, warn: Callable[[str], None]
) -> tuple[Record, ...]:
    """Return the records without those of times to come, which would be the last night for as long; name their hosts.

    A little ahead is a last night all the same, and so is what is looked at. Those by a clock that was not set yet
    count where the history has them: after the record before them, or now where no other says when.
    """
    late = [r for r in records if r.start > now + AHEAD and key_of(r) != focus]
    if late:
        whose = ", ".join(sorted({r.where.runner or f"run {r.run}" for r in late}))
        warn(f"{plural(len(late), 'cell run')} of times to come left out: set the clock of the host of {whose}")
    begun = [r for r in records if r.start <= now + AHEAD or key_of(r) == focus]
    unset = [r for r in begun if r.unset_clock]
    if not unset:
        return tuple(begun)
    whose = ", ".join(sorted({r.where.runner or f"run {r.run}" for r in unset}))
    what = f"{plural(len(unset), 'cell run')} of {unset[0].started[:4]} counted as of later"
    warn(f"{what}: set the clock of the host of {whose}")
    return tuple(_placed(begun, now))


def _placed(records: Iterable[Record], now: datetime) -> Iterator[Record]:
    """Yield records, those by a clock that was not set yet with the end of the record before them as their time."""
    before = ""
    for record in records:
        if record.unset_clock:
            at = before or now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            yield replace(record, started=at, finished=at)
        else:
            before = record.finished
            yield record


def history_of(paths: Sequence[Path], spec: Spec, settings: Settings, environment: Mapping[str, str]) -> History:
    """Return the history of some files and runs' directories; the store's without any.

    Raises:
        BadInput: a file does not exist.  InfraError: the store cannot be read.
    """
    if not paths:
        return open_store(settings, environment).load()
    folders = [path for path in paths if path.is_dir()]
    history = read((str(path), content(path)) for path in paths if path not in folders)
    if not folders:
        return history
    collected = collect(folders, quarantine=spec.quarantine)
    whole = with_records(history, collected.records)
    return replace(whole, skipped=(*whole.skipped, *collected.skipped), sources=(*whole.sources, *map(str, folders)))


def selection_of(asked: Asked, records: Sequence[Record], environment: Mapping[str, str]) -> RecordFilter:
    """Return what is looked at.

    Without options that is the nightly tier of the default branch, on the infra profile that ran last; in a
    merge request's pipeline it is that pipeline, against what the default branch had.
    """
    focus = asked.pipeline
    if focus is None and environment.get(MERGE_REQUEST):
        focus = next((environment[name] for name in PIPELINES if environment.get(name)), None)
    tier = asked.tier
    if tier is None and focus is None and any(r.tier == NIGHTLY for r in records):
        tier = NIGHTLY
    branch = asked.branch or environment.get("CI_DEFAULT_BRANCH") or ALL
    chosen = RecordFilter(
        tier=_one(tier),
        branch=_one(branch),
        days=asked.days,
        focus=focus,
        scheduled=asked.tier is None,
        merge_requests=asked.branch is not None,
    )
    return replace(chosen, infra=_one(asked.infra or _last_infra(chosen, records)))


def _refuse_profile(asked: str | None, known: Collection[str]) -> None:
    if _one(asked) is not None and asked not in known:
        raise BadInput(
            f"there is no infra profile {asked!r}", hint=f"known: {', '.join(sorted(known))}; {ALL}: do not choose"
        )


def _one(word: str | None) -> str | None:
    return None if word in (ALL, "") else word


def _last_infra(chosen: RecordFilter, records: Iterable[Record]) -> str | None:
    """Return the infra profile of the last record that is looked at."""
    if chosen.focus is not None:
        infras = [r.infra for r in records if key_of(r) == chosen.focus]
    else:
        infras = [r.infra for r in records if chosen.tier in (None, r.tier) and chosen.branch in (None, r.where.branch)]
    return infras[-1] if infras else None


def planned_of(
    selection: RecordFilter, spec: Spec, settings: Settings, warn: Callable[[str], None], *, night: str = ""
) -> Planned:
    """Return what should run. Without a tier, or when a pipeline chose its cells itself, that is what did.

    Args:
        night: the date whose cells the last night had, "" where nights do not differ.

    Raises:
        BadInput: there is no such tier.
    """
    axes = {axis.name: tuple(value.id for value in axis.values) for axis in spec.axes}
    tier = selection.tier
    if tier is not None and tier not in spec.tiers:
        raise BadInput(f"there is no tier {tier!r}", hint=f"known: {', '.join(spec.tiers)}; {ALL}: do not choose")
    infra = selection.infra if selection.infra in spec.infras else profile_of(spec, settings)
    goal = goal_of(spec, tier, infra or "")
    known = Planned(None, axes, None, spec.quarantine, spec.together, goal, spec.symptoms)
    if tier is None or selection.focus is not None:
        return known
    known = replace(known, every_hours=spec.tiers[tier].every_hours)
    try:
        of = date.fromisoformat(night) if night and spec.tiers[tier].rotates else None
        cells = tier_cells(spec, tier, infra or "", night=of)
    except BadInput as error:
        warn(f"what should have run is not known: {error.summary}")
        return known
    return replace(known, cells={cell.id: dict(cell.values) for cell in cells})


def days_of(days: float | None, since: str | None, now: datetime) -> float:
    """Return how many days back are looked at.

    Args:
        since: the first day, "2026-11-21".

    Raises:
        BadInput: both are given; the day is none, or not in the past.
    """
    if since is None:
        return days if days is not None else DAYS
    if days is not None:
        raise BadInput("--days and --since are mutually exclusive", hint="pass one of them")
    try:
        first = datetime.combine(date.fromisoformat(since), datetime.min.time(), UTC)
    except ValueError as error:
        raise BadInput(f"--since {since!r} is not a date (YYYY-MM-DD)", hint="for example 2026-11-21") from error
    back = (now - first).total_seconds() / 86400
    if back <= 0:
        raise BadInput(f"--since {since} is not in the past", hint="give the first day to include")
    return back
