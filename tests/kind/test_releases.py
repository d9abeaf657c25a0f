"""Releases of KubeVirt and CDI in a real kind cluster: pinned, verified, applied, waited for, completed.

The releases' images cannot be had everywhere, so the manifests are the tests' own, served over HTTP: with the real
definitions, an operator's Deployment that really runs (its image is in the node), and a thread in the operators' place
that answers as they do: `Available`, the version, a profile for each storage class.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import proc
from harness.artifacts import node_images
from harness.artifacts.catalogue import load as load_catalogue
from harness.cell.existing import CellSelector, ExistingCell, find
from harness.embedded.crds import crds
from harness.errors import VmatrixError
from harness.infra.cluster.trial import CLOSED, Report, carry_out
from harness.infra.host.layout import layout_of
from harness.infra.kind import engine, kvm
from harness.infra.kind.cluster import PROXY_ARP
from harness.kube import Cluster
from harness.kube.resources import (
    CDI,
    DEPLOYMENT,
    KUBEVIRT,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    STORAGE_CLASS,
    STORAGE_PROFILE,
)
from harness.providers.on_host import KUBERNETES
from harness.providers.site import trial_of
from harness.spec.project import timeouts_of
from harness.spec.settings import Settings
from harness.until import Deadline, NotYet, until
from tests.kind import commands
from tests.kind.commands import UP_SECONDS, VMATRIX, containers, down, gone, traces, vmatrix

NAME = "tox-kind-release"
CHAIN = "nft add chain ip trial forward '{ type filter hook forward priority 0; }'"
RESTART_SECONDS = 300.0
VERSIONS = {"kubevirt": "v1.9.0", "cdi": "v1.66.0"}
UNPINNED = 'sha256: ""'
Json = dict[str, Any]


def busybox() -> str:
    """Return an image that the node has."""
    known = node_images.node_container_images(load_catalogue(), KUBERNETES)
    return node_images.reference(next(ref for ref in known if ref.name == node_images.BUSYBOX))


def operator(project: str) -> list[Json]:
    """Return what a project's operator manifest holds: namespace, definitions, the operator."""
    labels = {"name": f"{project}-operator"}
    group = "cdi.kubevirt.io" if project == "cdi" else "kubevirt.io"
    container = {"name": "operator", "image": busybox(), "command": ["sleep", "86400"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{project}-operator", "namespace": project},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    definitions = [body for body in crds() if body["spec"]["group"] == group]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": project}}, *definitions, deployment]


def resource(project: str) -> Json:
    """Return the custom resource that makes a project's operator deploy."""
    if project == "cdi":
        return {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "metadata": {"name": "cdi"}, "spec": {}}
    meta = {"name": "kubevirt", "namespace": "kubevirt"}
    developer = {"featureGates": ["Example"]}
    spec = {"configuration": {"developerConfiguration": developer}, "imagePullPolicy": "IfNotPresent"}
    return {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Serve a folder of manifests; return the file that names them, without a checksum yet."""
    folder = tmp_path_factory.mktemp("site")
    new = f"# {secrets.token_hex(8)}: no earlier test has had it downloaded and kept\n"
    for project in VERSIONS:
        (folder / f"{project}-operator.yaml").write_text(new + yaml.safe_dump_all(operator(project)))
        (folder / f"{project}-cr.yaml").write_text(yaml.safe_dump(resource(project)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    lines = []
    for project, version in VERSIONS.items():
        lines += [f"{project}:", f"  version: {version}"]
        lines += [f'  operator: {{url: {address}/{project}-operator.yaml, sha256: ""}}']
        lines += [f'  resource: {{url: {address}/{project}-cr.yaml, sha256: ""}}']
    file = folder / "releases.yml"
    file.write_text("\n".join(lines) + "\n")
    yield file
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module", autouse=True)
def _gone(kind_engine: None) -> Iterator[None]:
    with gone(NAME):
        yield


@pytest.fixture
def operators() -> Iterator[None]:
    """Do what the two operators do, as soon as there is something for them to do."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.wait(0.5):
            try:
                operate(Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig))
            except VmatrixError:
                continue  # the cluster is not there yet

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


def operate(cluster: Cluster) -> None:
    """Answer each custom resource as its operator does; only one whose Deployment runs."""
    ready = {d["metadata"]["name"] for d in cluster.list(DEPLOYMENT).items if d["status"].get("readyReplicas")}
    if "kubevirt-operator" in ready:
        status = {"observedKubeVirtVersion": VERSIONS["kubevirt"], "phase": "Deployed", "conditions": [available()]}
        cluster.merge(KUBEVIRT, "kubevirt", {"status": status}, "kubevirt", subresource="status")
    if "cdi-operator" in ready:
        for found in cluster.list(STORAGE_CLASS).items:
            name = found["metadata"]["name"]
            meta = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "StorageProfile", "metadata": {"name": name}}
            cluster.create_if_absent(STORAGE_PROFILE, {**meta, "spec": {}})
        status = {"observedVersion": VERSIONS["cdi"], "phase": "Deployed", "conditions": [available()]}
        cluster.merge(CDI, "cdi", {"status": status})


