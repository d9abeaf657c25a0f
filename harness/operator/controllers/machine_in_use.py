"""Whether a Machine can be deleted: what a webhook refuses, and a condition says where there is none."""

from __future__ import annotations

from harness.kube.client import Json
from harness.kube.informer import key_of
from harness.kube.kinds.form import SpecMistake
from harness.kube.objects import is_condition
from harness.operator.api.resources import REPLACE_ANNOTATION
from harness.operator.controllers.machine_phase import use_of

IN_USE = "InUse"


def in_use(machine: Json, cluster: Json | None) -> SpecMistake | None:
    """Return why a Machine cannot be deleted as it is, and what to do; None when it can.

    Nobody holds a Machine that is lost, or that somebody asked to be replaced.

    Args:
        cluster: the Cluster that its claim names, None when there is none.
    """
    annotations = machine["metadata"].get("annotations") or {}
    lost = is_condition(machine, "InfrastructureReady", "False", "Lost")
    if lost or REPLACE_ANNOTATION in annotations or not use_of(machine, cluster).holds:
        return None
    name, claim = key_of(machine)[1], machine["spec"]["claim"]
    return SpecMistake(
        "metadata.name",
        f"Machine {name} is in use by set {claim['set']} of cluster {claim['cluster']}",
        f"lower the set's replicas, or have it replaced: kubectl annotate vma {name} {REPLACE_ANNOTATION}=WHY",
    )
