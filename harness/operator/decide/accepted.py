"""Whether an object is accepted as it stands, in the world as it is: the one answer of reconciles and of webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.failures import Json
from harness.kube.kinds.form import SpecMistake
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.rules import read
from harness.operator.decide.desired import desired
from harness.operator.decide.due import Situation
from harness.operator.decide.observed import Observed
from harness.operator.decide.refusals import edit_mistakes
from harness.operator.decide.releases import load_releases
from harness.operator.decide.removal import majority_in_doubt
from harness.operator.decide.restores import restore_mistake

NO_IMAGE = SpecMistake(
    "spec.playbooks.image", "no image of the executor is known", "set it, or start the manager with --executor-image"
)


def judged(
    deployment: Json,
    machines: Sequence[DeclaredMachine],
    world: Observed,
    image: str,
) -> tuple[ClusterDeployment | None, list[SpecMistake]]:
    """Return a ClusterDeployment with all defaults, None when it has another form, and what is wrong with it.

    Args:
        machines: those that it has claimed.
        world: what is observed of them, of its Cluster and of backups.
        image: of executors whose object names none; "" for none.
    """
    addresses = [f"{m.address}/{128 if ':' in m.address else 32}" for m in machines if m.address]
    wish, found = read(deployment, load_releases().kubernetes, addresses, creating=not world.sequence)
    if wish is None:
        return None, found
    if not (wish.spec.playbooks.image or image):
        found = [*found, NO_IMAGE]
    return wish, [*found, *against(wish, machines, world)]


def against(wish: ClusterDeployment, machines: Sequence[DeclaredMachine], world: Observed) -> list[SpecMistake]:
    """Return what is wrong with a wish for a cluster as it is.

    Args:
        machines: those that it has claimed.
    """
    doubtful = world.ill or world.lost or world.silent or world.unsettled
    if wish.spec.etcd.restore_from is None and not doubtful:
        return edit_mistakes(wish, world.applied)
    found = Situation.of(desired(wish, machines, load_releases(), world.applied), world)
    wrong = restore_mistake(found)
    doubt = majority_in_doubt(found.desired, world, found.who)
    return [*([wrong] if wrong is not None else []), *edit_mistakes(wish, world.applied, lost=doubt)]
