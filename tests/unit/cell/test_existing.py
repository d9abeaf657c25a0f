"""A cell that exists is found by its labels, with its machines and files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import existing as module
from harness.cell.existing import CellSelector, Existing, ExistingCell, InfraAccess, existing, find, machine_states
from harness.cell.place import cell_labels
from harness.cell.teardown import reap
from harness.errors import BadInput
from harness.kube.client import ApiFailure, Cluster, Infra
from harness.kube.resources import NETWORK_POLICY, VM, VMI, Resource
from harness.model import ANNOTATION_USER, LABEL_ATTEMPT, LABEL_EXPIRES, LABEL_MACHINE


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
    return existing(InfraAccess(cluster, Infra(tmp_path / "kubeconfig")), "cell", tmp_path)


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
    cell = cast(ExistingCell, SimpleNamespace(namespace="vmatrix-cell-run123-2", selector=""))
    states = [(one.name, one.status, one.address) for one in machine_states(cluster, cell)]
    assert states == [("cp-0", "Running", "10.1.2.3"), ("w-0", "", "-")]


def test_no_cell_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "find", lambda *_: [])
    with pytest.raises(BadInput, match="cell 'other' does not exist"):
        existing(InfraAccess(cluster, Infra(tmp_path / "kubeconfig")), "other", tmp_path)


SHARED = "vmatrix-cells"


class ApiFound:
    """A namespace of which only a policy is left; others' objects are not the cell's."""

    def __init__(self, code: int | None = None) -> None:
        labels = cell_labels(run="run123", cell="a-cell", attempt=2, expires_at=1.0, environment={})
        self.policies = {"a-cell-run123-2-cell": labels}
        self.code = code

    def list(self, resource: Resource, _: str | None = None, *, labels: str = "") -> SimpleNamespace:
        if resource is not NETWORK_POLICY:
            return SimpleNamespace(items=[])
        if self.code is not None:
            raise ApiFailure(self.code, "Forbidden", "not allowed", [], request="GET /")
        wanted = [pair.split("=") for pair in labels.split(",") if "=" in pair]
        return SimpleNamespace(
            items=[
                {"metadata": {"name": name, "labels": found}}
                for name, found in self.policies.items()
                if all(found.get(key) == value for key, value in wanted)
            ]
        )

    def delete(self, resource: Resource, name: str, namespace: str, **_: Any) -> None:
        assert (resource, namespace) == (NETWORK_POLICY, SHARED)
        del self.policies[name]


@pytest.fixture
def api() -> ApiFound:
    return ApiFound()


def test_a_policy_alone_identifies_a_cell_and_is_reaped_with_it(api: ApiFound) -> None:
    cluster = cast(Cluster, api)

    gone = reap(cluster, CellSelector(namespace=SHARED, only_expired=True), seconds=1.0)

    assert [(found.run, found.cell, found.attempt) for found in gone] == [("run123", "a-cell", 2)]
    assert api.policies == {}


def test_whoever_may_not_look_at_policies_has_made_none() -> None:
    assert find(cast(Cluster, ApiFound(code=403)), CellSelector(namespace=SHARED)) == []


def test_any_other_refusal_is_told() -> None:
    with pytest.raises(ApiFailure):
        find(cast(Cluster, ApiFound(code=500)), CellSelector(namespace=SHARED))


@pytest.mark.parametrize("written", ["never", "", "nan", "inf", "1e999"])
def test_labels_that_somebody_has_changed_hide_no_cell(api: ApiFound, written: str) -> None:
    labels = api.policies["a-cell-run123-2-cell"]
    labels |= {LABEL_ATTEMPT: written, LABEL_EXPIRES: written}
    (found,) = find(cast(Cluster, api), CellSelector(namespace=SHARED))
    assert (found.cell, found.attempt, found.expires_at) == ("a-cell", 1, None)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one cell in two runs, and another one in a third."""
    there = [("run1", "cell", 1), ("run1", "cell", 2), ("run2", "cell", 1), ("run3", "other", 1)]

    def find(_: Cluster, selector: CellSelector) -> list[SimpleNamespace]:
        found = [SimpleNamespace(run=run, cell=cell, attempt=n) for run, cell, n in there]
        return [one for one in found if selector.cell in (None, one.cell)]

    monkeypatch.setattr(module, "find", find)


@pytest.mark.usefixtures("attempts")
@pytest.mark.parametrize(("run", "taken", "number", "others"), [(None, "run2", 1, "run1"), ("run1", "run1", 2, "run2")])
def test_the_run_that_is_named_counts_and_the_others_are_said(
    cluster: Cluster, tmp_path: Path, run: str | None, taken: str, number: int, others: str
) -> None:
    made = existing(InfraAccess(cluster, Infra(tmp_path / "kubeconfig")), "cell", tmp_path, run)
    assert (made.run, made.number, made.others) == (taken, number, (others,))
    assert made.which == f"cell cell of run {taken}, attempt {number}; --run names one of the others: {others}"


@pytest.mark.usefixtures("attempts")
@pytest.mark.parametrize(
    ("name", "run", "said", "hint"),
    [
        ("cell", "gone", "cell 'cell' of run gone does not exist", "runs that have this cell: run1, run2"),
        ("none", "run1", "cell 'none' of run run1 does not exist", "runs that have cells: run1, run2, run3"),
        ("none", None, "cell 'none' does not exist", "`vmatrix status` lists the cells"),
        ("k1363*", None, "'k1363*' is not a cell id", "`vmatrix status` shows"),
        ("a=b", None, "'a=b' is not a cell id", "`vmatrix status` shows"),
        ("cell", "r/1", "'r/1' is not a run id", "`vmatrix status` shows"),
        ("", None, "'' is not a cell id", "`vmatrix status` shows"),
    ],
)
def test_a_cell_or_run_that_is_not_there_is_refused_with_those_that_are(
    cluster: Cluster, tmp_path: Path, name: str, run: str | None, said: str, hint: str
) -> None:
    with pytest.raises(BadInput) as refused:
        existing(InfraAccess(cluster, Infra(tmp_path / "kubeconfig")), name, tmp_path, run)
    assert said in refused.value.summary
    assert hint in refused.value.hint
