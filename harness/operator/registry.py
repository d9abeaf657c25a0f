"""The controllers of the operator as data: what each watches, what it writes; and how they start and end.

`--controllers` chooses from these names. Each is the name of a module in harness/operator/controllers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from harness.errors import BadInput
from harness.kube.resources import (
    CONFIG_MAP,
    DATA_VOLUME,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    INGRESS,
    JOB,
    NETWORK_POLICY,
    POD,
    PVC,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    VM,
    VMI,
    Resource,
)
from harness.operator.api.resources import (
    CLUSTER,
    CLUSTER_DEPLOYMENT,
    CLUSTER_NETWORK_POOL,
    CLUSTER_USER,
    DECLARED,
    DELIVERY,
    ETCD_BACKUP,
    ETCD_CLUSTER,
    ETCD_PEER,
    ETCD_RESTORE,
    MACHINE,
    MACHINE_SET,
)
from harness.operator.context import OperatorContext
from harness.until import Deadline

log = logging.getLogger(__name__)
END_SECONDS = 20.0  # for looks under way to end: of the 30 s that a pod has by default


@dataclass(frozen=True)
class Part:
    """One controller: kinds that it watches through informers, kinds that it writes (their status included).

    Its module has `start(context)`, which asks for informers, subscribes to them, and hands controllers to the context.
    leads: whether it works only in the manager that has the Lease; what does not lead has no informers.
    """

    name: str
    watches: tuple[Resource, ...]
    writes: tuple[Resource, ...]
    leads: bool = True


OURS = (*DECLARED, CLUSTER, MACHINE_SET, MACHINE)
OF_ETCD = (ETCD_BACKUP, ETCD_RESTORE)
EXECUTION = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, CONFIG_MAP, JOB)
PARTS = (
    Part("clusterdeployment", (*OURS, *OF_ETCD, JOB, POD), (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE_SET)),
    Part("etcdcluster", (*OURS, *OF_ETCD, JOB, POD), (ETCD_CLUSTER, CLUSTER, MACHINE_SET)),
    Part("machineset", (*OURS, ETCD_RESTORE), (MACHINE_SET, MACHINE, EVENT)),
    Part("claims", OURS, (MACHINE, EVENT)),
    Part("machine", OURS, (MACHINE, EVENT)),
    Part("nodehealth", (CLUSTER, MACHINE_SET, MACHINE), (MACHINE,)),
    Part("inspection", (CLUSTER, MACHINE, ETCD_PEER), (MACHINE, ETCD_PEER, EVENT)),
    Part("remediation", (*DECLARED, CLUSTER, MACHINE), (MACHINE, EVENT)),
    Part(
        "endpoint",
        (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE, SERVICE, ENDPOINT_SLICE, INGRESS),
        (SERVICE, ENDPOINT_SLICE, INGRESS, CLUSTER, SECRET),
    ),
    Part("infrastructure", (*DECLARED, MACHINE, VM, VMI), (MACHINE, DATA_VOLUME, SECRET, VM, EVENT)),
    Part("authority", (*DECLARED, CLUSTER), (CLUSTER, SECRET, EVENT)),
    Part("etcdclients", (*OURS, *OF_ETCD, JOB, POD), (CLUSTER, SECRET, EVENT)),
    Part("networks", (CLUSTER_DEPLOYMENT, CLUSTER, CLUSTER_NETWORK_POOL), (CLUSTER, CLUSTER_NETWORK_POOL, EVENT)),
    Part("isolation", (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE, NETWORK_POLICY), (CLUSTER, NETWORK_POLICY, EVENT)),
    Part("users", (CLUSTER, CLUSTER_USER, MACHINE), (CLUSTER_USER, SECRET, EVENT)),
    Part("addons", (CLUSTER_DEPLOYMENT, CLUSTER, MACHINE), (CLUSTER, EVENT)),
    Part("clusterinstall", (*OURS, *OF_ETCD, JOB, POD), (CLUSTER, *EXECUTION, EVENT)),
    Part("executions", (*OURS, *OF_ETCD, JOB, POD), (CLUSTER, JOB, CONFIG_MAP, SECRET, EVENT)),
    Part("backups", (*OURS, *OF_ETCD, JOB, POD, PVC), (CLUSTER, ETCD_BACKUP, EVENT)),
    Part("restores", (*OURS, *OF_ETCD, JOB, POD), (ETCD_RESTORE, EVENT)),
    Part("builds", (DELIVERY, JOB, POD), (DELIVERY, JOB, CONFIG_MAP, EVENT)),
    Part(
        "rollouts",
        (DELIVERY, CLUSTER_DEPLOYMENT, MACHINE, DEPLOYMENT, SERVICE, INGRESS),
        (DELIVERY, DEPLOYMENT, SERVICE, INGRESS, CONFIG_MAP, EVENT),
    ),
    Part("gitwebhooks", (), (DELIVERY,), leads=False),  # its Service chooses all managers
)
NAMES = tuple(part.name for part in PARTS)


ALL, WEBHOOKS = "all", "webhooks"  # words of --controllers: these are all of them, and this is none of them


def chosen(names: Iterable[str] = ()) -> tuple[Part, ...]:
    """Return the controllers of these names in the list's own order; all of them for no names, or for ALL.

    Raises:
        BadInput: there is no controller of a name.
    """
    asked = tuple(name for name in names if name != WEBHOOKS)
    wanted_names = asked if asked and ALL not in asked else NAMES
    unknown = [name for name in wanted_names if name not in NAMES]
    if unknown:
        raise BadInput(
            f"no controller is named {', '.join(unknown)}", hint=f"there are: {', '.join((*NAMES, ALL, WEBHOOKS))}"
        )
    return tuple(part for part in PARTS if part.name in wanted_names)


def add(context: OperatorContext, parts: Iterable[Part]) -> None:
    """Have parts hand their controllers to a context; what needs none begins at once."""
    for part in parts:
        import_module(f"harness.operator.controllers.{part.name}").start(context)


def start(context: OperatorContext, parts: Iterable[Part]) -> None:
    """Start controllers; return once each kind that they read had its first list, and they work.

    Raises:
        TimedOut: the API did not list a kind in time.
    """
    add(context, parts)
    context.informers.start()
    context.informers.wait(context.options.stretch)
    for controller in context.controllers:
        controller.start()
    log.info("controllers work: %s", ", ".join(controller.name for controller in context.controllers))


def stop(context: OperatorContext) -> bool:
    """Let controllers end after what they are doing, and stop watching; tell whether all of them ended in time.

    It can be called twice.
    """
    context.stopping.set()
    for controller in context.controllers:
        controller.stop()
    while context.stoppers:
        context.stoppers.pop()()
    context.informers.stop()
    deadline = Deadline.after(END_SECONDS)
    late = [controller.name for controller in context.controllers if not controller.join(deadline.remaining())]
    if late:
        log.warning("still at work after %.0f s: %s", END_SECONDS, ", ".join(late))
    return not late
