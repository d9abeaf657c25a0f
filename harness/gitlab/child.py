"""A child pipeline: one job per cell, then one that keeps the results; plain data from plain data.

The jobs' common parts are jobs.yml's. Every job's name is its cell's id: no brackets, so that GitLab's Tests tab keeps
a suite for each (it takes `cell: [a, b]` and `cell: [a, c]` for one).
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.model import Cell
from harness.spec.models import Timeouts
from harness.spec.suites import IDEMPOTENCE, UPSTREAM

PACE = 3.0  # a slow night: times the usual duration, before the one step that is stuck meets its own deadline
DEPLOY_DEADLINES = ("golden_image", "clone", "machine_address", "ssh", "cloud_init", "phase_deploy", "conformance")
LATER_DEADLINE = "phase_later"


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


COMMON = Path(__file__).with_name("jobs.yml")
INTERPOLATION = re.compile(r"\$\[\[\s*inputs\.prefix\s*\]\]")
DEFAULTS = ("image", "interruptible", "tags")  # which the pipeline's own `default` has, and all that its jobs inherit
CELLS, REPORT = "cells", "report"
NOTHING = "no cell"
ENVIRONMENTS = "cells"


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
        "workflow": {"name": child.name, "rules": [{"if": '$CI_PIPELINE_SOURCE == "parent_pipeline"'}]},
        "stages": [CELLS, REPORT],
        "default": {
            **({"image": {"name": child.image, "entrypoint": [""]}} if child.image else {}),
            **({"tags": [child.tag]} if child.tag else {}),
            "interruptible": bool(child.merge_request),
        },
        "variables": dict(child.variables or {}),
    }
    inherit = {"default": list(DEFAULTS), "variables": sorted(child.variables or ())}
    if not cells:
        script = [f"echo {shlex.quote(nothing or 'no cell was selected')}"]
        pipeline[child.prefix + NOTHING] = {"inherit": inherit, "stage": CELLS, "script": script}
        return pipeline
    parts = common(child.prefix)
    parts[f".{child.prefix}vmatrix-inherit"] = {"inherit": inherit}
    pipeline |= parts
    times = Counter(one.cell for one in cells)
    for one in cells:
        name = f"{one.cell} {one.tier}" if times[one.cell] > 1 else one.cell
        pipeline[child.prefix + name] = _job(child, one)
    pipeline[child.prefix + REPORT] = {
        "extends": f".{child.prefix}history",
        "stage": REPORT,
        "when": "always",
        **({"variables": {"VMATRIX_REPORT_HISTORY": child.history}} if child.history else {}),
    }
    return pipeline


def common(prefix: str = "") -> dict[str, Any]:
    """Return the jobs' common parts, as GitLab makes them of the file and the prefix."""
    _, body = yaml.safe_load_all(INTERPOLATION.sub(lambda _: prefix, COMMON.read_text(encoding="utf-8")))
    found: dict[str, Any] = body
    return found


def _job(child: Child, one: CellJob) -> dict[str, Any]:
    folder = f"{child.prefix}{ENVIRONMENTS}" + (f"/mr-{child.merge_request}" if child.merge_request else "")
    return {
        "extends": f".{child.prefix}cell",
        "stage": CELLS,
        "timeout": f"{one.times.job}m",
        "variables": {
            "MATRIX_CELL": one.cell,
            "MATRIX_TIER": one.tier,
            "MATRIX_WHY": one.why.replace("$", "$$"),
            "RUNNER_SCRIPT_TIMEOUT": f"{one.times.script}m",
            "RUNNER_AFTER_SCRIPT_TIMEOUT": f"{one.times.after}m",
        },
        # To be seen in GitLab's list of environments, no more: `access` deploys nothing, so that no newer pipeline
        # outdates a cell's job, and what takes cells away is their expiry and `vmatrix reap`.
        "environment": {
            "name": f"{folder}/{one.cell}",
            "action": "access",
            "auto_stop_in": f"{child.expiry_hours:g} hours",
        },
    }


class _Plain(yaml.SafeDumper):
    """Writes out what stands twice: whoever reads a job must not look for anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Write scripts of several lines as they are read."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Plain.add_representer(str, _string)


def text(pipeline: Mapping[str, Any]) -> str:
    """Return a pipeline as YAML."""
    head = "# Made by `vmatrix gitlab generate`; what decides is in matrix/ and in the pipeline's variables.\n"
    return head + yaml.dump(dict(pipeline), Dumper=_Plain, sort_keys=False, width=1000, allow_unicode=True)
