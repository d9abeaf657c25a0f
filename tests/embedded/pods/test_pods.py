"""Pods of an embedded infra cluster are real; machines stay where they were."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from cryptography import x509

from harness.embedded.cdi.provisioner import default_class
from harness.embedded.node.registration import MACHINES_ONLY
from harness.embedded.operands import STORAGE_CLASS as STORAGE_CLASS_OF_MACHINES
from harness.infra import pods
from harness.infra.host import pki
from harness.infra.host.layout import load_record
from harness.infra.pods import CLASS, NAME, NAMESPACE_NAME, SEED_NAME
from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import (
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    PV,
    PVC,
    SECRET,
    STORAGE_CLASS,
    STORAGE_PROFILE,
    VMI,
    Resource,
)
from harness.providers.embedded import EmbeddedProvider
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


def job(namespace: str, command: str, volume: Json | None = None) -> str:
    template = {"spec": pod_spec(command, restartPolicy="Never")}
    if volume is not None:
        template["spec"]["volumes"].append(volume)
        (container,) = template["spec"]["containers"]
        container["volumeMounts"].append({"name": volume["name"], "mountPath": f"/{volume['name']}"})
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


def test_a_log_is_followed_to_the_end_of_its_pod(kubectl: Kubectl, words: str) -> None:
    said = "echo first; until test -e /tmp/go; do sleep 0.1; done; echo last"
    kubectl("apply", "-f-", text=job(words, said))
    kubectl("wait", "-n", words, "pod", "-ljob-name=look", "--for=condition=Ready", "--timeout=100s")
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(kubectl, "logs", "-f", "-n", words, "job/look")
        kubectl("exec", "-n", words, "job/look", "--", "touch", "/tmp/go")
        assert followed.result().split() == ["first", "last"]


def test_a_claim_outlives_its_pod_and_its_folder_goes_with_it(
    infra: EmbeddedProvider, cluster: Cluster, kubectl: Kubectl, words: str
) -> None:
    spec = {"storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create(PVC, PVC.manifest("kept", words, labels={}, spec=spec))
    claim = {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}
    for command in ("echo 1 > /kept/file", "cat /kept/file"):
        kubectl("apply", "-f-", text=job(words, command, claim))
        kubectl("wait", "-n", words, "job/look", "--for=condition=Complete", "--timeout=100s")
        printed = kubectl("logs", "-n", words, "job/look")
        kubectl("delete", "-n", words, "job/look", "--wait")
    assert printed.strip() == "1"
    (volume,) = [v for v in cluster.list(PV).items if v["spec"]["storageClassName"] == CLASS]
    named = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    assert named == [infra.layout.pods_node]
    cluster.delete(PVC, "kept", words)
    wait_for(lambda: cluster.get(PV, volume["metadata"]["name"]) is None, "the volume to be gone")


def test_the_class_of_claims_is_not_the_machines(cluster: Cluster) -> None:
    classes = cluster.list(STORAGE_CLASS).items
    assert CLASS in {found["metadata"]["name"] for found in classes}
    assert default_class(classes) == STORAGE_CLASS_OF_MACHINES
    assert CLASS not in {found["metadata"]["name"] for found in cluster.list(STORAGE_PROFILE).items}


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
    found = load_record(infra.layout)
    assert found is not None
    address = infra.mirror().http.removeprefix("http://").partition(":")[0]
    tried = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/PORT'"
    assert machines.run(vm, tried.replace("PORT", "8080")).returncode == 0
    assert machines.run(vm, tried.replace("PORT", "6443")).returncode != 0
    kubectl("apply", "-f-", text=job(words, f"nc -z -w 3 {address} 6443"))
    kubectl("wait", "-n", words, "job/look", "--for=condition=Complete", "--timeout=100s")


def uid_of_the_machine(cluster: Cluster) -> str:
    found = cluster.get(VMI, NAME, NAMESPACE_NAME)
    assert found is not None
    return str(found["metadata"]["uid"])


def test_a_machine_that_died_is_made_anew(infra: EmbeddedProvider, cluster: Cluster, part: Part) -> None:
    before = uid_of_the_machine(cluster)
    part.kill_machine(before)
    wait_for(lambda: dig(cluster.get(VMI, NAME, NAMESPACE_NAME), "status", "phase") == "Failed", "the machine to end")
    infra.up()
    assert uid_of_the_machine(cluster) != before
    assert pods.nodes_are_ready(cluster.get(NODE, infra.layout.pods_node))


def test_renewed_certificates_reach_the_machine(infra: EmbeddedProvider, cluster: Cluster, kubectl: Kubectl) -> None:
    before = uid_of_the_machine(cluster)
    infra.up()
    assert uid_of_the_machine(cluster) == before, "nothing was renewed"
    old = pki.issued(infra.layout.pki, "pods-kubelet")
    serial = x509.load_pem_x509_certificate(old.certificate.read_bytes()).serial_number
    old.certificate.unlink()
    infra.up()
    assert uid_of_the_machine(cluster) != before
    told = kubectl("get", "secret", "-n", NAMESPACE_NAME, SEED_NAME, "-ojsonpath={.data.userdata}")
    new = pki.issued(infra.layout.pki, "pods-kubelet").certificate.read_bytes()
    assert x509.load_pem_x509_certificate(new).serial_number != serial
    assert base64.b64encode(new).decode() in base64.b64decode(told).decode()
    assert kubectl("get", "--raw", f"/api/v1/nodes/{infra.layout.pods_node}/proxy/healthz") == "ok"


def test_without_them_this_hosts_node_is_as_before(infra: EmbeddedProvider, cluster: Cluster, kubectl: Kubectl) -> None:
    wait_for(lambda: MACHINES_ONLY["key"] in taints(cluster, infra), "the taint to be there")
    cluster.delete(NAMESPACE, NAMESPACE_NAME)

    def gone() -> bool:
        for pod in cluster.list(POD, NAMESPACE_NAME, labels="app=claims").items:
            cluster.delete(POD, pod["metadata"]["name"], NAMESPACE_NAME, grace=0)  # its kubelet is gone
        return cluster.get(NAMESPACE, NAMESPACE_NAME) is None

    wait_for(gone, "the machine to be gone")
    cluster.delete(NODE, infra.layout.pods_node)
    wait_for(lambda: MACHINES_ONLY["key"] not in taints(cluster, infra), "the taint to be gone")
    infra.up()
    wait_for(lambda: MACHINES_ONLY["key"] in taints(cluster, infra), "the taint to be back")


def taints(cluster: Cluster, infra: EmbeddedProvider) -> set[str]:
    return {taint["key"] for taint in dig(cluster.get(NODE, infra.layout.node), "spec", "taints") or []}


def wait_for(true: Any, what: str) -> None:
    def probe() -> bool | NotYet:
        return True if true() else NotYet("not yet")

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=0.2)
