"""An operation's objects on a real API server: what it takes of them, what their account may do, when they go."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfraRetriable
from harness.kube.client import ApiFailure, Cluster
from harness.kube.resources import (
    CONFIG_MAP,
    JOB,
    NAMESPACE,
    POD,
    RBAC,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    Resource,
)
from harness.operator.api.resources import CLUSTER
from harness.operator.execute import logs, termination
from harness.operator.execute.inputs import executor_name, log_name, state_name
from harness.operator.execute.objects import KINDS, make, objects_of
from harness.operator.execute.termination import Termination
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import REAL_JOBS
from tests.embedded.operator.executions import NAME, Lab
from tests.embedded.operator.played import WAIT_SECONDS, PlayedKubelet
from tests.unit.operator.execute.operations import host

RESTRICTED = "pod-security.kubernetes.io/enforce"


@pytest.fixture
def lab(api: Cluster, namespace: str, infra: EmbeddedProvider, tmp_path: Path) -> Lab:
    """Return operations in a namespace that enforces Pod Security `restricted`."""
    api.merge(NAMESPACE, namespace, {"metadata": {"labels": {RESTRICTED: "restricted"}}})
    return Lab(api, namespace, infra.kubeconfig(), tmp_path)


def refused(call: Any) -> int:
    """Return the code with which the API refuses a request."""
    with pytest.raises(ApiFailure) as failure:
        call()
    return failure.value.code


def test_the_api_takes_every_field_of_every_object(lab: Lab) -> None:
    for body in objects_of(lab.execution(hosts=(host("cp-0"), host("w-0", through="vm-w"))), lab.owner()):
        kind = KINDS[body["kind"]]
        strict = {"fieldValidation": "Strict", "dryRun": "All"}
        taken = lab.api.request("POST", kind.path(lab.namespace), body=body, query=strict)
        assert taken["metadata"]["name"] == body["metadata"]["name"]


def test_a_namespace_that_is_restricted_admits_the_pod(lab: Lab, kubelet: PlayedKubelet) -> None:
    made = lab.make()
    pod = kubelet.pod(made.job)
    assert pod["metadata"]["labels"]["cluster.vmatrix.dev/sequence"] == "3"
    loose = copy.deepcopy({"spec": pod["spec"], "metadata": {"generateName": "loose-", "namespace": lab.namespace}})
    loose["spec"].pop("nodeName", None)
    loose["spec"]["securityContext"]["runAsNonRoot"] = False
    assert refused(lambda: lab.api.create(POD, {"apiVersion": "v1", "kind": "Pod", **loose}, dry_run=True)) == 403


@REAL_JOBS
def test_an_evicted_pod_is_made_anew_and_any_other_end_is_the_last(lab: Lab, kubelet: PlayedKubelet) -> None:
    made = lab.make()
    first = kubelet.evict(made.job)
    second = kubelet.pod(made.job)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    job = kubelet.end(made.job, exit_code=137, reason="OOMKilled")
    assert job["status"]["failed"] == 1


def test_what_is_there_is_left_as_it_is_and_rights_follow_the_job(lab: Lab) -> None:
    first = lab.make()
    state = lab.api.get(SECRET, state_name(NAME), lab.namespace)
    assert state is not None
    lab.api.replace(SECRET, {**state, "data": {"kubeconfig": "YQ=="}})
    job = lab.api.get(JOB, first.job, lab.namespace)
    lab.make()
    assert lab.api.get(JOB, first.job, lab.namespace) is not None
    second = lab.make(attempt=2)
    assert lab.state() == {"kubeconfig": b"a"}
    again = lab.api.get(JOB, first.job, lab.namespace)
    assert job is not None
    assert again is not None
    assert again["metadata"]["uid"] == job["metadata"]["uid"]
    role = lab.api.get(ROLE, executor_name(NAME), lab.namespace)
    assert role is not None
    named = {name for rule in role["rules"] for name in rule["resourceNames"]}
    assert named == {state_name(NAME), second.job, log_name(second.job)}


def test_inputs_cannot_be_changed(lab: Lab) -> None:
    made = lab.make()
    assert refused(lambda: lab.api.merge(CONFIG_MAP, made.job, {"data": {"hosts.yml": ""}}, lab.namespace)) == 422


def test_what_is_left_of_an_earlier_cluster_is_not_taken_over(lab: Lab) -> None:
    made, owner = lab.make(), lab.owner()
    other = {**owner, "metadata": {**owner["metadata"], "uid": "5d7c0c5e-0000-4000-8000-000000000001"}}
    with pytest.raises(InfraRetriable, match=f"Secret {state_name(NAME)} is left of an earlier cluster"):
        make(lab.api, made, other)


def test_all_of_it_goes_with_the_cluster(lab: Lab) -> None:
    made = lab.make()
    lab.api.delete(CLUSTER, NAME, lab.namespace)
    kinds: list[Resource] = [JOB, CONFIG_MAP, SECRET, ROLE, ROLE_BINDING, SERVICE_ACCOUNT]

    def left() -> bool | NotYet:
        names = [
            f"{kind.kind} {one['metadata']['name']}"
            for kind in kinds
            for one in lab.api.list(kind, lab.namespace, labels=f"cluster.vmatrix.dev/cluster={made.cluster}").items
        ]
        return NotYet(", ".join(names)) if names else True

    until(left, deadline=Deadline.after(WAIT_SECONDS), what="nothing to be left of the cluster", interval=0.1)


def test_an_executor_reads_one_secret_and_no_other(lab: Lab) -> None:
    lab.make()
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cp-0-ssh", "namespace": lab.namespace}}
    lab.api.create(SECRET, other)
    account = lab.account()
    found = account.get(SECRET, state_name(NAME), lab.namespace)
    assert found is not None
    account.replace(SECRET, {**found, "data": {"kubeconfig": "YQ=="}})
    assert lab.state() == {"kubeconfig": b"a"}
    assert refused(lambda: account.get(SECRET, "cp-0-ssh", lab.namespace)) == 403
    assert refused(lambda: account.list(SECRET, lab.namespace)) == 403
    assert refused(lambda: account.delete(SECRET, state_name(NAME), lab.namespace)) == 403


def test_an_executor_writes_its_own_log_and_says_where_it_is(lab: Lab) -> None:
    lab.make(attempt=2)
    made = lab.make()
    account, end = lab.account(), Termination("failed", "product", task="Join")
    logs.write(account, lab.namespace, made.job, "words\n", end)
    assert logs.read(lab.api, lab.namespace, made.job) == logs.KeptLog("words\n", end)
    job = termination.annotate(account, lab.namespace, made.job, '{"play": "Nodes", "task": "Join"}')
    assert termination.progress_of(job) == ("Nodes", "Join")
    other = lab.execution(attempt=2).job
    assert refused(lambda: logs.write(account, lab.namespace, other, "words\n", end)) == 403
    assert refused(lambda: termination.annotate(account, lab.namespace, other, "{}")) == 403
    assert refused(lambda: account.get(CONFIG_MAP, made.job, lab.namespace)) == 403
    assert refused(lambda: account.list(POD, lab.namespace)) == 403


@pytest.mark.parametrize(("through", "allowed"), [("vm-w", {"vm-w"}), ("", set())])
def test_an_executor_forwards_to_its_machines_alone(through: str, allowed: set[str], lab: Lab) -> None:
    lab.make(hosts=(host("cp-0"), host("w-0", through=through)))
    may = {instance for instance in ("vm-w", "vm-x") if forwards(lab.account(), lab.namespace, instance)}
    assert may == allowed


def forwards(account: Cluster, namespace: str, instance: str) -> bool:
    """Tell whether an account may forward ports of a VirtualMachineInstance, as `kubectl auth can-i` asks it."""
    asked = {
        "group": "subresources.kubevirt.io",
        "resource": "virtualmachineinstances",
        "subresource": "portforward",
        "verb": "get",
        "name": instance,
        "namespace": namespace,
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = account.request("POST", path, body={**review, "spec": {"resourceAttributes": asked}})
    return bool(answer["status"]["allowed"])


def test_rules_name_objects_and_no_kind_as_a_whole(lab: Lab) -> None:
    lab.make()
    role = lab.api.get(ROLE, executor_name(NAME), lab.namespace)
    assert role is not None
    assert role["apiVersion"] == f"{RBAC}/v1"
    assert all(rule.get("resourceNames") for rule in role["rules"])
