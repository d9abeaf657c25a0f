"""Add-ons: what a guest has to have besides what playbooks deploy, and whether that is still there.

A guest is looked at every half a minute, and after every change of its objects here. Each look brings everything up to
date from what is there, so it does not matter what was missed. An entry of the status stands for an add-on from before
its first object is made until its last one is gone. While an operation runs, guests are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import VmatrixError
from harness.kube.applyset import ApplySet, ApplySetLook, Known
from harness.kube.client import Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.manifests import digest_of
from harness.kube.objects import deleting, dig
from harness.kube.reconcile import Controller, follow
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.addons import BUILT_IN, AddonStatus, ClusterAddon
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.api.rules import read
from harness.operator.api.variables import variable
from harness.operator.context import OperatorContext
from harness.operator.controllers import addon_objects
from harness.operator.controllers.addon_objects import (
    ADDON_LABEL,
    AddonSources,
    NoManifests,
    WantedAddon,
    needed,
    unknown,
)
from harness.operator.controllers.guest import GuestAccess
from harness.operator.decide.releases import load_releases

COMPONENT = "addons"
Before = Mapping[str, AddonStatus]


class AddonLooks:
    """Looks, each of which remembers what it has found for the next one."""

    def __init__(self, context: OperatorContext) -> None:
        self._events = context.events
        self._access = GuestAccess(context)
        self._sources = AddonSources(context.cluster)
        self._known: dict[tuple[Key, str], Known] = {}

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone."""
        for at in [at for at in self._known if at[0] == key]:
            del self._known[at]

    def look(self, deployment: Json, wish: ClusterDeployment, cluster: Json, before: Before) -> dict[str, AddonStatus]:
        """Look at a cluster; return what is told of its add-ons, by name, without those of which nothing is left."""
        key = key_of(deployment)
        own = [self._wanted(addon, key[0]) for addon in wish.spec.addons if addon.manifests is not None]
        stay = {one.name for one in own} | set(BUILT_IN)
        own += [WantedAddon(name) for name in before if name not in stay]
        built = built_in(wish, cluster)
        try:
            with self._access.open(key) as guest:
                sequence = dig(cluster, "status", "sequence") or 0
                states = [addon_objects.look_at(guest, name, sequence) for name in built]
                for one in own:
                    look = self._bring(guest, key, one, own)
                    told = (
                        one.state(look, before.get(one.name)) if look is not None else one.unread(before.get(one.name))
                    )
                    self._say(deployment, one, look, before.get(one.name))
                    states += [told] if told is not None else []
        except VmatrixError as error:
            states = unknown(before, [*built, *(one.name for one in own)], error.summary)
        return {state.name: state for state in states}

    def _wanted(self, addon: ClusterAddon, namespace: str) -> WantedAddon:
        try:
            return WantedAddon(addon.name, addon, self._sources.objects(addon, namespace))
        except NoManifests as error:
            return WantedAddon(addon.name, addon, None, f"{error.summary}: {error.hint}")

    def _bring(self, guest: Cluster, key: Key, one: WantedAddon, own: Sequence[WantedAddon]) -> ApplySetLook | None:
        """Bring one add-on up to date; return None where nobody knows what it consists of."""
        if one.objects is None:
            return None
        others = [other for other in own if other is not one]
        known = self._known.setdefault((key, one.name), {})
        applied = ApplySet(guest, one.parent, one.manager, known)
        labels = {ADDON_LABEL: one.name, LABEL_MANAGED: MANAGED_BY}
        return applied.bring(one.objects, labels, lambda namespace: needed(others, namespace))

    def _say(self, deployment: Json, one: WantedAddon, look: ApplySetLook | None, before: AddonStatus | None) -> None:
        if look is not None and look.changed:
            again = before is not None and before.digest == digest_of(list(one.objects or ()))
            reason, word = ("AddonRepaired", "put back") if again else ("AddonApplied", "applied")
            text = f"add-on {one.name}: {word} {', '.join(look.changed)}"
            self._events.normal(deployment, reason, text, component=COMPONENT)


def built_in(wish: ClusterDeployment, cluster: Json) -> list[str]:
    """Return the add-ons that vmatrix's playbooks have deployed; others' playbooks make them as they like."""
    made = dig(cluster, "status", "applied", "variables") or {}
    own = wish.spec.playbooks.product is None
    return [a.name for a in wish.spec.addons if own and a.manifests is None and made.get(variable(a.name))]


LOOK_SECONDS = 30.0  # pacing: what is deleted or changed by hand is put back within a minute
SOON_SECONDS = 5.0  # pacing: while something comes to be or goes
WORKERS = 4  # a guest that does not answer holds one for some seconds


class Addons:
    """Keeps the add-ons of each cluster."""

    def __init__(self, context: OperatorContext) -> None:
        self._looks = AddonLooks(context)
        self._clusters = context.informers.of(CLUSTER)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self.controller = Controller("addons", self.reconcile, workers=WORKERS)
        follow(self._clusters, self.controller.queue)
        follow(self._deployments, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at the add-ons of one cluster."""
        deployment, cluster = self._deployments.get(*key), self._clusters.get(*key)
        if deployment is None or cluster is None or deleting(deployment) or deleting(cluster):
            self._looks.forget(key)
            return None
        wish, mistakes = read(deployment, load_releases().kubernetes, creating=False)
        status = cluster.get("status") or {}
        before = {one["name"]: AddonStatus.model_validate(one) for one in status.get("addons") or []}
        if wish is None or mistakes or wish.spec.paused or status.get("operation"):
            return None
        if not status.get("applied"):
            self._write(cluster, {})
            return None
        fresh = [a.name for a in wish.spec.addons if a.manifests is not None and a.name not in before]
        if fresh:  # from now on they are looked for, whatever happens to this manager
            begun = {name: AddonStatus(name=name, ready=False, reason="Applying") for name in fresh}
            self._write(cluster, {**before, **begun})
            return 0.0
        if not (wish.spec.addons or before):
            return None
        after = self._looks.look(deployment, wish, cluster, before)
        self._write(cluster, after)
        return LOOK_SECONDS if all(one.ready for one in after.values()) else SOON_SECONDS

    def _write(self, cluster: Json, states: Mapping[str, AddonStatus]) -> None:
        """Write what is told, if it is something else."""
        made = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in states.values()]
        if made != (dig(cluster, "status", "addons") or []):
            self._clusters.merge_status(cluster, {"addons": made or None})


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Addons(context).controller)
