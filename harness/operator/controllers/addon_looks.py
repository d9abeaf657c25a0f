"""Looks at the add-ons in a guest: brings those with manifests up to date, and sees what the playbooks' own lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import VmatrixError
from harness.kube.applyset import ApplySet
from harness.kube.applyset_member import ApplySetLook, Known
from harness.kube.client import Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.manifests import digest_of
from harness.kube.objects import dig
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.addons import BUILT_IN, AddonStatus, ClusterAddon
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.variables import variable
from harness.operator.context import OperatorContext
from harness.operator.controllers import addon_built_in
from harness.operator.controllers.addon_sources import AddonSources, NoManifests
from harness.operator.controllers.addon_states import ADDON_LABEL, WantedAddon, needed, unknown
from harness.operator.controllers.guest_access import GuestAccess

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
                states = [addon_built_in.look_at(guest, name, sequence) for name in built]
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
