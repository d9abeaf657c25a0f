"""The child pipeline: what it runs, by what started it, and one job for each cell, with its limits; plain data.

The jobs' common parts are jobs.yml's. Every job's name is its cell's id: no brackets, so that GitLab's Tests tab keeps
a suite for each (it takes `cell: [a, b]` and `cell: [a, c]` for one).
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.gitlab.job import SCHEDULE, Pipeline
from harness.gitlab.limits import PIPELINE_NAME
from harness.model import Cell
from harness.plan.changed import Changes, changed_since, matches
from harness.spec import Spec
from harness.spec.models import Timeouts
from harness.spec.suites import IDEMPOTENCE, OWN, UPSTREAM

PACE = 3.0  # a slow night: times the usual duration, before the one step that is stuck meets its own deadline
DEPLOY_DEADLINES = ("golden_image", "clone", "machine_address", "ssh", "cloud_init", "phase_deploy", "conformance")
LATER_DEADLINE = "phase_later"
LABEL = "matrix::"
NIGHTLY, WEEKLY, REAP = "nightly", "weekly", "reap"
WEEK_HOURS = 168.0  # tiers that a schedule runs so seldom are those of the weekly one
# As harness.spec.suites finds them; files directly in checks/ are the suite `own`.
CHECKS = re.compile(
    r"(?:tests/cells/(?P<shipped>[^/]+)/|checks/(?:(?P<own>[^/]+)/)?)(?:.+/)?(?P<module>test_[^/]*|[^/]*_test)\.py"
)
COMMON = Path(__file__).with_name("jobs.yml")
INTERPOLATION = re.compile(r"\$\[\[\s*inputs\.prefix\s*\]\]")
DEFAULTS = ("image", "interruptible", "tags")  # which the pipeline's own `default` has, and all that its jobs inherit
CELLS, REPORT = "cells", "report"
NOTHING = "no cell"
ENVIRONMENTS = "cells"


@dataclass(frozen=True)
class Tiers:
    """The tiers of a project's pipelines: of every pipeline's first cell, of changes, of the night."""

    smoke: str
    change: str
    nightly: str


@dataclass(frozen=True)
class PipelineScope:
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


def scope_of(pipeline: Pipeline, tiers: Tiers, spec: Spec) -> PipelineScope:
    """Decide what a pipeline runs.

    A person's explicit wish comes first, then the purpose of a schedule, then the merge request's label. A change
    without any of these runs the cells that it can affect.

    Raises:
        BadInput: a tier, a label or a schedule's purpose is not known.
    """
    for option, tier in (("smoke", tiers.smoke), ("change", tiers.change), ("nightly", tiers.nightly)):
        _refuse_unknown(spec, tier, f"the pipeline's {option} tier")
    if pipeline.tier:
        _refuse_unknown(spec, pipeline.tier, "MATRIX_WANT_TIER")
        return PipelineScope(pipeline.tier, f"tier {pipeline.tier}: requested by MATRIX_WANT_TIER")
    if pipeline.source == SCHEDULE:
        return _scheduled(pipeline, tiers, spec)
    besides = tiers.smoke
    labelled = _labelled(pipeline, spec) if pipeline.merge_request else ""
    if labelled:
        return PipelineScope(
            labelled, f"all of tier {labelled}: the merge request has the label {LABEL}{labelled}", "", besides
        )
    if not pipeline.base:
        return PipelineScope(tiers.change, f"all of tier {tiers.change}: {pipeline.no_base}", "", besides)
    why = f"the cells of tier {tiers.change} that changes since {pipeline.base[:12]} can affect"
    return PipelineScope(tiers.change, why, pipeline.base, besides)


def _scheduled(pipeline: Pipeline, tiers: Tiers, spec: Spec) -> PipelineScope:
    if pipeline.schedule == WEEKLY:
        weekly = [name for name, tier in spec.tiers.items() if (tier.every_hours or 0) >= WEEK_HOURS]
        if not weekly:
            raise BadInput(
                "no tier of matrix/tiers.yml runs weekly", hint=f"set `every_hours: {WEEK_HOURS:g}` of those that shall"
            )
        return PipelineScope(
            weekly[0], f"all of tiers {', '.join(weekly)}: the weekly schedule", also=tuple(weekly[1:])
        )
    if pipeline.schedule != NIGHTLY:
        problem = f"{pipeline.schedule!r} is none" if pipeline.schedule else "it is not set"
        raise BadInput(
            f"the schedule's variable MATRIX_SCHEDULE says what it is for, and {problem}",
            hint=f"set it to {NIGHTLY}, {WEEKLY} or {REAP} in the schedule (Build > Pipeline schedules)",
        )
    return PipelineScope(tiers.nightly, f"all of tier {tiers.nightly}: the nightly schedule")


def _labelled(pipeline: Pipeline, spec: Spec) -> str:
    """Return the tier that the merge request's labels name: the widest, where there are several."""
    named = [label.removeprefix(LABEL) for label in pipeline.labels if label.startswith(LABEL)]
    for tier in named:
        _refuse_unknown(spec, tier, f"the label {LABEL}{tier}")
    return max(named, key=lambda tier: spec.tiers[tier].budget.cells, default="")


