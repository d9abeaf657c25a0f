"""What holds for every wish and every world, tried with many of both."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.kube.objects import stamp
from harness.operator.api.cluster import CurrentOperation, UnsettledState
from harness.operator.api.clusterdeployment import ClusterDeletionPolicy
from harness.operator.api.resources import APPROVE_ANNOTATION
from harness.operator.decide.accepted import against
from harness.operator.decide.desired import Desired, applied_host, digest_of, digests_of
from harness.operator.decide.due import Wait
from harness.operator.decide.observed import Observed, SeenRestore, begun, ended
from harness.operator.decide.operations import LONGEST_SECONDS, Nothing, Verdict, next_operation, plan
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import NOW, claimed, past, wish

# No time limits: a busy host is slow.
many = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
STEPS = 80  # more than any way to the end has: three tries of each operation, and a wait before each
SETS = (
    (wanted_set("cp", "control-plane", "worker"), wanted_set("w", "worker", replicas=2)),
    (wanted_set("cp", "control-plane"), wanted_set("w", "worker", replicas=3)),
    (wanted_set("cp", "control-plane", "worker", replicas=3),),
    (wanted_set("cp", "control-plane", "worker", replicas=3), wanted_set("w", "worker", replicas=1)),
    (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=3)),
    (wanted_set("cp", "control-plane"), wanted_set("db", "etcd", replicas=1), wanted_set("w", "worker", replicas=2)),
)
WAITS = {"Paused", "NotAccepted", "WaitingForMachines", "WaitingForApproval", "MajorityAtRisk", "Failed", "Cancelled"}
# What only an edit, a machine or a backup can end:
WAITS |= {"RestoreNotNamed", "RestoreNotConfirmed", "NotRecoverable", "BackupFirst"}
specs = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["1.34.4", "1.35.4", "1.36.1", "1.36.3"]),
        "approval": st.sampled_from(["Automatic", "Manual"]),
        "paused": st.booleans(),
        "addons": st.just([{"name": "metrics-server"}]),
        "variables": st.dictionaries(st.sampled_from(["cluster_a", "cluster_b"]), st.integers(), max_size=2),
        "deletion": st.fixed_dictionaries({"machines": st.sampled_from(["Reset", "Leave"])}),
        "jobs": st.fixed_dictionaries({"retries": st.integers(0, 4)}),
    },
)
FOREIGN = "x-"  # begins the names of machines that an earlier object of the same name claimed
mine = st.sampled_from(["m-1", "m-2", "m-3", "m-4", "m-5"])
others = st.sampled_from([f"{FOREIGN}1", f"{FOREIGN}2"])
fleet = st.dictionaries(mine | others, st.sampled_from(["cp", "w", "db", "gone"]))
said = st.dictionaries(mine, st.just("it says so"), max_size=2)


@st.composite
def wishes(draw: st.DrawFn, *, complete: bool = False) -> Desired:
    """Return a wish with all its machines, or with any, claimed by it and by others."""
    spec: dict[str, Any] = draw(specs)
    sets = draw(st.sampled_from(SETS))
    found = draw(fleet)
    if complete or draw(st.booleans()):
        names = [one["name"] for one in sets for _ in range(one["replicas"])]
        found = {f"m-{number}": name for number, name in enumerate(names, 1)}
    machines = (claimed(n, s, uid="other") if n.startswith(FOREIGN) else claimed(n, s) for n, s in found.items())
    if complete:
        return wish(*sets, machines=tuple(machines), **{**spec, "paused": False, "approval": "Automatic"})
    return wish(
        *sets,
        machines=tuple(machines),
        retry=draw(st.sampled_from([None, "1"])),
        deleted=draw(st.booleans()),
        refused=draw(st.sampled_from([(), (), ("wrong",)])),
        **spec,
    )


@st.composite
def worlds(draw: st.DrawFn, one: Desired) -> Observed:
    """Return a world with any past, of this wish and of others, and perhaps with an operation that runs."""
    wanted = (one, draw(wishes()))
    history = tuple(
        past(
            draw(st.sampled_from(wanted)),
            draw(st.sampled_from(["deploy", "reset", "upgrade", "scale", "remove-node"])),
            ago=draw(st.integers(0, 1000)),
            sequence=number,
            attempt=draw(st.integers(1, 4)),
            outcome=draw(st.sampled_from(["succeeded", "failed", "interrupted"])),
            blame=draw(st.sampled_from(["product", "infra", "harness", None])),
        )
        for number in range(draw(st.integers(0, 4)), 0, -1)
    )
    ready = replace(but(draw(st.sampled_from(wanted)), deleted=None, paused=False), refused=())
    applied = begun_of(ready) if draw(st.booleans()) else None
    trouble = draw(st.dictionaries(st.sampled_from(["m-1", "m-2"]), st.just("no answer"), max_size=1))
    gone = draw(st.sampled_from([{}, {}, {"metrics-server": "gone: x"}]))
    world = Observed(NOW, len(history), None, applied, history, trouble, missing=gone)
    if draw(st.booleans()):
        world = replace(world, lost=draw(said), replace=draw(said), changed=draw(said), silent=frozenset(draw(said)))
        world = replace(world, deleted=frozenset(draw(said)), backups=draw(backups), unsettled=draw(half(ready)))
        world = replace(world, ill=draw(said), restore=draw(restores))
        world = replace(world, expires=draw(st.sampled_from([None, NOW, NOW + timedelta(days=300)])))
    verdict = next_operation(but(one, paused=False), world)
    return begun(world, verdict) if isinstance(verdict, CurrentOperation) and draw(st.booleans()) else world


MONDAY = seen("monday", "verified", taken="2026-11-23")
ASKED = SeenRestore("undo", "uid-undo", MONDAY.name, MONDAY.taken)
ASKS = ("RestoreNotNamed", "RestoreNotConfirmed")
backups = st.sampled_from([(), (MONDAY,), (seen("asked"),)])
restores = st.sampled_from([None, ASKED, replace(ASKED, confirm="")])


def half(one: Desired) -> st.SearchStrategy[UnsettledState | None]:
    """Return what operations on the way to a wish may have left half done."""
    parts = st.lists(st.sampled_from(["version", "settings", "addons"]), max_size=2, unique=True).map(tuple)
    known = [applied_host(host) for host in one.hosts]
    hosts = st.lists(st.sampled_from(known), max_size=2, unique_by=id).map(tuple) if known else st.just(())
    leaving = st.lists(st.sampled_from(one.machines or ("m-9",)), max_size=1).map(tuple)
    return st.none() | st.builds(
        UnsettledState, parts=parts, hosts=hosts, leaving=leaving, why=st.just("scale 1 failed")
    )


def but(one: Desired, *, deleted: str | None = "as it is", **spec: Any) -> Desired:
    """Return a wish with other fields of the spec, and deleted at another time or not at all, of the same digests."""
    there = one.wish.metadata.deletion_timestamp
    metadata = {"deletion_timestamp": there if deleted == "as it is" else deleted}
    update = {"metadata": one.wish.metadata.model_copy(update=metadata), "spec": one.spec.model_copy(update=spec)}
    return replace(one, wish=one.wish.model_copy(update=update))


def annotated(one: Desired, annotation: str, value: str) -> Desired:
    """Return a wish with the approval of one operation."""
    metadata = one.wish.metadata.model_copy(update={"annotations": {annotation: value}})
    return replace(one, wish=one.wish.model_copy(update={"metadata": metadata}))


def begun_of(one: Desired) -> Any:
    """Return what a wish applies, if it could be deployed."""
    verdict = next_operation(one, Observed(NOW))
    return verdict.applies if isinstance(verdict, CurrentOperation) else None


def judged(pair: tuple[Desired, Observed]) -> tuple[Desired, Observed]:
    """Return a wish with what is wrong with it because of what was deployed, and the world."""
    one, world = pair
    wrong = tuple(mistake.text for mistake in against(one.wish, (), world))
    return replace(one, refused=(*one.refused, *wrong)), world


both = wishes().flatmap(lambda one: st.tuples(st.just(one), worlds(one))).map(judged)


def lived(
    one: Desired, world: Observed, blames: Sequence[str] = (), *, approves: bool = False
) -> tuple[list[CurrentOperation], Verdict, Observed]:
    """Return what begins, one after the other, until nothing more happens by itself; the last verdict, and the world.

    blames: of the operations that fail, in order; those after them succeed.  approves: a person does, whatever it is.
    """
    begins: list[CurrentOperation] = []
    left = iter(blames)
    for _ in range(STEPS):
        if world.running is not None:
            blame = next(left, None)
            world = ended(world, "succeeded" if blame is None else "failed", blame)
        verdict = next_operation(one, world)
        if isinstance(verdict, CurrentOperation):
            begins.append(verdict)
            world = begun(world, verdict)
        elif isinstance(verdict, Wait) and verdict.approval is not None and approves:
            world = replace(world, approval=verdict.approval)
            one = annotated(one, APPROVE_ANNOTATION, str(verdict.approval.sequence))
        elif isinstance(verdict, Wait) and verdict.reason in ASKS and approves and world.restore != ASKED:
            world = replace(world, restore=ASKED)
        elif isinstance(verdict, Wait) and verdict.again_seconds is not None:
            world = replace(world, now=world.now + timedelta(seconds=verdict.again_seconds))
        else:
            return begins, verdict, world
    raise AssertionError(f"no end after {STEPS} steps: {[one.operation for one in begins]}")


@many
@given(both)
def test_operations_that_succeed_lead_to_nothing_more_to_do(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    _, verdict, world = lived(one, world, approves=True)
    if isinstance(verdict, Wait):
        assert verdict.reason in WAITS
    else:
        assert isinstance(verdict, Nothing)
        assert plan(one, world) == ()
        assert world.unsettled is None or one.deleting


@many
@given(both)
def test_the_plan_is_what_happens(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    world = replace(ended(world), history=(), approval=None)
    steps = plan(one, world)
    begins, verdict, _ = lived(one, world, approves=True)
    if isinstance(verdict, Nothing):
        assert [(step.operation, step.why) for step in steps] == [(one.operation, one.why) for one in begins]


@many
@given(both, wishes(), st.lists(st.sampled_from(["infra", "product"]), max_size=3))
def test_whatever_failed_is_put_right_before_a_later_wish_counts_as_true(
    pair: tuple[Desired, Observed], other: Desired, blames: list[str]
) -> None:
    one, world = pair
    *_, world = lived(one, world, blames, approves=True)
    later, _ = judged((other, world))
    _, verdict, world = lived(later, world, approves=True)
    if isinstance(verdict, Nothing) and not later.deleting:
        assert world.unsettled is None
        assert world.applied is not None
        assert world.applied.digests == digests_of(world.applied.variables)
        assert {**later.digests, "machines": ""} == {**world.applied.digests, "machines": ""}
        assert set(world.applied.machines) <= set(later.machines)


@many
@given(both, st.lists(st.sampled_from(["infra", "product"]), max_size=2))
def test_no_removal_leaves_etcd_without_a_majority_or_the_cluster_without_a_control_plane(
    pair: tuple[Desired, Observed], blames: list[str]
) -> None:
    one, world = pair
    for _ in range(STEPS):
        verdict = next_operation(one, world)
        if not isinstance(verdict, CurrentOperation):
            return
        if verdict.operation == "remove-node" and world.applied is not None:
            half = world.unsettled
            there = {host.machine: host for host in (*(half.hosts if half is not None else ()), *world.applied.hosts)}
            dead = {*world.lost, *world.silent, *(half.leaving if half is not None else ())}
            alive = [name for name in verdict.machines if name not in dead and "etcd" in there[name].groups]
            members = [name for name, host in there.items() if "etcd" in host.groups]
            assert len(alive) <= max(1, (len(members) - 1) // 2)
            if alive:
                assert len(members) - len(alive) >= 1
                planes = [name for name, host in there.items() if "control_plane" in host.groups]
                assert set(planes) - set(verdict.machines)
        world = ended(begun(world, verdict), *(("failed", blames.pop()) if blames else ()))


@many
@given(both)
def test_upgrades_go_one_minor_at_a_time(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    begins, *_ = lived(one, ended(world), approves=True)
    version = world.applied.version if world.applied is not None else ""
    for found in begins:
        if found.operation == "upgrade" and found.applies is not None:
            before, after = (int(text.split(".")[1]) for text in (version, found.applies.version))
            assert after - before in {0, 1}
        version = found.applies.version if found.applies is not None else version


@many
@given(both)
def test_nothing_begins_that_is_paused_or_refused_or_not_approved(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    assert not isinstance(next_operation(but(one, paused=True), world), CurrentOperation)
    if not one.deleting:
        assert not isinstance(next_operation(replace(one, refused=("wrong",)), world), CurrentOperation)
    verdict = next_operation(but(one, approval="Manual"), replace(world, approval=None))
    if isinstance(verdict, CurrentOperation):
        assert verdict.operation in {"deploy", "scale", "addons", "backup", "reset"}


@many
@given(wishes(complete=True))
def test_a_wish_with_all_its_machines_comes_true_in_one_operation(one: Desired) -> None:
    (deploy,), verdict, world = lived(one, Observed(NOW))
    assert (deploy.operation, verdict) == ("deploy", Nothing())
    (reset,), verdict, world = lived(but(one, deleted=stamp(NOW), deletion=ClusterDeletionPolicy()), world)
    assert (reset.operation, verdict, world.applied) == ("reset", Nothing(), None)


@many
@given(wishes(complete=True), st.lists(st.sampled_from(["infra", "infra", "infra", "product"]), min_size=6))
def test_whatever_fails_ends_after_the_retries_and_begins_again_after_a_change(one: Desired, blames: list[str]) -> None:
    begins, verdict, world = lived(one, Observed(NOW), blames)
    final = blames.index("product") + 1 if "product" in blames else len(blames)
    assert len(begins) == min(one.spec.jobs.retries + 1, final)
    assert [(found.sequence, found.attempt) for found in begins] == [(1, n) for n in range(1, len(begins) + 1)]
    assert isinstance(verdict, Wait)
    assert verdict.reason == "Failed"
    (again,), verdict, _ = lived(replace(one, inputs={**one.inputs, "retry": "another"}), world)
    assert (again.sequence, again.attempt, verdict) == (2, 1, Nothing())


@many
@given(both)
def test_never_two_operations_at_once(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    verdict = next_operation(one, world)
    if world.running is not None:
        assert isinstance(verdict, Wait)
        assert verdict.reason in {"OperationRunning", "Paused"}
    elif isinstance(verdict, CurrentOperation):
        after = next_operation(one, begun(world, verdict))
        assert isinstance(after, Wait)


@many
@given(both)
def test_only_claimed_machines_are_touched_and_reset_only_follows_a_deletion(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    verdict = next_operation(one, world)
    if isinstance(verdict, CurrentOperation):
        known = world.applied.machines if world.applied is not None else ()
        half = [host.machine for host in world.unsettled.hosts] if world.unsettled is not None else []
        assert set(verdict.machines) <= {*one.machines, *known, *half}
        assert not [name for name in verdict.machines if name.startswith(FOREIGN)]
        assert bool(verdict.machines) is (verdict.operation != "backup"), "a backup is the whole cluster's"
        anew = world.applied is None and bool(half)  # a deployment that failed, and that a machine is to leave
        assert verdict.operation == "reset" if one.deleting else verdict.operation != "reset" or anew
        if verdict.operation == "deploy":
            wanted = {found.name: found.replicas for found in one.spec.machine_sets}
            have = [host.set_name for host in one.hosts]
            assert {name: have.count(name) for name in {*have, *wanted}} == wanted
            assert not world.trouble.keys() & set(one.machines)
            assert not one.refused


@many
@given(both)
def test_a_number_is_never_used_twice(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    verdict = next_operation(one, world)
    if isinstance(verdict, CurrentOperation):
        assert all(
            (verdict.sequence, verdict.attempt) != (found.sequence, found.attempt)
            or found.operation != verdict.operation
            for found in world.history
        )


@many
@given(both)
def test_a_delay_is_short_and_runs_out(pair: tuple[Desired, Observed]) -> None:
    one, world = pair
    verdict = next_operation(one, world)
    if isinstance(verdict, Wait) and verdict.again_seconds is not None:
        assert 0 < verdict.again_seconds <= LONGEST_SECONDS
        later = replace(world, now=world.now + timedelta(seconds=verdict.again_seconds))
        assert isinstance(next_operation(one, later), CurrentOperation)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@many
@given(st.dictionaries(st.text(max_size=3), plain, max_size=5), st.randoms())
def test_a_digest_does_not_depend_on_the_order_of_keys(content: dict[str, Any], chance: random.Random) -> None:
    assert digest_of(shuffled(content, chance)) == digest_of(content)


def shuffled(content: Any, chance: random.Random) -> Any:
    """Return the same plain data with the keys of every mapping in another order."""
    if isinstance(content, Mapping):
        keys = list(content)
        chance.shuffle(keys)
        return {key: shuffled(content[key], chance) for key in keys}
    return [shuffled(one, chance) for one in content] if isinstance(content, list) else content


@many
@given(st.randoms())
def test_a_wish_has_the_same_digests_however_its_variables_are_written(chance: random.Random) -> None:
    own = {"cluster_kubelet_config": {"maxPods": 1, "failSwapOn": False}, "cluster_b": {"x": [1], "y": 2}}
    first, second = wish(variables=own), wish(variables=shuffled(own, chance))
    assert (first.digest, first.digests) == (second.digest, second.digests)


@many
@given(st.permutations(range(3)))
def test_a_wish_does_not_depend_on_the_order_of_machines(order: list[int]) -> None:
    machines = (claimed("cp-0", "cp"), claimed("w-1", "w"), claimed("w-2", "w"))
    assert wish(machines=tuple(machines[number] for number in order)) == wish(machines=machines)


def test_different_inputs_have_different_digests() -> None:
    found = {digest_of(content) for content in ({}, {"a": 1}, {"a": "1"}, {"a": None}, {"b": 1}, [1, 2], [2, 1])}
    assert len(found) == 7
