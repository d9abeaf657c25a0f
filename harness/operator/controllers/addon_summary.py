"""What is told of all add-ons of a cluster together; pure."""

from __future__ import annotations

from harness.operator.api.addons import BUILT_IN, AddonStatus
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.controllers.addon_states import source_digest
from harness.operator.controllers.cluster_view import DeclaredView


def addons_ready(view: DeclaredView) -> tuple[bool | None, str, str]:
    """Return status, reason and message of the condition; the status is None where nobody can tell."""
    if view.observed.applied is None or view.cluster is None or view.wish is None:
        return False, "NotDeployed", "there is no cluster yet"
    state = DeclaredCluster.model_validate(view.cluster).status
    told = {one.name: one for one in state.addons}
    own = [addon for addon in view.wish.spec.addons if addon.manifests is not None]
    unseen = [
        AddonStatus(name=addon.name, ready=False, reason="Applying", message="it is looked at soon")
        for addon in own
        if addon.name not in told or told[addon.name].source != source_digest(addon)
    ]
    new = {one.name for one in unseen}
    gone = told.keys() - {addon.name for addon in view.wish.spec.addons}
    leaving = [told[name] for name in sorted(gone) if name not in BUILT_IN]
    found = [*(told[a.name] for a in view.wish.spec.addons if a.name in told and a.name not in new), *unseen, *leaving]
    wrong = [one for one in found if one.ready is False or (one.name in gone and one.ready is not None)]
    dark = [one for one in found if one.ready is None]
    for status, some in ((False, wrong), (None, dark)):
        if some:
            return status, some[0].reason, "; ".join(f"{one.name}: {one.message or one.reason}" for one in some)
    return True, "AllReady" if found else "NoAddons", ""