def available() -> Json:
    return {"type": "Available", "status": "True", "reason": "DeployCompleted", "message": ""}


def up(file: Path, *, check: bool = True) -> Any:
    return commands.up(NAME, "--releases", str(file), kubevirt="release", check=check)


def test_what_cannot_be_downloaded_is_not_installed(site: Path) -> None:
    manifest = site.with_name("kubevirt-cr.yaml")
    away = manifest.rename(manifest.with_suffix(".away"))
    before = site.read_text()

    done = up(site, check=False)

    away.rename(manifest)
    assert done.returncode == 3
    assert "kubevirt-cr.yaml" in done.stdout
    assert containers(NAME) == []
    site.write_text(before)


def test_checksums_are_recorded_by_a_command_and_held_to(site: Path) -> None:
    unpinned = site.read_text()
    vmatrix("infra", "pin", "--releases", str(site), seconds=60)
    assert UNPINNED not in site.read_text()
    manifest = site.with_name("cdi-operator.yaml")
    genuine = manifest.read_text()
    manifest.write_text(genuine + "# changed by somebody\n")

    done = up(site, check=False)

    manifest.write_text(genuine)
    assert done.returncode == 3
    assert "has the wrong checksum" in done.stdout
    assert containers(NAME) == []
    site.write_text(unpinned)


def test_an_installation_that_was_killed_is_broken(site: Path) -> None:
    """No operator answers, so the installation waits; the command is killed there. The first use records checksums."""
    assert UNPINNED in site.read_text()
    words = ["infra", "up", "--provider", "kind", "--kubevirt", "release", "--releases", str(site), "--name", NAME]
    child = subprocess.Popen([VMATRIX, *words], start_new_session=True)

    def applied() -> bool | NotYet:
        try:
            found = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig).get(CDI, "cdi")
        except VmatrixError as error:
            return NotYet(error.summary)
        return found is not None or NotYet("CDI is not applied")

    until(applied, deadline=Deadline.after(UP_SECONDS), what="the releases to be applied")
    child.kill()
    child.wait()
    assert UNPINNED not in site.read_text()

    status = vmatrix("infra", "status", "--name", NAME, seconds=120, check=False)
    assert status.returncode == 3
    assert f"infra {NAME} is broken" in status.stdout
    assert "problem: the installation of KubeVirt and CDI did not come to its end" in status.stdout
    assert "to repair it: vmatrix infra up --provider kind" in status.stdout
    described = vmatrix("infra", "describe", "--name", NAME, seconds=120, check=False)
    assert described.returncode == 3
    assert "did not come to its end" in described.stdout


@pytest.mark.usefixtures("operators")
def test_both_are_installed_and_waited_for(site: Path) -> None:
    up(site)

    assert vmatrix("infra", "status", "--name", NAME, seconds=120).returncode == 0
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    found = cluster.get(KUBEVIRT, "kubevirt", "kubevirt")
    assert found is not None
    developer = found["spec"]["configuration"]["developerConfiguration"]
    assert developer["featureGates"] == ["Example"]
    assert developer.get("useEmulation", False) is not kvm.choose_kvm("auto").used
    profiles = {p["metadata"]["name"]: p["spec"] for p in cluster.list(STORAGE_PROFILE).items}
    assert profiles["standard"]["claimPropertySets"] == [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]
    described = vmatrix("infra", "describe", "--name", NAME, "--json", seconds=60)
    assert json.loads(described.stdout)["kubevirt_from"] == "release"


def test_an_operator_that_is_gone_makes_it_broken(site: Path) -> None:
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    cluster.delete(DEPLOYMENT, "cdi-operator", "cdi")

    status = vmatrix("infra", "status", "--name", NAME, seconds=120, check=False)

    assert status.returncode == 3
    assert "problem: the Deployment cdi/cdi-operator does not exist" in status.stdout


def has_kvm() -> bool:
    """Tell whether the node has the device."""
    return bool(node()("test", "-e", "/dev/kvm", check=False).returncode == 0)


def node() -> Any:
    found = engine.find().engine
    assert found is not None
    return partial(found.inside, f"vmatrix-{NAME}-control-plane")


def test_the_node_has_kvm_only_if_it_works() -> None:
    assert has_kvm() is kvm.choose_kvm("auto").used


def doctor(*words: str) -> dict[str, bool]:
    """Return what the doctor finds of the pod network: what, and whether it is fatal."""
    done = vmatrix("doctor", "--provider", "kind", "--infra-name", NAME, "--json", *words, seconds=300, check=False)
    found = json.loads(done.stdout)
    return {f["what"]: f["fatal"] for f in found if "ARP" in f["what"] or "NetworkPolicies" in f["what"]}


