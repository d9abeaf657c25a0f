"""Storage classes beside the default one, made for a test and gone with it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from harness.embedded.cdi.classes import CSI
from harness.kube.client import Cluster, Json
from harness.kube.resources import SNAPSHOT_CLASS, STORAGE_CLASS, STORAGE_PROFILE
from harness.until import Deadline, NotYet, until

SECONDS = 20.0


@contextmanager
def storage_class(
    cluster: Cluster,
    provisioner: str,
    *,
    waits: bool,
    snapshots: bool = False,
    profile: str = "known",
    strategy: str = "",
) -> Iterator[str]:
    """Have a storage class and its profile; `snapshots`: with a class of snapshots, `strategy`: as its annotation."""
    name = f"test-{secrets.token_hex(3)}"
    body: Json = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name, "annotations": {"cdi.kubevirt.io/clone-strategy": strategy} if strategy else {}},
        "provisioner": provisioner,
        "parameters": {"profile": profile},
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    if snapshots:
        cluster.create(
            SNAPSHOT_CLASS,
            {
                "apiVersion": SNAPSHOT_CLASS.api_version,
                "kind": SNAPSHOT_CLASS.kind,
                "metadata": {"name": name},
                "driver": CSI,
                "deletionPolicy": "Delete",
            },
        )
    cluster.create(STORAGE_CLASS, body)
    try:
        _wait_for_profile(cluster, name, snapshots=snapshots)
        yield name
    finally:
        cluster.delete(STORAGE_CLASS, name)
        if snapshots:
            cluster.delete(SNAPSHOT_CLASS, name)


def _wait_for_profile(cluster: Cluster, name: str, *, snapshots: bool) -> None:
    def there() -> bool | NotYet:
        status = (cluster.get(STORAGE_PROFILE, name) or {}).get("status") or {}
        return ("provisioner" in status and ("snapshotClass" in status) == snapshots) or NotYet(f"{status}")

    until(there, deadline=Deadline.after(SECONDS), what=f"class {name} has a profile", interval=0.1)


def in_class(volume: Json, name: str, *, immediate: bool = False) -> Json:
    """Return a DataVolume in a storage class; `immediate`: bound and filled without a consumer."""
    volume["spec"]["storage"]["storageClassName"] = name
    if immediate:
        volume["metadata"]["annotations"] = {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}
    return volume
