"""Wishes and worlds for tests of what is decided, made from objects as a person writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from harness.kube.objects import stamp
from harness.operator.api.cluster import AppliedState, CurrentOperation, PastOperation
from harness.operator.api.machine import DeclaredMachine
from harness.operator.decide.desired import Desired, desired
from harness.operator.decide.due import Wait, whole
from harness.operator.decide.etcdclusters import read_etcd
from harness.operator.decide.observed import Observed
from harness.operator.decide.operations import Verdict, next_operation
from harness.operator.decide.product_file import KnownProduct
from harness.operator.decide.variables import load_releases
from tests.unit.operator.api import objects
from tests.unit.operator.api.objects import defaulted

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
UID = "7d3a"
CP = objects.wanted_set("cp", "control-plane", "worker")
WORKERS = objects.wanted_set("w", "worker", replicas=2)


def claimed(name: str, set_name: str, *, uid: str = UID, cluster: str = "guest", **spec: Any) -> DeclaredMachine:
    """Return a Machine that the cluster has claimed for a set; its address is made of the number in its name."""
    number = int("".join(filter(str.isdigit, name)) or 0)
    claim = {"cluster": cluster, "set": set_name, "uid": uid}
    obj = objects.machine(name, **{"address": f"192.0.2.{number + 10}", "claim": claim, **spec})
    return DeclaredMachine.model_validate(obj)


MACHINES = (claimed("cp-0", "cp"), claimed("w-1", "w"), claimed("w-2", "w"))


def wish(
    *sets: dict[str, Any],
    machines: tuple[DeclaredMachine, ...] = MACHINES,
    retry: str | None = None,
    deleted: bool = False,
    applied: AppliedState | None = None,
    refused: tuple[str, ...] = (),
    product: KnownProduct | None = None,
    **spec: Any,
) -> Desired:
    """Return the wish for a cluster of one control plane and two workers, or of these sets."""
    obj = objects.deployment(*(sets or (CP, WORKERS)), **spec)
    obj["metadata"]["uid"] = UID
    if retry is not None:
        obj["metadata"]["annotations"] = {"cluster.vmatrix.dev/retry": retry}
    if deleted:
        obj["metadata"]["deletionTimestamp"] = stamp(NOW)
    return desired(defaulted(obj), machines, load_releases(), applied, refused, product)


def members(*numbers: int) -> tuple[DeclaredMachine, ...]:
    """Return Machines that the EtcdCluster has claimed."""
    return tuple(claimed(f"m-{number}", "member", cluster="store") for number in numbers)


def etcd_wish(
    *machines: DeclaredMachine, applied: AppliedState | None = None, deleted: bool = False, **spec: Any
) -> Desired:
    """Return the wish for an EtcdCluster with so many members as it has machines."""
    obj = objects.etcd_cluster("store", **{"replicas": len(machines) or 1, **spec})
    obj["metadata"]["uid"] = UID
    if deleted:
        obj["metadata"]["deletionTimestamp"] = stamp(NOW)
    wish, mistakes = read_etcd(obj, applied, creating=applied is None)
    assert wish is not None, mistakes
    return desired(wish, machines, load_releases(), applied, [one.text for one in mistakes])


def deployed(one: Desired, **more: Any) -> Observed:
    """Return the world in which a wish has come true."""
    made = operation(next_operation(one, Observed(NOW)))
    return Observed(
        NOW, sequence=1, applied=made.applies, history=(past(one, outcome="succeeded", blame=None),), **more
    )


def past(one: Desired, name: str = "deploy", *, ago: float = 0, **fields: Any) -> PastOperation:
    """Return an operation on all that a wish asks for that ended some seconds ago; it failed by the product's fault."""
    ended = stamp(NOW - timedelta(seconds=ago))
    digest = whole(one, "", one.hosts, applies=True).digest(name, one)
    given = {"sequence": 1, "outcome": "failed", "blame": "product", "digest": digest, "ended": ended, **fields}
    return PastOperation(operation=name, **given)


def operation(verdict: Verdict) -> CurrentOperation:
    """Return a verdict that has to be an operation."""
    assert isinstance(verdict, CurrentOperation), verdict
    return verdict


def wait(verdict: Verdict) -> Wait:
    """Return a verdict that has to be a wait."""
    assert isinstance(verdict, Wait), verdict
    return verdict
