"""Whether an object is accepted as it stands, in the world as it is: the one answer of reconciles and of webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.failures import Json
from harness.kube.kinds.form import SpecMistake
from harness.operator.api.cluster import DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.rules import read
from harness.operator.decide.backups import restore_mistake
from harness.operator.decide.observed import Observed
from harness.operator.decide.refusals import edit_mistakes
from harness.operator.decide.releases import load_releases

NO_IMAGE = SpecMistake(
    "spec.playbooks.image", "no image of the executor is known", "set it, or start the manager with --executor-image"
)


def judged(
    deployment: Json,
    state: DeclaredCluster | None,
    machines: Sequence[DeclaredMachine],
    world: Observed,
    image: str,
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return a ClusterDeployment with all defaults, None when it has another form, and what is wrong with it.

    Args:
        state: its Cluster, None before there is one.  machines: those that it has claimed.
        world: what is observed of both, and of backups.
        image: of executors whose object names none; "" for none.
    """
    addresses = [f"{m.address}/{128 if ':' in m.address else 32}" for m in machines if m.address]
    fresh = state is None or not state.status.sequence
    wish, found = read(deployment, load_releases().kubernetes, addresses, creating=fresh)
    if wish is None:
        return None, found
    if not (wish.spec.playbooks.image or image):
        found = [*found, NO_IMAGE]
    restored = world.applied.restored if world.applied is not None else None
    wrong = restore_mistake(wish.spec.etcd.restore_from, world.backups, restored)
    found = [*found, wrong] if wrong is not None else found
    return wish, [*found, *edit_mistakes(wish, state.status.applied)] if state is not None else found
