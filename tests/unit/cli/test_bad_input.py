"""Bad input to the real command: one message with a hint on stderr, the exit code that says so, nothing written."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from harness.cli import app, main
from harness.kube.api import Patience
from harness.paths import PROJECT, project_dir
from harness.spec.models import FILES
from harness.streams import TOLD
from tests.unit.cli.test_anywhere import commands
from tests.unit.programs import VMATRIX, run_loaded

HASTY = {"VMATRIX_TIMEOUT_SCALE": "0.01"}  # gives up what does not answer at once
CLOSED = """\
apiVersion: v1
kind: Config
clusters: [{name: closed, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
contexts: [{name: closed, context: {cluster: closed, user: nobody}}]
current-context: closed
"""


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    stdout: str
    stderr: str


Call = Callable[..., Ended]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty directory, with a state and settings of its own."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    for name in [name for name in os.environ if name.startswith("VMATRIX_") and name != PROJECT]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    return made


@pytest.fixture
def call(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what runs the command's own entry point in this process: it must refuse before it becomes pytest."""

    def run(*words: str, env: Mapping[str, str] | None = None) -> Ended:
        with monkeypatch.context() as patched:
            for name, value in (env or {}).items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["vmatrix", *words])
            with pytest.raises(SystemExit) as ended:
                main()
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def process(work: Path) -> Call:
    """Return what runs the command in a process of its own."""

    def run(*words: str, env: Mapping[str, str] | None = None) -> Ended:
        done = run_loaded([VMATRIX, *words], cwd=work, env={**os.environ, **(env or {})})
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def refused(call: Call, tmp_path: Path, work: Path) -> Call:
    """Return what runs the command, and holds it to one message with a hint, no traceback and nothing written."""

    def run(*words: str, code: int, says: str, hint: str, env: Mapping[str, str] | None = None) -> Ended:
        before = sorted(tmp_path.rglob("*"))
        ended = call(*words, env=env)
        assert ended.code == code, ended
        assert ended.stdout == ""
        assert "Traceback" not in ended.stderr
        assert ended.stderr.count("error (") == ended.stderr.count("hint: ") == 1, ended.stderr
        message, _, advice = ended.stderr.partition("hint: ")
        assert says in message
        assert hint in advice
        assert sorted(tmp_path.rglob("*")) == before
        assert not (work / "runs").exists()
        return ended

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a checkout of its own, whose matrix may be spoilt."""
    made = tmp_path / "project"
    made.mkdir()
    for name in ("vm-templates", "playbooks", "tests"):
        (made / name).symlink_to(project_dir() / name)
    shutil.copytree(project_dir() / "matrix", made / "matrix")
    return made


@pytest.mark.parametrize(
    ("words", "code", "says", "hint"),
    [
        ("run --tier nope", 2, "unknown tier 'nope'; known: smoke", "vmatrix list"),
        ("list --tier nope", 2, "unknown tier 'nope'; known: smoke", "vmatrix list"),
        ("run nope-*", 4, "no cell matches 'nope-*' in any tier", "vmatrix list"),
        ("run nope --tier smoke", 4, "no cell matches 'nope' in tier smoke", "vmatrix list"),
        ("explain nope", 4, "no cell matches 'nope'", "vmatrix list"),
        ("run --run-id BAD", 2, "run id 'BAD' is not 6 lower-case letters or digits", "leave out --run-id"),
        ("run --provider moon", 2, "--provider: Input should be 'embedded', 'kind'", "vmatrix config"),
        ("run --timeout-scale 0", 2, "--timeout-scale: Input should be greater than 0", "vmatrix config"),
        ("run --provider kubeconfig", 2, "needs the setting kubeconfig and mirror_http", "vmatrix artifacts serve"),
        (
            "status --provider moon",
            2,
            "--provider: Input should be 'embedded', 'kind'",
            "vmatrix config",
        ),
        ("status --provider kubeconfig", 2, "needs a kubeconfig", "--kubeconfig PATH"),
        ("status --provider kubeconfig --kubeconfig nope", 2, "kubeconfig nope does not exist", "--kubeconfig PATH"),
        ("status", 4, "instance 'default' of provider embedded is not up", "vmatrix infra up --infra-name default"),
        (
            "login cell cp-0 --infra-name x",
            4,
            "instance 'x' of provider embedded is not up",
            "vmatrix infra up --infra-name x",
        ),
        (
            "reap --all --infra-name x",
            4,
            "instance 'x' of provider embedded is not up",
            "vmatrix infra up --infra-name x",
        ),
        ("reap", 2, "nothing selected: give --run, --cell, --expired or --all", "vmatrix reap --help"),
        ("reap --all --run abcdef", 2, "--all excludes --run, --cell and --expired", "leave out --all"),
        ("reap --all --expired", 2, "--all excludes --run, --cell and --expired", "leave out --all"),
        ("reap --run A/B", 2, "--run 'A/B' is not a run id", "vmatrix status"),
        ("reap --cell x=y", 2, "--cell 'x=y' is not a cell id", "vmatrix status"),
        ("infra up --provider moon", 2, "provider 'moon' does not exist", "--provider embedded or kind"),
        ("infra down --infra-name No", 2, "instance name 'No' is not valid", "--infra-name default"),
        ("doctor --provider moon", 2, "--provider: Input should be 'embedded'", "vmatrix config"),
        ("artifacts build", 2, "nothing selected: give names, --kubernetes or --all", "vmatrix artifacts build -h"),
        ("artifacts build nope", 2, "no artifact `nope`", "vmatrix artifacts list"),
        ("image build nope", 2, "no disk image named 'nope'", "vmatrix image list"),
    ],
)
def test_what_cannot_be_is_refused(refused: Call, words: str, code: int, says: str, hint: str) -> None:
    refused(*words.split(), code=code, says=says, hint=hint)


@pytest.mark.parametrize("command", ["run", "list", "explain x"])
def test_every_mistake_in_the_matrix_is_said_at_its_line(refused: Call, project: Path, command: str) -> None:
    file = project / "matrix" / "tiers.yml"
    file.write_text("tiers:\n  smoke:\n    lable: x\n    pinned: []\n    suites: [nodes]\n", encoding="utf-8")
    ended = refused(
        *command.split(),
        code=2,
        says="3 errors in",
        hint="fix the lines above",
        env={"VMATRIX_PROJECT": str(project)},
    )
    assert f"{file}:3: tiers.smoke.lable: unknown key; did you mean label?" in ended.stderr


def test_malformed_yaml_is_said_at_its_line(refused: Call, project: Path) -> None:
    file = project / "matrix" / "axes.yml"
    file.write_text("axes:\n  os: [oops\n", encoding="utf-8")
    says = f"{file}:3: malformed YAML"
    refused("run", code=2, says=says, hint="fix the lines above", env={"VMATRIX_PROJECT": str(project)})


@pytest.mark.parametrize("command", ["run", "config", "status", "reap --expired"])
def test_mistakes_in_the_settings_file_are_all_said(refused: Call, tmp_path: Path, command: str) -> None:
    (tmp_path / "work" / "vmatrix.yml").write_text("provider: embedded\nrunz: x\nexpiry_hours: -1\n", encoding="utf-8")
    ended = refused(*command.split(), code=2, says="vmatrix.yml:2: runz: unknown key; did you mean runs?", hint="fix")
    assert "vmatrix.yml:3: expiry_hours: Input should be greater than 0" in ended.stderr


def test_a_settings_file_that_is_no_yaml(refused: Call, tmp_path: Path) -> None:
    (tmp_path / "work" / "vmatrix.yml").write_text("provider: [", encoding="utf-8")
    refused("config", code=2, says="vmatrix.yml:1: malformed YAML", hint="fix")


@pytest.mark.parametrize("command", ["run", "config", "status"])
def test_an_unknown_variable(refused: Call, command: str) -> None:
    refused(command, code=2, says="VMATRIX_RUNZ is not a setting", hint="VMATRIX_RUNS", env={"VMATRIX_RUNZ": "x"})


def test_a_variable_that_cannot_be(refused: Call) -> None:
    says = "VMATRIX_TIMEOUT_SCALE: Input should be a valid number"
    refused("run", code=2, says=says, hint="vmatrix config", env={"VMATRIX_TIMEOUT_SCALE": "abc"})


@pytest.mark.parametrize("content", ["clusters: [", "apiVersion: v1\nkind: Config\n", "[1, 2]\n", ""])
def test_a_kubeconfig_that_is_none(refused: Call, tmp_path: Path, content: str) -> None:
    (tmp_path / "work" / "kc").write_text(content, encoding="utf-8")
    words = ["--provider", "kubeconfig", "--kubeconfig", "kc"]
    refused("status", *words, code=2, says="kubeconfig kc cannot be used", hint="check the file")
    mirror = {"VMATRIX_MIRROR_HTTP": "http://127.0.0.1:9", "VMATRIX_REGISTRY": "127.0.0.1:9"}
    refused("run", *words, code=2, says="kubeconfig kc cannot be used", hint="check the file", env=mirror)


@pytest.mark.parametrize("command", ["status", "reap --all", "login cell cp-0"])
def test_an_api_that_does_not_answer(
    refused: Call, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.providers.site.PATIENT", Patience(again_seconds=0.1))
    (tmp_path / "work" / "kc").write_text(CLOSED, encoding="utf-8")
    words = [*command.split(), "--provider", "kubeconfig", "--kubeconfig", "kc"]
    refused(*words, code=75, says="Connection refused", hint="another: `kubectl cluster-info`", env=HASTY)


def test_a_run_on_an_api_that_does_not_answer_leaves_nothing(process: Call, tmp_path: Path) -> None:
    (tmp_path / "work" / "kc").write_text(CLOSED, encoding="utf-8")
    mirror = {"VMATRIX_MIRROR_HTTP": "http://127.0.0.1:9", "VMATRIX_REGISTRY": "127.0.0.1:9"}
    ended = process("run", "--provider", "kubeconfig", "--kubeconfig", "kc", env={**mirror, **HASTY})
    assert ended.code == 2, ended
    assert "to clean up" not in ended.stdout
    assert (ended.stdout + ended.stderr).count("http://127.0.0.1:9 does not answer") == 1
    assert ended.stderr.count("hint: is the cluster up") == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["kc"]


def test_checks_that_nobody_selected(process: Call, tmp_path: Path) -> None:
    ended = process("run", "-k", "there_is_no_such_check")
    assert ended.code == 4, ended
    assert ended.stderr.count("error (user): no check was selected") == 1
    assert "to clean up" not in ended.stdout
    assert list((tmp_path / "work").iterdir()) == []


def test_the_installed_command_says_the_same(process: Call) -> None:
    ended = process("run", "--tier", "nope")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        "error (user): unknown tier 'nope'; "
        "known: smoke, single, operator, operator-fields, delivery, hardened, customised, dual, ipv6, policies, mr, "
        "performance and 7 more",
        "hint: `vmatrix list` shows the tiers and their cells",
    ]


@pytest.mark.parametrize("words", ["nope", "run --nope", "reap --nope", "infra nope", "login", "explain"])
def test_usage_errors_point_to_the_help(call: Call, words: str) -> None:
    ended = call(*words.split())
    assert (ended.code, ended.stdout) == (2, "")
    assert "Usage: vmatrix" in ended.stderr
    assert "--help" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '  version: "1.36.9"',
            "guest.yml:5: spec.version: Kubernetes 1.36.9 is not a release that is known: use 1.34.4",
        ),
        ("  vershun: 1", "guest.yml:5: spec.vershun: unknown field: remove it"),
        ("  version: [", "guest.yml:"),
    ],
)
def test_a_broken_cluster_deployment_is_refused_with_its_line(refused: Call, work: Path, line: str, says: str) -> None:
    head = "apiVersion: cluster.vmatrix.dev/v1alpha1\nkind: ClusterDeployment\nmetadata: {name: guest}\nspec:\n"
    sets = "\n  machineSets: [{name: cp, roles: [control-plane], machines: {pool: {}}}]\n"
    source = "  source: {mirror: 'http://192.0.2.1', registry: '192.0.2.1:5000'}\n"
    (work / "guest.yml").write_text(f"{head}{line}{sets}{source}", encoding="utf-8")
    refused("operator", "explain", "-f", "guest.yml", code=2, says=says, hint="fix the lines above")


# What commands need of matrix/, by the words with which a test calls them. `judged`: every file, and nothing in them
# that has expired. `whole`: every file; what has expired is told. `part`: at most some files, such as timeouts.yml.
NEEDS = {
    "judged": ("run", "plan", "plan --check", "plan --write", "gitlab generate", "gitlab cell", "gitlab checks"),
    "whole": ("list", "report", "explain x", "check x", "suspect last", "bisect x --good HEAD", "artifacts prune"),
    "part": (
        *("gitlab after", "gitlab reap", "history add runs", "history show", "history compact", "list --origin"),
        *("status", "reap --expired", "login x", "logs x", "kubeconfig x", "kubectl x", "proxy x 22"),
        *("config", "version", "docs", "schema axes --stdout", "conformance list", "infra status", "image list"),
        *("artifacts list", "artifacts gc", "image prune --dry-run"),
    ),
}
# Those that tests do not call here: they build, download, serve, or ask the network or a cluster.
NOT_CALLED = {
    "judged": (),
    "whole": ("artifacts newer", "artifacts serve", "doctor", "gitlab issues", "gitlab doctor"),
    "part": (
        *("init", "artifacts build", "artifacts module", "image build", "conformance export", "gitlab note"),
        *("infra up", "infra down", "infra describe", "infra env", "infra pin"),
        *("operator crds", "operator execute", "operator explain", "operator image", "operator manifests"),
        *("operator log", "operator releases", "operator run", "operator deliver"),
        *("operator backup list", "operator backup show", "operator backup get"),
    ),
}
CALLS = [(need, words) for need, calls in NEEDS.items() for words in calls]
PASS = ("list", "report", "gitlab after", "gitlab reap", "history add runs", "history show", "config")
EXPIRED = "quarantine:\n  - {cell: '*', issue: https://example.org/1, reason: known, until: 2026-01-01}\n"
AHEAD = EXPIRED.replace("2026-01-01", "2099-01-01")


def test_what_every_command_needs_of_the_matrix_is_known() -> None:
    known = commands(typer.main.get_command(app))
    told = [words for table in (NEEDS, NOT_CALLED) for calls in table.values() for words in calls]
    assert {command for command in known if not any(f"{words} ".startswith(f"{command} ") for words in told)} == set()


@pytest.fixture
def own(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the working directory a project, in a job of GitLab's, with a run."""
    (work / "matrix").mkdir()
    (work / "runs").mkdir()
    (work / "vmatrix.yml").write_text("runs: runs\n", encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("CI_", "MATRIX_"))]:
        monkeypatch.delenv(name)
    job = {"CI_JOB_ID": "1", "CI_PIPELINE_SOURCE": "push", "CI_PROJECT_DIR": str(work), PROJECT: str(work)}
    for name, value in {**job, "XDG_CACHE_HOME": str(tmp_path / "cache"), TOLD: ""}.items():
        monkeypatch.setenv(name, value)
    return work / "matrix"


