"""The image that this process runs in: what executors have when nobody names another."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import POD

POD_NAME, POD_NAMESPACE = "POD_NAME", "POD_NAMESPACE"  # in the environment, from the downward API


def own_image(cluster: Cluster, environment: Mapping[str, str]) -> str:
    """Return the image of the first container of this process's pod; "" outside of one.

    A manifest cannot say it: whoever replaces the image of a Deployment, as kustomize does, replaces it in one place.
    """
    name, namespace = environment.get(POD_NAME, ""), environment.get(POD_NAMESPACE, "")
    if not name or not namespace:
        return ""
    containers = dig(cluster.get(POD, name, namespace) or {}, "spec", "containers") or [{}]
    return str(containers[0].get("image", ""))
