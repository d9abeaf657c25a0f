"""The storage class of pods: folders on the disk of the machine that runs them, made by local-path-provisioner.

Machines' disks have the default class, which is another; CDI never sees this one's claims.
"""

from __future__ import annotations

from importlib.resources import files
from string import Template
from typing import Any

import yaml

from harness.infra.pods.machine import BUSYBOX, PROVISIONER, PodsMachine
from harness.kube.client import Cluster
from harness.kube.ensure import ensure as ensure_object
from harness.kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
)

Json = dict[str, Any]
CLASS = "pods"
KINDS = (
    SERVICE_ACCOUNT,
    ROLE,
    CLUSTER_ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE_BINDING,
    STORAGE_CLASS,
    CONFIG_MAP,
    DEPLOYMENT,
)


def objects(machine: PodsMachine) -> list[Json]:
    """Return the class, and what provides for its claims."""
    text = (files("harness.infra.pods") / "files" / "claims.yml").read_text(encoding="utf-8")
    values = {"node": machine.node, "busybox": machine.image(BUSYBOX), "provisioner": machine.image(PROVISIONER)}
    return list(yaml.safe_load_all(Template(text).substitute(values)))


def ensure(cluster: Cluster, machine: PodsMachine) -> None:
    """Have the class and its provisioner, in the machine's namespace; a pod that mounts a claim waits for it."""
    kinds = {kind.kind: kind for kind in KINDS}
    for body in objects(machine):
        ensure_object(cluster, kinds[body["kind"]], body)