@pytest.mark.usefixtures("planned_once")
@pytest.mark.parametrize(("need", "words"), CALLS, ids=[words for _, words in CALLS])
@pytest.mark.parametrize("entry", [EXPIRED, AHEAD], ids=["expired", "ahead"])
def test_only_what_plans_or_starts_cells_refuses_a_date(
    call: Call, own: Path, need: str, words: str, entry: str
) -> None:
    (own / "quarantine.yml").write_text(entry, encoding="utf-8")
    ended = call(*words.split())
    line = f"{own / 'quarantine.yml'}:2: quarantine[0].until: "
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count(line) == (0 if need == "part" else 1), ended
    if need == "judged":
        assert (ended.code, "error (user): 1 error in" in ended.stderr) == (2, True), ended
    else:
        assert "error (user): 1 error in" not in ended.stderr, ended
        assert ended.stderr.count(f"warning: {line}") == (need == "whole"), ended
    if words in PASS:
        assert ended.code == 0, ended


@pytest.mark.usefixtures("planned_once")
@pytest.mark.parametrize(("need", "words"), CALLS, ids=[words for _, words in CALLS])
def test_a_mistake_in_a_file_stops_only_what_needs_the_file(call: Call, own: Path, need: str, words: str) -> None:
    (own / "constraints.yml").write_text("constraints: [{id: x}]\n", encoding="utf-8")
    ended = call(*words.split())
    assert "Traceback" not in ended.stderr
    assert (f"{own / 'constraints.yml'}:1: " in ended.stderr) == (need != "part"), ended
    if need == "part" and words in PASS:
        assert ended.code == 0, ended


@pytest.mark.parametrize("words", ["gitlab after", "gitlab reap"])
def test_a_job_cleans_up_whatever_is_wrong_with_other_files(
    call: Call, own: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    needed = {"timeouts.yml", "infras.yml"}
    for name in {*FILES} - needed:
        (own / name).write_text("[", encoding="utf-8")
    monkeypatch.setenv("MATRIX_INFRA", "embedded")
    ended = call(*words.split())
    assert ended.code == 0, ended
    assert ended.stderr.count("warning: no failure is in quarantine: 1 error in") == 1
    (own / "infras.yml").write_text("[", encoding="utf-8")
    assert f"{own / 'infras.yml'}:1: " in call(*words.split()).stderr
    monkeypatch.delenv("MATRIX_INFRA")
    assert call(*words.split()).code == 0
