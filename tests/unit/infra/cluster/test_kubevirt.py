"""What the embedded KubeVirt says of itself is in order for the checks that `status` and the doctor make."""

from __future__ import annotations

from typing import Any

from harness.embedded import operands
from harness.infra.cluster.kubevirt import check_configuration, check_deployed
from harness.kube.client import Listing
from harness.kube.resources import CDI, KUBEVIRT, NODE, Resource

Json = dict[str, Any]
WHEN = "2026-11-22T20:00:00Z"
NODES = [
    {
        "metadata": {"name": "n", "labels": {"kubevirt.io/schedulable": "true"}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"devices.kubevirt.io/kvm": "1k"},
        },
    }
]


OBJECTS: dict[Resource, list[Json]] = {
    KUBEVIRT: [operands.kubevirt(WHEN)],
    CDI: [operands.cdi(WHEN)],
    NODE: NODES,
}


class Listed:
    """A cluster that lists what the embedded KubeVirt makes."""

    def list(self, resource: Resource) -> Listing:
        return Listing(OBJECTS[resource], "1")


def test_the_embedded_kubevirt_is_deployed_and_uses_what_its_node_offers() -> None:
    cluster: Any = Listed()

    assert list(check_deployed(cluster, KUBEVIRT, "KubeVirt")) == []
    assert list(check_deployed(cluster, CDI, "CDI")) == []
    assert list(check_configuration(cluster, 36)) == []
