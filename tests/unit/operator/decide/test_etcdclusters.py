"""EtcdClusters: how they are read, what is refused, and which operations follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.operator.api.cluster import AppliedState, CurrentOperation
from harness.operator.api.machine import MachineEtcd
from harness.operator.api.resources import ETCD_CLUSTER, RESET_FINALIZER
from harness.operator.decide.authority import authorities_of
from harness.operator.decide.desired import Desired
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.etcdclusters import (
    WRITTEN,
    as_deployment,
    elder,
    endpoints_of,
    kubernetes_of,
    name_taken,
    read_etcd,
    scaled_to,
)
from harness.operator.decide.observed import Observed, begun, ended
from harness.operator.decide.operations import ETCD_DUTIES, duties_of, next_operation, plan
from harness.operator.decide.variables import load_releases
from tests.unit.operator.api.objects import deployment, etcd_cluster
from tests.unit.operator.decide.wishes import NOW, etcd_wish, members, operation, wait

Json = dict[str, Any]
RELEASES = load_releases()


def succeeded(one: Desired, world: Observed) -> tuple[CurrentOperation, Observed]:
    """Return what is done next, and the world once it has succeeded."""
    now = operation(next_operation(one, world))
    return now, ended(begun(world, now))


def deployed(*numbers: int, **spec: Any) -> Observed:
    """Return the world in which members are deployed."""
    return succeeded(etcd_wish(*members(*numbers), **spec), Observed(NOW))[1]


def test_it_is_read_as_a_set_with_the_role_etcd_alone() -> None:
    made = as_deployment(etcd_cluster(replicas=3, backup={"beforeDisruption": False}, authority={}))
    (one,) = made["spec"]["machineSets"]
    assert (one["name"], one["roles"], one["replicas"]) == ("member", ["etcd"], 3)
    assert made["kind"] == ETCD_CLUSTER.kind
    assert as_deployment(made) is made, "it is read once"
    assert made[WRITTEN]["spec"]["replicas"] == 3
    assert scaled_to(made, 5)["spec"]["machineSets"][0]["replicas"] == 5
    named = as_deployment(etcd_cluster(authority={"caSecretRef": {"name": "own"}}))
    assert named["spec"]["authority"] == {"etcdSecretRef": {"name": "own"}}
    signed = as_deployment(etcd_cluster(authority={"issuerRef": {"name": "organisation"}}))
    assert signed["spec"]["authority"] == {"issuerRef": {"name": "organisation"}}


def test_any_other_object_stays_as_it_is() -> None:
    other = deployment()
    assert as_deployment(other) is other


def test_only_etcd_has_an_authority() -> None:
    assert [one.name for one in authorities_of(etcd_wish(*members(0)).wish)] == ["etcd"]


@pytest.mark.parametrize(
    ("version", "release"),
    [("3.6.5", "1.34.4"), ("3.6.8", "1.36.3"), ("3.6.99", "1.36.3"), ("3.7.0", "1.37.2"), ("3.9.1", "1.37.2")],
)
def test_kubeadm_is_the_newest_that_goes_with_a_version(version: str, release: str) -> None:
    assert kubernetes_of(version, RELEASES) == release


def test_a_newer_table_changes_no_member_by_itself() -> None:
    applied = deployed(0).applied
    assert applied is not None
    older = applied.model_copy(update={"version": "1.30.0"})
    assert etcd_wish(*members(0), applied=older).spec.version == "1.30.0"
    assert etcd_wish(*members(0), applied=older, version="3.7.0").spec.version == "1.37.2"


def test_variables_are_those_of_machines_with_etcd_alone() -> None:
    given = etcd_wish(*members(0), extraArgs={"quota-backend-bytes": "1"}, certificates={"validity": "48h"}).variables
    assert given["cluster_etcd_extra_args"] == {"quota-backend-bytes": "1"}
    assert given["cluster_certificates_validity"] == "48h"
    assert not {"cluster_pod_cidr", "cluster_network_plugin", "cluster_kubelet_config"} & set(given)


# What is wrong with an EtcdCluster, by its spec and the version that is deployed, and how the mistake begins.
REFUSED: tuple[tuple[Json, str, str], ...] = (
    ({"replicas": 2}, "", "spec.replicas: an even number of etcd members"),
    ({"replicas": 4}, "", "spec.replicas: an even number of etcd members"),
    ({"machines": {"names": ["m-0", "m-1"]}}, "", "spec.replicas: replicas is not the number of names"),
    ({"machines": {}}, "", "spec.machines: a set takes its machines from a pool"),
    ({"source": {"type": "Mirror"}}, "", "spec.source.mirror: type Mirror needs mirror"),
    ({"backup": {"schedule": "0 3 * * *"}}, "", "spec.backup.destination: backups that the operator makes need"),
    (
        {"backup": {"schedule": "0 3 31 2 *", "destination": {"claim": "c"}}},
        "",
        "spec.backup.schedule: '0 3 31 2 *' is not a schedule that fires",
    ),
    (
        {"backup": {"schedule": "@daily", "drill": "0 3 31 2 *", "destination": {"claim": "c"}}},
        "",
        "spec.backup.drill: '0 3 31 2 *' is not a schedule that fires",
    ),
    ({"backup": {"drill": "weekly", "destination": {"claim": "c"}}}, "", "spec.backup.drill: a drill restores the new"),
    ({"version": "3.6.5"}, "3.6.6", "spec.version: etcd 3.6.5 is older than 3.6.6"),
    ({"version": "3.8.0"}, "3.6.6", "spec.version: from etcd 3.6.6 to 3.8.0 a minor version is skipped: use 3.7.0 fi"),
    ({"variables": {"cluster_etcd_version": "3.6.6"}}, "", "spec.variables.cluster_etcd_version: a field stands for"),
    ({"version": "3"}, "", "spec.version:"),
)


@pytest.mark.parametrize(("spec", "running", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_what_cannot_be_is_refused(spec: Json, running: str, said: str) -> None:
    applied = AppliedState(version="1.35.4", variables={"cluster_etcd_version": running}) if running else None
    _, mistakes = read_etcd(etcd_cluster(**spec), applied, creating=applied is None)
    assert any(one.text.startswith(said) for one in mistakes), [one.text for one in mistakes]


def test_a_patch_version_and_the_next_minor_are_taken() -> None:
    applied = AppliedState(version="1.35.4", variables={"cluster_etcd_version": "3.6.6"})
    for version in ("3.6.6", "3.6.8", "3.7.3"):
        assert read_etcd(etcd_cluster(version=version), applied, creating=False)[1] == []


def test_all_operations_are_its_own_and_name_a_playbook_for_etcd() -> None:
    entries = {duty.operation: duty.entry for duty in ETCD_DUTIES}
    assert entries == {
        "reset": "reset.yml",
        "deploy-etcd": "etcd.yml",
        "recover": "recover.yml",
        "restore": "restore.yml",
        "remove-node": "remove-node.yml",
        "certificates": "certificates.yml",
        "defragment": "defragment-etcd.yml",
        "etcd-users": "etcd-users.yml",
        "backup": "backup.yml",
        "drill": "drill.yml",
        "upgrade-etcd": "upgrade-etcd.yml",
        "reconfigure-etcd": "etcd.yml",
        "scale": "etcd.yml",
    }
    one = etcd_wish(*members(0))
    assert [duty.operation for duty in duties_of(one, bare=True)] == ["reset", "deploy-etcd"]


@pytest.mark.parametrize(
    ("before", "after", "spec", "name", "why"),
    [
        ((0,), (0, 1, 2), {}, "scale", "spec.replicas: 1 deployed, 3 wanted"),
        ((0, 1, 2), (0, 1, 2), {"version": "3.7.0"}, "upgrade-etcd", "spec.version: 3.6.6 -> 3.7.0"),
        (
            (0,),
            (0,),
            {"extraArgs": {"quota-backend-bytes": "9"}},
            "reconfigure-etcd",
            "spec.extraArgs changed",
        ),
    ],
)
def test_an_edit_is_one_operation(
    before: tuple[int, ...], after: tuple[int, ...], spec: Json, name: str, why: str
) -> None:
    world = deployed(*before)
    now, then = succeeded(etcd_wish(*members(*after), applied=world.applied, **spec), world)
    assert (now.operation, now.why) == (name, why)
    assert plan(etcd_wish(*members(*after), applied=then.applied, **spec), then) == ()


def test_members_leave_so_that_the_others_are_a_majority() -> None:
    world, left = deployed(0, 1, 2), []
    one = etcd_wish(*members(0, 1, 2), applied=world.applied, replicas=1)
    while isinstance(verdict := next_operation(one, world), CurrentOperation):
        left.append((verdict.operation, verdict.machines))
        world = ended(begun(world, verdict))
    assert left == [("remove-node", ("m-2",)), ("remove-node", ("m-1",))]
    assert world.applied is not None
    assert world.applied.machines == ("m-0",)


def test_a_lost_member_leaves_before_another_one_joins() -> None:
    world = deployed(0, 1, 2)
    gone = replace(
        world, lost={"m-1": "its disk is gone"}, lost_at={"m-1": NOW - timedelta(hours=1)}, ill={"m-1": "its disk"}
    )
    one = etcd_wish(*members(0, 1, 2, 3), applied=world.applied, replicas=3)
    now, then = succeeded(one, gone)
    assert (now.operation, now.machines) == ("remove-node", ("m-1",))
    then = replace(then, lost={}, ill={})
    assert succeeded(etcd_wish(*members(0, 2, 3), applied=then.applied, replicas=3), then)[0].operation == "scale"


@pytest.mark.parametrize(
    ("lost", "reason", "said"),
    [
        (("m-0", "m-1"), WaitReason.RESTORE_NOT_NAMED, "etcd has lost its majority"),
        (("m-0", "m-1", "m-2"), WaitReason.NOT_RECOVERABLE, "all etcd members are lost"),
    ],
)
def test_a_lost_majority_waits_for_a_person(lost: tuple[str, ...], reason: WaitReason, said: str) -> None:
    world = deployed(0, 1, 2)
    gone = replace(world, lost=dict.fromkeys(lost, "gone"), ill=dict.fromkeys(lost, "gone"))
    held: Wait = wait(next_operation(etcd_wish(*members(0, 1, 2), applied=world.applied), gone))
    assert held.reason == reason
    assert said in held.message


def test_a_full_member_is_defragmented() -> None:
    world = deployed(0)
    full = replace(world, etcd={"m-0": MachineEtcd(alarm="NOSPACE", sizeMiB=8, quotaMiB=8)})
    assert succeeded(etcd_wish(*members(0), applied=world.applied), full)[0].operation == "defragment"


def test_a_deletion_resets_its_machines() -> None:
    world = deployed(0)
    now = operation(next_operation(etcd_wish(*members(0), applied=world.applied, deleted=True), world))
    assert (now.operation, now.why) == ("reset", "the EtcdCluster is being deleted")


def test_clients_reach_each_member() -> None:
    assert endpoints_of(deployed(0, 1, 2).applied) == [f"https://192.0.2.{10 + n}:2379" for n in range(3)]
    hosts: Json = {"cluster_hosts": [{"name": "m-0", "address": "fd00::1"}]}
    assert endpoints_of(AppliedState(version="1.35.4", variables=hosts)) == ["https://[fd00::1]:2379"]
    assert endpoints_of(None) == []


def test_of_two_objects_of_one_name_the_older_one_has_it() -> None:
    one, other = deployment(name="store"), etcd_cluster("store")
    one["metadata"]["creationTimestamp"], other["metadata"]["creationTimestamp"] = "2026-01-02", "2026-01-01"
    assert elder(one, other) is other
    other["metadata"]["creationTimestamp"] = "2026-01-02"
    assert elder(one, other) is one, "of the same second, the ClusterDeployment"
    other["metadata"]["finalizers"] = [RESET_FINALIZER]
    assert elder(one, other) is other, "unless something was done for the other one"
    other["metadata"].pop("finalizers")
    taken = name_taken(other, one)
    assert taken is not None
    assert taken.text.startswith("metadata.name: ClusterDeployment store has this name")
    assert name_taken(one, one) is None
    assert name_taken(one, None) is None
