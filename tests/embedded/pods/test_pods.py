"""Pods of an embedded infra cluster are real; machines stay where they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from harness.embedded.node.placement import MACHINES_ONLY
from harness.infra.embedded.provider import EmbeddedProvider
from harness.infra.host.record import load
from harness.infra.pods import join
from harness.infra.pods.machine import NAME, NAMESPACE_NAME
from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, NODE, POD, SECRET, VMI, Resource
from harness.until import Deadline, NotYet, until
from tests.contract.machines import Machines
from tests.embedded.kubevirt.part import Part
from tests.embedded.pods.conftest import Kubectl

Json = dict[str, Any]
IMAGE = "e2e-test-images/agnhost:2.63.0"  # no registry: the mirror's
WAIT_SECONDS = 120.0
LOOK = 'cat /config/word /secret/word /token/token; nc -z -w 5 "$KUBERNETES_SERVICE_HOST" 443 2>&-; echo " api"'
TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)


def pod_spec(command: str, **more: Any) -> Json:
    volumes = [
        {"name": "config", "configMap": {"name": "words"}},
        {"name": "secret", "secret": {"secretName": "words"}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    container = {"name": "c", "image": IMAGE, "command": ["sh", "-ec", command], "volumeMounts": mounts}
    return {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes, **more}


@pytest.fixture
def words(cluster: Cluster, namespace: str) -> str:
    """Return a namespace with what pods mount."""
    cluster.create(CONFIG_MAP, CONFIG_MAP.manifest("words", namespace, labels={}, data={"word": "config "}))
    cluster.create(SECRET, SECRET.manifest("words", namespace, labels={}, stringData={"word": "secret "}))
    return namespace


def job(namespace: str, command: str) -> str:
    template = {"spec": pod_spec(command, restartPolicy="Never")}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "look", "namespace": namespace}}
    return yaml.safe_dump({**body, "spec": {"backoffLimit": 0, "template": template}})


def test_a_job_mounts_what_it_asks_for_and_reaches_the_api(
    infra: EmbeddedProvider, cluster: Cluster, kubectl: Kubectl, words: str
) -> None:
    kubectl("apply", "-f-", text=job(words, LOOK))
    kubectl("wait", "-n", words, "job/look", "--for=condition=Complete", "--timeout=100s")
    *printed, token, reached = kubectl("logs", "-n", words, "job/look").split()
    assert (printed, reached) == (["config", "secret"], "api")
    review = TOKEN_REVIEW.manifest("", "", labels={}, spec={"token": token})
    (pod,) = json.loads(kubectl("get", "pods", "-n", words, "-ojson"))["items"]
    said = cluster.create(TOKEN_REVIEW, review)["status"]
    assert said["user"]["extra"]["authentication.kubernetes.io/pod-name"] == [pod["metadata"]["name"]]
    assert pod["spec"]["nodeName"] == infra.layout.pods_node


def test_a_job_that_fails_says_so_with_its_last_words(kubectl: Kubectl, words: str) -> None:
    kubectl("apply", "-f-", text=job(words, "echo lost > /dev/termination-log; exit 7"))
    kubectl("wait", "-n", words, "job/look", "--for=condition=Failed", "--timeout=100s")
    (pod,) = json.loads(kubectl("get", "pods", "-n", words, "-ojson"))["items"]
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (7, "lost\n")


def test_one_enters_a_deployments_pod_and_follows_its_log(kubectl: Kubectl, words: str) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod_spec("echo begun; sleep 1000")}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": words}, "spec": spec}
    kubectl("apply", "-f-", text=yaml.safe_dump(body))
    kubectl("rollout", "status", "-n", words, "deployment/d", "--timeout=100s")
    assert kubectl("exec", "-n", words, "deployment/d", "--", "cat", "/secret/word") == "secret "
    assert kubectl("logs", "-n", words, "deployment/d").strip() == "begun"


def test_a_machine_beside_them_comes_to_this_host(
    infra: EmbeddedProvider, cluster: Cluster, machines: Machines, namespace: str
) -> None:
    machines.disk_of_its_own("vm")
    machines.create("vm")
    machines.wait_ready("vm")
    nodes = {pod["spec"]["nodeName"] for pod in cluster.list(POD, namespace).items}
    assert nodes == {infra.layout.node}
    importers = [e for e in cluster.list(POD).items if "importer" in e["metadata"]["name"]]
    assert all(pod["spec"]["nodeName"] == infra.layout.node for pod in importers)


def test_no_machine_but_theirs_reaches_the_api(
    infra: EmbeddedProvider, machines: Machines, kubectl: Kubectl, words: str
) -> None:
    machines.disk_of_its_own("vm")
    machines.create("vm")
    machines.wait_ready("vm")
    vm = machines.login("vm")
    found = load(infra.layout)
    assert found is not None
    address = infra.mirror().http.removeprefix("http://").partition(":")[0]
    tried = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/PORT'"
    assert machines.run(vm, tried.replace("PORT", "8080")).returncode == 0
    assert machines.run(vm, tried.replace("PORT", "6443")).returncode != 0
    kubectl("apply", "-f-", text=job(words, f"nc -z -w 3 {address} 6443"))
    kubectl("wait", "-n", words, "job/look", "--for=condition=Complete", "--timeout=100s")


def test_a_machine_that_died_is_made_anew(infra: EmbeddedProvider, cluster: Cluster, part: Part) -> None:
    before = cluster.get(VMI, NAME, NAMESPACE_NAME)
    assert before is not None
    part.kill_machine(before["metadata"]["uid"])
    wait_for(lambda: dig(cluster.get(VMI, NAME, NAMESPACE_NAME), "status", "phase") == "Failed", "the machine to end")
    infra.up()
    after = cluster.get(VMI, NAME, NAMESPACE_NAME)
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert join.ready(cluster.get(NODE, infra.layout.pods_node))


def test_without_them_this_hosts_node_is_as_before(infra: EmbeddedProvider, cluster: Cluster) -> None:
    wait_for(lambda: MACHINES_ONLY["key"] in taints(cluster, infra), "the taint to be there")
    join.remove(cluster, infra.layout.pods_node, Deadline.after(WAIT_SECONDS))
    wait_for(lambda: MACHINES_ONLY["key"] not in taints(cluster, infra), "the taint to be gone")
    infra.up()
    wait_for(lambda: MACHINES_ONLY["key"] in taints(cluster, infra), "the taint to be back")


def taints(cluster: Cluster, infra: EmbeddedProvider) -> set[str]:
    return {taint["key"] for taint in dig(cluster.get(NODE, infra.layout.node), "spec", "taints") or []}


def wait_for(true: Any, what: str) -> None:
    def probe() -> bool | NotYet:
        return True if true() else NotYet("not yet")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=0.2)
