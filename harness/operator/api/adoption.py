"""Rules about a ClusterDeployment that takes over a cluster which is there already."""

from __future__ import annotations

from harness.kube.kinds.cel import Cel
from harness.operator.api.etcd_rules import IS_EXTERNAL
from harness.operator.api.sets import CONTROL_PLANE, ETCD

BY_NAME = Cel(
    "!self.adopt || self.machineSets.all(s, has(s.machines.names))",
    "a cluster that is adopted has machines of its own, which no pool can choose",
    "name them in machines.names of every set",
    ".machineSets",
    creating=True,
    holds=lambda spec: not spec.adopt or all(one.machines.names is not None for one in spec.machine_sets),
)
STACKED = Cel(
    f"!self.adopt || !({IS_EXTERNAL})",
    "a cluster with external etcd cannot be adopted",
    "manage it with the playbooks",
    ".adopt",
    creating=True,
    holds=lambda spec: (
        not spec.adopt or not any(one.has(ETCD) and not one.has(CONTROL_PLANE) for one in spec.machine_sets)
    ),
)
ADOPTION_RULES = (BY_NAME, STACKED)
