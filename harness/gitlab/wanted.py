"""What a pipeline is to run, by what started it: a tier, perhaps narrowed to what a change can affect, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import BadInput
from harness.gitlab.variables import MERGE_REQUEST, SCHEDULE, Pipeline
from harness.plan.changed import Changes, changed_since, matches
from harness.spec import Spec
from harness.spec.suites import OWN

LABEL = "matrix::"
NIGHTLY, WEEKLY, REAP = "nightly", "weekly", "reap"
WEEK_HOURS = 168.0  # tiers that a schedule runs so seldom are those of the weekly one
# As harness.spec.suites finds them; files directly in checks/ are the suite `own`.
CHECKS = re.compile(
    r"(?:tests/cells/(?P<shipped>[^/]+)/|checks/(?:(?P<own>[^/]+)/)?)(?:.+/)?(?P<module>test_[^/]*|[^/]*_test)\.py"
)


@dataclass(frozen=True)
class Tiers:
    """The tiers of a project's pipelines: of every pipeline's first cell, of changes, of the night."""

    smoke: str
    change: str
    nightly: str


@dataclass(frozen=True)
class Wanted:
    """What to run after the smoke tier has passed.

    tier: whose cells.  since: only what has changed since this revision can affect; "" for all of the tier.
    also: further tiers, all of their cells.
    besides: the tier whose cells this pipeline has run already and does not run twice, "" of none.
    why: in words, for the pipeline's page.
    """

    tier: str
    why: str
    since: str = ""
    besides: str = ""
    also: tuple[str, ...] = ()


def wanted(pipeline: Pipeline, tiers: Tiers, spec: Spec) -> Wanted:
    """Decide what a pipeline runs.

    A person's explicit wish comes first, then the purpose of a schedule, then the merge request's label. A change
    without any of these runs the cells that it can affect.

    Raises:
        BadInput: a tier, a label or a schedule's purpose is not known.
    """
    for option, tier in (("smoke", tiers.smoke), ("change", tiers.change), ("nightly", tiers.nightly)):
        _known(spec, tier, f"the pipeline's {option} tier")
    if pipeline.tier:
        _known(spec, pipeline.tier, "MATRIX_WANT_TIER")
        return Wanted(pipeline.tier, f"tier {pipeline.tier}: requested by MATRIX_WANT_TIER")
    if pipeline.source == SCHEDULE:
        return _scheduled(pipeline, tiers, spec)
    besides = tiers.smoke
    labelled = _labelled(pipeline, spec) if pipeline.source == MERGE_REQUEST else ""
    if labelled:
        return Wanted(
            labelled, f"all of tier {labelled}: the merge request has the label {LABEL}{labelled}", "", besides
        )
    if not pipeline.base:
        return Wanted(tiers.change, f"all of tier {tiers.change}: {pipeline.no_base}", "", besides)
    why = f"the cells of tier {tiers.change} that changes since {pipeline.base[:12]} can affect"
    return Wanted(tiers.change, why, pipeline.base, besides)


def compared(directory: Path, wish: Wanted) -> tuple[Wanted, Changes | None]:
    """Return what changed since the commit that a wish names, or the wish for the whole tier where git cannot tell.

    After a force push the clone lacks that commit, and so may a shallow clone or a fork's. To test too much is safe.

    Args:
        directory: the checkout.
    """
    if not wish.since:
        return wish, None
    try:
        return wish, changed_since(directory, wish.since)
    except BadInput as unknown:
        why = f"all of tier {wish.tier}: what changed is not known: {unknown.summary}"
        return replace(wish, since="", why=why), None


def on_change(spec: Spec, changes: Changes) -> dict[str, str]:
    """Return the tiers whose pinned cells a change asks for, with the first file that does."""
    hits = {
        name: next((path for path in changes.paths for glob in tier.on_change if matches(glob, path)), "")
        for name, tier in spec.tiers.items()
    }
    return {name: path for name, path in hits.items() if path}


def changed_checks(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the modules of checks among changed files, by their suite."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if known := CHECKS.fullmatch(path):
            suite = known["shipped"] or known["own"] or OWN
            found[suite] = (*found.get(suite, ()), known["module"])
    return found


def _scheduled(pipeline: Pipeline, tiers: Tiers, spec: Spec) -> Wanted:
    if pipeline.schedule == WEEKLY:
        weekly = [name for name, tier in spec.tiers.items() if (tier.every_hours or 0) >= WEEK_HOURS]
        if not weekly:
            raise BadInput(
                "no tier of matrix/tiers.yml runs weekly", hint=f"set `every_hours: {WEEK_HOURS:g}` of those that shall"
            )
        return Wanted(weekly[0], f"all of tiers {', '.join(weekly)}: the weekly schedule", also=tuple(weekly[1:]))
    if pipeline.schedule != NIGHTLY:
        said = f"{pipeline.schedule!r} is none" if pipeline.schedule else "it is not set"
        raise BadInput(
            f"the schedule's variable MATRIX_SCHEDULE says what it is for, and {said}",
            hint=f"set it to {NIGHTLY}, {WEEKLY} or {REAP} in the schedule (Build > Pipeline schedules)",
        )
    return Wanted(tiers.nightly, f"all of tier {tiers.nightly}: the nightly schedule")


def _labelled(pipeline: Pipeline, spec: Spec) -> str:
    """Return the tier that the merge request's labels name: the widest, where there are several."""
    named = [label.removeprefix(LABEL) for label in pipeline.labels if label.startswith(LABEL)]
    for tier in named:
        _known(spec, tier, f"the label {LABEL}{tier}")
    return max(named, key=lambda tier: spec.tiers[tier].budget.cells, default="")


def _known(spec: Spec, tier: str, what: str) -> None:
    if tier not in spec.tiers:
        raise BadInput(
            f"{what} names the tier {tier!r}, which matrix/tiers.yml does not have",
            hint=f"its tiers: {', '.join(sorted(spec.tiers))}",
        )
