"""Jinja filters `made_anew` and `of_another_size`: Services and claims of a clone that cannot be as in its source.

A Service whose cluster IPs are outside of the clone's networks, or that has a load balancer, is another Service of the
same name: load balancers are known by the Service's UID. A claim that was bound to a volume of the source is a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

Json = dict[str, Any]
KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences")  # of an object's metadata
BOUND = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/storage-provisioner")
OF_SERVICE = ("clusterIP", "clusterIPs", "ipFamilies", "loadBalancerIP", "healthCheckNodePort")
OF_CLAIM = ("volumeName", "dataSource", "dataSourceRef")
NONE = ("", "None")  # of a Service that has no cluster IP


def made_anew(objects: Sequence[Json], networks: Sequence[str]) -> list[dict[str, Json]]:
    """Return what is made anew: each as it is to be `before` its deletion, without finalizers, and `after` it.

    Args:
        objects: Services and PersistentVolumeClaims.  networks: of the clone's Services.
    """
    return list(_pairs(objects, [ip_network(network) for network in networks]))


def of_another_size(wanted: Sequence[Json], there: Sequence[Json]) -> list[Json]:
    """Return the claims of `wanted` that are `there` with other requests: as the template of a StatefulSet says."""
    requests = {(one["metadata"]["namespace"], one["metadata"]["name"]): _requests(one) for one in there}
    return [
        one
        for one in wanted
        if one["kind"] == "PersistentVolumeClaim"
        and _requests(one) != requests.get((one["metadata"]["namespace"], one["metadata"]["name"]), _requests(one))
    ]


def _requests(claim: Json) -> Json:
    found: Json = (claim["spec"].get("resources") or {}).get("requests") or {}
    return found


def _pairs(objects: Sequence[Json], networks: Sequence[Any]) -> Iterator[dict[str, Json]]:
    for one in objects:
        spec, name = one["spec"], (one["metadata"]["namespace"], one["metadata"]["name"])
        if one["kind"] == "Service" and name != ("default", "kubernetes") and _is_elsewhere(spec, networks):
            yield {"before": _unguarded(one), "after": _fresh(one, OF_SERVICE, len(networks))}
        elif one["kind"] == "PersistentVolumeClaim" and spec.get("volumeName"):
            yield {"before": _unguarded(one), "after": _fresh(one, OF_CLAIM, len(networks))}


def _is_elsewhere(spec: Mapping[str, Any], networks: Sequence[Any]) -> bool:
    """Tell whether a Service has something that the clone has not."""
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
    given = [ip_address(text) for text in addresses if text not in NONE]
    balanced = spec.get("type") == "LoadBalancer"
    return balanced or any(not any(address in network for network in networks) for address in given)


def _unguarded(one: Json) -> Json:
    """Return an object as the API server takes it in the place of itself, without finalizers."""
    meta = {name: value for name, value in one["metadata"].items() if name not in ("finalizers", "resourceVersion")}
    return {"apiVersion": "v1", "kind": one["kind"], "metadata": meta, "spec": one["spec"]}


def _fresh(one: Json, without: Sequence[str], families: int) -> Json:
    """Return an object as somebody would make it."""
    meta = {name: one["metadata"][name] for name in KEPT if name in one["metadata"]}
    if "annotations" in meta:
        meta["annotations"] = {key: text for key, text in meta["annotations"].items() if not key.startswith(BOUND)}
    spec = {name: value for name, value in one["spec"].items() if name not in without}
    if families == 1 and spec.get("ipFamilyPolicy") == "RequireDualStack":
        spec["ipFamilyPolicy"] = "PreferDualStack"
    return {"apiVersion": "v1", "kind": one["kind"], "metadata": meta, "spec": spec}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        """Return the filters by name."""
        return {"made_anew": made_anew, "of_another_size": of_another_size}
