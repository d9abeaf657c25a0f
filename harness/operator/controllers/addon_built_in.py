"""The add-ons that the playbooks deploy, as their objects are in a guest: what is gone, and what does not work."""

from __future__ import annotations

from collections.abc import Mapping

from harness.kube.applyset_member import title
from harness.kube.client import Cluster
from harness.kube.resources import (
    API_SERVICE,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    Resource,
)
from harness.kube.rollout import waits_for
from harness.operator.api.addons import MISSING, AddonStatus

Place = tuple[Resource, str, str]  # kind, namespace ("" for none), name
SYSTEM, STORAGE = "kube-system", "local-path-storage"
METRICS, LOCAL_PATH = "metrics-server", "local-path-provisioner"
OBJECTS: Mapping[str, tuple[Place, ...]] = {
    METRICS: (
        (DEPLOYMENT, SYSTEM, METRICS),
        (SERVICE, SYSTEM, METRICS),
        (SERVICE_ACCOUNT, SYSTEM, METRICS),
        (API_SERVICE, "", "v1beta1.metrics.k8s.io"),
        (ROLE_BINDING, SYSTEM, f"{METRICS}-auth-reader"),
        (CLUSTER_ROLE, "", "metrics-reader"),
        (CLUSTER_ROLE, "", METRICS),
        (CLUSTER_ROLE_BINDING, "", f"{METRICS}-auth-delegator"),
        (CLUSTER_ROLE_BINDING, "", METRICS),
    ),
    LOCAL_PATH: (
        (DEPLOYMENT, STORAGE, LOCAL_PATH),
        (CONFIG_MAP, STORAGE, "local-path-config"),
        (SERVICE_ACCOUNT, STORAGE, LOCAL_PATH),
        (STORAGE_CLASS, "", "local-path"),
        (ROLE, STORAGE, LOCAL_PATH),
        (ROLE_BINDING, STORAGE, LOCAL_PATH),
        (CLUSTER_ROLE, "", LOCAL_PATH),
        (CLUSTER_ROLE_BINDING, "", LOCAL_PATH),
    ),
}


def look_at(guest: Cluster, name: str, sequence: int) -> AddonStatus:
    """Return how a built-in add-on is in a guest.

    Args:
        sequence: of the last operation: what is gone now was not made by it.
    """
    gone, waits = [], []
    for kind, namespace, wanted in OBJECTS[name]:
        found = guest.get(kind, wanted, namespace or None)
        if found is None:
            gone.append(title(kind.manifest(wanted, namespace, labels={})))
        elif why := waits_for(found):
            waits.append(f"{title(found)}: {why}")
    if gone:
        said = f"gone: {', '.join(gone)}"
        return AddonStatus(name=name, ready=False, reason=MISSING, message=said, sequence=sequence)
    if waits:
        return AddonStatus(name=name, ready=False, reason="NotReady", message="; ".join(waits)[:1024])
    return AddonStatus(name=name, ready=True, reason="Ready")
