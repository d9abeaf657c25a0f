"""The commands of jobs: bad input is one clear error, and a note without a token becomes a hint."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from harness import proc
from harness.cli import gitlab, main
from harness.cli.gitlab import PASSED_ON
from harness.gitlab import job_end
from harness.paths import PROJECT
from harness.spec.settings import Settings, load_settings

Call = Callable[..., "Ended"]


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what calls the command in an empty folder, with only the given variables of GitLab's."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in [name for name in os.environ if name.startswith(("CI_", "MATRIX_", "VMATRIX_")) and name != PROJECT]:
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
        *(
            (["generate"], {"CI_PIPELINE_SOURCE": "push", "JOB": "1", "MATRIX_HISTORY": wrong}, "MATRIX_HISTORY")
            for wrong in ("../x", "file\n", 'a"b', "$X", "branch")
        ),
        *(
            (["generate"], {"CI_PIPELINE_SOURCE": "push", "JOB": "1", name: "a\nb"}, "is more than one line of text")
            for name in ("MATRIX_IMAGE", "MATRIX_RUNNER_TAG", *PASSED_ON)
        ),
        (["cell"], {}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (["cell"], {"JOB": "1"}, "neither MATRIX_CELL nor MATRIX_TIER is set"),
        (["cell"], {"JOB": "1", "MATRIX_TIER": "smoke", "MATRIX_INFRA": "kubevirt"}, "no access to the infra cluster"),
        (["after"], {}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (["reap"], {"JOB": "1", "MATRIX_INFRA": "kubevirt"}, "no access to the infra cluster"),
        (["note"], {"JOB": "1"}, "public/summary.md does not exist"),
        (["doctor"], {}, "CI_JOB_ID and CI_PROJECT_DIR are not set"),
        (
            ["generate"],
            {"CI_PIPELINE_SOURCE": "push", "JOB": "1", "VMATRIX_PRODUCT_FILE": "ci/product.yml"},
            "the product file ci/product.yml does not exist",
        ),
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
    entries = json.loads((public / job_end.ANNOTATIONS).read_text(encoding="utf-8"))["vmatrix"]
    assert [entry["external_link"]["url"] for entry in entries] == [
        "https://x/-/jobs/1/artifacts/file/public/index.html",
        "https://x/-/settings/access_tokens",
    ]


def test_the_doctor_of_a_job_says_all_that_does_not_fit_at_once(call: Call, tmp_path: Path) -> None:
    job = {"CI_JOB_ID": "1", "CI_PROJECT_DIR": str(tmp_path / "work"), "MATRIX_INFRA": "kubevirt"}
    told = {"CI_SERVER_VERSION": "17.0.0", "CI_RUNNER_VERSION": "17.5.5", "CI_RUNNER_TAGS": "[]"}
    ended = call("doctor", **job, **told, MATRIX_API_SERVER="https://127.0.0.1:1", COLUMNS="300")
    assert ended.returncode == 2, ended.stderr
    for words in (
        "this is GitLab 17.0.0",
        "update GitLab to 18.2 or later",
        "this job's runner has no tags",
        "MATRIX_ID_TOKEN is not set",
        "the job cannot run cells",
        "this job lacks 4 things",
    ):
        assert words in ended.stdout, ended.stdout
    assert list((tmp_path / "work").iterdir()) == []
    assert not list((tmp_path / "state").rglob("kubeconfig"))


@pytest.mark.parametrize("name", ["VMATRIX_REVISION", "VMATRIX_GITLAB_RUNNER"])
def test_a_variable_of_the_jobs_image_or_of_its_runner_is_no_wrong_setting(tmp_path: Path, name: str) -> None:
    settings = load_settings(tmp_path, environment={name: "x"}).settings
    assert settings == load_settings(tmp_path, environment={}).settings


def test_commands_that_repeat_changed_checks_know_all_their_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job has settings of every kind, and `run` and `check` take different ones."""
    settings = Settings(provider="embedded", infra_profile="embedded", infra_name="job", runs=tmp_path / "runs")
    job = SimpleNamespace(directory=tmp_path, run="abc123")
    context = SimpleNamespace(job=job, settings=settings, files=SimpleNamespace(path=tmp_path))
    (tmp_path / "test_kubelet.py").touch()
    called: list[list[str]] = []
    for name, value in {
        "job_context": lambda _: context,
        "read_pipeline": lambda _: SimpleNamespace(base="HEAD~1", no_base=""),
        "changed_since": lambda *_: SimpleNamespace(paths=("test_kubelet.py",)),
        "changed_checks": lambda _: {"own": ("test_kubelet",)},
        "annotate": lambda _: None,
        "_ready": lambda _: None,
        "load": lambda _: SimpleNamespace(cells=[SimpleNamespace(id="a-cell")]),
        "vmatrix_call": lambda *words: [*words],
    }.items():
        monkeypatch.setattr(gitlab, name, value)

    def attend(argv: list[str]) -> int:
        called.append(argv)
        return 0

    monkeypatch.setattr(proc, "attend", attend)
    with pytest.raises(typer.Exit):
        gitlab.checks_(repeat=20)
    assert [words[0] for words in called] == ["run", "check"]
    assert "--infra-profile" in called[0]
    capsys.readouterr()
    for words in called:  # click reads all options before it shows the help
        monkeypatch.setattr(sys, "argv", ["vmatrix", *words, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, capsys.readouterr().err
