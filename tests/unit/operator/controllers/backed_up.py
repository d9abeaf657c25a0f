"""EtcdBackups and the clusters that they are of, as an API server has them, for controllers' tests."""

from __future__ import annotations

from typing import Any

from harness.operator.api.resources import BEFORE_LABEL, ETCD_BACKUP, ETCD_RESTORE, UID_LABEL
from harness.operator.controllers.cluster_view import DeclaredView
from tests.unit.operator.controllers import looks
from tests.unit.operator.controllers.looks import UID, declared, given

Json = dict[str, Any]
TAKEN = "2026-11-22T03:00:00Z"
APPLIED = {"digest": "d", "version": "1.36.3", "machines": ["m-0"]}


def backup(
    name: str = "a",
    *,
    claim: str | None = "claim",
    before: str = "",
    cluster: str = "guest",
    made: str = "1",
    **status: Any,
) -> Json:
    """Return an EtcdBackup."""
    labels = {BEFORE_LABEL: before} if before else {}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "creationTimestamp": made}
    place = {"destination": {"claim": claim}} if claim else {}
    kind = {"apiVersion": ETCD_BACKUP.api_version, "kind": ETCD_BACKUP.kind}
    return {
        **kind,
        "metadata": {**meta, "resourceVersion": "1"},
        "spec": {"cluster": cluster, **place},
        "status": status,
    }


def restore(
    name: str = "undo", made: str = "1", *, confirm: str | None = TAKEN, source: str = "", **status: Any
) -> Json:
    """Return an EtcdRestore; `source`: the cluster that it makes a clone of."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": made}
    spec = {"cluster": "guest", "backup": "a", **({"confirm": confirm} if confirm else {})}
    spec |= {"from": source} if source else {}
    kind = {"apiVersion": ETCD_RESTORE.api_version, "kind": ETCD_RESTORE.kind}
    return {**kind, "metadata": {**meta, "resourceVersion": "1"}, "spec": spec, "status": status}


def view(*backups: Json, policy: Json | None = None, spec: Json | None = None, **status: Any) -> DeclaredView:
    """Return what is seen of cluster guest, which is deployed unless `applied` says otherwise."""
    made = looks.looks()
    for one in backups:
        made.backups._store("ADDED", one)
    made.machines._store("ADDED", given("m-0"))
    found = looks.cluster(**{"applied": APPLIED, "sequence": 1, **status})
    found["metadata"]["labels"] = {UID_LABEL: UID}
    return made.seen(declared(**{"etcd": {"backup": policy or {}}, **(spec or {})}), found)
