"""A real executor: our image in a real pod, on a machine that it reaches through the API, from Job to kept log."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from harness.artifacts.own import push
from harness.artifacts.store import Store
from harness.kube.client import ApiFailure, Cluster
from harness.kube.objects import ensure, is_condition, phase
from harness.kube.resources import CRD, JOB, NAMESPACE, POD, SECRET
from harness.operator.api.crds import crds
from harness.operator.api.machine import KeyRef
from harness.operator.api.resources import CLUSTER
from harness.operator.decide.desired import Host
from harness.operator.execute import logs
from harness.operator.execute.inputs import Execution
from harness.operator.execute.logs import show_log
from harness.operator.execute.objects import make
from harness.operator.execute.termination import Termination, of_pod
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.machines import Machines

NAME = "guest"
WAIT_SECONDS = 120.0
DEADLINE_SECONDS = 600
RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}


@pytest.fixture(scope="session")
def executor_image(infra: EmbeddedProvider) -> str:
    """Return our image, in the instance's registry."""
    store = Store()
    image = push.obtain_image(store)
    push.publish(image, store)
    return f"{infra.mirror().registry}/{push.REPOSITORY}:{image.ref.version}"


@pytest.fixture
def owner(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """Return a Cluster."""
    for body in crds():
        ensure(cluster, CRD, body)
    body = {"apiVersion": CLUSTER.api_version, "kind": "Cluster", "metadata": {"name": NAME, "namespace": namespace}}

    def served() -> dict[str, Any] | NotYet:
        try:
            return cluster.ensure(CLUSTER, body)
        except ApiFailure as failure:  # not served yet (404), or its storage is not ready (429)
            return NotYet(failure.summary)

    return until(served, deadline=Deadline.after(WAIT_SECONDS), what="Clusters to be served", interval=0.1)


def operation(namespace: str, image: str, sequence: int, address: str, through: str) -> Execution:
    """Return an operation that readies a machine for Ansible."""
    key = KeyRef(name="machines-ssh")
    host = Host("vm", "vm", "all", ("control_plane", "node"), address, 22, "debian", key, through)
    return Execution(
        NAME, namespace, sequence, "deploy", "bootstrap-os.yml", (host,), image, DEADLINE_SECONDS, "digest"
    )


def ended(cluster: Cluster, namespace: str, job: str) -> tuple[bool, Termination]:
    """Return whether a Job succeeded, once it has ended, and how its pod says that it did."""

    def over() -> dict[str, Any] | NotYet:
        found = cluster.get(JOB, job, namespace)
        done = any(is_condition(found, kind, "True") for kind in ("Complete", "Failed"))
        return found if found is not None and done else NotYet("it has not ended")

    found = until(over, deadline=Deadline.after(WAIT_SECONDS), what=f"the end of {job}", interval=0.2)
    (pod,) = cluster.list(POD, namespace, labels=f"batch.kubernetes.io/job-name={job}").items
    assert phase(pod) in {"Succeeded", "Failed"}
    return is_condition(found, "Complete", "True"), of_pod(pod)


def test_an_executor_runs_a_playbook_and_its_log_outlives_it(
    cluster: Cluster, machines: Machines, namespace: str, owner: dict[str, Any], executor_image: str
) -> None:
    machines.disk_of_its_own("vm")
    machines.create("vm")
    machines.wait_ready("vm")
    address = machines.login("vm").address
    cluster.merge(NAMESPACE, namespace, RESTRICTED)  # not before: a machine's launcher needs more
    key = base64.b64encode(machines.key.read_bytes()).decode()
    cluster.create(SECRET, SECRET.manifest("machines-ssh", namespace, labels={}, data={"ssh-privatekey": key}))
    made = operation(namespace, executor_image, 1, address, "vm")
    make(cluster, made, owner)
    lines: list[str] = []
    show_log(cluster, namespace, NAME, None, lines.append)
    succeeded, end = ended(cluster, namespace, made.job)
    assert succeeded, "\n".join(lines)
    assert end.outcome == "succeeded"
    assert "unreachable=0 failed=0" in end.recap["vm"]
    assert any(line.startswith("TASK [bootstrap_os : Look") for line in lines)
    kept = logs.read(cluster, namespace, made.job)
    assert kept is not None
    assert kept.termination == end
    assert "TASK [bootstrap_os : Look" in kept.text

    lost = operation(namespace, executor_image, 2, "10.255.255.1", "nobody")
    make(cluster, lost, owner)
    succeeded, end = ended(cluster, namespace, lost.job)
    assert not succeeded
    assert (end.outcome, end.blame, end.host) == ("failed", "infra", "vm"), end
