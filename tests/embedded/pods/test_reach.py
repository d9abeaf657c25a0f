"""What a pod in a cell's namespace reaches: the API, a machine of the cell through it, the mirror, the registry."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cell import manifests
from harness.cell.place import cell_labels
from harness.kube.client import Cluster
from harness.kube.objects import phase
from harness.kube.resources import (
    CONFIG_MAP,
    NAMESPACE,
    NETWORK_POLICY,
    POD,
    RESOURCE_QUOTA,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
)
from harness.model import PlannedMachine
from harness.paths import packaged_dir
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.contract.machines import Machines
from tests.embedded.pods.conftest import Kubectl

Json = dict[str, Any]
CLIENT = Path(__file__).with_name("stdlib_tunnel.py")
WAIT_SECONDS = 120.0
IMAGE = "e2e-test-images/agnhost:2.63.0"
# The machine's own Debian has python3 and ssh: the pod brings neither, and uses the network and the account of a pod.
SCRIPT = """
mkdir -p /host/run/try && cp /key/id /host/run/try/ && chmod 600 /host/run/try/id && cp /client/tunnel.py /host/run/try/
cp /account/token /account/ca.crt /host/run/try/
exec chroot /host env ACCOUNT=/run/try ssh -i /run/try/id -o BatchMode=yes -o StrictHostKeyChecking=no \
  -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
  -o ProxyCommand="python3 /run/try/tunnel.py $NAMESPACE $INSTANCE 22" debian@vm 'echo "$(hostname) answers"'
"""
SERVED = """
curl -sf -o /dev/null -w 'mirror %{http_code}\\n' http://MIRROR/healthz
curl -sf -o /dev/null -w 'registry %{http_code}\\n' http://REGISTRY/v2/
"""


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a namespace that is made as a cell's is whose product runs pods: with its quota and its isolation."""
    run, folder = secrets.token_hex(3), packaged_dir() / "vm-templates"
    labels = cell_labels(run=run, cell="reach", attempt=1, expires_at=time.time() + 3600, environment={})
    plan = manifests.CellPlan(f"reach-{run}", labels, "", "cluster.local", None, expires_at=time.time() + 3600)
    cluster.create(NAMESPACE, manifests.namespace(plan, directory=folder))
    planned = (PlannedMachine("vm", ("node",), 1, 512, 10, "debian-13"),)
    cluster.create(RESOURCE_QUOTA, manifests.quota(plan, planned, directory=folder, pods=True))
    cluster.create(NETWORK_POLICY, manifests.network_policy(plan, manifests.Outside(), directory=folder))
    yield plan.namespace
    cluster.delete(NAMESPACE, plan.namespace)


def allow(cluster: Cluster, namespace: str) -> None:
    """Make an account that may open ports of the namespace's machines, and nothing else."""
    cluster.create(SERVICE_ACCOUNT, SERVICE_ACCOUNT.manifest("executor", namespace, labels={}))
    rule = {"apiGroups": ["subresources.kubevirt.io"], "verbs": ["get"]}
    rule["resources"] = ["virtualmachineinstances/portforward"]
    cluster.create(ROLE, ROLE.manifest("executor", namespace, labels={}, rules=[rule]))
    reference = {"apiGroup": ROLE.group, "kind": "Role", "name": "executor"}
    subject = {"kind": "ServiceAccount", "name": "executor", "namespace": namespace}
    body = ROLE_BINDING.manifest("executor", namespace, labels={}, roleRef=reference, subjects=[subject])
    cluster.create(ROLE_BINDING, body)


def job(namespace: str, script: str, more: Json | None = None) -> str:
    account = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    volumes: list[Json] = [{"name": "account", "projected": {"sources": [account, authority]}}]
    volumes += [{"name": name, **source} for name, source in (more or {}).items()]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    container = {"name": "c", "image": IMAGE, "command": ["sh", "-ec", script], "volumeMounts": mounts}
    container["env"] = [{"name": "NAMESPACE", "value": namespace}, {"name": "INSTANCE", "value": "vm"}]
    spec: Json = {"restartPolicy": "Never", "automountServiceAccountToken": False, "volumes": volumes}
    spec |= {"containers": [container], "serviceAccountName": "executor"}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "try", "namespace": namespace}}
    return yaml.safe_dump({**body, "spec": {"backoffLimit": 0, "template": {"spec": spec}}})


def said(cluster: Cluster, namespace: str) -> str:
    """Return what the Job printed, once it has ended; fail with that if it failed."""

    def ended() -> Json | NotYet:
        phases = {phase(pod): pod for pod in cluster.list(POD, namespace, labels="job-name=try").items}
        return phases.get("Succeeded") or phases.get("Failed") or NotYet(f"its pods are {list(phases)}")

    pod = until(ended, deadline=Deadline.after(WAIT_SECONDS), what="the Job to end", interval=0.2)
    printed = cluster.pod_log(namespace, pod["metadata"]["name"], container="c")
    assert phase(pod) == "Succeeded", printed
    return printed


def test_a_pod_logs_in_to_a_machine_of_its_namespace_through_the_api(
    cluster: Cluster, machines: Machines, kubectl: Kubectl, namespace: str
) -> None:
    machines.disk_of_its_own("vm")
    machines.create("vm")
    machines.wait_ready("vm")
    machines.login("vm")
    allow(cluster, namespace)
    key = machines.key.read_text(encoding="ascii")
    cluster.create(SECRET, SECRET.manifest("key", namespace, labels={}, stringData={"id": key}))
    client = {"tunnel.py": CLIENT.read_text(encoding="utf-8")}
    cluster.create(CONFIG_MAP, CONFIG_MAP.manifest("client", namespace, labels={}, data=client))
    mounted = {"key": {"secret": {"secretName": "key"}}, "client": {"configMap": {"name": "client"}}}
    kubectl("apply", "-f-", text=job(namespace, SCRIPT, {**mounted, "host": {"hostPath": {"path": "/"}}}))
    assert said(cluster, namespace) == "vm answers\n"


def test_a_pod_reaches_the_mirror_and_the_registry(
    infra: EmbeddedProvider, cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    allow(cluster, namespace)
    mirror = infra.mirror()
    script = SERVED.replace("MIRROR", mirror.http.removeprefix("http://")).replace("REGISTRY", mirror.registry)
    kubectl("apply", "-f-", text=job(namespace, script))
    assert said(cluster, namespace).splitlines() == ["mirror 200", "registry 200"]
