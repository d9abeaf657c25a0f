"""Clusters that share an EtcdCluster: their prefixes, what each waits for, users of etcd, and how they leave."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from harness.operator.api.cluster import CurrentOperation, EtcdClientState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.etcd import OperationSnapshot
from harness.operator.decide.accepted import judged
from harness.operator.decide.authority import authorities_of
from harness.operator.decide.desired import Desired, desired
from harness.operator.decide.due import Situation, WaitReason
from harness.operator.decide.etcdclients import (
    RULES,
    EtcdAround,
    client_state,
    clients_of,
    cluster_of,
    etcd_users,
    leaving_state,
    overlap,
    prefix_of,
    restored_by,
    user_of,
    variables_around,
)
from harness.operator.decide.observed import EtcdClient, Observed, begun, ended
from harness.operator.decide.operations import Nothing, next_operation, plan
from harness.operator.decide.restores import not_recoverable
from harness.operator.decide.variables import load_releases
from tests.unit.operator.api.objects import defaulted, deployment, etcd_cluster, wanted_set
from tests.unit.operator.controllers.objects import condition
from tests.unit.operator.decide.wishes import MACHINES, NOW, claimed, etcd_wish, members, operation, wait

Json = dict[str, Any]
UID, STORE = "0123456789ab", "uid-of-store"
USER, PREFIX = "guest.01234567", "/guest-01234567"
ENDPOINT = "https://192.0.2.11:2379"
HOST = {"name": "m-1", "machine": "m-1", "address": "192.0.2.11", "key": {"name": "keys"}, "groups": ["etcd"]}
AUTHORITY = {"usable": True, "reason": "Valid", "parts": [{"name": "etcd", "secret": "store-etcd", "publicKey": "x"}]}


def sharing(name: str = "guest", uid: str = UID, *, made: str = "2026-01-02T00:00:00Z", **ref: Any) -> Json:
    """Return a ClusterDeployment that names the EtcdCluster `store`."""
    found = deployment(name=name, etcd={"clusterRef": {"name": "store", **ref}})
    found["metadata"] |= {"uid": uid, "creationTimestamp": made}
    return found


def store(phase: str = "Ready", **more: Any) -> Json:
    """Return the EtcdCluster; `healthy`: the reason of a condition that is False, `deleted`: since when."""
    found = etcd_cluster("store")
    found["metadata"] |= {"uid": more.get("uid", STORE)}
    if "deleted" in more:
        found["metadata"]["deletionTimestamp"] = more["deleted"]
    said = [condition("EtcdHealthy", "False", more["healthy"], "it is not well")] if "healthy" in more else []
    moving = condition("Progressing", "True", "EtcdUsers", "etcd-users runs")
    return {**found, "status": {"phase": phase, "conditions": [*said, moving]}}


def cluster(name: str, **status: Any) -> Json:
    """Return a Cluster."""
    return {"metadata": {"name": name, "namespace": "default"}, "status": status}


def of_store(*users: Json, **more: Any) -> Json:
    """Return the Cluster of the EtcdCluster, deployed with users of etcd."""
    given = {"cluster_hosts": [{"name": "m-1", "address": "192.0.2.11"}], "cluster_etcd_users": list(users)}
    applied = {"version": "1.35.4", "machines": ["m-1"], "hosts": [HOST], "variables": given}
    return cluster("store", **{"applied": applied, "authority": AUTHORITY, **more})


def held(name: str = "guest", user: str = USER, prefix: str = PREFIX, **more: Any) -> Json:
    """Return the Cluster of a cluster that has a prefix."""
    state = {"cluster": "store", "uid": STORE, "user": user, "prefix": prefix, **more}
    return cluster(name, etcdClient=state)


ENTRY = {"name": USER, "prefix": PREFIX}
OTHER = sharing("other", "ffff", prefix="/a", made="2026-01-01T00:00:00Z")


def state(
    own: Json | None = None,
    etcd: Json | None = None,
    *clusters: Json,
    others: tuple[Json, ...] = (),
    before: EtcdClientState | None = None,
    fixed: bool = False,
) -> EtcdClientState:
    """Return what a cluster has of the EtcdCluster."""
    wish = defaulted(own or sharing())
    return client_state(wish, before, EtcdAround.of(wish, etcd, clusters, others), fixed=fixed)


def known(**more: Any) -> EtcdClientState:
    """Return what a cluster had."""
    return EtcdClientState(**{"cluster": "store", "uid": STORE, "prefix": PREFIX, "user": USER, **more})


# Prefixes, and whether keys of one may be keys of the other.
PREFIXES = (
    ("/a", "/a", True),
    ("/a", "/a/b", True),
    ("/a", "/a/b/c", True),
    ("/a", "/ab", False),
    ("/a/b", "/a/c", False),
    ("/registry/a", "/registry", True),
    ("/registry-a", "/registry", False),
)


@pytest.mark.parametrize(("one", "other", "same"), PREFIXES)
def test_one_prefix_is_in_another(one: str, other: str, same: bool) -> None:
    assert {overlap(*pair) for pair in permutations((one, other))} == {same}


def test_an_object_has_a_user_and_a_prefix_that_no_other_of_its_name_has() -> None:
    first, second = (defaulted(sharing(uid=uid)) for uid in (UID, "ffffffffff"))
    assert (user_of(first), prefix_of(first)) == (USER, PREFIX)
    assert user_of(second) != user_of(first)
    assert prefix_of(defaulted(sharing(prefix="/registry/a"))) == "/registry/a"
    assert cluster_of(USER) == "guest"


# What is around a cluster, and what it waits for: each reason of RULES once at least.
WAITS: tuple[tuple[str, EtcdClientState, str], ...] = (
    ("NoEtcdCluster", state(), "there is no EtcdCluster store in namespace default: create it"),
    ("AnotherEtcdCluster", state(None, store(uid="new"), of_store(), before=known(), fixed=True), "which was deleted"),
    ("EtcdClusterDeleting", state(None, store(deleted="2026"), of_store()), "EtcdCluster store is being deleted"),
    (
        "PrefixTaken",
        state(sharing(prefix="/a/b"), store(), of_store(), held("other", "other.ffff", "/a")),
        "the prefix /a/b overlaps /a, which cluster other has in EtcdCluster store: set spec.etcd.clusterRef.prefix",
    ),
    ("PrefixTaken", state(sharing(prefix="/a"), store(), of_store(), others=(OTHER,)), "which cluster other has"),
    ("EtcdNotDeployed", state(None, store("Deploying")), "store is not deployed yet: etcd-users runs"),
    ("AuthorityUnusable", state(None, store(), of_store(authority={"message": "it has expired"})), "has expired"),
    ("UserNotMade", state(None, store(), of_store(), held(), before=known()), "etcd-users of EtcdCluster store makes"),
    (
        "EtcdNotReady",
        state(
            None,
            store("Deleting", deleted="2026", healthy="NoQuorum"),
            of_store(ENTRY),
            held(),
            before=known(),
            fixed=True,
        ),
        "EtcdCluster store is Deleting",
    ),
    ("EtcdNotReady", state(None, store("Degraded"), of_store(ENTRY), held(), before=known()), "store is Degraded"),
)


@pytest.mark.parametrize(("reason", "found", "said"), WAITS, ids=[f"{row[0]}-{row[2][:20]}" for row in WAITS])
def test_a_cluster_waits_for_its_etcd_and_says_why(reason: str, found: EtcdClientState, said: str) -> None:
    assert (found.reason, found.ready) == (reason, False)
    assert said in found.message
    one = sharing()
    wanted = desired(defaulted(one), (claimed("m-0", "cp", uid=UID),), load_releases())
    waiting = wait(next_operation(wanted, Observed(NOW, etcd_client=found)))
    assert (waiting.reason, waiting.message) == (WaitReason.WAITING_FOR_ETCD, found.message)


def test_each_reason_is_in_the_table() -> None:
    assert {reason for reason, _ in RULES} <= {reason for reason, _, _ in WAITS}


def test_a_prefix_is_reserved_before_the_user_is_made_and_then_it_is_used() -> None:
    first = state(None, store(), of_store())
    assert (first.reason, first.user, first.prefix, first.uid) == ("UserNotMade", USER, PREFIX, STORE)
    assert first.endpoints == (ENDPOINT,)
    found = state(None, store(), of_store(ENTRY), held(), before=first)
    assert (found.usable, found.ready, found.reason, found.message) == (True, True, "Usable", "")


def test_a_cluster_that_holds_the_deletion_of_its_etcd_goes_on_and_none_begins_with_it() -> None:
    going = store("Deleting", deleted="2026")
    found = state(None, going, of_store(ENTRY), held(), before=known(), fixed=True)
    assert (found.usable, found.ready, found.reason) == (True, True, "EtcdClusterDeleting")
    assert "which waits until no cluster has its keys there" in found.message
    assert not state(None, going, of_store(ENTRY), held(), before=known()).usable


@pytest.mark.parametrize("reason", ["SlowDisk", "SlowPeers", "QuotaAlmostUsed"])
def test_an_etcd_that_is_slow_serves(reason: str) -> None:
    found = state(None, store("Degraded", healthy=reason), of_store(ENTRY), held(), before=known())
    assert found.ready
    assert not state(None, store("Degraded", healthy="NoLeader"), of_store(ENTRY), held(), before=known()).ready


def test_of_two_that_ask_for_one_prefix_the_elder_has_it_unless_the_younger_one_was_first() -> None:
    younger = sharing(prefix="/a")
    assert state(OTHER, store(), of_store(), others=(younger,)).reason == "UserNotMade"
    before = known(prefix="/a")
    assert state(younger, store(), of_store(), held(prefix="/a"), others=(OTHER,), before=before).user == USER
    late = state(OTHER, store(), of_store(), held(prefix="/a"), others=(younger,))
    assert (late.reason, late.user) == ("PrefixTaken", "")


def test_another_prefix_is_taken_before_anything_is_deployed_and_not_afterwards() -> None:
    moved = sharing(prefix="/a")
    before = state(moved, store(), of_store(ENTRY), held(), before=known())
    assert (before.prefix, before.made) == ("/a", False)
    after = state(moved, store(), of_store(ENTRY), held(), before=known(), fixed=True)
    assert (after.prefix, after.made) == (PREFIX, True)


def test_what_is_known_of_members_stays_while_nobody_can_tell() -> None:
    before = known(endpoints=(ENDPOINT,), made=True)
    assert state(None, None, before=before, fixed=True).endpoints == (ENDPOINT,)
    assert state(None, None, before=before).user == ""


def test_clients_are_those_with_a_prefix_of_this_very_object() -> None:
    former = held("former", "former.1", "/f", uid="earlier")
    gone = held("gone", "gone.1", "/g", leaving=True, deletes=True)
    found = clients_of(store(), (of_store(), former, held(), gone, cluster("none")))
    assert found == (EtcdClient("gone", "gone.1", "/g", leaving=True, deletes=True), EtcdClient("guest", USER, PREFIX))


def guest(world: Observed | None = None, *, deleted: bool = False, **spec: Any) -> Desired:
    """Return the wish for a cluster of one control plane and two workers that shares an EtcdCluster."""
    own = deployment(
        wanted_set("cp", "control-plane", "worker"),
        wanted_set("w", "worker", replicas=2),
        etcd={"clusterRef": {"name": "store"}},
        **spec,
    )
    own["metadata"] |= {"uid": "7d3a", **({"deletionTimestamp": "2026-11-23T12:00:00Z"} if deleted else {})}
    wish, seen = defaulted(own), world or Observed(NOW, etcd_client=usable())
    return desired(wish, MACHINES, load_releases(), seen.applied, around=variables_around(wish, seen))


def usable(**more: Any) -> EtcdClientState:
    """Return what the cluster has once it can use the EtcdCluster."""
    given = {"user": "guest.7d3a", "prefix": "/guest-7d3a", "usable": True, "ready": True, "made": True}
    return known(**{**given, "endpoints": (ENDPOINT,), "expires": "2027-01-01T00:00:00Z", **more})


def deployed() -> Observed:
    """Return the world in which it is deployed."""
    world = Observed(NOW, etcd_client=usable())
    return ended(begun(world, operation(next_operation(guest(), world))))


def test_control_planes_are_no_members_and_playbooks_get_the_members_of_the_etcd_cluster() -> None:
    wanted = guest()
    assert {group for host in wanted.hosts for group in host.groups} == {"control_plane", "node"}
    assert wanted.variables["cluster_etcd_endpoints"] == [ENDPOINT]
    assert wanted.variables["cluster_etcd_prefix"] == "/guest-7d3a"
    assert [one.name for one in authorities_of(wanted.wish)] == ["ca", "proxy", "sa"]
    two = deployment(wanted_set("cp", "control-plane", replicas=2), etcd={"clusterRef": {"name": "store"}})
    assert not [rule for _, rule in defaulted(two).broken(creating=True)], "two of them are no two members"


def test_api_servers_follow_the_members() -> None:
    grown = usable(endpoints=(ENDPOINT, "https://192.0.2.12:2379"))
    world = replace(deployed(), etcd_client=grown)
    now = operation(next_operation(guest(world), world))
    assert (now.operation, now.why) == ("reconfigure", "members of etcd: +https://192.0.2.12:2379")
    lost = replace(deployed(), etcd_client=None)
    assert isinstance(next_operation(guest(lost), lost), Nothing), "what nobody knows changes nothing"


def test_operations_that_start_api_servers_wait_for_a_user_and_a_certificate() -> None:
    world = replace(deployed(), etcd_client=usable(usable=False, ready=False, message="there is no EtcdCluster store"))
    waiting = wait(next_operation(guest(world, kubernetes={"kubelet": {"swapOff": False}}), world))
    assert (waiting.reason, waiting.message) == (WaitReason.WAITING_FOR_ETCD, "there is no EtcdCluster store")
    unready = replace(deployed(), etcd_client=usable(ready=False, message="it is Degraded"))
    changed = operation(next_operation(guest(unready, kubernetes={"kubelet": {"swapOff": False}}), unready))
    assert changed.operation == "reconfigure", "what runs with it already waits for no more than that"


def test_a_renewal_is_done_again_with_another_certificate_of_etcd() -> None:
    world = replace(deployed(), expires=NOW)
    first = operation(next_operation(guest(world), world))
    after = replace(ended(begun(world, first)), expires=NOW)
    assert first.operation == "certificates"
    assert isinstance(next_operation(guest(after), after), Nothing)
    newer = replace(after, etcd_client=usable(expires="2028-01-01T00:00:00Z"))
    assert operation(next_operation(guest(newer), newer)).operation == "certificates"


def test_lost_workers_do_not_look_like_a_lost_etcd_and_lost_control_planes_cannot_be_made_anew() -> None:
    world = replace(deployed(), lost={"w-1": "gone"})
    assert operation(next_operation(guest(world), world)).operation == "remove-node"
    planes = replace(deployed(), lost={"cp-0": "gone"})
    assert "the keys that EtcdCluster store has" in not_recoverable(Situation.of(guest(planes), planes))
    waiting = wait(next_operation(guest(planes), planes))
    assert waiting.reason == WaitReason.NOT_RECOVERABLE


# Edits of a deployed cluster, and what is refused.
EDITS: tuple[tuple[Json, str], ...] = (
    ({"clusterRef": {"name": "store"}}, ""),
    ({"clusterRef": {"name": "store", "prefix": "/guest-7d3a"}}, ""),
    (
        {"clusterRef": {"name": "store", "prefix": "/b"}},
        "names of the cluster's keys begin with /guest-7d3a, which",
    ),
    ({"clusterRef": {"name": "other"}}, "the cluster has its keys in EtcdCluster store, and cannot move: use store"),
    ({}, "a cluster cannot move to another etcd: make another ClusterDeployment"),
)


@pytest.mark.parametrize(("etcd", "said"), EDITS, ids=[said[:30] for _, said in EDITS])
def test_a_deployed_cluster_keeps_its_etcd_and_its_prefix(etcd: Json, said: str) -> None:
    own = deployment(wanted_set("cp", "control-plane", "worker"), wanted_set("w", "worker", replicas=2), etcd=etcd)
    own["metadata"]["uid"] = "7d3a"
    _, mistakes = judged(own, MACHINES, deployed(), "image")
    assert [said] == [said for one in mistakes if said in one.text] if said else mistakes == []


CLIENTS = (EtcdClient("a", "a.1", "/a"), EtcdClient("b", "b.1", "/b"))


def with_clients(world: Observed, *clients: EtcdClient, **spec: Any) -> tuple[Desired, Observed]:
    """Return the wish for the EtcdCluster and the world with clusters that use it."""
    seen = replace(world, clients=clients)
    wish = etcd_wish(*members(0), applied=world.applied, **spec)
    around = variables_around(wish.wish, seen)
    return desired(wish.wish, members(0), load_releases(), world.applied, around=around), seen


def run(wanted: Desired, world: Observed, name: str) -> Observed:
    """Return the world once the operation of a name has succeeded, which has to be the next one."""
    now = operation(next_operation(wanted, world))
    assert now.operation == name
    return ended(begun(world, now))


def test_users_are_made_after_etcd_and_each_change_of_them_is_one_operation() -> None:
    wanted, world = with_clients(Observed(NOW), *CLIENTS)
    assert [step.operation for step in plan(wanted, world)] == ["deploy-etcd", "etcd-users"]
    world = run(wanted, world, "deploy-etcd")
    assert world.applied is not None
    assert "cluster_etcd_users" not in world.applied.variables, "nobody has made them yet"
    wanted, world = with_clients(world, *CLIENTS)
    now = operation(next_operation(wanted, world))
    assert now.why == "users of etcd: +a.1 (/a), +b.1 (/b)"
    world = run(wanted, world, "etcd-users")
    assert isinstance(next_operation(*with_clients(world, *CLIENTS)), Nothing)
    gone = with_clients(world, CLIENTS[0])
    assert operation(next_operation(*gone)).why == "users of etcd: -b.1 (/b)"
    world = run(*with_clients(run(*gone, "etcd-users")), "etcd-users")
    assert isinstance(next_operation(*with_clients(world)), Nothing)


def test_an_etcd_without_clients_has_no_such_variable() -> None:
    wanted, world = with_clients(Observed(NOW))
    world = run(wanted, world, "deploy-etcd")
    assert isinstance(next_operation(*with_clients(world)), Nothing)


def used() -> Observed:
    """Return the world in which etcd has users."""
    world = run(*with_clients(Observed(NOW), *CLIENTS), "deploy-etcd")
    return run(*with_clients(world, *CLIENTS), "etcd-users")


def test_keys_of_who_leaves_go_with_the_user_where_they_are_to() -> None:
    leaving = replace(CLIENTS[1], leaving=True, deletes=True)
    wanted, world = with_clients(used(), CLIENTS[0], leaving)
    due = etcd_users(Situation.of(wanted, world))
    assert due is not None
    assert due.variables["cluster_etcd_deleted_prefixes"] == ["/b"]
    assert due.variables["cluster_etcd_users"] == [{"name": "a.1", "prefix": "/a"}]
    after = run(wanted, world, "etcd-users")
    assert after.applied is not None
    assert "cluster_etcd_deleted_prefixes" not in after.applied.variables
    assert isinstance(next_operation(*with_clients(after, CLIENTS[0], leaving)), Nothing), "once"
    kept = etcd_users(Situation.of(*with_clients(used(), CLIENTS[0], replace(leaving, deletes=False))))
    assert kept is not None
    assert "cluster_etcd_deleted_prefixes" not in kept.variables


@pytest.mark.parametrize("name", ["restore", "recover"])
def test_users_are_made_again_after_a_snapshot_was_restored(name: str) -> None:
    world = used()
    snapshot = OperationSnapshot(backup="b", uid="u", claim="c", file="store/b.db")
    back = CurrentOperation(sequence=9, operation=name, snapshot=snapshot, applies=world.applied)
    after = ended(begun(world, back))
    assert after.unsettled is not None
    assert "clients" in after.unsettled.parts
    steps = {one.operation: one.why for one in plan(*with_clients(after, *CLIENTS))}
    assert steps["etcd-users"] == f"users of etcd may differ since {name} 9"
    settled = ended(begun(after, CurrentOperation(sequence=10, operation="etcd-users", applies=world.applied)))
    assert settled.unsettled is None or "clients" not in settled.unsettled.parts


def test_a_deleted_etcd_waits_for_its_clusters_and_then_is_reset() -> None:
    world = used()
    wish = etcd_wish(*members(0), applied=world.applied, deleted=True)
    waiting = wait(next_operation(wish, replace(world, clients=CLIENTS)))
    assert waiting.reason == WaitReason.ETCD_IN_USE
    assert waiting.message == "EtcdCluster store has the keys of a, b: delete these ClusterDeployments first"
    assert operation(next_operation(wish, replace(world, clients=()))).operation == "reset"


def test_a_deleted_cluster_waits_until_its_keys_are_gone_only_where_they_are_to_go() -> None:
    gone: Json = {"deleted": True, "deletion": {"etcdKeys": "Delete"}}
    world = deployed()
    after = run(guest(world, **gone), world, "reset")
    waiting = wait(next_operation(guest(after, **gone), after))
    assert waiting.reason == WaitReason.WAITING_FOR_ETCD
    assert "is to remove its user and its keys below /guest-7d3a" in waiting.message
    left = replace(after, etcd_client=usable(leaving=True, deletes=True, made=False))
    assert isinstance(next_operation(guest(left, **gone), left), Nothing)
    assert isinstance(next_operation(guest(after, deleted=True), after), Nothing), "they stay"
    away = {**gone, "deletion": {"etcdKeys": "Delete", "machines": "Leave"}}
    assert isinstance(next_operation(guest(world, **away), world), Nothing)


def leaving(etcd: Json | None, *clusters: Json) -> EtcdClientState:
    """Return what a cluster has that leaves, and whose keys are to go."""
    own = sharing()
    own["spec"]["deletion"] = {"etcdKeys": "Delete"}
    wish: ClusterDeployment = defaulted(own)
    return leaving_state(known(made=True), EtcdAround.of(wish, etcd, clusters, ()), wish)


def test_who_leaves_waits_for_an_etcd_that_stays() -> None:
    assert (leaving(store(), of_store(ENTRY)).made, leaving(store(), of_store(ENTRY)).deletes) == (True, True)
    for etcd in (None, store(deleted="2026"), store(uid="new")):
        assert not leaving(etcd, of_store(ENTRY)).made
    assert not leaving(store(), of_store()).made


def test_what_a_restore_brought_back_is_put_right() -> None:
    past = {"sequence": 4, "operation": "restore", "outcome": "succeeded", "backup": "b"}
    wish = defaulted(sharing())
    assert restored_by(EtcdAround.of(wish, store(), (of_store(history=[past]),), ())) == "restore 4"
    nothing = {**past, "operation": "recover", "backup": None}
    assert restored_by(EtcdAround.of(wish, store(), (of_store(history=[nothing]),), ())) == ""
