"""What a manager counts."""

from __future__ import annotations

import threading

from harness.kube.informer import Key
from harness.kube.reconcile import Controller
from harness.operator.metrics import FAMILIES, Metrics, of_moments, of_objects


def test_looks_failures_and_what_waits_are_counted_for_each_controller() -> None:
    looked = threading.Event()

    def look(key: Key) -> None:
        if key[1] == "bad":
            looked.set()
            raise OSError("no")

    controller = Controller("some", look, workers=1)
    controller.queue.add(("a", "later"), delay=3600.0)
    controller.queue.add(("a", "bad"))
    controller.start()
    assert looked.wait(60)
    controller.stop()
    assert controller.join(60)
    text = Metrics().text([controller], leading=True)
    assert 'vmatrix_operator_reconcile_errors_total{controller="some"} 1.0' in text
    assert 'vmatrix_operator_queue_length{controller="some"} 0.0' in text, "what is only due later is not waited for"
    assert 'vmatrix_operator_reconciles_total{controller="some"} 1.0' in text
    assert "vmatrix_operator_leading 1.0" in text


def test_operations_are_counted_by_outcome() -> None:
    metrics = Metrics()
    for outcome in ("Succeeded", "Failed", "Succeeded"):
        metrics.operation_ended("deploy", outcome)
    metrics.operation_ended("reset", "Succeeded", 61.0)
    text = metrics.text([], leading=False)
    assert (
        'vmatrix_operator_operation_duration_seconds_bucket{le="60.0",operation="reset",outcome="Succeeded"} 0.0'
        in text
    )
    assert 'vmatrix_operator_operation_duration_seconds_sum{operation="reset",outcome="Succeeded"} 61.0' in text
    assert 'vmatrix_operator_operation_duration_seconds_count{operation="deploy"' not in text, "it never ran"
    assert 'vmatrix_operator_operations_total{operation="deploy",outcome="Succeeded"} 2.0' in text
    assert 'vmatrix_operator_operations_total{operation="deploy",outcome="Failed"} 1.0' in text
    assert "vmatrix_operator_leading 0.0" in text
    assert "# TYPE vmatrix_operator_queue_length gauge" in text


def test_objects_are_counted_by_condition_and_by_phase() -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    text = of_objects([ready, ready, {}], [{"status": {"phase": "Idle"}}, {}])
    assert 'vmatrix_operator_clusters{condition="Ready",status="True"} 2.0' in text
    assert 'vmatrix_operator_machines{phase="Idle"} 1.0' in text
    assert 'vmatrix_operator_machines{phase="Pending"} 1.0' in text


def test_webhooks_are_counted_by_what_they_answered() -> None:
    metrics = Metrics()
    metrics.webhook_answered("/machines", "refused", 0.02)
    text = metrics.text([], leading=False)
    assert 'vmatrix_operator_webhook_requests_total{outcome="refused",webhook="machines"} 1.0' in text
    assert 'vmatrix_operator_webhook_duration_seconds_bucket{le="0.025",webhook="machines"} 1.0' in text


def test_a_manager_without_webhooks_says_nothing_of_their_certificate() -> None:
    assert of_moments(7.0, None) == (
        "# HELP vmatrix_operator_lease_renewed_timestamp_seconds When this manager last renewed its Lease; 0: never.\n"
        "# TYPE vmatrix_operator_lease_renewed_timestamp_seconds gauge\n"
        "vmatrix_operator_lease_renewed_timestamp_seconds 7.0\n"
    )
    assert "webhook_certificate_expires_timestamp_seconds 9.0\n" in of_moments(7.0, 9.0)


def test_names_follow_prometheus_conventions() -> None:
    for family in FAMILIES:
        assert family.name.startswith("vmatrix_operator_")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.text.endswith(".")
        if family.kind == "histogram":
            assert family.name.endswith("_seconds")
