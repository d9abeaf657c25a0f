"""A job's access to the infra cluster: by GitLab's token or the pod's account, and never for longer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.gitlab.access import forget, job_kubeconfig
from harness.kube.client import Cluster

RUN = "abc123"


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


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "set MATRIX_API_SERVER"),
        (
            {"CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": "me/fork", "CI_MERGE_REQUEST_PROJECT_PATH": "team/it"},
            "me/fork is a fork, whose pipelines get no variables: a member of team/it must run the pipeline",
        ),
        ({"CI_COMMIT_REF_PROTECTED": "false"}, "merge requests do not get protected variables"),
    ],
)
def test_a_merge_request_without_its_variables_learns_why(
    told: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    given = {"CI_MERGE_REQUEST_IID": "7", **told} if told else {}
    with pytest.raises(BadInput) as refused:
        job_kubeconfig("abcdef", given, service_account=tmp_path / "none")
    assert str(refused.value.hint).startswith(said)
    assert list(tmp_path.iterdir()) == []
