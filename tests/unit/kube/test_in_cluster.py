"""The image of the manager's own pod: asked of the API where the environment says which pod it is."""

from __future__ import annotations

from typing import Any, cast

from harness.kube.client import Cluster
from harness.kube.in_cluster import own_image


class OnePod:
    """A cluster with one pod."""

    def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any] | None:
        """Return it."""
        spec = {"containers": [{"name": "manager", "image": "host/vmatrix:1"}, {"name": "proxy", "image": "proxy"}]}
        return {"spec": spec} if (resource.plural, name, namespace) == ("pods", "manager-1", "ns") else None


def asked(**environment: str) -> str:
    return own_image(cast(Cluster, OnePod()), environment)


def test_it_is_that_of_the_pods_first_container() -> None:
    assert asked(POD_NAME="manager-1", POD_NAMESPACE="ns") == "host/vmatrix:1"


def test_outside_of_a_pod_there_is_none() -> None:
    assert asked() == ""
    assert asked(POD_NAME="manager-1") == ""


def test_a_pod_that_is_gone_has_none() -> None:
    assert asked(POD_NAME="another", POD_NAMESPACE="ns") == ""
