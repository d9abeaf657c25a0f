"""Looks at clusters whose objects a test has put into the local copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from harness.kube.client import Cluster
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers.cluster_view import ClusterLooks, DeclaredView
from tests.unit.operator.api.objects import defaulted, deployment, filled, machine

Json = dict[str, Any]
UID = "uid-of-guest"
IMAGE = "registry.invalid/vmatrix:1"


def looks(image: str = IMAGE) -> ClusterLooks:
    """Return looks of a manager with an image of the executor, and no object."""
    context = OperatorContext.of(cast(Cluster, None), Path("none"), options=OperatorOptions(image))
    return ClusterLooks(context)


def declared(*sets: Json, **spec: Any) -> Json:
    """Return a ClusterDeployment as the API server has it."""
    made = deployment(*sets, **spec)
    made["spec"] = filled(defaulted(made))
    made["metadata"] |= {"uid": UID, "generation": 3, "resourceVersion": "7"}
    return made


def given(name: str, phase: str = "Claimed", *, set_name: str = "cp", uid: str = UID) -> Json:
    """Return a Machine that a ClusterDeployment has claimed."""
    claim = {"cluster": "guest", "set": set_name, "uid": uid}
    made = machine(name, address="192.0.2.10", claim=claim, through={"virtualMachineInstance": f"vmi-{name}"})
    made["metadata"]["resourceVersion"] = "1"
    return {**made, "status": {"phase": phase}}


def cluster(**status: Any) -> Json:
    """Return the Cluster, whose CAs are made."""
    given = {"authority": {"usable": True, "reason": "Valid"}, **status}
    return {"metadata": {"name": "guest", "namespace": "default", "resourceVersion": "9"}, "status": given}


def seen(deployment: Json, found: Json | None, *machines: Json, image: str = IMAGE) -> DeclaredView:
    """Return what is seen of a cluster."""
    made = looks(image)
    for one in machines:
        made.machines._store("ADDED", one)
    return made.seen(deployment, found)
