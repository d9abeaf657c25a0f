"""What keeps pods and machines of a kind cluster with the embedded KubeVirt apart."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.embedded.node.registration import RUNS_PODS
from harness.infra.kind.attach import CONTROL_PLANE, _staying, keep_apart
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
    keep_apart(cast(Cluster, api), ["node", "worker"])
    return api


@pytest.mark.parametrize("node", ["node", "worker"])
def test_the_nodes_that_are_containers_run_pods_and_say_so(node: str) -> None:
    patch = kept_apart().patched[f"{NODE.kind} {node}"]
    assert patch == {"metadata": {"labels": {RUNS_PODS: "true"}}, "spec": {"unschedulable": None}}


def test_the_clusters_own_pods_name_those_nodes_once_they_have_their_label() -> None:
    api = kept_apart()
    patch = api.patched["Deployment coredns"]
    assert patch["spec"]["template"]["spec"] == {"nodeSelector": {RUNS_PODS: "true"}}
    assert list(api.patched).index("Node worker") < list(api.patched).index("Deployment coredns")


@pytest.mark.parametrize("label", [CONTROL_PLANE, RUNS_PODS])
def test_pods_that_stay_there_already_are_left_as_they_are(label: str) -> None:
    spec = {"template": {"spec": {"nodeSelector": {label: ""}}}}
    assert _staying({"spec": spec}) is None


def test_machines_disks_alone_have_the_default_class() -> None:
    patch = kept_apart().patched["StorageClass standard"]
    assert set(patch["metadata"]["annotations"].values()) == {"false"}
