"""The real runner on a bare host: this project's pipeline of a merge request, from the plan to the note, no cell.

The smoke job's script is replaced: what is looked at is that each job gets from GitLab and the others what it needs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.gitlab import small
from tests.gitlab.checkout import Checkout
from tests.gitlab.real_runner import running
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.model import State, Variable
from tests.gitlab.server.projects import MERGE_REQUEST, add_project, add_runner, begin
from tests.gitlab.server.serve import serving
from tests.gitlab.small import ended, job
from tests.gitlab.test_planning import without_smoke

SECONDS = 1800.0  # against hanging
NUMBER = "7"

UNFIT = """\
doctor:
  tags: [big]
  timeout: 5m
  id_tokens: {MATRIX_ID_TOKEN: {aud: vault}}
  variables:
    MATRIX_INFRA: kubevirt
    MATRIX_API_SERVER: https://127.0.0.1:1
    MATRIX_REF: v9.9.9
    VMATRIX_REVISION: abcdef
    COLUMNS: "300"
    RUNNER_SCRIPT_TIMEOUT: 4m
    RUNNER_AFTER_SCRIPT_TIMEOUT: 4m
  script: ['touch vmatrix.yml', 'exec "$PROGRAM" gitlab doctor']
"""


def test_the_doctor_of_a_real_job_says_what_does_not_fit(tmp_path: Path) -> None:
    repository = small.repository(tmp_path / "work", UNFIT)
    program = {"PROGRAM": str(Path(sys.executable).parent / "vmatrix")}
    with serving() as server, running(server.url, add_runner(server, "big"), tmp_path / "runner"):
        known = add_project(server, "team/small", tmp_path)
        pipeline = begin(server, known, repository, variables=program)
        assert ended(server, pipeline) == {"doctor": State.FAILED}
        (doctor,) = pipeline.jobs
        assert doctor.exit_code == 2, doctor.said
        for said in (
            "this job's runner has the tags big",
            "the job may take 5 minutes, its script and after_script 8",
            "MATRIX_ID_TOKEN is for the audience 'vault'",
            "the pipeline is of 9.9.9",
        ):
            assert said in doctor.said, doctor.said
        for fits in ("GitLab Runner 17", "clock", "artifacts", "issued by"):
            assert fits not in doctor.said.partition("missing")[2], doctor.said


def test_a_merge_requests_pipeline_goes_from_the_plan_to_the_note(project: Checkout, tmp_path: Path) -> None:
    without_smoke(project)
    project.commit("No cell")
    (project.directory / "README.md").write_text("# Other words\n", encoding="utf-8")
    project.commit("Other words")
    with serving() as server, running(server.url, add_runner(server, "vmatrix"), tmp_path / "runner"):
        note = Variable("MATRIX_NOTE_TOKEN", server.site.person_token, masked=True)
        known = add_project(server, "team/vmatrix", tmp_path, [note])
        pipeline = begin(server, known, project, source=MERGE_REQUEST, ref="change", merge_request=NUMBER)
        states = ended(server, pipeline, seconds=SECONDS)
        assert set(states.values()) == {State.SUCCESS}, [one.said[-2000:] for one in pipeline.jobs]
        child = job(server, pipeline, "matrix").child
        assert child is not None
        assert "affects a cell" in child.jobs[0].said, "the child pipeline said why it has no cell"
        report = job(server, pipeline, "report")
        assert "the note on merge request !7 is" in report.said
        (written,) = server.site.notes[known.id, NUMBER]
        assert "<!-- vmatrix" in written["body"]
        files = unpacked(report)
        assert len(files["public/index.html"]) > 10_000
        assert "no note" not in json.dumps(json.loads(files["public/annotations.json"]))
        assert server.site.refused == []
