"""What is known of one machine of a cluster, as remedies need it: read from its Machine's conditions alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import condition, dig, parse_time
from harness.operator.api.conditions import ANSWERING, INFRASTRUCTURE_READY, NODE_READY
from harness.operator.api.resources import REPLACE_ANNOTATION
from harness.operator.api.sets import CONTROL_PLANE, ETCD
from harness.operator.controllers.infrastructure_seen import instance_of
from harness.operator.controllers.machine_phase import has_node

LOST = "Lost"  # the reason with which InfrastructureReady says that a machine does not come back
TRUTH = {"True": True, "False": False}


@dataclass(frozen=True)
class Patient:
    """One machine.

    node: it has one.  ready: the node is, None where the guest's API does not say.  since: when it became not ready.
    infrastructure, answers: what the infrastructure says, and whether it answers a login; None where nobody knows.
    lost: the infrastructure says that it does not come back.  virtual: it can be restarted.
    restarted: when that was last done.  replace: why it is to be replaced, "" if it is not.
    """

    name: str
    node: bool = True
    control_plane: bool = False
    etcd: bool = False
    ready: bool | None = None
    since: datetime | None = None
    infrastructure: bool | None = None
    answers: bool | None = None
    lost: bool = False
    virtual: bool = False
    restarted: datetime | None = None
    replace: str = ""
    node_says: str = ""
    infrastructure_says: str = ""
    answers_says: str = ""

    @property
    def runs(self) -> bool:
        """Tell whether something says that the machine runs, and nothing that it does not."""
        said = {self.infrastructure, self.answers}
        return True in said and False not in said

    @property
    def running_says(self) -> str:
        """Return what says that the machine runs, in words."""
        words = [self.answers_says if self.answers else "", self.infrastructure_says if self.infrastructure else ""]
        return "; ".join(filter(None, words)) or "nothing is known of the machine besides"


def patients(machines: Iterable[Json], calm: datetime | None = None) -> list[Patient]:
    """Return what is known of all machines of one cluster.

    Args:
        calm: when its last operation ended; that a node was not ready before does not count.
    """
    found = list(machines)
    stacked = not any(ETCD in _roles(machine) for machine in found)
    return [_patient(machine, calm, stacked=stacked) for machine in found]


def _patient(machine: Json, calm: datetime | None, *, stacked: bool) -> Patient:
    roles = _roles(machine)
    node, infra, login = (condition(machine, k) or {} for k in (NODE_READY, INFRASTRUCTURE_READY, ANSWERING))
    restarted = dig(machine, "status", "remediation", "at")
    turned = parse_time(node["lastTransitionTime"]) if node.get("lastTransitionTime") else None
    control_plane = CONTROL_PLANE in roles
    return Patient(
        name=machine["metadata"]["name"],
        node=has_node(roles),
        control_plane=control_plane,
        etcd=ETCD in roles or (stacked and control_plane),
        ready=TRUTH.get(node.get("status", "")),
        since=max(turned, calm) if turned is not None and calm is not None else turned,
        infrastructure=TRUTH.get(infra.get("status", "")),
        answers=TRUTH.get(login.get("status", "")),
        lost=infra.get("status") == "False" and infra.get("reason") == LOST,
        virtual=bool(instance_of(machine)),
        restarted=parse_time(restarted) if restarted else None,
        replace=(machine["metadata"].get("annotations") or {}).get(REPLACE_ANNOTATION, ""),
        node_says=node.get("message") or "nothing is known of its node",
        infrastructure_says=infra.get("message", ""),
        answers_says=login.get("message", ""),
    )


def _roles(machine: Json) -> list[str]:
    return dig(machine, "status", "roles") or []
