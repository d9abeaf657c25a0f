"""The played kubelet: what it says of a pod, the real Job controller makes of the Job, and the played one just so."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.client import Cluster
from harness.kube.objects import dig, is_condition
from harness.kube.resources import JOB
from tests.embedded.operator.played import PlayedKubelet

Json = dict[str, Any]
NAME = "some-1-deploy"
pytestmark = [
    pytest.mark.parametrize("job_controller", ["played", "real"], indirect=True),
    pytest.mark.usefixtures("job_controller", "made"),
]


def job(namespace: str) -> Json:
    """Return a Job as executors are: one pod, made again only if it was taken away."""
    container = {"name": "executor", "image": "nothing:1"}
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [rule]},
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


@pytest.fixture
def made(api: Cluster, namespace: str) -> Json:
    """Return a Job that was just created."""
    return api.create(JOB, job(namespace))


def test_pod_that_ends_well_completes_its_job(kubelet: PlayedKubelet) -> None:
    kubelet.run(NAME)
    done = kubelet.end(NAME, message="said")
    assert is_condition(done, "Complete", "True")
    assert dig(done, "status", "succeeded") == 1


def test_pod_that_fails_fails_its_job(kubelet: PlayedKubelet) -> None:
    done = kubelet.end(NAME, exit_code=1)
    assert is_condition(done, "Failed", "True", "BackoffLimitExceeded")


def test_pod_that_is_evicted_is_made_anew(kubelet: PlayedKubelet) -> None:
    first = kubelet.evict(NAME)
    second = kubelet.pod(NAME)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert is_condition(kubelet.end(NAME), "Complete", "True")
