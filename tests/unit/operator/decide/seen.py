"""EtcdBackups and the Clusters that see them, for tests of what is decided."""

from __future__ import annotations

from typing import Any

from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.etcd import EtcdBackup
from harness.operator.api.resources import BEFORE_LABEL, UID_LABEL
from harness.operator.decide.backups import SeenBackup
from tests.unit.operator.decide.wishes import UID


def etcd_backup(name: str = "a", phase: str | None = "Waiting", cluster: str = "guest", **more: Any) -> EtcdBackup:
    """Return an EtcdBackup; `more`: fields of its status, `before`, `said` (of a condition) and `deleted`."""
    before, said, deleted = more.pop("before", ""), more.pop("said", ""), more.pop("deleted", None)
    refused = {"type": "Verified", "status": "False", "reason": "No", "message": said, "lastTransitionTime": "2026"}
    meta = {"name": name, "uid": f"uid-{name}", "labels": {BEFORE_LABEL: before} if before else {}}
    status = {"phase": phase, "location": f"claim:{cluster}/{name}.db", **more, "conditions": [refused] if said else []}
    return EtcdBackup.model_validate(
        {"metadata": {**meta, "deletionTimestamp": deleted}, "spec": {"cluster": cluster}, "status": status}
    )


def seeing(*snapshots: str, uid: str = UID) -> DeclaredCluster:
    """Return the Cluster `guest` that has taken the snapshots of these EtcdBackups."""
    taken = [{"backup": one, "uid": f"uid-{one}", "claim": "claim", "file": f"guest/{one}.db"} for one in snapshots]
    meta = {"name": "guest", "labels": {UID_LABEL: uid}}
    return DeclaredCluster.model_validate({"metadata": meta, "status": {"snapshots": taken}})


def seen(name: str = "a", state: Any = "due", **more: Any) -> SeenBackup:
    """Return an EtcdBackup as decisions see it."""
    return SeenBackup(name, f"uid-{name}", state, "claim", f"guest/{name}.db", **more)
