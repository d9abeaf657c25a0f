"""What a manager counts."""

from __future__ import annotations

import threading

from harness.kube.informer import Key
from harness.kube.reconcile import Controller
from harness.operator.metrics import Metrics


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
    text = Metrics().text([controller], leading=True)
    assert 'vmatrix_operator_reconciles_total{controller="some"} 1' in text
    assert "vmatrix_operator_leading 1" in text


def test_operations_are_counted_by_outcome() -> None:
    metrics = Metrics()
    for outcome in ("Succeeded", "Failed", "Succeeded"):
        metrics.operation_ended("deploy", outcome)
    text = metrics.text([], leading=False)
    assert 'vmatrix_operator_operations_total{operation="deploy",outcome="Succeeded"} 2' in text
    assert 'vmatrix_operator_operations_total{operation="deploy",outcome="Failed"} 1' in text
    assert "vmatrix_operator_leading 0" in text
    assert "# TYPE vmatrix_operator_queue_length gauge" in text