def _refuse_unknown(spec: Spec, tier: str, what: str) -> None:
    if tier not in spec.tiers:
        raise BadInput(
            f"{what} names the tier {tier!r}, which matrix/tiers.yml does not have",
            hint=f"its tiers: {', '.join(sorted(spec.tiers))}",
        )


def compared(directory: Path, scope: PipelineScope) -> tuple[PipelineScope, Changes | None]:
    """Return what changed since the commit that a scope names, or the scope for the whole tier where git cannot tell.

    After a force push the clone lacks that commit, and so may a shallow clone or a fork's. To test too much is safe.

    Args:
        directory: the checkout.
    """
    if not scope.since:
        return scope, None
    try:
        return scope, changed_since(directory, scope.since)
    except BadInput as unknown:
        why = f"all of tier {scope.tier}: what changed is not known: {unknown.summary}"
        return replace(scope, since="", why=why), None


def on_change(spec: Spec, changes: Changes) -> dict[str, str]:
    """Return the tiers whose pinned cells a change asks for, with the first file that does."""
    hits = {
        name: next((path for path in changes.paths for glob in tier.on_change if matches(glob, path)), "")
        for name, tier in spec.tiers.items()
    }
    return {name: path for name, path in hits.items() if path}


def changed_checks(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the modules of checks among changed files, by their suite."""
    modules: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if known := CHECKS.fullmatch(path):
            suite = known["shipped"] or known["own"] or OWN
            modules[suite] = (*modules.get(suite, ()), known["module"])
    return modules


@dataclass(frozen=True)
class JobTimes:
    """Limits of a job, in whole minutes: its script (before_script included), its after_script, all of it."""

    script: int
    after: int
    job: int


def job_times(cell: Cell, suites: Collection[str], timeouts: Timeouts, expected_seconds: float) -> JobTimes:
    """Return the limits of a cell's job from the scaled timeouts, its suites, and what the cell usually takes."""
    names = DEPLOY_DEADLINES + ((LATER_DEADLINE,) if len(cell.phases) > 1 else ())
    stuck = max(getattr(timeouts, name) for name in names)
    end = timeouts.collect + timeouts.teardown
    usual = PACE * expected_seconds + sum(_not_expected(cell, suites, timeouts))
    script = timeouts.job_prepare + timeouts.admission + usual + stuck + end
    after = 2 * end + timeouts.job_end  # the run's own end is waited for, then what it left is collected and removed
    return JobTimes(
        _minutes(script), _minutes(after), _minutes(script) + _minutes(after) + _minutes(timeouts.job_start)
    )


def _not_expected(cell: Cell, suites: Collection[str], timeouts: Timeouts) -> Iterator[float]:
    """Yield the deadlines of what takes long and no estimate knows: those runs may have been another tier's."""
    for number, phase in enumerate(cell.phases):
        if phase.cluster:
            whole_set = timeouts.upstream_specs + timeouts.conformance_overrun
            yield whole_set * len(UPSTREAM.intersection(suites))
        if phase.idempotent and IDEMPOTENCE in suites:
            yield timeouts.phase_later if number else timeouts.phase_deploy


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60)


@dataclass(frozen=True)
class CellJob:
    """A cell as a job: its id, the tier whose suites run, its limits, and why it runs."""

    cell: str
    tier: str
    times: JobTimes
    why: str


