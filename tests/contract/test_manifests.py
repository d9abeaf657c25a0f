"""Everything that a cell creates fits the schemas: nothing unknown, nothing dropped, nothing refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.cell.manifests import CellPlan, Outside, render_all
from harness.kube.client import Cluster
from harness.kube.resources import DATA_VOLUME, NAMESPACE, NETWORK_POLICY, RESOURCE_QUOTA, SECRET, VM, Resource
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import PlannedMachine
from harness.paths import project_dir
from tests.contract.job import labels_of
from tests.contract.transitions import Json

KINDS: dict[str, Resource] = {r.kind: r for r in (NAMESPACE, RESOURCE_QUOTA, NETWORK_POLICY, DATA_VOLUME, SECRET, VM)}
CHECKSUM = "sha256:" + "0" * 64
IMAGE = GoldenImage("debian-13-0123456789ab", "http://10.0.0.1:8080/images/debian-13.qcow2", CHECKSUM, "10Gi", "debian")
PLAN = CellPlan(
    namespace="vmatrix-contract-1",
    labels=labels_of("manifests"),
    expires_at=1_900_000_000.0,
    public_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1dCBub3QgYSBrZXkgb2YgYW55Ym9keSBoZXJl contract",
    dns_domain="cluster.local",
    storage_class="local",
)
MACHINES = (
    PlannedMachine("cp-0", ("control_plane",), 2, 2048, 10, "debian-13"),
    PlannedMachine("w-0", ("node",), 1, 1024, 12, "debian-13"),
)
OUTSIDE = Outside(
    ways_in=({"ipBlock": {"cidr": "192.0.2.1/32"}}, {"namespaceSelector": {"matchLabels": {"team": "ci"}}}),
    ways_out=(
        {"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}], "ports": [{"protocol": "TCP", "port": 8080}]},
        {"to": [{"ipBlock": {"cidr": "::/0", "except": ["fc00::/7"]}}]},
    ),
)
RENDERED = render_all(PLAN, MACHINES, IMAGE, directory=project_dir() / "vm-templates", outside=OUTSIDE)


def _ids(rendered: list[Json]) -> list[Any]:
    return [pytest.param(obj, id=f"{obj['kind']}-{obj['metadata']['name']}") for obj in rendered]


def _post(cluster: Cluster, namespace: str, obj: Json) -> Any:
    """Post an object to a namespace that exists, strictly and without storing it."""
    obj = copy.deepcopy(obj)
    resource = KINDS[obj["kind"]]
    if resource.namespaced:
        obj["metadata"]["namespace"] = namespace
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return cluster.send("POST", resource.path(namespace), body=obj, query=query)


def _dropped(sent: object, stored: object, path: str = "") -> list[str]:
    """Return the paths of what was sent and is not stored."""
    if isinstance(sent, dict):
        return [
            line
            for name, value in sent.items()
            for line in (
                _dropped(value, stored[name], f"{path}.{name}")
                if isinstance(stored, dict) and name in stored
                else [f"{path}.{name}"]
            )
        ]
    if isinstance(sent, list):
        if not isinstance(stored, list) or len(stored) != len(sent):
            return [path]
        return [line for i, v in enumerate(sent) for line in _dropped(v, stored[i], f"{path}[{i}]")]
    return []


def test_a_cell_renders_every_kind_it_needs() -> None:
    kinds = [obj["kind"] for obj in RENDERED]
    assert {kind: kinds.count(kind) for kind in KINDS} == {
        "Namespace": 1,
        "ResourceQuota": 1,
        "NetworkPolicy": 1,
        "DataVolume": 1 + len(MACHINES),
        "Secret": len(MACHINES),
        "VirtualMachine": len(MACHINES),
    }


@pytest.mark.parametrize("obj", _ids(RENDERED))
def test_a_rendered_manifest_is_accepted_whole(cluster: Cluster, quiet_namespace: str, obj: Json) -> None:
    answer = _post(cluster, quiet_namespace, obj)

    assert answer.code == 201, answer.body
    assert answer.warnings == ()
    sent = {name: value for name, value in obj.items() if name != "stringData"}  # stored as `data`
    assert _dropped(sent, answer.body) == []


@pytest.mark.parametrize("kind", ["DataVolume", "NetworkPolicy", "VirtualMachine"])
def test_a_field_that_the_schema_lacks_is_noticed(cluster: Cluster, quiet_namespace: str, kind: str) -> None:
    obj = copy.deepcopy(next(o for o in RENDERED if o["kind"] == kind))
    obj["spec"]["colour"] = "red"

    answer = _post(cluster, quiet_namespace, obj)

    assert answer.code == 400
    assert 'unknown field "spec.colour"' in answer.body["message"]
