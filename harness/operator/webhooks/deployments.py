"""What people declare: an edit that adds a mistake is refused, and one that takes machines that the user may not use.

An object that has mistakes already, from a time without webhooks, can be edited as long as it gets no further one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from harness.kube.admission import ALLOWED, AdmissionResponse
from harness.kube.client import Cluster, Json, allowed, as_reviewed
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import deleting, dig
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_CLUSTER, GROUP, MACHINE
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.machine_choice import scarce_domains
from harness.operator.decide.accepted import judged
from harness.operator.decide.etcdclusters import as_deployment, is_etcd, name_taken
from harness.operator.decide.observed import Observed, observed
from harness.operator.decide.spread import Spreading
from harness.operator.webhooks.guards import forbidden, refused

VERB = "use"


def not_permitted(cluster: Cluster, user: Json, new: Json, old: Json | None) -> str:
    """Return what a user lacks to take the machines that an edit takes; "" when nothing is missing."""
    namespace = new["metadata"]["namespace"]
    taken = dict(_taken(new, old))
    if not taken or _may(cluster, user, namespace, ""):
        return ""
    for name, about in taken.items():
        if not name or not _may(cluster, user, namespace, name):
            of = f' "{name}"' if name else ""
            return (
                f'{MACHINE.plural}.{GROUP}{of} is forbidden: User "{user.get("username", "")}" cannot {VERB} resource '
                f'"{MACHINE.plural}" in API group "{GROUP}" in the namespace "{namespace}": {about}; '
                f"an administrator grants it with a Role that has the verb {VERB}"
            )
    return ""


def _taken(new: Json, old: Json | None) -> Iterator[tuple[str, str]]:
    """Yield the names of the Machines that an edit takes in addition ("" for a pool), and which set takes them."""
    before = {machine_set["name"]: machine_set for machine_set in dig(old, "spec", "machineSets") or ()}
    for machine_set in new["spec"]["machineSets"]:
        last, source = before.get(machine_set["name"], {}), machine_set["machines"]
        about = f"set {machine_set['name']} takes its machines"
        if source.get("names"):
            known = dig(last, "machines", "names") or ()
            yield from ((name, f"{about} by name") for name in source["names"] if name not in known)
        elif source.get("pool") is not None:
            more = machine_set.get("replicas", 1) > last.get("replicas", 1 if last else 0)
            if more or dig(last, "machines", "pool") != source["pool"]:
                yield "", f"{about} from a pool"


def _may(cluster: Cluster, user: Json, namespace: str, name: str) -> bool:
    asked = {"group": GROUP, "resource": MACHINE.plural, "verb": VERB, "namespace": namespace}
    return allowed(cluster, as_reviewed(user), {**asked, **({"name": name} if name else {})})[0]


class DeploymentJudge:
    """Judges what is written of ClusterDeployments and EtcdClusters, by what the API has at that moment."""

    def __init__(self, cluster: Cluster, image: str) -> None:
        """Ask an API; `image`: of executors whose object names none."""
        self._cluster = cluster
        self._image = image

    def __call__(self, request: Json) -> AdmissionResponse:
        """Judge one review."""
        new, old = request["object"], request.get("oldObject")
        if deleting(new) or (old is not None and old.get("spec") == new.get("spec")):
            return ALLOWED
        state, machines = self._around(new) if old is not None else (None, ())
        world = observed(state, machines, datetime.now(UTC))
        mistakes = self._mistakes(new, machines, world)
        if old is None:
            mistakes = [*mistakes, *self._name_taken(new)]
        if mistakes and old is not None:
            mistakes = without(mistakes, self._mistakes(old, machines, world))
        if mistakes:
            return refused(mistakes)
        before = as_deployment(old) if old is not None else None
        denied = not_permitted(self._cluster, request["userInfo"], as_deployment(new), before)
        return forbidden(denied) if denied else ALLOWED

    def _mistakes(self, deployment: Json, machines: Sequence[DeclaredMachine], world: Observed) -> list[SpecMistake]:
        """Return what is wrong with an object in the world as it is."""
        wish, mistakes = judged(deployment, machines, world, self._image)
        sets = (
            []
            if wish is None
            else [machine_set.model_dump(mode="json", by_alias=True) for machine_set in wish.spec.machine_sets]
        )
        if not any(Spreading.of(machine_set).required for machine_set in sets):
            return mistakes
        meta = deployment["metadata"]
        scarce = scarce_domains(sets, meta["name"], self._cluster.list(MACHINE, meta["namespace"]).items)
        field = "spec.failureDomains" if is_etcd(deployment) else None
        return [*mistakes, *(replace(mistake, field=field or mistake.field) for mistake in scarce)]

    def _name_taken(self, new: Json) -> list[SpecMistake]:
        """Return that an object of the other kind has the name, if one has."""
        other = CLUSTER_DEPLOYMENT if is_etcd(new) else ETCD_CLUSTER
        taken = name_taken(new, self._cluster.get(other, new["metadata"].get("name", ""), new["metadata"]["namespace"]))
        return [taken] if taken is not None else []

    def _around(self, deployment: Json) -> tuple[DeclaredCluster | None, Sequence[DeclaredMachine]]:
        """Return an object's Cluster and the Machines that it has claimed."""
        meta = deployment["metadata"]
        cluster = self._cluster.get(CLUSTER, meta["name"], meta["namespace"])
        claimed = self._cluster.list(MACHINE, meta["namespace"], fields=f"spec.claim.cluster={meta['name']}")
        own = [m for m in claimed.items if m["spec"]["claim"].get("uid") == meta["uid"]]
        mine = cluster is not None and owned_by(cluster, deployment)
        return DeclaredCluster.model_validate(cluster) if mine else None, [
            DeclaredMachine.model_validate(m) for m in own
        ]


def without(mistakes: Sequence[SpecMistake], known: Sequence[SpecMistake]) -> list[SpecMistake]:
    """Return the mistakes that are not among those that are known already."""
    texts = {mistake.text for mistake in known}
    return [mistake for mistake in mistakes if mistake.text not in texts]
