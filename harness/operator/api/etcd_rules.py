"""Rules about where a declared cluster's etcd runs and how many members it has.

Stacked: on the control planes, which no set with the role etcd, or sets with both roles, say. External: on machines
of sets with the role etcd alone. A new deployment refuses two members; a running cluster may pass through two
(docs/decisions/playbooks-external-etcd.md).
"""

from __future__ import annotations

from harness.operator.api.base import Cel

EXTERNAL = "'etcd' in s.roles && !('control-plane' in s.roles)"
IS_EXTERNAL = f"self.machineSets.exists(s, {EXTERNAL})"
MEMBERS = f"self.machineSets.filter(s, {EXTERNAL}).map(s, s.replicas).sum()"
CONTROL_PLANES = "self.machineSets.filter(s, 'control-plane' in s.roles).map(s, s.replicas).sum()"
SETS = ".machineSets"

NO_CONTROL_PLANE = Cel(
    f"{CONTROL_PLANES} > 0",
    "no machine is a control plane",
    "give a set with at least one replica the role control-plane",
    SETS,
)
MIXED = Cel(
    "!self.machineSets.exists(s, 'etcd' in s.roles && 'control-plane' in s.roles) || "
    "self.machineSets.all(s, ('etcd' in s.roles) == ('control-plane' in s.roles))",
    "etcd is both stacked and external",
    "give the role etcd to all sets of control planes or to none of them",
    SETS,
)
TWO_STACKED = Cel(
    f"{IS_EXTERNAL} || {CONTROL_PLANES} != 2",
    "two control planes would be two etcd members, which stop when either one fails",
    "use one or three control planes, or add a set with the role etcd",
    SETS,
    creating=True,
)
TWO_MEMBERS = Cel(
    f"{MEMBERS} != 2",
    "two etcd members stop when either one fails",
    "use one or three machines with the role etcd",
    SETS,
    creating=True,
)
NO_MEMBER = Cel(
    f"!{IS_EXTERNAL} || {MEMBERS} > 0",
    "no machine is an etcd member",
    "give a set with the role etcd at least one replica",
    SETS,
)
SAME_PLACE = Cel(
    f"({IS_EXTERNAL}) == ({IS_EXTERNAL.replace('self', 'oldSelf')})",
    "etcd cannot move between the control planes and machines of its own",
    "make another ClusterDeployment",
    SETS,
)
ETCD_RULES = (NO_CONTROL_PLANE, MIXED, TWO_STACKED, TWO_MEMBERS, NO_MEMBER, SAME_PLACE)
