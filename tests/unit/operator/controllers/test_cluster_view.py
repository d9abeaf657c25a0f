"""What is known of a cluster."""

from __future__ import annotations

import pytest

from harness.kube.reconcile import Queue
from harness.kube.resources import POD
from harness.operator.api.cluster import CurrentOperation
from harness.operator.controllers.cluster_view import Workable, final_pods, follow_backups, owned_by
from harness.operator.decide.due import Wait, WaitReason
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.controllers.backed_up import backup, restore
from tests.unit.operator.controllers.looks import UID, cluster, declared, given, looks, seen


def test_machines_are_those_that_this_very_object_has_claimed() -> None:
    view = seen(declared(), None, given("m-0"), given("m-1", uid="an-earlier-one's"))
    assert [machine.metadata.name for machine in view.machines] == ["m-0"]
    assert isinstance(view.verdict, CurrentOperation)
    assert view.verdict.machines == ("m-0",)


def test_what_is_no_cluster_deployment_waits_for_its_correction() -> None:
    body = declared()
    body["spec"]["machineSets"] = "none"
    view = seen(body, cluster())
    assert (view.wish, view.desired) == (None, None)
    assert isinstance(view.verdict, Wait)
    assert view.verdict.reason is WaitReason.NOT_ACCEPTED
    assert Workable.of(view) is None


def test_image_is_a_mistake_only_where_nobody_names_one() -> None:
    assert "no image of the executor is known" in seen(declared(), None, image="").mistakes[0]
    assert seen(declared(playbooks={"image": "own:1"}), None, image="").mistakes == ()
    assert seen(declared(), None).mistakes == ()


def test_networks_must_not_have_a_machine_in_them() -> None:
    (mistake,) = seen(declared(network={"services": "192.0.2.0/24"}), None, given("m-0")).mistakes
    assert mistake.startswith("spec.network.services: the network 192.0.2.0/24 overlaps 192.0.2.10/32")


def test_operations_need_a_cluster_that_stays() -> None:
    leaving = cluster()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert Workable.of(seen(declared(), None)) is None
    assert Workable.of(seen(declared(), leaving)) is None
    found = Workable.of(seen(declared(), cluster()))
    assert found is not None
    assert found.key == ("default", "guest")


def test_pods_of_a_job_are_told_by_their_label_the_latest_first() -> None:
    known = looks()
    for name, moment, job in (("a", "1", "j"), ("b", "2", "j"), ("c", "3", "other")):
        labels = {"batch.kubernetes.io/job-name": job}
        meta = {"namespace": "n", "name": name, "creationTimestamp": moment, "labels": labels, "resourceVersion": "1"}
        known.pods._store("ADDED", {"metadata": meta})
    assert [pod["metadata"]["name"] for pod in known.pods_of("n", "j")] == ["b", "a"]


def test_owner_is_told_by_its_uid() -> None:
    child = {"metadata": {"ownerReferences": [{"uid": UID, "controller": True}]}}
    assert owned_by(child, declared())
    assert not owned_by(child, {"metadata": {"uid": "another"}})
    assert not owned_by({"metadata": {}}, declared())


def test_change_of_a_backup_concerns_its_cluster_and_the_one_that_is_to_restore_it() -> None:
    known, queue = looks(), Queue()
    known.restores._store("ADDED", restore())
    follow_backups(known, queue)
    known.backups._tell("ADDED", backup("b", cluster="third"))
    known.backups._tell("ADDED", backup("a", cluster="other"))
    assert len(queue) == 3
    assert {queue.take() for _ in range(3)} == {("default", name) for name in ("third", "other", "guest")}


HOST = {"name": "m-0", "machine": "m-0", "set": "cp", "address": "192.0.2.10", "key": {"name": "keys"}}


@pytest.mark.parametrize(("made", "machines"), [("2026-01-01T00:00:00Z", ["m-0"]), ("2026-03-01T00:00:00Z", [])])
def test_a_machine_in_use_whose_claim_somebody_removed_is_still_the_cluster_s(made: str, machines: list[str]) -> None:
    past = {"sequence": 1, "operation": "deploy", "outcome": "succeeded", "ended": "2026-02-01T00:00:00Z"}
    applied = {"version": "1.36.3", "machines": ["m-0"], "hosts": [HOST]}
    robbed = given("m-0")
    robbed["spec"]["claim"] = None
    robbed["metadata"]["creationTimestamp"] = made
    view = seen(declared(), cluster(applied=applied, sequence=1, history=[past]), robbed)
    assert [machine.metadata.name for machine in view.machines] == machines


def test_how_pods_have_ended_is_asked_for_where_the_local_copy_is_behind() -> None:
    job = {"metadata": {"name": "guest-1-drill", "namespace": "default"}}
    meta = {"namespace": "default", "labels": {"batch.kubernetes.io/job-name": "guest-1-drill"}}
    moments = {"a": "2026-01-01T00:00:00Z", "b": "2026-01-02T00:00:00Z"}
    now = [
        {"metadata": {**meta, "name": name, "creationTimestamp": made}, "status": {"phase": "Failed"}}
        for name, made in moments.items()
    ]
    before = [{**pod, "status": {"phase": "Running"}} for pod in now[:1]]
    api = FakeCluster({POD: now})
    assert [pod["metadata"]["name"] for pod in final_pods(api, job, before)] == ["b", "a"]
    assert [pod["metadata"]["name"] for pod in final_pods(api, job, ())] == ["b", "a"]
    asked = len(api.asked)
    assert final_pods(api, job, now[:1]) == now[:1]
    assert len(api.asked) == asked, "a whole copy is enough"
