"""A delivered application is the revision that was pushed: what answers, what runs, and what stays when one is bad."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cell.life import Life
from harness.kube.client import Cluster
from harness.model import Cell, GuestCluster
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import NotRun, eventually, require
from harness.validate.phases import delivery
from harness.validate.phases.delivery import ANSWERS, COMES_BACK, ROLLS_BACK, DeliverySight, Revisions

LOOK = "status of the Delivery; the log of the pod with the label vmatrix.dev/delivery-client"
DO = "kubectl get deliveries,deployments,services,pods,jobs --all-namespaces --output wide"


@pytest.mark.when(phase=delivery.of(ANSWERS, ROLLS_BACK, COMES_BACK))
def test_the_answer_names_the_revision_that_was_pushed(
    sight: Callable[[], DeliverySight], revisions: Revisions, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: delivery.wrong_answers(sight(), revisions.good),
            deadline=Deadline.after(timeouts.probe_pods),
            what="the application to answer",
        ),
        claim="the application's Service answers with the last good revision that was pushed, and with its files",
        look=LOOK,
        do=DO,
    )


@pytest.mark.when(phase=delivery.of(ANSWERS, ROLLS_BACK, COMES_BACK))
def test_what_runs_is_the_image_that_the_registry_has(
    sight: Callable[[], DeliverySight], revisions: Revisions, timeouts: Timeouts
) -> None:
    require(
        eventually(
            lambda: delivery.wrong_images(sight(), revisions.good),
            deadline=Deadline.after(timeouts.probe_pods),
            what="the revision's image alone to run",
        ),
        claim="one Deployment runs the image that the registry has of the revision, by its digest, and nothing else",
        look=LOOK,
        do=DO,
    )


@pytest.mark.when(phase=delivery.of(ROLLS_BACK))
def test_a_bad_revision_is_built_deployed_and_rolled_back(
    sight: Callable[[], DeliverySight], revisions: Revisions
) -> None:
    assert revisions.bad is not None
    require(
        delivery.not_rolled_back(sight(), revisions.bad),
        claim="the bad revision was pushed to the registry and deployed, and the Delivery says that it was rolled back",
        look=LOOK,
        do=DO,
    )


@pytest.mark.when(phase=delivery.of(ROLLS_BACK))
def test_the_revision_before_answers_all_through_a_bad_one(
    sight: Callable[[], DeliverySight], revisions: Revisions
) -> None:
    assert revisions.bad is not None
    require(
        delivery.interrupted(sight(), revisions.bad, revisions.good),
        claim="from the bad revision's rollout to its end, each request is answered by the revision before it",
        look=LOOK,
        do=DO,
    )


@pytest.mark.when(phase=delivery.of(COMES_BACK))
def test_deleted_objects_are_made_again(
    sight: Callable[[], DeliverySight], target: Cluster, life: Life, cell: Cell, phase: int
) -> None:
    deleted = life.site.product_of(cell).phases[cell.phases[phase].name].deleted
    require(
        delivery.not_made_again(target, life.attempt.namespace, sight(), deleted),
        claim="each object that was deleted is there again, made after the last revision had come to its end",
        look="events of the Delivery (PutBack), and the log of the operator's pod",
        do=DO,
    )


@pytest.mark.when(phase=delivery.into_guest(COMES_BACK))
def test_a_deleted_service_is_put_back_in_time(sight: Callable[[], DeliverySight], target: Cluster, life: Life) -> None:
    look = sight()
    require(
        delivery.put_back_late(target, life.attempt.namespace, look, look.delivery["metadata"]["name"]),
        claim="a Service that somebody deletes in a guest is there again within 10 seconds",
        look="the log of the operator's pod; how long its looks at the guest take",
        do=DO,
    )


@pytest.mark.when(phase=delivery.with_ingress(ANSWERS, ROLLS_BACK, COMES_BACK))
def test_every_node_leads_its_host_to_the_application(
    guest: GuestCluster,
    sight: Callable[[], DeliverySight],
    revisions: Revisions,
    expected: ExpectedGuest,
    timeouts: Timeouts,
) -> None:
    if any(machine.tunnels is not None for machine in guest.environment.machines):
        raise NotRun("this process reaches machines through the infra cluster's API alone, and not their network")
    addresses = {name: expected.addresses[name] for name in expected.nodes}
    require(
        eventually(
            lambda: delivery.misled(sight().delivery, revisions.good, addresses, timeouts.probe_proxy),
            deadline=Deadline.after(timeouts.probe_follow),
            what="every node to lead to the application",
        ),
        claim="who is outside of the cluster gets the last good revision at every node, by the host of the Ingress",
        look="the Ingress of the application; the log of the ingress controller's pod on that node",
        do="kubectl --kubeconfig kubeconfig get ingresses,services,endpointslices --all-namespaces",
    )
