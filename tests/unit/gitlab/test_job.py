"""A job's own commands: its way into the infra cluster, its links, its project, its end; bad input to all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from harness.cli import main
from harness.errors import BadInput
from harness.gitlab import links
from harness.gitlab.access import forget, job_kubeconfig
from harness.gitlab.links import Link
from harness.gitlab.overlay import assemble
from harness.gitlab.run_process import process_of, wait_for_end
from harness.gitlab.variables import Job
from harness.kube.client import Cluster
from harness.paths import project_dir
from harness.record import Recorder
from harness.spec import load_spec

RUN = "abc123"
Call = Callable[..., "Ended"]


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """Return a pod's service account."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("of-the-pod", encoding="utf-8")
    (folder / "ca.crt").write_text("ca", encoding="utf-8")
    return folder


def test_a_job_with_an_id_token_goes_to_the_server_that_it_names(state: Path, account: Path) -> None:
    environment = {
        "MATRIX_API_SERVER": "https://infra.example.org:6443",
        "MATRIX_ID_TOKEN": "signed",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    path = job_kubeconfig(RUN, environment, service_account=account)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.is_relative_to(state)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["users"][0]["user"] == {"token": "signed"}
    assert Cluster.from_kubeconfig(path).server == "https://infra.example.org:6443"
    forget(RUN)
    forget(RUN)
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_job_in_the_cluster_uses_its_pods_account(state: Path, account: Path, host: str, server: str) -> None:
    path = job_kubeconfig(RUN, {"KUBERNETES_SERVICE_HOST": host}, service_account=account)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["clusters"][0]["cluster"]["server"] == server
    assert content["users"][0]["user"] == {"tokenFile": str(account / "token")}
    assert "of-the-pod" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "no access to the infra cluster"),
        ({"MATRIX_API_SERVER": "https://x"}, "MATRIX_ID_TOKEN is not"),
        (
            {"MATRIX_API_SERVER": "https://x", "MATRIX_ID_TOKEN": "t", "MATRIX_API_CA": "/nowhere/ca"},
            "/nowhere/ca, which is not a file",
        ),
    ],
)
def test_a_job_without_a_way_in_says_which_there_are(state: Path, environment: Mapping[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        job_kubeconfig(RUN, environment, service_account=state / "none")
    assert not state.exists()


def test_links_are_in_gitlabs_form_and_short_enough(tmp_path: Path) -> None:
    links.write(tmp_path, {"vmatrix": [Link("two\nlines " + "x" * 300, "https://x"), Link("nowhere", "")]})
    links.add(tmp_path, {"vmatrix": [Link("first", "https://y")], "more": [Link("other", "https://z")]})
    content = json.loads((tmp_path / links.FILE).read_text(encoding="utf-8"))
    assert [entry["external_link"]["url"] for entry in content["vmatrix"]] == ["https://y", "https://x"]
    assert content["vmatrix"][1]["external_link"]["label"].startswith("two lines xxx")
    assert all(len(e["external_link"]["label"]) < 255 for entries in content.values() for e in entries)


@pytest.mark.parametrize("broken", ["", "[]", '{"vmatrix": [{}]}', '{"vmatrix": 1}', "null"])
def test_links_survive_a_file_that_cannot_be_read(tmp_path: Path, broken: str) -> None:
    (tmp_path / links.FILE).write_text(broken, encoding="utf-8")
    links.add(tmp_path, {"vmatrix": [Link("one", "https://x")]})
    assert len(json.loads((tmp_path / links.FILE).read_text(encoding="utf-8"))["vmatrix"]) == 1


def test_a_link_to_an_artifact_is_escaped(tmp_path: Path) -> None:
    job = Job("1", "h", "https://gitlab.example.org/p/-/jobs/1", tmp_path)
    assert (
        links.artifact(job, "runs/a b/logs/")
        == "https://gitlab.example.org/p/-/jobs/1/artifacts/browse/runs/a%20b/logs/"
    )


def test_another_teams_product_runs_under_our_matrix(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "deploy").mkdir(parents=True)
    (theirs / "ci").mkdir()
    (theirs / "tests").mkdir()
    (theirs / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--nonsense'\n", encoding="utf-8")
    product = yaml.safe_load((project_dir() / "matrix/product.yml").read_text(encoding="utf-8"))
    product["product"]["name"] = "theirs"
    product["product"]["directory"] = "deploy"
    for phase in product["product"]["phases"].values():
        (theirs / "deploy" / phase["playbook"]).write_text("[]\n", encoding="utf-8")
    (theirs / "ci/product.yml").write_text(yaml.safe_dump(product), encoding="utf-8")
    for job in ("1", "2"):
        made = assemble(project_dir(), theirs, "ci/product.yml", tmp_path / "project", job=job)
    (made / "used").touch()
    assert assemble(project_dir(), theirs, "ci/product.yml", tmp_path / "project", job="2") == made
    assert (made / "used").exists(), "a run may be using it"
    spec = load_spec(made / "matrix")
    assert spec.product.name == "theirs"
    assert (made / "deploy/cluster.yml").is_file()
    assert (made / "tests/cells").is_dir()
    assert "nonsense" not in (made / "pyproject.toml").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match=r"the product file ci/other\.yml does not exist"):
        assemble(project_dir(), theirs, "ci/other.yml", tmp_path / "project", job="3")


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[Path, subprocess.Popen[bytes]]:
    """Return a run's directory and its process, which ends at the first signal only."""
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", RUN])
    Recorder(run_dir).write("run-start", pid=process.pid, run=RUN, cells=[])
    return run_dir, process


def test_a_run_that_still_goes_on_gets_its_time_and_is_then_told_to_stop(
    stubborn: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    run_dir, process = stubborn
    assert process_of(run_dir) == process.pid
    began = time.monotonic()
    assert wait_for_end(run_dir, seconds=0.3) is False
    assert time.monotonic() - began < 5
    assert process.wait(timeout=5) == -signal.SIGTERM
    assert process_of(run_dir) is None
    assert wait_for_end(run_dir, seconds=5) is True


def test_another_process_with_the_runs_number_is_left_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / RUN
    run_dir.mkdir()
    assert process_of(run_dir) is None
    Recorder(run_dir).write("run-start", pid=os.getppid(), run=RUN, cells=[])
    assert process_of(run_dir) is None


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what calls the command in an empty folder, with only the given variables of GitLab's."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in [name for name in os.environ if name.startswith(("CI_", "MATRIX_", "VMATRIX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*words: str, **variables: str) -> Ended:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["vmatrix", "gitlab", *words])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ended(code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["generate"], {}, "CI_PIPELINE_SOURCE is not set"),
        (["generate"], {"CI_PIPELINE_SOURCE": "push"}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (["generate"], {"CI_PIPELINE_SOURCE": "schedule", "JOB": "1"}, "MATRIX_SCHEDULE"),
        (["generate"], {"CI_PIPELINE_SOURCE": "push", "JOB": "1", "MATRIX_CHANGE_TIER": "m"}, "the tier 'm'"),
        (["generate"], {"CI_PIPELINE_SOURCE": "push", "JOB": "1", "MATRIX_INFRA": "mars"}, "mars"),
        (["generate"], {"CI_PIPELINE_SOURCE": "push", "JOB": "1", "VMATRIX_NONSENSE": "1"}, "VMATRIX_NONSENSE"),
        (["cell"], {}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (["cell"], {"JOB": "1"}, "neither MATRIX_CELL nor MATRIX_TIER is set"),
        (["cell"], {"JOB": "1", "MATRIX_TIER": "smoke", "MATRIX_INFRA": "kubevirt"}, "no access to the infra cluster"),
        (["after"], {}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (["reap"], {"JOB": "1", "MATRIX_INFRA": "kubevirt"}, "no access to the infra cluster"),
        (["note"], {"JOB": "1"}, "public/summary.md does not exist"),
        (["project", "ci/product.yml"], {"JOB": "1"}, "the product file ci/product.yml does not exist"),
    ],
)
def test_bad_input_is_one_clear_error_and_changes_nothing(
    call: Call, tmp_path: Path, words: list[str], variables: dict[str, str], said: str
) -> None:
    given = dict(variables)
    if given.pop("JOB", ""):
        given |= {"CI_JOB_ID": "1", "CI_PROJECT_DIR": str(tmp_path / "work")}
    ended = call(*words, **given)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert said in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list((tmp_path / "work").iterdir()) == []
    assert not (tmp_path / "state").exists()


def test_a_note_without_a_token_becomes_a_hint_on_the_jobs_page(call: Call, tmp_path: Path) -> None:
    public = tmp_path / "work" / "public"
    public.mkdir()
    (public / "summary.md").write_text("all passed\n", encoding="utf-8")
    job = {"CI_JOB_ID": "1", "CI_PROJECT_DIR": str(tmp_path / "work"), "CI_JOB_URL": "https://x/-/jobs/1"}
    ended = call("note", "public", **job, CI_MERGE_REQUEST_IID="7", CI_PROJECT_URL="https://x")
    assert ended.returncode == 0, ended.stderr
    assert "set MATRIX_NOTE_TOKEN to a project access token" in ended.stdout
    entries = json.loads((public / links.FILE).read_text(encoding="utf-8"))["vmatrix"]
    assert [entry["external_link"]["url"] for entry in entries] == [
        "https://x/-/jobs/1/artifacts/file/public/index.html",
        "https://x/-/settings/access_tokens",
    ]
