"""Storage classes beside the default one, made for a test and gone with it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from harness.embedded.operands import PROVISIONER
from harness.kube.client import Cluster, Json
from harness.kube.resources import STORAGE_CLASS, STORAGE_PROFILE
from harness.until import Deadline, NotYet, until

SECONDS = 20.0


@contextmanager
def storage_class(cluster: Cluster, *, waits: bool) -> Iterator[str]:
    """Have a storage class and its profile; `waits`: it binds a claim for its first consumer."""
    name = f"test-{secrets.token_hex(3)}"
    body: Json = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    cluster.create(STORAGE_CLASS, body)
    try:
        _wait_for_profile(cluster, name)
        yield name
    finally:
        cluster.delete(STORAGE_CLASS, name)


def _wait_for_profile(cluster: Cluster, name: str) -> None:
    def exists() -> bool | NotYet:
        status = (cluster.get(STORAGE_PROFILE, name) or {}).get("status") or {}
        return "provisioner" in status or NotYet(f"{status}")

    until(exists, deadline=Deadline.after(SECONDS), what=f"the profile of storage class {name}", interval=0.1)


def in_class(volume: Json, name: str, *, immediate: bool = False) -> Json:
    """Return a DataVolume in a storage class; `immediate`: bound and filled without a consumer."""
    volume["spec"]["storage"]["storageClassName"] = name
    if immediate:
        volume["metadata"]["annotations"] = {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}
    return volume
