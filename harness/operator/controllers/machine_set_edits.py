"""MachineSets that somebody edits: what a webhook refuses, and a condition says where there is none."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.kube.client import Json
from harness.kube.informer import Informer
from harness.kube.objects import controller_of, dig
from harness.operator.api.conditions import new, with_conditions

EDITED = "Edited"


def derived(machine_set: Json) -> str:
    """Return why a MachineSet is not edited, and what to edit instead."""
    name, owner = machine_set["metadata"]["name"], (controller_of(machine_set) or {}).get("name", "")
    source = f"ClusterDeployment {owner}".rstrip()
    return f"MachineSet {name} is derived: edit spec.machineSets of {source} instead"


def told(sets: Informer, found: Json, wanted: Json, deployment: Json) -> Json:
    """Return a MachineSet as it is once its condition says that an edit is put back; as it was if nobody edited it.

    While the spec of the ClusterDeployment is the one that its status is about, its sets have not changed by it.
    """
    known = dig(deployment, "status", "observedGeneration") == deployment["metadata"].get("generation")
    if found.get("spec") == wanted.get("spec") or not known:
        return found
    generation = found["metadata"].get("generation")
    said = new(EDITED, True, "PutBack", derived(found), datetime.now(UTC), generation)
    conditions = with_conditions(dig(found, "status", "conditions") or [], said)
    return sets.merge_status(found, {"conditions": conditions})
