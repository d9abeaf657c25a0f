"""Restarts a machine that is an instance of KubeVirt: asked again until another instance is there, or none."""

from __future__ import annotations

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import key_of
from harness.kube.objects import dig, is_condition
from harness.kube.resources import VMI, Resource
from harness.operator.api.conditions import REMEDIATING
from harness.operator.controllers.infrastructure_seen import instance_of

SWITCH = Resource("subresources.kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
AGAIN_SECONDS = 5.0  # pacing: an instance that is ended at once is gone within some seconds
NOW = {"gracePeriodSeconds": 0}  # a machine that is hung does not shut down by itself


def uid_of(cluster: Cluster, namespace: str, instance: str) -> str | None:
    """Return the UID of an instance, None if there is none."""
    uid: str | None = dig(cluster.get(VMI, instance, namespace), "metadata", "uid")
    return uid


def restarting(cluster: Cluster, machine: Json) -> float | None:
    """Restart a Machine whose status says so, if that was not done; return the seconds after which to look again."""
    ending = dig(machine, "status", "remediation", "instance")
    if not ending or not is_condition(machine, REMEDIATING, "True"):
        return None
    namespace, name = key_of(machine)[0], instance_of(machine)
    if uid_of(cluster, namespace, name) != ending:
        return None
    try:
        cluster.request("PUT", SWITCH.path(namespace, name, "restart"), body=NOW)  # answered with nothing
    except ApiFailure as failure:
        if not failure.conflict:  # it is on its way already, or its run strategy forbids it: the wait tells them apart
            raise
    return AGAIN_SECONDS
