"""A real kind cluster from nothing to nothing: our KubeVirt part attached, the contract, a cell, no trace at the end.

The tests of this file build on one another, in order: each is one stretch of an instance's life.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import paths, proc
from harness.infra.cluster.capacity import MIB, free_for_machines
from harness.infra.host.layout import layout_of
from harness.infra.kind import engine as engines
from harness.infra.kind.cluster import PROXY_ARP
from harness.kube import Cluster
from harness.kube.objects import quantity
from harness.kube.resources import DEPLOYMENT, JOB, NAMESPACE, NODE, POD, SERVICE, STORAGE_CLASS
from harness.until import Deadline, NotYet, until
from tests.kind.bridged import PORT, neighbours
from tests.kind.commands import UP_SECONDS, VMATRIX, containers, described, down, gone, traces, up, vmatrix

NAME = "tox-kind"
CONTRACT_SECONDS = 3600.0
CELL_SECONDS = 3600.0
READY_SECONDS = 180.0
IMAGE = "e2e-test-images/agnhost:2.63.0"


@pytest.fixture(scope="module", autouse=True)
def _gone(kind_engine: None) -> Iterator[None]:
    """Begin with nothing of the instance, and leave nothing of it."""
    with gone(NAME):
        yield


def test_a_cluster_comes_up_with_our_part_attached() -> None:
    up(NAME)

    assert vmatrix("infra", "status", "--name", NAME, seconds=60).returncode == 0  # finds the provider by the name
    cluster = Cluster.from_kubeconfig(Path(described(NAME)["kubeconfig"]))
    nodes = {n["metadata"]["name"]: n for n in cluster.list(NODE).items}
    assert set(nodes) == {f"vmatrix-{NAME}-control-plane", f"vmatrix-{NAME}"}
    assert not nodes[f"vmatrix-{NAME}-control-plane"]["spec"].get("unschedulable"), "it runs pods"
    (taint,) = nodes[f"vmatrix-{NAME}"]["spec"]["taints"]
    assert taint["key"] == "vmatrix.dev/machines-only"
    whole = quantity(nodes[f"vmatrix-{NAME}"]["status"]["allocatable"]["memory"]) / MIB
    assert free_for_machines(cluster).memory_mib <= whole, "machines' memory would count twice"
    assert described(NAME)["kubevirt_from"] == "embedded"


def test_the_cluster_s_own_pods_stay_in_the_container_and_run() -> None:
    cluster = Cluster.from_kubeconfig(Path(described(NAME)["kubeconfig"]))

    def running() -> list[dict[str, Any]] | NotYet:
        late = [
            f"{p['metadata']['name']} {p['status'].get('phase')}"
            for p in cluster.list(POD).items
            if not any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions") or [])
        ]
        ready = {d["metadata"]["name"] for d in cluster.list(DEPLOYMENT).items if d["status"].get("readyReplicas")}
        return NotYet(", ".join(late)) if late or "coredns" not in ready else cluster.list(POD).items

    pods = until(running, deadline=Deadline.after(READY_SECONDS), what="the cluster's own pods are ready")

    assert {p["spec"]["nodeName"] for p in pods} == {f"vmatrix-{NAME}-control-plane"}


def test_a_job_runs_in_the_container_with_an_image_of_the_instances_registry() -> None:
    facts = described(NAME)
    cluster = Cluster.from_kubeconfig(Path(facts["kubeconfig"]))
    container = {"name": "c", "image": f"{facts['mirror']['registry']}/{IMAGE}", "command": ["sh", "-c", "echo ran"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    cluster.create(JOB, JOB.manifest("try", "default", labels={}, spec={"backoffLimit": 0, "template": template}))

    def ended() -> dict[str, Any] | NotYet:
        pods = cluster.list(POD, "default", labels="job-name=try").items
        over = [pod for pod in pods if pod["status"].get("phase") in {"Succeeded", "Failed"}]
        return over[0] if over else NotYet(f"its pods are {[pod['status'] for pod in pods]}")

    pod = until(ended, deadline=Deadline.after(READY_SECONDS), what="the Job to end")
    assert cluster.pod_log("default", pod["metadata"]["name"], container="c") == "ran\n"
    assert pod["spec"]["nodeName"] == f"vmatrix-{NAME}-control-plane"


def test_one_storage_class_is_the_default() -> None:
    cluster = Cluster.from_kubeconfig(Path(described(NAME)["kubeconfig"]))
    key = "storageclass.kubernetes.io/is-default-class"

    defaults = [
        c["metadata"]["name"]
        for c in cluster.list(STORAGE_CLASS).items
        if (c["metadata"].get("annotations") or {}).get(key) == "true"
    ]

    assert defaults == ["local"]


def test_a_second_up_changes_nothing() -> None:
    before = {c["Id"] for c in containers(NAME)}

    up(NAME)

    assert before
    assert {c["Id"] for c in containers(NAME)} == before


def test_a_bridged_machine_and_pods_of_its_node_reach_each_other() -> None:
    facts = described(NAME)
    cluster, node = Cluster.from_kubeconfig(Path(facts["kubeconfig"])), f"vmatrix-{NAME}-control-plane"
    engine = engines.find().engine
    assert engine is not None

    with neighbours(cluster, engine, node) as seen:
        assert seen.from_machine(f"http://{seen.pod}:{PORT}/") == "the pod"
        assert seen.to_machine() == "the guest"
        assert seen.from_machine(f"http://{seen.service}/") == "the pod"
        assert "coredns" in seen.from_machine(f"http://{_dns(cluster)}:9153/metrics")
        assert "repositories" in seen.from_machine(f"http://{facts['mirror']['registry']}/v2/_catalog")
        engine.inside(node, "sysctl", "--write", f"{PROXY_ARP}=0")
        try:  # what it looks like where nobody answers for pods
            assert "Could not connect" in seen.from_machine(f"http://{seen.pod}:{PORT}/")
            assert "timed out" in seen.to_machine()
        finally:
            up(NAME)
        assert seen.to_machine() == "the guest"


def test_the_doctor_tries_nothing_where_machines_are_not_pods() -> None:
    kubeconfig = described(NAME)["kubeconfig"]

    done = vmatrix("doctor", "--kubeconfig", kubeconfig, "--json", seconds=300, check=False)

    found = [f["what"] for f in json.loads(done.stdout)]
    assert [what for what in found if "ARP" in what or "NetworkPolicies" in what or "bridged" in what] == []
    names = [n["metadata"]["name"] for n in Cluster.from_kubeconfig(Path(kubeconfig)).list(NAMESPACE).items]
    assert [name for name in names if "doctor" in name] == []


def _dns(cluster: Cluster) -> str:
    return str((cluster.get(SERVICE, "kube-dns", "kube-system") or {})["spec"]["clusterIP"])


def test_the_contract_holds_under_the_least_role() -> None:
    facts = described(NAME)
    words = [sys.executable, "-m", "pytest", "tests/contract", "-q", "-p", "no:cacheprovider"]
    words += ["--kubeconfig", facts["kubeconfig"], "--mirror", facts["mirror"]["http"]]
    words += ["--registry", facts["mirror"]["registry"]]
    words += ["--mirror-ipv6", facts["mirror"]["ipv6"]["http"], "--registry-ipv6", facts["mirror"]["ipv6"]["registry"]]
    words += ["--pulls", facts["pulls"]]

    done = proc.run(words, timeout=CONTRACT_SECONDS, check=False, cwd=paths.project_dir(), on_line=print)

    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("tier", "cells"),
    [
        ("smoke", ()),
        ("operator", ("scenario=reset",)),
        ("delivery", ("scenario=deliver",)),
        ("delivery", ("scenario=deliver-guest",)),
    ],
)
def test_a_cell_passes(tier: str, cells: tuple[str, ...], tmp_path: Path) -> None:
    """The operator's cells are deployed, and an application is built, by pods of the node, which is in a container."""
    scale = os.environ.get("VMATRIX_TIMEOUT_SCALE", "1")
    words = ("run", "--tier", tier, *cells, "--provider", "kind", "--infra-name", NAME, "--runs", str(tmp_path))

    vmatrix(*words, "--timeout-scale", scale, seconds=CELL_SECONDS)

    cluster = Cluster.from_kubeconfig(Path(described(NAME)["kubeconfig"]))
    launchers = [p for p in cluster.list(POD).items if p["metadata"]["name"].startswith("virt-launcher")]
    assert launchers == [], "the cell left machines"


def test_down_leaves_no_trace_and_can_be_repeated() -> None:
    index = int(described(NAME)["address"].split(".")[1]) - 213

    down(NAME)

    assert traces(NAME, index) == []
    assert vmatrix("infra", "status", "--name", NAME, "--provider", "kind", seconds=60, check=False).returncode == 4
    down(NAME)


def test_down_ends_what_a_killed_up_had_begun() -> None:
    words = [VMATRIX, "infra", "up", "--provider", "kind", "--kubevirt", "embedded", "--name", NAME]
    child = subprocess.Popen([str(w) for w in words], start_new_session=True)
    until(
        lambda: bool(containers(NAME)) or NotYet("no container yet"),
        deadline=Deadline.after(UP_SECONDS),
        what="the node's container is made",
        interval=0.2,
    )
    time.sleep(2)  # somewhere in the midst of kubeadm
    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    down(NAME)

    assert traces(NAME, None) == []
    assert not layout_of(NAME, "kind").root.exists()


def test_the_engine_that_was_started_is_the_one_that_is_used() -> None:
    found = engines.find().engine

    assert found is not None
    assert shutil.which(found.client) == str(found.program)