def test_the_doctor_tries_the_network_with_two_pods() -> None:
    """kubevirt.io/schedulable is what virt-handler puts on a node; the packet filter plays a plugin with policies."""
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    name = f"vmatrix-{NAME}-control-plane"
    assert doctor() == {}, "no node takes machines yet"
    cluster.merge(NODE, name, {"metadata": {"labels": {"kubevirt.io/schedulable": "true"}}})
    not_enforced = "NetworkPolicies are not enforced (a dry run with two pods showed it)"

    assert doctor() == {not_enforced: False}

    node()("sysctl", "--write", f"{PROXY_ARP}=0")
    node()("sh", "-c", f"nft add table ip trial && {CHAIN} && nft add rule ip trial forward tcp dport {CLOSED} drop")
    try:
        (what,) = (found := doctor())
        assert what.startswith("nobody answers ARP")
        assert found[what], "machines would not work"
    finally:
        node()("nft", "delete", "table", "ip", "trial")
        node()("sysctl", "--write", f"{PROXY_ARP}=1")
    assert doctor("--no-pods") == {}
    living = [n for n in cluster.list(NAMESPACE).items if not n["metadata"].get("deletionTimestamp")]
    assert [n["metadata"]["name"] for n in living if "doctor" in n["metadata"]["name"]] == []


def test_what_a_killed_doctor_leaves_is_found_and_reaped() -> None:
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    words = [VMATRIX, "doctor", "--provider", "kind", "--infra-name", NAME]
    child = subprocess.Popen([str(word) for word in words], start_new_session=True)

    def left() -> list[ExistingCell] | NotYet:
        return [f for f in find(cluster, CellSelector(cell="doctor")) if f.phase == "Active"] or NotYet("no pods yet")

    found = until(left, deadline=Deadline.after(60), what="the doctor to begin", interval=0.1)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    assert (found[0].expires_at or 0.0) > time.time()
    vmatrix("reap", "--provider", "kind", "--infra-name", NAME, "--cell", "doctor", seconds=300)
    assert find(cluster, CellSelector(cell="doctor")) == []


@pytest.mark.parametrize("level", ["baseline", "privileged"])
def test_the_network_is_tried_in_a_shared_namespace_too(level: str) -> None:
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    shared = f"shared-{level}"
    labels = {"pod-security.kubernetes.io/enforce": level}
    cluster.create(NAMESPACE, NAMESPACE.manifest(shared, "", labels=labels))

    seen = carry_out(cluster, trial_of(Settings(namespace=shared), timeouts_of(Settings())))

    assert seen == Report(bridged=True, enforced=False)
    pods = (p for p in cluster.list(POD, shared).items if not p["metadata"].get("deletionTimestamp"))
    assert [*pods, *cluster.list(NETWORK_POLICY, shared).items] == []


@pytest.mark.usefixtures("operators")
def test_a_hidden_kvm_stays_hidden_when_the_container_starts_again(site: Path) -> None:
    """A second `up` changes the choice; the device is made by hand, so that every host shows the same."""
    node()("sh", "-c", "[ -e /dev/kvm ] || mknod /dev/kvm c 10 232")
    handler = {"name": "virt-handler-x", "namespace": "kubevirt", "labels": {"kubevirt.io": "virt-handler"}}
    running = [{"name": "handler", "image": busybox(), "command": ["sleep", "86400"]}]
    cluster = Cluster.from_kubeconfig(layout_of(NAME, "kind").kubeconfig)
    cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": handler, "spec": {"containers": running}})
    vmatrix("infra", "up", "--name", NAME, "--releases", str(site), "--kvm", "hide", seconds=UP_SECONDS)
    assert not has_kvm()
    old = cluster.get(POD, "virt-handler-x", "kubevirt")
    assert old is None or old["metadata"].get("deletionTimestamp"), "it still has the device that it offers"
    node()("mknod", "/dev/kvm", "c", "10", "232")  # as the engine makes it from the host's, where there is one
    found = engine.find().engine
    assert found is not None

    proc.run([found.program, "restart", f"vmatrix-{NAME}-control-plane"], timeout=RESTART_SECONDS)

    def started() -> bool | NotYet:
        state = node()("systemctl", "is-active", "kubelet", check=False).stdout.strip()
        return state == "active" or NotYet(f"kubelet is {state}")

    until(started, deadline=Deadline.after(RESTART_SECONDS), what="the node to start again")
    assert not has_kvm()
    ran = node()("systemctl", "show", "--property", "Result,ExecMainStatus", kvm.UNIT).stdout.split()
    assert sorted(ran) == ["ExecMainStatus=0", "Result=success"]


def test_the_node_answers_for_its_pods_after_that_restart() -> None:
    answer = node()("sysctl", "--values", PROXY_ARP).stdout.strip()

    assert answer == "1", "bridged machines would not reach each other until the next `up`"


def test_it_is_not_turned_into_one_with_our_part(site: Path) -> None:
    words = ("infra", "up", "--provider", "kind", "--kubevirt", "embedded", "--name", NAME)
    done = vmatrix(*words, seconds=60, check=False)

    assert done.returncode == 2
    assert "was made with --kubevirt release" in done.stdout


def test_down_leaves_no_trace() -> None:
    down(NAME)

    assert traces(NAME, None) == []
