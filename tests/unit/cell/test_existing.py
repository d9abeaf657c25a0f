"""A cell that exists is found by its labels, with its machines and files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import existing as module
from harness.cell.existing import Existing, InfraAccess, existing, machine_states
from harness.cell.found import Found
from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.resources import VM, VMI, Resource
from harness.model import ANNOTATION_USER, LABEL_MACHINE


class Api:
    """An infra cluster with the objects of one cell."""

    def __init__(self) -> None:
        labels = {LABEL_MACHINE: "cp-0"}
        self.objects: dict[Resource, list[dict[str, Any]]] = {
            VM: [
                {
                    "metadata": {"name": "x-cp-0", "labels": labels, "annotations": {ANNOTATION_USER: "me"}},
                    "status": {"printableStatus": "Running"},
                },
                {"metadata": {"name": "x-w-0", "labels": {LABEL_MACHINE: "w-0"}}},
            ],
            VMI: [{"metadata": {"name": "x-cp-0", "labels": labels}}],
        }

    def list(self, resource: Resource, namespace: str, *, labels: str) -> SimpleNamespace:
        """List them."""
        assert (namespace, labels) == ("vmatrix-cell-run123-2", "")
        return SimpleNamespace(items=self.objects[resource])

    def get(self, resource: Resource, name: str, _: str) -> dict[str, Any] | None:
        """Return one."""
        return next((o for o in self.objects[resource] if o["metadata"]["name"] == name), None)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(module, "launcher_address", lambda *_: "10.1.2.3")
    pod = {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::3"}]}}
    monkeypatch.setattr(module, "launcher_pod", lambda *_: pod)
    return cast(Cluster, Api())


@pytest.fixture
def found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Existing:
    attempts = [SimpleNamespace(run="run123", cell="cell", attempt=n) for n in (1, 2)]
    monkeypatch.setattr(module, "find", lambda *_: attempts)
    return existing(InfraAccess(cluster, tmp_path / "kubeconfig"), "cell", tmp_path)


def test_the_newest_attempt_counts(found: Existing, tmp_path: Path) -> None:
    assert found.place.namespace == "vmatrix-cell-run123-2"
    assert found.files.key.is_relative_to(tmp_path / "run123")


def test_a_machine_is_reached_as_its_user_at_its_address(found: Existing) -> None:
    machine = found.machine("cp-0")
    assert (machine.name, machine.address, machine.tunnels) == ("cp-0", "10.1.2.3", None)
    assert machine.user == "me"


def test_a_machine_that_does_not_run_is_refused_and_others_are_named(found: Existing) -> None:
    with pytest.raises(BadInput, match="no running machine 'w-0'") as refused:
        found.machine("w-0")
    assert refused.value.hint == "running machines: cp-0"


def test_a_file_of_another_host_is_refused(found: Existing) -> None:
    with pytest.raises(BadInput, match="is not on this machine"):
        found.file(found.files.key, "the cell's private key")


def test_states_name_machines_without_an_instance_too(cluster: Cluster) -> None:
    cell = cast(Found, SimpleNamespace(namespace="vmatrix-cell-run123-2", selector=""))
    states = [(one.name, one.status, one.address) for one in machine_states(cluster, cell)]
    assert states == [("cp-0", "Running", "10.1.2.3"), ("w-0", "", "-")]


def test_no_cell_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "find", lambda *_: [])
    with pytest.raises(BadInput, match="cell 'other' does not exist"):
        existing(InfraAccess(cluster, tmp_path / "kubeconfig"), "other", tmp_path)
