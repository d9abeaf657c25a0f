"""The real runner in an infra cluster, with executor `kubernetes`: every job is a pod there, and its cell is, too."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from harness.cell.place import cell_labels
from harness.kube.resources import VM
from harness.report.cell import CellResult
from harness.report.results import load
from tests.contract.test_guards import too_large
from tests.gitlab import desk
from tests.gitlab.checkout import Checkout
from tests.gitlab.deployed import NAMESPACE_NAME
from tests.gitlab.foreign import Foreign
from tests.gitlab.pods_site import SECONDS, Site, Teams, gone
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import Pipeline, PipelineJob, State
from tests.gitlab.server.projects import MERGE_REQUEST, SCHEDULE, begin
from tests.gitlab.small import ended

pytestmark = pytest.mark.cells
BEGUN = re.compile(r"section_start:(\d+):prepare_executor")


def test_a_job_is_a_pod(site: Site) -> None:
    pipeline = site.begin("""
try:
  tags: [vmatrix]
  script: ['cat .gitlab-ci.yml', 'echo "user $(id -u) in $POD_NAME of $POD_NAMESPACE"', 'vmatrix --version',
           'echo "first line at $(date +%s)"']
  after_script: ['echo "ended as $CI_JOB_STATUS"']
  artifacts: {paths: [.gitlab-ci.yml]}
""")
    states, done = ended(site.server, pipeline), site.job(pipeline, "try")
    assert states == {"try": State.SUCCESS}, done.said
    assert "user 65532 in runner-" in done.said
    assert f" of {NAMESPACE_NAME}" in done.said
    assert "ended as success" in done.said
    assert unpacked(done).keys() == {".gitlab-ci.yml"}
    told(f"from the job's start to vmatrix's first line: {first_line(done)} s")
    gone(site)


def test_a_merge_request_has_two_cells_side_by_side_a_page_and_a_note(site: Site, teams: Teams) -> None:
    team = teams.with_tier("two")
    pipeline = merge_request(site, team, "7")
    passed(site, pipeline)
    child = site.job(pipeline, "matrix").child
    assert child is not None
    cells = [one for one in child.latest if "provision ok" in one.said]
    assert len(cells) == 2, [(one.name, one.said[-500:]) for one in child.jobs]
    (written,) = site.server.site.notes[team.project.id, "7"]
    page = unpacked(site.job(pipeline, "report"))["public/index.html"].decode()
    assert "3 of 3 cells passed" in written["body"]
    assert pipeline.sha[:7] in page, "the page names the commit"
    assert pipeline.sha[:7] in written["body"], "so does the note"
    gone(site)


def test_a_push_has_a_cell_and_a_page_and_a_cell_in_a_pod_takes_as_long_as_at_a_desk(
    site: Site, teams: Teams, tmp_path: Path
) -> None:
    team = teams.with_tier("one")
    pipeline = begin(site.server, team.project, team.checkout)
    passed(site, pipeline)
    smoke = site.job(pipeline, "smoke")
    assert "every cell of tier one has run in tier one of this pipeline" in site.job(pipeline, "plan").said
    assert pipeline.sha[:7] in unpacked(site.job(pipeline, "report"))["public/index.html"].decode()
    assert site.job(pipeline, "publish").state is State.SUCCESS
    in_pod, at_desk = map(desk.seconds, (cell_of(smoke, tmp_path), desk.cell(site.there, team.checkout, tmp_path)))
    told(f"the cell in a job's pod: {in_pod:.0f} s; at a desk: {at_desk:.0f} s; {in_pod / at_desk:.2f} times as long")
    gone(site)


def test_a_schedule_runs_the_night(site: Site, teams: Teams, tmp_path: Path) -> None:
    team = teams.with_tier("two")
    pipeline = begin(
        site.server, team.project, team.checkout, source=SCHEDULE, variables={"MATRIX_SCHEDULE": "nightly"}
    )
    passed(site, pipeline)
    child = site.job(pipeline, "matrix").child
    assert child is not None
    (night,) = (one for one in child.latest if "provision ok" in one.said)
    assert cell_of(night, tmp_path).outcome == "passed"
    assert "all of tier one: the nightly schedule" in site.job(pipeline, "plan").said
    gone(site)


def test_the_reapers_job_takes_away_what_has_expired(site: Site, teams: Teams) -> None:
    team = teams.with_tier("one")
    labels = cell_labels(run="gone11", cell="old", attempt=1, expires_at=time.time() - 1, environment={})
    left = too_large(NAMESPACE_NAME, "old-gone11-1-cp-0")
    left["metadata"]["labels"] = labels
    site.there.cluster.create(VM, left)
    pipeline = begin(site.server, team.project, team.checkout, source=SCHEDULE, variables={"MATRIX_SCHEDULE": "reap"})
    passed(site, pipeline)
    (reap,) = pipeline.jobs
    assert "1 expired cells removed" in reap.said
    gone(site)


def cell_of(job: PipelineJob, folder: Path) -> CellResult:
    """Return what became of a job's one cell, by the results among its artifacts."""
    ((name, content),) = ((name, c) for name, c in unpacked(job).items() if name.endswith("/results.jsonl"))
    run = folder / name
    run.parent.mkdir(parents=True)
    run.write_bytes(content)
    (found,) = load(run.parent).cells
    return found


def merge_request(site: Site, team: Foreign, number: str) -> Pipeline:
    """Begin the pipeline of a change to the team's playbooks, which affects all cells."""
    change(team.checkout)
    return begin(site.server, team.project, team.checkout, source=MERGE_REQUEST, ref="change", merge_request=number)


def change(checkout: Checkout) -> None:
    playbook = checkout.directory / "deploy" / "cluster.yml"
    playbook.write_text(f"{playbook.read_text(encoding='utf-8')}# changed\n", encoding="utf-8")
    checkout.commit("A change")


def passed(site: Site, pipeline: Pipeline) -> None:
    """Wait for a pipeline's end; all of its jobs have passed, and each was a pod of its own."""
    states = ended(site.server, pipeline, seconds=SECONDS)
    child = [job for one in pipeline.jobs if one.child is not None for job in one.child.jobs]
    jobs = [*pipeline.jobs, *child]
    assert set(states.values()) == {State.SUCCESS}, [(one.name, one.said[-3000:]) for one in jobs]
    ran = [one for one in jobs if one.child is None]
    pods = {word for one in ran for word in re.findall(r"Running on (runner-\S+) via", one.said)}
    assert len(pods) == len(ran)


def first_line(done: PipelineJob) -> int:
    """Return the seconds from a job's start until its script had its first line from vmatrix."""
    (begun,), (seen,) = BEGUN.findall(done.said), re.findall(r"^first line at (\d+)", done.said, re.MULTILINE)
    return int(seen) - int(begun)


def told(line: str) -> None:
    """Show a figure, which fails no test."""
    print(f"\n{time.strftime('%H:%M:%S')} {line}")  # noqa: T201
