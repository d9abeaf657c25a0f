"""EtcdPeers: what each member of an EtcdCluster says of itself, made and written by whoever looks into its machine.

A member at rest has the same status but for the index of raft, so there is one write for each look. A Machine that is
part of no EtcdCluster any more loses its EtcdPeer, and one that is deleted takes it along.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, dig, owner_reference, stamp
from harness.machines.programs import Inspected
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.conditions import READY, Said, new, with_conditions
from harness.operator.api.resources import CLUSTER_LABEL, ETCD_PEER, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.declarations import of_etcd
from harness.operator.controllers.ssh import ProbeTrouble

BELIEVED = 2  # logins in a row that fail: one may have met a moment of trouble on the way
ID, LEADS, LEARNS = "etcd_server_id", "etcd_server_is_leader", "etcd_server_is_learner"
APPLIED = "etcd_server_proposals_applied_total"  # it is set to the index of the entry that was applied last
STATE = ("hasLeader", "sizeMiB", "quotaMiB", "alarm")  # as in the Machine's status, by which operations are decided


def peer_object(machine: Json, cluster: Json) -> Json:
    """Return the EtcdPeer of a Machine, which goes with it."""
    namespace, name = key_of(machine)
    of = key_of(cluster)[1]
    labels = {CLUSTER_LABEL: of, LABEL_MANAGED: MANAGED_BY}
    made = ETCD_PEER.manifest(name, namespace, labels=labels, spec={"cluster": of, "machine": name})
    made["metadata"]["ownerReferences"] = [owner_reference(machine, MACHINE)]
    return made


def peer_status(
    before: Json, machine: Json, inspected: Inspected | ProbeTrouble, failed: int, moment: datetime
) -> Json:
    """Return the status of an EtcdPeer after a look.

    Args:
        before: its status so far.  machine: its Machine, after the look.  failed: logins in a row that have failed.
    """
    if isinstance(inspected, ProbeTrouble):
        if failed < BELIEVED:
            return before
        answer: Said = (None, "MachineSilent", inspected.message)
        return {**before, "conditions": _ready(before, answer, moment)}
    state: Json = dig(machine, "status", "etcd") or {}
    if not state:
        answer = (False, "NotRunning", "nothing on the machine answers as a member of etcd")
        return {**before, "seen": stamp(moment), "conditions": _ready(before, answer, moment)}
    made = {**{name: state[name] for name in STATE if name in state}, **raft_of(inspected), "seen": stamp(moment)}
    return {**made, "conditions": _ready(before, _serving(made), moment)}


def raft_of(inspected: Inspected) -> Json:
    """Return who a member is among the others, as far as its metrics say it."""
    values: dict[str, float] = {}
    made: Json = {}
    for family in text_string_to_metric_families(inspected.etcd + "\n"):
        for sample in family.samples:
            if sample.name == ID and sample.value == 1:
                made["memberID"] = sample.labels.get("server_id", "")
            values[sample.name] = sample.value
    if LEARNS in values:
        made["role"] = "Learner" if values[LEARNS] else "Voter"
    if LEADS in values:
        made["leader"] = bool(values[LEADS])
    if APPLIED in values:
        made["raftIndex"] = int(values[APPLIED])
    return made


def _serving(status: Mapping[str, object]) -> Said:
    for wrong, reason, message in (
        (status.get("alarm"), "Alarm", f"alarm {status.get('alarm')}"),
        (status.get("hasLeader") is False, "NoLeader", "it follows no leader"),
        (status.get("role") == "Learner", "Learner", "it does not vote yet"),
    ):
        if wrong:
            return False, reason, message
    return True, "Serving", ""


def _ready(before: Json, answer: Said, moment: datetime) -> list[Json]:
    return with_conditions(before.get("conditions") or [], new(READY, *answer, moment, None))


class EtcdPeers:
    """Makes EtcdPeers, writes them, and deletes those of Machines that are members no more."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._peers = context.informers.of(ETCD_PEER)

    def tell(self, machine: Json, cluster: Json, inspected: Inspected | ProbeTrouble, failed: int) -> None:
        """Write what a look into a Machine has found of its member, where the Cluster is that of an EtcdCluster."""
        key = key_of(machine)
        if not of_etcd(cluster):
            self.forget(key)
            return
        peer = self._peers.get(*key)
        if peer is not None and _of_another(peer, machine):
            self._cluster.delete(ETCD_PEER, key[1], key[0])
            return  # the next look makes it anew
        if peer is None:
            self._cluster.create_if_absent(ETCD_PEER, peer_object(machine, cluster))
            peer = self._cluster.get(ETCD_PEER, key[1], key[0])
            if peer is None or _of_another(peer, machine):
                return
            self._peers.observe(peer)
        status = peer_status(peer.get("status") or {}, machine, inspected, failed, datetime.now(UTC))
        try:
            self._peers.merge_status(peer, status)
        except ApiFailure as failure:  # it was just deleted, or somebody has edited it: the next look writes it
            if not failure.conflict and not failure.not_found:
                raise

    def forget(self, key: Key) -> None:
        """Delete the EtcdPeer of a Machine that is not a member any more."""
        peer = self._peers.get(*key)
        if peer is not None and not deleting(peer):
            self._cluster.delete(ETCD_PEER, key[1], key[0])


def _of_another(peer: Json, machine: Json) -> bool:
    """Tell whether an EtcdPeer is that of an earlier Machine of the name."""
    owner = controller_of(peer)
    return owner is None or bool(owner["uid"] != machine["metadata"]["uid"])
