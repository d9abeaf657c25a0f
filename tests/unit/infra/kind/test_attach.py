"""What keeps pods and machines of a kind cluster with the embedded KubeVirt apart."""

from __future__ import annotations

from typing import Any, cast

from harness.infra.kind.attach import CONTROL_PLANE, keep_apart
from harness.kube.client import Cluster, Listing
from harness.kube.resources import DEPLOYMENT, NODE, STORAGE_CLASS, Resource

Json = dict[str, Any]
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


class Api:
    """A kind cluster right after its creation."""

    def __init__(self) -> None:
        self.patched: dict[str, Json] = {}
        template: Json = {"spec": {"template": {"spec": {"containers": []}}}}
        coredns = {"metadata": {"name": "coredns", "namespace": "kube-system"}, **template}
        standard = {"metadata": {"name": "standard", "annotations": DEFAULT}, "provisioner": "rancher.io/local-path"}
        self.objects: dict[Resource, list[Json]] = {DEPLOYMENT: [coredns], STORAGE_CLASS: [standard]}

    def list(self, resource: Resource) -> Listing:
        return Listing(self.objects.get(resource, []), "1")

    def merge(self, resource: Resource, name: str, patch: Json, namespace: str | None = None) -> None:
        self.patched[f"{resource.kind} {name}"] = patch


def kept_apart() -> Api:
    api = Api()
    keep_apart(cast(Cluster, api), "node")
    return api


def test_the_node_that_is_a_container_runs_pods_and_says_so() -> None:
    patch = kept_apart().patched[f"{NODE.kind} node"]
    assert patch == {"metadata": {"labels": {"vmatrix.dev/runs-pods": "true"}}, "spec": {"unschedulable": None}}


def test_the_clusters_own_pods_name_that_node() -> None:
    patch = kept_apart().patched["Deployment coredns"]
    assert patch["spec"]["template"]["spec"] == {"nodeSelector": {CONTROL_PLANE: ""}}


def test_machines_disks_alone_have_the_default_class() -> None:
    patch = kept_apart().patched["StorageClass standard"]
    assert set(patch["metadata"]["annotations"].values()) == {"false"}
