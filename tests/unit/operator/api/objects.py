"""Objects of the operator's kinds for tests, as a person writes them."""

from __future__ import annotations

import copy
from typing import Any

from harness.operator.api.clusterdeployment import ClusterDeployment

Json = dict[str, Any]
RELEASES = ("1.34.4", "1.35.4", "1.36.1", "1.36.3")
SOURCE: Json = {"type": "Mirror", "mirror": "http://10.0.0.1:8080", "registry": "10.0.0.1:5000"}
KUBEVIRT: Json = {"image": {"url": "http://m/x", "checksum": "sha256:" + "a" * 64}, "memory": "1Gi", "disk": "9Gi"}


def wanted_set(name: str, *roles: str, replicas: int = 1, **machines: Any) -> Json:
    """Return one set of machines; from a pool of all machines unless `machines` says otherwise."""
    return {
        "name": name,
        "roles": list(roles),
        "replicas": replicas,
        "machines": machines or {"pool": {"selector": {"matchLabels": {"rack": "a"}}}},
    }


def deployment(*sets: Json, name: str = "guest", namespace: str = "default", **spec: Any) -> Json:
    """Return a ClusterDeployment of one machine, or of these sets, with these fields of its spec."""
    return {
        "apiVersion": "cluster.vmatrix.dev/v1alpha1",
        "kind": "ClusterDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": copy.deepcopy(
            {
                "version": "1.36.3",
                "source": SOURCE,
                "machineSets": list(sets) or [wanted_set("cp", "control-plane", "worker")],
                **spec,
            }
        ),
    }


def machine(name: str = "m-0", namespace: str = "default", **spec: Any) -> Json:
    """Return a Machine."""
    return {
        "apiVersion": "cluster.vmatrix.dev/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"address": "192.0.2.10", "user": "root", "keyRef": {"name": "keys"}, **spec},
    }


def defaulted(obj: Json) -> ClusterDeployment:
    """Return a ClusterDeployment with all defaults."""
    return ClusterDeployment.model_validate(obj)


def filled(cd: ClusterDeployment) -> Json:
    """Return the spec as the API server stores it: with all defaults and without what is not set."""
    made: Json = cd.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made


def etcd_cluster(name: str = "store", namespace: str = "default", **spec: Any) -> Json:
    """Return an EtcdCluster of one member of a pool, with these fields of its spec."""
    return {
        "apiVersion": "cluster.vmatrix.dev/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "version": "3.6.6",
            "replicas": 1,
            "machines": {"pool": {"selector": {"matchLabels": {"rack": "a"}}}},
            "source": {"type": "Mirror", "mirror": "http://10.0.0.1:8080"},
            **copy.deepcopy(spec),
        },
    }
