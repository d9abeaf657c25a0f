"""The kinds are served as KubeVirt and CDI serve them, and both say that they are deployed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.embedded.crds import CDI_VERSION, KUBEVIRT_VERSION, crds
from harness.kube.client import Cluster
from harness.kube.resources import CDI, CDI_CONFIG, CRD, KUBEVIRT, STORAGE_CLASS, STORAGE_PROFILE
from tests.contract.transitions import Json

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
CARRIED = {definition["metadata"]["name"]: definition for definition in crds()}


def _versions(cluster: Cluster) -> tuple[str, str]:
    """Return the versions of KubeVirt and CDI that the cluster says it runs."""
    kubevirt = cluster.list(KUBEVIRT).items
    cdi = cluster.list(CDI).items
    assert len(kubevirt) == len(cdi) == 1
    return kubevirt[0]["status"]["observedKubeVirtVersion"], cdi[0]["status"]["observedVersion"]


def test_kubevirt_and_cdi_are_deployed(cluster: Cluster) -> None:
    for resource in (KUBEVIRT, CDI):
        (found,) = cluster.list(resource).items
        states = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        assert found["status"]["phase"] == "Deployed"
        assert (states["Available"], states["Progressing"], states["Degraded"]) == ("True", "False", "False")


def test_the_default_storage_class_has_a_profile_that_says_how_to_claim(cluster: Cluster) -> None:
    classes = cluster.list(STORAGE_CLASS).items
    (default,) = (c for c in classes if (c["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true")
    profile = cluster.get(STORAGE_PROFILE, default["metadata"]["name"])
    assert profile is not None
    assert profile["status"]["claimPropertySets"]
    assert profile["status"]["provisioner"] == default["provisioner"]


def test_the_file_system_overhead_is_known(cluster: Cluster) -> None:
    config = cluster.get(CDI_CONFIG, "config")
    assert config is not None
    assert config["status"]["filesystemOverhead"]["global"] == "0.06"


def _shape(definition: Json) -> Json:
    """Return what a client sees of a definition; descriptions and what the API fills in are left out."""
    spec = copy.deepcopy(definition["spec"])
    spec.pop("conversion", None)
    spec["names"].setdefault("listKind", spec["names"]["kind"] + "List")
    for version in spec["versions"]:
        if not version.get("subresources"):
            version.pop("subresources", None)
    shape: Json = _undescribed(spec)
    return shape


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _undescribed(v) for k, v in value.items() if not (k == "description" and isinstance(v, str))}
    return [_undescribed(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", sorted(CARRIED))
def test_a_kind_is_served_with_the_names_columns_subresources_and_schema_of_the_release(
    cluster: Cluster, admin: Cluster, name: str
) -> None:
    found = admin.get(CRD, name)
    assert found is not None
    if _versions(cluster) == (KUBEVIRT_VERSION, CDI_VERSION):
        assert _shape(found) == _shape(CARRIED[name])
    else:  # another release may have other fields, not other names
        assert found["spec"]["names"] == _shape(CARRIED[name])["names"]
        assert found["spec"]["scope"] == CARRIED[name]["spec"]["scope"]


def test_cdi_is_served_in_one_version(cluster: Cluster) -> None:
    group = cluster.request("GET", "/apis/cdi.kubevirt.io")
    assert [version["version"] for version in group["versions"]] == ["v1beta1"]


@pytest.mark.parametrize(
    ("path", "plural", "short", "has_status"),
    [
        ("/apis/kubevirt.io/v1", "virtualmachines", ["vm", "vms"], True),
        ("/apis/kubevirt.io/v1", "virtualmachineinstances", ["vmi", "vmis"], False),
        ("/apis/cdi.kubevirt.io/v1beta1", "datavolumes", ["dv", "dvs"], True),
    ],
)
def test_discovery_lists_a_kind(cluster: Cluster, path: str, plural: str, short: list[str], has_status: bool) -> None:
    found = {entry["name"]: entry for entry in cluster.request("GET", path)["resources"]}
    assert found[plural]["shortNames"] == short
    assert (f"{plural}/status" in found) == has_status