@dataclass(frozen=True)
class Child:
    """What is the same for all jobs of a child pipeline.

    name: of the pipeline.  image, tag: of the jobs' runners, "" for the project's defaults.
    merge_request: its number, "" of none: only its jobs may be given up for a newer commit.
    variables: for every job, so that the file stands for itself.  expiry_hours: after which a cell is removed.
    history: the kind of store of the report's history, "" for the project's setting.
    prefix: of every name that another product's pipeline in the same project would share.
    """

    name: str
    image: str = ""
    tag: str = ""
    merge_request: str = ""
    variables: Mapping[str, str] | None = None
    expiry_hours: float = 4.0
    history: str = ""
    prefix: str = ""


def render(child: Child, cells: Sequence[CellJob], *, nothing: str = "") -> dict[str, Any]:
    """Return the pipeline; without cells one job says `nothing`, because GitLab refuses a pipeline without a job."""
    pipeline: dict[str, Any] = {
        "workflow": {"name": _pipeline_name(child.name), "rules": [{"if": '$CI_PIPELINE_SOURCE == "parent_pipeline"'}]},
        "stages": [CELLS, REPORT],
        "default": {
            **({"image": {"name": child.image, "entrypoint": [""]}} if child.image else {}),
            **({"tags": [child.tag]} if child.tag else {}),
            "interruptible": bool(child.merge_request),
        },
        "variables": {name: _unexpanded(value) for name, value in (child.variables or {}).items()},
    }
    inherit = {"default": list(DEFAULTS), "variables": sorted(child.variables or ())}
    if not cells:
        script = [f"echo {shlex.quote(nothing or 'no cell was selected')}"]
        pipeline[child.prefix + NOTHING] = {"inherit": inherit, "stage": CELLS, "script": script}
        return pipeline
    parts = common(child.prefix)
    parts[f".{child.prefix}vmatrix-inherit"] = {"inherit": inherit}
    pipeline |= parts
    times = Counter(job.cell for job in cells)
    for job in cells:
        name = f"{job.cell} {job.tier}" if times[job.cell] > 1 else job.cell
        pipeline[child.prefix + name] = _job(child, job)
    pipeline[child.prefix + REPORT] = {
        "extends": f".{child.prefix}history",
        "stage": REPORT,
        "when": "always",
        **({"variables": {"VMATRIX_REPORT_HISTORY": child.history}} if child.history else {}),
    }
    return pipeline


def _pipeline_name(text: str) -> str:
    """Return a text as GitLab takes it for the name of a pipeline, in which it expands $NAME and %NAME%."""
    words = " ".join(re.sub("[$%]", "", text).split())
    return words if len(words) <= PIPELINE_NAME else f"{words[: PIPELINE_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def _unexpanded(value: str) -> str:
    """Return a variable's value such that jobs get it as it is."""
    return value.replace("$", "$$")


def common(prefix: str = "") -> dict[str, Any]:
    """Return the jobs' common parts, as GitLab makes them of the file and the prefix."""
    _, body = yaml.safe_load_all(INTERPOLATION.sub(lambda _: prefix, COMMON.read_text(encoding="utf-8")))
    document: dict[str, Any] = body
    return document


def _job(child: Child, cell_job: CellJob) -> dict[str, Any]:
    folder = f"{child.prefix}{ENVIRONMENTS}" + (f"/mr-{child.merge_request}" if child.merge_request else "")
    return {
        "extends": f".{child.prefix}cell",
        "stage": CELLS,
        "timeout": f"{cell_job.times.job}m",
        "variables": {
            "MATRIX_CELL": cell_job.cell,
            "MATRIX_TIER": cell_job.tier,
            "MATRIX_WHY": _unexpanded(cell_job.why),
            "RUNNER_SCRIPT_TIMEOUT": f"{cell_job.times.script}m",
            "RUNNER_AFTER_SCRIPT_TIMEOUT": f"{cell_job.times.after}m",
        },
        # To be seen in GitLab's list of environments, no more: `access` deploys nothing, so that no newer pipeline
        # outdates a cell's job, and what takes cells away is their expiry and `vmatrix reap`.
        "environment": {
            "name": f"{folder}/{cell_job.cell}",
            "action": "access",
            "auto_stop_in": f"{child.expiry_hours:g} hours",
        },
    }


def text(pipeline: Mapping[str, Any]) -> str:
    """Return a pipeline as YAML."""
    head = "# Made by `vmatrix gitlab generate`; what decides is in matrix/ and in the pipeline's variables.\n"
    return head + yaml.dump(dict(pipeline), Dumper=_Plain, sort_keys=False, width=1000, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes out what stands twice: whoever reads a job must not look for anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Write scripts of several lines as they are read."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Plain.add_representer(str, _string)
