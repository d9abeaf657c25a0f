"""What tests of pipelines share: cells, pipelines' files, and a GitLab of its own to write notes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.gitlab.child import CellJob, Child, JobTimes, render, text
from harness.paths import project_dir

TIMES = JobTimes(script=100, after=10, job=120)
TEMPLATE = Path("templates/vmatrix.yml")


def cell_jobs(count: int) -> list[CellJob]:
    """Return jobs of made-up cells; every id is as long as ids may become."""
    return [CellJob(f"k1363-d13-c2-fl-nf-c1w1-fresh-m-{n:08x}", "nightly", TIMES, "because") for n in range(count)]


def written(cells: list[CellJob], child: Child | None = None, **options: Any) -> dict[str, Any]:
    """Return a child pipeline as it reads after it was written."""
    made = render(child if child is not None else Child("night"), cells, **options)
    read: dict[str, Any] = yaml.safe_load(text(made))
    return read


def template() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the template's inputs and its body."""
    head, body = yaml.safe_load_all((project_dir() / TEMPLATE).read_text(encoding="utf-8"))
    return head["spec"]["inputs"], body
