"""A kind cluster with two workers and a registry: pods on each, what they pull, and no trace at the end.

The tests of this file build on one another, in order: each is one stretch of an instance's life.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kube import Cluster
from harness.kube.resources import DAEMON_SET, NODE, POD
from harness.until import Deadline, NotYet, until
from tests.kind.commands import containers, described, down, gone, the_engine, traces, up

NAME = "tox-kind-workers"
READY_SECONDS = 300.0
IMAGE = "e2e-test-images/agnhost:2.63.0"
PORT = 8080
CONTROL_PLANE = f"vmatrix-{NAME}-control-plane"
WORKERS = {f"vmatrix-{NAME}-worker", f"vmatrix-{NAME}-worker2"}


@pytest.fixture(scope="module", autouse=True)
def _gone(kind_engine: None) -> Iterator[None]:
    """Begin with nothing of the instance, and leave nothing of it."""
    with gone(NAME):
        yield


def cluster() -> Cluster:
    return Cluster.from_kubeconfig(Path(described(NAME)["kubeconfig"]))


def test_a_control_plane_and_two_workers_come_up() -> None:
    up(NAME, "--workers", "2")

    nodes = {node["metadata"]["name"]: node for node in cluster().list(NODE).items}
    assert set(nodes) == {CONTROL_PLANE, *WORKERS, f"vmatrix-{NAME}"}
    for name in (CONTROL_PLANE, *WORKERS):
        ready = [c["status"] for c in nodes[name]["status"]["conditions"] if c["type"] == "Ready"]
        assert ready == ["True"], name
    assert len(containers(NAME)) == 3


def test_pods_run_on_both_workers_and_reach_each_other() -> None:
    registry = described(NAME)["mirror"]["registry"]
    container = {
        "name": "c",
        "image": f"{registry}/{IMAGE}",
        "args": ["netexec", f"--http-port={PORT}"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
    }
    template = {"metadata": {"labels": {"app": "try"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "try"}}, "template": template}
    api = cluster()
    api.create(DAEMON_SET, DAEMON_SET.manifest("try", "default", labels={}, spec=spec))

    def running() -> dict[str, dict[str, Any]] | NotYet:
        pods = {pod["spec"].get("nodeName", ""): pod for pod in api.list(POD, "default", labels="app=try").items}
        ready = {
            name
            for name, pod in pods.items()
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])
        }
        return pods if ready >= WORKERS else NotYet(f"ready on {sorted(ready)}")

    pods = until(running, deadline=Deadline.after(READY_SECONDS), what="a pod on each worker")

    engine = the_engine()
    for asking in WORKERS:
        for name in WORKERS:
            address = pods[name]["status"]["podIP"]
            answer = engine.inside(asking, "curl", "-sS", "--max-time", "10", f"http://{address}:{PORT}/hostname")
            assert answer.stdout.strip() == pods[name]["metadata"]["name"], (asking, name)


def test_nodes_reach_a_registry_that_pods_push_to() -> None:
    registry = described(NAME)["deliveries"]

    engine = the_engine()
    for name in (CONTROL_PLANE, *WORKERS):
        assert engine.inside(name, "curl", "-sS", "--max-time", "10", f"http://{registry}/v2/").stdout.strip() == "{}"
        trusted = engine.inside(name, "cat", f"/etc/containerd/certs.d/{registry}/hosts.toml").stdout
        assert f'server = "http://{registry}"' in trusted
    with urllib.request.urlopen(f"http://{registry}/v2/_catalog", timeout=10) as answer:
        assert json.load(answer)["repositories"] in ([], None)


def test_another_number_of_workers_is_refused_and_changes_nothing() -> None:
    before = {container["Id"] for container in containers(NAME)}

    done = up(NAME, "--workers", "1", check=False)

    assert done.returncode == 2
    assert "was made with --workers 2, not 1" in done.stdout
    up(NAME)  # without the option, it is as it was made
    assert {container["Id"] for container in containers(NAME)} == before


def test_down_leaves_no_trace() -> None:
    index = int(described(NAME)["address"].split(".")[1]) - 213

    down(NAME)

    assert traces(NAME, index) == []
