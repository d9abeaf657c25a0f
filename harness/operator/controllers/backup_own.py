"""EtcdBackups that the operator makes by itself before an upgrade, and which of them it keeps; pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.client import Json
from harness.kube.informer import labels_of
from harness.kube.objects import dig, owner_reference
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.resources import BEFORE_LABEL, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, ETCD_BACKUP
from harness.operator.controllers.cluster_view import DeclaredView
from harness.operator.decide.desired import Desired, digest_of
from harness.operator.decide.waits import Wait, WaitReason


def to_make(view: DeclaredView, own: Sequence[Json]) -> Json | None:
    """Return the EtcdBackup that an upgrade waits for, None where that is made already or none does.

    Its name is that of no other: the same wish may come again, and so may a cluster of the same name.
    """
    wanted, verdict = view.desired, view.verdict
    if wanted is None or not isinstance(verdict, Wait) or verdict.reason != WaitReason.BACKUP_FIRST:
        return None
    namespace, cluster = view.key
    number = view.observed.sequence + 1
    which = digest_of([view.deployment["metadata"]["uid"], wanted.digest])[:6]
    name = f"{cluster}-before-{number}-{which}"
    if any(one["metadata"]["name"] == name for one in own):
        return None
    labels = {CLUSTER_LABEL: cluster, BEFORE_LABEL: wanted.digest, LABEL_MANAGED: MANAGED_BY}
    return ETCD_BACKUP.manifest(name, namespace, labels=labels, spec={"cluster": cluster})


def surplus(own: Sequence[Json], wanted: Desired) -> list[Json]:
    """Return the EtcdBackups to delete: of those that the operator made and that ended, all but the latest few."""
    keep, restored = wanted.spec.etcd.backup.keep, wanted.spec.etcd.restore_from
    made = [one for one in own if BEFORE_LABEL in labels_of(one) and one["metadata"]["name"] != restored]
    made.sort(key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True)
    found: list[Json] = []
    for phase in ("Verified", "Failed", "Missing"):
        found += [one for one in made if dig(one, "status", "phase") == phase][keep:]
    return found


def owners(backup: Json, view: DeclaredView) -> list[Json]:
    """Return the owners that an EtcdBackup should have: its ClusterDeployment, if it is to go with it."""
    policy = dig(view.deployment, "spec", "deletion", "backups") or "Keep"
    of, uid = dig(backup, "status", "clusterUid"), view.deployment["metadata"]["uid"]
    mine = owner_reference(view.deployment, CLUSTER_DEPLOYMENT)
    others = [one for one in backup["metadata"].get("ownerReferences") or [] if one.get("uid") != uid]
    return [*others, mine] if policy == "Delete" and of in (None, uid) else others
