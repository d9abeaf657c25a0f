"""What runs share with others: an API server whose webhooks are down for a while, a cluster with too little room."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.cell.network import refuse_masquerade
from harness.errors import EXIT_RETRY, BadInput, Blame, InfraRetriable
from harness.kube import Cluster
from harness.kube.api import Patience
from harness.kube.resources import VALIDATING_WEBHOOK
from harness.schedule.admission import Admission
from harness.schedule.durations import Durations
from harness.schedule.placement import Limits
from harness.session.admit import Waiting
from harness.spec.settings import load_settings
from tests.chaos.cells import Ground, bring_up, cell_of

rows = pytest.mark.row
NAME = "chaos-nobody-answers"


@contextmanager
def webhook_down(cluster: Cluster, ca: str) -> Iterator[None]:
    """Have machines' creation checked by a webhook that nobody serves, and that lets nothing pass."""
    webhook = {
        "name": "nobody.chaos.vmatrix.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 2,
        "clientConfig": {"url": "https://127.0.0.1:1/validate", "caBundle": ca},
        "rules": [
            {
                "apiGroups": ["kubevirt.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["virtualmachines"],
            }
        ],
    }
    meta = {"name": NAME}
    kind = {"apiVersion": VALIDATING_WEBHOOK.api_version, "kind": VALIDATING_WEBHOOK.kind}
    cluster.ensure(VALIDATING_WEBHOOK, {**kind, "metadata": meta, "webhooks": [webhook]})
    try:
        yield
    finally:
        cluster.delete(VALIDATING_WEBHOOK, NAME)


def patient(ground: Ground, seconds: float) -> Cluster:
    path = ground.provider.kubeconfig()
    return Cluster.from_kubeconfig(path, patience=Patience(again_seconds=seconds))


@rows("F28")
def test_a_cell_survives_a_webhook_that_is_down_for_a_while(ground: Ground, cluster: Cluster, infra_ca: str) -> None:
    assert base64.b64decode(infra_ca)
    life = ground.life(ground.site({"unschedulable": 60.0}, cluster=patient(ground, 60.0)))
    with ground.befallen(life, no_guest={}):
        with webhook_down(cluster, infra_ca):
            threading.Timer(6.0, cluster.delete, (VALIDATING_WEBHOOK, NAME)).start()
            (machine,) = bring_up(life)
        assert machine.address
        life.teardown()


@rows("F28")
def test_a_webhook_that_stays_down_is_the_infras_failure_in_the_api_servers_words(
    ground: Ground, cluster: Cluster, infra_ca: str
) -> None:
    life = ground.life(ground.site({"unschedulable": 15.0}, cluster=patient(ground, 4.0)))
    with webhook_down(cluster, infra_ca), pytest.raises(InfraRetriable, match="failed calling webhook") as no:
        life.provision()
    assert "nobody.chaos.vmatrix.dev" in no.value.summary
    assert no.value.exit_code == EXIT_RETRY
    assert life.attempts == 2
    life.teardown()


@rows("F30")
def test_a_cell_that_finds_no_room_waits_and_then_says_who_has_it(ground: Ground) -> None:
    limits = Limits(machines=2)
    with Admission(ground.cluster, "one", limits=limits) as admission:
        first, second = cell_of(2, cell="first"), cell_of(1, cell="second")
        assert admission.try_admit(first) is None
        waiting = Waiting(admission, Durations(), 3.0)
        life = ground.life(ground.site(), second)
        with pytest.raises(InfraRetriable, match="no room for second within 3 s") as no:
            waiting.admit(second, life.steps)
        assert "vmatrix reap --expired" in no.value.hint
        admission.gone("first")
        waiting.admit(second, life.steps)


@rows("F19")
def test_masquerade_is_refused_for_several_machines_before_anything_is_made(ground: Ground) -> None:
    (ground.folder / "vmatrix.yml").write_text("runs: runs\nbinding: masquerade\n", encoding="utf-8")
    settings = load_settings(ground.folder, environment={})
    refuse_masquerade(settings, [cell_of(1)])  # a machine alone can live with it
    with pytest.raises(BadInput, match=r"vmatrix\.yml:2: binding: masquerade gives each machine") as no:
        refuse_masquerade(settings, [cell_of(1), cell_of(3)])
    assert no.value.blame is Blame.USER
    assert "bridge" in no.value.hint
