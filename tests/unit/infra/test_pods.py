"""The objects of the machine that runs pods."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.embedded.cdi.provisioner import DEFAULT_CLASS, default_class
from harness.embedded.machines.names import PODS_NETWORK, Names
from harness.embedded.node import guests
from harness.embedded.node.registration import MACHINES_ONLY
from harness.embedded.operands import PROVISIONER, storage_class
from harness.errors import InfraError
from harness.infra import pods
from harness.infra.host import pki
from harness.infra.pods import CPUS, IMAGES, MEMORY_MIB, NAMESPACE_NAME, OWN_MIB, PAUSE, PROGRAMS, BootDisk, PodsMachine
from harness.kube.client import Cluster, Listing
from harness.kube.resources import CSR, NODE, POD, SECRET, VMI, Resource
from harness.model import Mirror
from harness.until import TimedOut

MACHINE = PodsMachine(
    "vmatrix-a-pods", "", Mirror("http://m:8080", "r"), BootDisk("d.qcow2", "ab"), {}, Path(), "m:5001"
)


def test_no_cell_gets_its_network() -> None:
    assert guests.LAST_NETWORK < PODS_NETWORK
    assert Names(0).network(PODS_NETWORK) != Names(0).probe_network


def test_its_disk_is_checked_and_its_host_name_is_its_nodes() -> None:
    source = pods.disk(MACHINE)["spec"]["source"]["http"]
    assert source == {"url": "http://m:8080/images/d.qcow2", "checksum": "sha256:ab"}
    spec = pods.virtual_machine(MACHINE)["spec"]
    assert spec["runStrategy"] == "Once"
    assert spec["template"]["spec"]["hostname"] == "vmatrix-a-pods"
    assert [volume["name"] for volume in spec["template"]["spec"]["volumes"]] == ["root", "seed"]


def test_what_it_is_told_is_a_secret() -> None:
    made = pods.seed("#cloud-config\n", "ab")
    assert made["kind"] == "Secret"
    assert made["metadata"]["annotations"] == {"vmatrix.dev/certificates": "ab"}


VERSIONS = {name: f"1.{number}" for number, name in enumerate(IMAGES)}
MACHINE_CLAIMS = PodsMachine(
    "vmatrix-a-pods", "", Mirror("http://m", "r:5000"), BootDisk("d", "0"), VERSIONS, Path(), "r:5001"
)


@pytest.fixture
def objects() -> dict[str, Json]:
    """Return the objects, by kind."""
    made = pods.storage_objects(MACHINE_CLAIMS)
    assert sorted(body["kind"] for body in made) == sorted(kind.kind for kind in pods.KINDS)
    return {body["kind"]: body for body in made}


def test_the_class_is_neither_the_default_one_nor_cdis(objects: dict[str, Json]) -> None:
    made = objects["StorageClass"]
    assert made["metadata"] == {"name": pods.CLASS}
    assert not set(DEFAULT_CLASS) & set(made["metadata"].get("annotations") or {})
    assert made["provisioner"] != PROVISIONER  # only classes of that one have a StorageProfile
    assert default_class([made, storage_class()]) == storage_class()["metadata"]["name"]


def test_claims_are_of_the_machine_alone(objects: dict[str, Json]) -> None:
    wanted = {"key": "vmatrix.dev/runs-pods", "values": ["true"]}
    assert objects["StorageClass"]["allowedTopologies"] == [{"matchLabelExpressions": [wanted]}]
    config = objects["ConfigMap"]["data"]
    assert [entry["node"] for entry in json.loads(config["config.json"])["nodePathMap"]] == ["vmatrix-a-pods"]
    assert '"$VOL_DIR"' in config["setup"]


def test_its_pods_run_images_of_the_instances_registry_and_never_on_the_hosts_node(
    objects: dict[str, Json],
) -> None:
    spec = objects["Deployment"]["spec"]["template"]["spec"]
    helper = yaml.safe_load(objects["ConfigMap"]["data"]["helperPod.yaml"])
    used = [spec["containers"][0]["image"], helper["spec"]["containers"][0]["image"]]
    assert used == ["r:5000/local-path-provisioner:1.1", "r:5000/e2e-test-images/busybox:1.2"]
    assert spec["nodeSelector"] == {"vmatrix.dev/runs-pods": "true"}


def test_what_has_a_namespace_is_in_the_machines_and_goes_with_it(objects: dict[str, Json]) -> None:
    namespaced = {kind.kind for kind in pods.KINDS if kind.namespaced}
    assert {objects[kind]["metadata"]["namespace"] for kind in namespaced} == {NAMESPACE_NAME}


MIRROR = Mirror(http="http://10.213.0.1:8080", registry="10.213.0.1:5000")


@pytest.fixture
def machine(tmp_path: Path) -> PodsMachine:
    """Return a machine of an instance with certificates."""
    pki.ensure(tmp_path, addresses=["10.213.0.1"], names=["kubernetes"], node="vmatrix-a")
    versions = {**{name: f"1.{number}" for number, name in enumerate(PROGRAMS)}, PAUSE: "3.10.2"}
    disk = BootDisk("debian-13-0.qcow2", "0" * 64)
    own = "10.213.0.1:5001"
    return PodsMachine("vmatrix-a-pods", "https://10.213.0.1:6443", MIRROR, disk, versions, tmp_path, own)


@pytest.fixture
def told(machine: PodsMachine) -> dict[str, Any]:
    """Return the user-data, read."""
    text = pods.user_data(machine)
    assert text.startswith("#cloud-config\n")
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def written(told: dict[str, Any], path: str) -> str:
    (found,) = [file for file in told["write_files"] if file["path"] == path]
    return str(found["content"])


def test_every_program_is_fetched_in_its_version_to_where_it_is_looked_for(told: dict[str, Any]) -> None:
    (script,) = told["runcmd"]
    assert script[:3] == ["sh", "/etc/kubernetes/start-pods.sh", MIRROR.http]
    assert script[3:] == [
        "containerd:1.0:/usr/local/bin",
        "runc:1.1:/usr/local/bin",
        "cni-plugins:1.2:/opt/cni/bin",
        "kubelet:1.3:/usr/local/bin",
        "kube-proxy:1.4:/usr/local/bin",
    ]


def test_the_script_is_a_shells(told: dict[str, Any]) -> None:
    subprocess.run(["/bin/sh", "-n"], input=written(told, "/etc/kubernetes/start-pods.sh"), text=True, check=True)


@pytest.mark.parametrize(
    ("program", "subject"),
    [("kubelet", "CN=system:node:vmatrix-a-pods,O=system:nodes"), ("kube-proxy", "CN=system:kube-proxy")],
)
def test_each_program_has_a_name_of_its_own_and_only_root_reads_its_key(
    told: dict[str, Any], program: str, subject: str
) -> None:
    path = f"/etc/kubernetes/{program}.kubeconfig"
    (file,) = [file for file in told["write_files"] if file["path"] == path]
    assert file["permissions"] == "0600"
    found = json.loads(file["content"])
    assert found["clusters"][0]["cluster"]["server"] == "https://10.213.0.1:6443"
    certificate = base64.b64decode(found["users"][0]["user"]["client-certificate-data"])
    argv = ["openssl", "x509", "-noout", "-subject", "-nameopt", "RFC2253,-esc_msb"]
    said = subprocess.run(argv, input=certificate, capture_output=True, check=True).stdout.decode()
    assert said.strip() == f"subject={subject}"


def test_images_of_any_registry_come_from_the_mirror(told: dict[str, Any]) -> None:
    runtime = tomllib.loads(written(told, "/etc/containerd/config.toml"))["plugins"]
    pinned = runtime["io.containerd.cri.v1.images"]["pinned_images"]
    assert pinned == {"sandbox": "10.213.0.1:5000/pause:3.10.2"}
    hosts = tomllib.loads(written(told, "/etc/containerd/certs.d/_default/hosts.toml"))
    assert list(hosts["host"]) == ["http://10.213.0.1:5000"]
    own = tomllib.loads(written(told, "/etc/containerd/certs.d/10.213.0.1:5001/hosts.toml"))
    assert own == {"server": "http://10.213.0.1:5001"}


def test_the_kubelet_lets_only_the_api_in_and_says_that_it_runs_pods(told: dict[str, Any]) -> None:
    kubelet = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert kubelet["cgroupDriver"] in {"systemd", "cgroupfs"}
    unit = written(told, "/etc/systemd/system/kubelet.service")
    assert "--hostname-override=vmatrix-a-pods" in unit
    assert "--node-labels=vmatrix.dev/runs-pods=true" in unit
    # asked for by name, its address would cost seconds of DNS at each report of the Node
    assert "--node-ip=${ADDRESS}" in unit
    assert "EnvironmentFile=-/etc/kubernetes/pods.env" in unit
    assert "/etc/kubernetes/pods.env" in written(told, "/etc/kubernetes/start-pods.sh")


def test_pods_get_the_machines_memory_and_not_the_hosts(told: dict[str, Any]) -> None:
    reserved = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))["systemReserved"]
    seen_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
    assert seen_kib - int(reserved["memory"].removesuffix("Ki")) <= (MEMORY_MIB - OWN_MIB) * 1024
    assert (os.cpu_count() or 0) - int(reserved["cpu"]) <= CPUS


def test_a_larger_machine_has_more_for_its_pods(machine: PodsMachine) -> None:
    usual, more = (reserved_kib(made) for made in (machine, replace(machine, memory_mib=MEMORY_MIB + 1024)))
    assert usual - more == 1024 * 1024


def reserved_kib(machine: PodsMachine) -> int:
    told = yaml.safe_load(pods.user_data(machine))
    kubelet = yaml.safe_load(written(told, "/etc/kubernetes/kubelet.yaml"))
    return int(kubelet["systemReserved"]["memory"].removesuffix("Ki"))


Json = dict[str, Any]
NODE_NAME = "vmatrix-a-pods"


def request(*, name: str = f"system:node:{NODE_NAME}", user: str = "", signer: str = pods.SERVING) -> Json:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    encoded = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": signer, "username": user or f"system:node:{NODE_NAME}", "request": encoded}
    return {"metadata": {"name": "csr-1"}, "spec": spec}


def test_the_nodes_own_request_is_told() -> None:
    assert pods.asks_for_serving(request(), NODE_NAME)


@pytest.mark.parametrize(
    "foreign",
    [
        request(user="system:node:another"),
        request(name="system:node:another"),
        request(name="system:kube-controller-manager"),
        request(signer="kubernetes.io/kube-apiserver-client"),
        {**request(), "status": {"conditions": [{"type": "Denied"}]}},
    ],
)
def test_no_other_request_is_approved(foreign: Json) -> None:
    assert not pods.asks_for_serving(foreign, NODE_NAME)


HOST = "vmatrix-a"
READY = {"status": {"conditions": [{"type": "Ready", "status": "True", "message": "kubelet is ready"}]}}
UNKNOWN = {"type": "Ready", "status": "Unknown", "reason": "PodsMachine", "message": "its machine is made anew"}
Change = Callable[["Api"], None]


@pytest.fixture
def machine_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PodsMachine:
    """Return a machine that joins, without a seed and without claims."""
    monkeypatch.setattr(pods, "user_data", lambda _: "#cloud-config\n")
    monkeypatch.setattr(pods, "ensure_storage_class", lambda *_: None)
    pki.ensure(tmp_path, addresses=["10.213.0.1"], names=["kubernetes"], node=HOST)
    return PodsMachine(
        NODE_NAME, "", Mirror("http://m", "r"), BootDisk("d", "0"), {}, tmp_path, "r:5001", hosts=(HOST,)
    )


class Api:
    """An API with a Node that becomes ready, and that it reaches, once its request is approved."""

    def __init__(self, machine_join: PodsMachine, *, instance: Json | None = None, node: Json | None = None) -> None:
        self.instance, self.node = instance, node
        self.host: Json = {"spec": {"taints": [MACHINES_ONLY]}}
        self.seed = (
            {"metadata": {"annotations": {pods.CERTIFICATES: machine_join.certificates()}}} if instance else None
        )
        self.reached = instance is not None
        self.made: list[str] = []
        self.deleted: list[str] = []
        self.asked = request()

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json | None:
        if resource is NODE:
            return self.host if name == HOST else self.node
        if resource is SECRET:
            return self.seed
        return self.instance if resource is VMI else None

    def list(self, resource: Resource, namespace: str = "", *, fields: str = "") -> Listing:
        if resource is POD:
            assert (namespace, fields) == ("vmatrix-pods", f"spec.nodeName={NODE_NAME}")
            return Listing([{"metadata": {"name": "of-it"}}], "1")
        assert resource is CSR
        return Listing([self.asked] if "VirtualMachine" in self.made else [], "1")

    def ensure(self, resource: Resource, body: Json) -> Json:
        return body

    def create_if_absent(self, resource: Resource, body: Json) -> bool:
        if self.instance is not None:
            return False
        self.made.append(resource.kind)
        return True

    def delete(self, resource: Resource, name: str, namespace: str = "", *, grace: int | None = None) -> bool:
        assert (grace == 0) == (resource is POD)
        self.deleted.append(f"{resource.kind} {name}")
        self.instance, self.seed, self.reached = None, None, False
        return True

    def merge(self, resource: Resource, name: str, patch: Json, *, subresource: str) -> Json:
        assert (resource, name, subresource) == (NODE, NODE_NAME, "status")
        self.node = patch
        return patch

    def replace(self, resource: Resource, body: Json, *, subresource: str) -> Json:
        assert (resource, subresource) == (CSR, "approval")
        assert [c["type"] for c in body["status"]["conditions"]] == ["Approved"]
        self.asked = body
        self.node, self.reached = READY, True
        return body

    def send(self, method: str, path: str) -> SimpleNamespace:
        assert (method, path) == ("GET", f"/api/v1/nodes/{NODE_NAME}/proxy/healthz")
        return SimpleNamespace(code=200 if self.reached else 502)


def made_by(api: Api, machine_join: PodsMachine, seconds: float = 5) -> Sequence[str]:
    pods.ensure(cast(Cluster, api), machine_join, seconds=seconds)
    return api.made


def test_a_machine_whose_node_is_ready_is_left_alone(machine_join: PodsMachine) -> None:
    api = Api(machine_join, node=READY, instance={"status": {"phase": "Running"}})
    assert made_by(api, machine_join) == []
    assert api.deleted == []


def test_the_machine_is_made_and_its_request_approved(machine_join: PodsMachine) -> None:
    api = Api(machine_join)
    assert made_by(api, machine_join) == ["Secret", "DataVolume", "VirtualMachine"]
    assert api.deleted == []


@pytest.mark.parametrize("node", [None, READY])
def test_one_that_died_goes_first_though_its_node_may_still_be_ready(
    machine_join: PodsMachine, node: Json | None
) -> None:
    api = Api(machine_join, instance={"status": {"phase": "Failed"}}, node=node)
    assert made_by(api, machine_join)[-1] == "VirtualMachine"
    assert api.deleted == ["Namespace vmatrix-pods", "Pod of-it"]


def test_one_with_certificates_from_before_they_were_renewed_is_made_anew(machine_join: PodsMachine) -> None:
    api = Api(machine_join, node=READY, instance={"status": {"phase": "Running"}})
    for file in (
        pki.issued(machine_join.pki, "pods-kubelet").certificate,
        pki.issued(machine_join.pki, "pods-kubelet").key,
    ):
        file.unlink()
    pki.ensure(machine_join.pki, addresses=["10.213.0.1"], names=["kubernetes"], node=HOST)
    assert made_by(api, machine_join)[-1] == "VirtualMachine"
    assert api.deleted == ["Namespace vmatrix-pods", "Pod of-it"]


def test_the_node_of_one_that_is_made_anew_stays_and_is_not_ready(
    machine_join: PodsMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(machine_join, node=READY, instance={"status": {"phase": "Failed"}})
    seen: list[Json | None] = []
    monkeypatch.setattr(pods, "ensure_storage_class", lambda *_: seen.append(api.node))
    made_by(api, machine_join)
    assert seen == [{"status": {"conditions": [UNKNOWN]}}]


@pytest.mark.parametrize(
    ("hold", "why"),
    [
        (lambda api: api.host.update({"spec": {}}), "vmatrix-a still takes pods"),
        (lambda api: setattr(api, "send", lambda *_: SimpleNamespace(code=502)), "has no certificate yet"),
    ],
    ids=["the host's Node takes pods", "no log can be read"],
)
def test_a_ready_node_alone_is_not_enough(machine_join: PodsMachine, hold: Change, why: str) -> None:
    api = Api(machine_join)
    hold(api)
    with pytest.raises(TimedOut, match=why):
        made_by(api, machine_join, seconds=0.01)


def test_one_that_dies_meanwhile_is_not_waited_for(machine_join: PodsMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(machine_join)
    api.asked = request(name="system:node:another")
    monkeypatch.setattr(api, "create_if_absent", lambda *_: setattr(api, "instance", {"status": {"phase": "Failed"}}))
    with pytest.raises(InfraError, match="ended: Failed"):
        made_by(api, machine_join)


def test_the_namespace_has_the_network_that_reaches_the_api() -> None:
    assert pods.namespace()["metadata"]["annotations"] == {"local.vmatrix.dev/network-index": "250"}


class ApiApart:
    """Answers with one Node."""

    def __init__(self, node: Json | None) -> None:
        self.node = node

    def get(self, resource: Resource, name: str) -> Json | None:
        assert (resource, name) == (NODE, "n")
        return self.node


def api(node: Json | None) -> Cluster:
    return cast(Cluster, ApiApart(node))


def node(status: str, message: str) -> Json:
    return {"status": {"conditions": [{"type": "Ready", "status": status, "message": message}]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (node("True", "kubelet is posting ready status"), ""),
        (node("Unknown", "Kubelet stopped posting node status."), "not ready: Kubelet stopped posting node status."),
        ({"status": {}}, "its kubelet has not reported yet"),
        (None, "node n is not there"),
    ],
)
def test_a_node_that_takes_no_pods_is_a_problem(found: Json | None, said: str) -> None:
    problem = pods.placement_problem(api(found), "n")
    assert said in problem
    assert bool(problem) == bool(said)


def test_machines_have_a_node_of_their_own_once_it_has_the_taint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "APART_SECONDS", 0.0)
    pods.wait_apart(api({"spec": {"taints": [MACHINES_ONLY]}}), "n")
    with pytest.raises(TimedOut, match="it has no taint"):
        pods.wait_apart(api({"spec": {"taints": [{"key": "other"}]}}), "n")
