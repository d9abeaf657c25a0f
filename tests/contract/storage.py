"""The storage classes that disks are made in: the cluster's default one, and one that waits for a first consumer.

CDI fills a claim of the second kind only when somebody uses it (gate HonorWaitForFirstConsumer, on by default), or when
its DataVolume asks to be bound at once: what vmatrix's golden images do, and what tests of imports do.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.kube.client import Cluster
from harness.kube.resources import POD, STORAGE_CLASS, STORAGE_PROFILE
from harness.until import NotYet, until
from tests.contract.limits import patience, within
from tests.contract.transitions import Json

DEFAULT = "storageclass.kubernetes.io/is-default-class"
IMMEDIATE, LATE = "Immediate", "WaitForFirstConsumer"
PROFILE_SECONDS = 20.0
PAUSE = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True)
class Storage:
    """A storage class. waits: its claims are bound by their first consumer."""

    name: str
    waits: bool


def default_storage(cluster: Cluster) -> Storage:
    """Return the cluster's default class."""
    found = _default(cluster)
    return Storage(found["metadata"]["name"], found.get("volumeBindingMode") == LATE)


def bindings(kubeconfig: Path | None) -> list[str]:
    """Return the binding modes that disks are tested with: that of the default class first.

    A default class that waits is all there is to test: its provisioner may be able to do nothing else.

    Args:
        kubeconfig: of the cluster; None for an embedded one, whose default class binds at once.
    """
    if kubeconfig is not None and default_storage(Cluster.from_kubeconfig(kubeconfig, patience=patience())).waits:
        return [LATE]
    return [IMMEDIATE, LATE]


@contextmanager
def storage_of(cluster: Cluster, binding: str) -> Iterator[Storage]:
    """Have a class with a binding mode: the default one, or one like it that is gone at the end."""
    usual = default_storage(cluster)
    if usual.waits == (binding == LATE):
        yield usual
        return
    like = _default(cluster)
    name = f"contract-{secrets.token_hex(3)}"
    kept = {k: v for k, v in like.items() if k not in ("metadata", "volumeBindingMode")}
    cluster.create(STORAGE_CLASS, {**kept, "metadata": {"name": name}, "volumeBindingMode": binding})
    try:
        _wait_for_profile(cluster, name)
        yield Storage(name, waits=binding == LATE)
    finally:
        cluster.delete(STORAGE_CLASS, name)


def consumer(namespace: str, claim: str) -> Json:
    """Return a pod that uses a claim, as a machine does, and on a node for machines."""
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {"name": f"uses-{claim}", "namespace": namespace},
        "spec": {
            "containers": [{"name": "use", "image": PAUSE, "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}],
            "nodeSelector": {"kubevirt.io/schedulable": "true"},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def _default(cluster: Cluster) -> Json:
    classes = cluster.list(STORAGE_CLASS).items
    (found,) = (c for c in classes if (c["metadata"].get("annotations") or {}).get(DEFAULT) == "true")
    return found


def _wait_for_profile(cluster: Cluster, name: str) -> None:
    def exists() -> bool | NotYet:
        return cluster.get(STORAGE_PROFILE, name) is not None or NotYet("there is none")

    until(exists, deadline=within(PROFILE_SECONDS), what=f"the profile of storage class {name}", interval=0.1)
