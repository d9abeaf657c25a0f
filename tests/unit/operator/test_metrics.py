"""What a manager counts."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.utils import floatToGoString

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.reconcile import Controller
from harness.operator.metrics import FAMILIES, DeclaredObjects, Metrics, of_moments


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


def test_machines_are_counted_by_phase() -> None:
    text = DeclaredObjects(machines=[{"status": {"phase": "Idle"}}, {}]).text()
    assert 'vmatrix_operator_machines{phase="Idle"} 1.0' in text
    assert 'vmatrix_operator_machines{phase="Pending"} 1.0' in text


ETCD = {
    "alarm": "NOSPACE",
    "sizeMiB": 16,
    "quotaMiB": 32,
    "freeMiB": 8,
    "fsyncMilliseconds": 2,
    "roundTripMilliseconds": 0,
}


def test_each_cluster_is_told_by_its_name() -> None:
    claim = {"claim": {"cluster": "prod", "set": "cp"}}
    machines = [
        of_team(claim, certificates={"firstExpiry": at("2026-03-01")}, etcd=ETCD),
        of_team(claim, certificates={"firstExpiry": at("2027-01-01"), "otherExpiry": at("2026-02-01")}),
        of_team({}, certificates={"firstExpiry": at("2020-01-01")}),
    ]
    taken = {"2026-01-02": "Verified", "2026-01-01": "Verified", "2026-01-03": "Missing"}
    backups = [of_team({"cluster": "prod"}, phase=phase, taken=at(day)) for day, phase in taken.items()]
    now, next_one = {"operation": "upgrade", "started": at("2026-01-05")}, {"operation": "reconfigure", "sequence": 3}
    parts = [{"name": "ca", "expires": at("2036-01-01")}, {"name": "sa"}]
    cluster = of_team({}, operation=now, approval=next_one, authority={"parts": parts})
    deployment = of_team({}, conditions=[{"type": "Ready", "status": "False"}], version="1.36.3")
    user = of_team({"cluster": "prod"}, expires=at("2026-06-01"))
    text = DeclaredObjects([deployment], [cluster], machines, backups, users=[user]).text()
    name = 'cluster="prod",cluster_namespace="team"'
    lines = [line.removeprefix("vmatrix_operator_") for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        f'cluster_condition{{{name},condition="Ready",status="False"}} 1.0',
        f'cluster_version{{{name},version="1.36.3"}} 1.0',
        f"cluster_certificate_expires_timestamp_seconds{{{name}}} {moment('2026-02-01')}",
        f'cluster_authority_expires_timestamp_seconds{{authority="ca",{name}}} {moment("2036-01-01")}',
        f'user_certificate_expires_timestamp_seconds{{{name},user="prod"}} {moment("2026-06-01")}',
        f"cluster_backup_taken_timestamp_seconds{{{name}}} {moment('2026-01-02')}",
        f'cluster_operation_started_timestamp_seconds{{{name},operation="upgrade"}} {moment("2026-01-05")}',
        f'cluster_approval_pending{{{name},operation="reconfigure"}} 1.0',
        *(
            f'etcd_{kind}{{{more}{name},machine="prod"}} {value}'
            for kind, more, value in (
                ("quota_used_ratio", "", "0.5"),
                ("free_bytes", "", "8.388608e+06"),
                ("alarm", 'alarm="NOSPACE",', "1.0"),
                ("fsync_seconds", "", "0.002"),
            )
        ),
        'machines{phase="Pending"} 3.0',
    ]


@pytest.mark.parametrize("objects", ["deployments", "etcds"])
@pytest.mark.parametrize(("kind", "word"), [("BackupFresh", "fresh"), ("BackupProven", "proven")])
@pytest.mark.parametrize(("status", "line"), [("True", "1.0"), ("False", "0.0"), ("Unknown", ""), (None, "")])
def test_what_is_known_of_backups_is_told_where_a_schedule_promises_it(
    status: str | None, line: str, kind: str, word: str, objects: str
) -> None:
    conditions = [{"type": kind, "status": status}] if status else []
    text = DeclaredObjects(**{objects: [of_team({}, conditions=conditions)]}).text()
    found = [one for one in text.splitlines() if one.startswith(f"vmatrix_operator_cluster_backup_{word}{{")]
    name = f'vmatrix_operator_cluster_backup_{word}{{cluster="prod",cluster_namespace="team"}}'
    assert found == ([f"{name} {line}"] if line else [])


def of_team(spec: Json, **status: Any) -> Json:
    """Return an object of namespace team whose name is prod."""
    return {"metadata": {"namespace": "team", "name": "prod"}, "spec": spec, "status": status}


def at(day: str) -> str:
    return f"{day}T00:00:00Z"


def moment(day: str) -> str:
    """Return the beginning of a day as a sample's value."""
    seconds = datetime.fromisoformat(at(day)).timestamp()
    return str(floatToGoString(seconds))  # type: ignore[no-untyped-call]


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
