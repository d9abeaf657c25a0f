"""What a look into a machine becomes in its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.kube.objects import condition as found_condition
from harness.machines.programs import OWNED, Inspected
from harness.operator.controllers.inspection import (
    AGAIN_SECONDS,
    EACH_SECONDS,
    LOOK_SECONDS,
    PUT_BACK,
    QUIET,
    WHOLE,
    InspectionTimes,
    as_applied,
    dates,
    etcd_state,
    findings,
    last_writer,
    put_back,
    settled,
    without_findings,
)
from harness.operator.controllers.ssh import ProbeTrouble, TroubleReason
from harness.operator.decide.operations import DUTIES, ETCD_DUTIES
from tests.unit.operator.controllers.objects import condition, machine

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KUBELET = "/var/lib/kubelet/config.yaml"
HISTORY = [{"sequence": 1, "operation": "deploy", "outcome": "succeeded"}]
CLUSTER = {"status": {"history": HISTORY}}


def merged(body: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """Return a Machine after the patch of its status."""
    kept = {k: v for k, v in {**body["status"], **status}.items() if v is not None}
    return {**body, "status": kept}


def answering(body: dict[str, Any]) -> tuple[str, str]:
    said = found_condition(body, "Answering") or {}
    return str(said.get("status")), str(said.get("reason"))


def test_a_second_look_that_finds_the_same_changes_nothing() -> None:
    found = Inspected({KUBELET: "a1"}, {}, "active")
    body = merged(machine(), findings(machine(), found, 0, CLUSTER, NOW))
    assert answering(body) == ("True", "LoggedIn")
    assert (found_condition(body, "SettingsAsApplied") or {})["status"] == "True"
    assert merged(body, findings(body, found, 0, CLUSTER, NOW + timedelta(hours=1))) == body


def test_a_look_says_after_which_operation_it_was() -> None:
    assert findings(machine(), Inspected(), 0, CLUSTER, NOW)["settings"]["seen"] == "1-1"
    history = [{"sequence": 2, "operation": "backup", "outcome": "failed"}, *HISTORY]
    later = findings(machine(), Inspected(), 0, {"status": {"history": history}}, NOW)["settings"]
    assert (later["seen"], later["operation"]) == ("2-1", "1-1")


def test_a_kubelet_that_does_not_run_is_told() -> None:
    status = findings(machine(), Inspected({KUBELET: "a1"}, {}, "inactive"), 0, CLUSTER, NOW)
    said = found_condition({"status": status}, "Answering") or {}
    assert said["message"].endswith("can log in; its kubelet.service is inactive")
    of_etcd = findings(machine(), Inspected({}, {}, "inactive"), 0, CLUSTER, NOW)
    assert "kubelet" not in (found_condition({"status": of_etcd}, "Answering") or {})["message"]


def test_one_login_that_fails_is_no_news_and_two_are() -> None:
    lost = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host 1")
    body = machine("m-0", condition("Answering", "True", generation=None))
    assert findings(body, lost, 1, CLUSTER, NOW) == {}
    assert answering(merged(body, findings(body, lost, 2, CLUSTER, NOW))) == ("False", "Unreachable")


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (TroubleReason.KEY_REFUSED, "True"),  # whoever refuses a key runs
        (TroubleReason.NOT_PERMITTED, "True"),
        (TroubleReason.KEY_MISSING, "Unknown"),  # nobody was asked
        (TroubleReason.INVALID_KEY, "Unknown"),
    ],
)
def test_a_trouble_of_ours_says_nothing_against_the_machine(reason: TroubleReason, status: str) -> None:
    body = merged(machine(), findings(machine(), ProbeTrouble(reason, "so"), 5, CLUSTER, NOW))
    assert answering(body) == (status, reason)


def test_what_was_found_stays_while_a_machine_does_not_answer() -> None:
    body = merged(machine(), findings(machine(), Inspected({KUBELET: "a1"}), 0, CLUSTER, NOW))
    lost = ProbeTrouble(TroubleReason.UNREACHABLE, "no route to host")
    assert set(findings(body, lost, 2, CLUSTER, NOW)) == {"conditions"}


def test_keys_of_certificates_that_are_gone_go() -> None:
    body = machine()
    body["status"]["certificates"] = {"otherExpiry": "x", "otherFile": "y"}
    assert findings(body, Inspected(), 0, CLUSTER, NOW)["certificates"] is None


def test_a_machine_that_left_has_nothing_of_it() -> None:
    body = merged(machine("m-0", condition("Empty", "True")), findings(machine(), Inspected(), 0, CLUSTER, NOW))
    body["status"]["conditions"].append(condition("Reachable", "True"))
    status = without_findings(body)
    assert status["settings"] is status["certificates"] is None
    assert [one["type"] for one in status["conditions"]] == ["Reachable"]
    assert "conditions" not in without_findings(machine("m-0", condition("Empty", "True")))


Json = dict[str, Any]
API, PROXY = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/api-endpoint/haproxy.cfg"
FILES = {API: "a1", PROXY: "b1"}
DEPLOYED = settled(None, FILES, ("1-1", "deploy"))


def said(settings: Json) -> tuple[str, str, str]:
    found = as_applied(settings, NOW)
    return found["status"], found["reason"], found["message"]


def changed(before: Json = DEPLOYED, writer: tuple[str, str] = ("1-1", "deploy"), **files: Any) -> Json:
    """Look again; `api` and `proxy` are files' new digests, "" for one that is gone."""
    names = {"api": API, "proxy": PROXY, "new": "/etc/systemd/system/kubelet.service.d/own.conf"}
    found = {**FILES, **{names[name]: digest for name, digest in files.items()}}
    return settled(before, {path: digest for path, digest in found.items() if digest}, writer)


def test_what_an_operation_left_is_as_applied() -> None:
    assert {"operation": "1-1", "files": [f"b1 {PROXY}", f"a1 {API}"], "changed": []} == DEPLOYED
    assert said(DEPLOYED)[:2] == ("True", "AsApplied")
    assert settled(DEPLOYED, FILES, ("1-1", "deploy")) == DEPLOYED


@pytest.mark.parametrize(
    ("files", "reason", "words"),
    [
        ({"api": "a2"}, "Changed", f"{API} was changed"),
        ({"api": ""}, "Changed", f"{API} is gone"),
        ({"proxy": "b2"}, "NotPutBack", f"{PROXY} was changed; no operation puts this back: do it by hand"),
        ({"new": "c1"}, "NotPutBack", "own.conf was added; no operation"),
        ({"api": "a2", "proxy": "b2"}, "Changed", f"{PROXY} was changed, {API} was changed"),
    ],
)
def test_a_file_that_was_changed_is_named(files: Json, reason: str, words: str) -> None:
    found = said(changed(**files))
    assert found[:2] == ("False", reason)
    assert found[2].startswith("seen at 2026-11-23T12:00:00Z: ")
    assert words in found[2]


def test_a_file_that_somebody_put_back_is_as_applied_again() -> None:
    assert settled(changed(api="a2"), FILES, ("1-1", "deploy")) == DEPLOYED


def test_an_operation_writes_new_files_and_nothing_of_that_is_a_change() -> None:
    found = changed(writer=("2-1", "upgrade"), api="a2", proxy="b2", new="c1")
    assert found["changed"] == []
    assert said(found)[0] == "True"


def test_what_reconfigure_puts_back_is_right_after_it() -> None:
    assert changed(changed(api="a2"), ("2-1", "reconfigure"), api="a2")["changed"] == []
    assert changed(changed(api="a2"), ("2-1", "reconfigure"))["changed"] == []


def test_an_operation_that_passes_a_change_by_has_not_made_it_right() -> None:
    before = changed(api="a2", proxy="b2")
    scaled = changed(before, ("2-1", "scale"), api="a2", proxy="b2")
    assert scaled["operation"] == "2-1"
    assert scaled["changed"] == [f"b2 {PROXY}", f"a2 {API}"]
    again = changed(scaled, ("3-1", "reconfigure"), proxy="b2")
    assert again["changed"] == [f"b2 {PROXY}"]
    assert said(again)[:2] == ("False", "NotPutBack")
    assert settled(again, FILES, ("3-1", "reconfigure"))["changed"] == []


def test_a_file_that_an_operation_wrote_anew_counts_as_written() -> None:
    assert changed(changed(proxy="b2"), ("2-1", "scale"), proxy="b3")["changed"] == []


def test_a_file_that_is_gone_stays_missed() -> None:
    found = changed(changed(proxy=""), ("2-1", "reconfigure"), proxy="")
    assert found["changed"] == [f"- {PROXY}"]


def test_many_files_are_counted() -> None:
    files = {f"/etc/kubernetes/patches/{n}.yaml": "a" for n in range(8)}
    found = settled(settled(None, {}, ("1-1", "deploy")), files, ("1-1", "deploy"))
    assert said(found)[2].endswith("and 3 more")


def past(operation: str, outcome: str = "succeeded", sequence: int = 1) -> Json:
    return {"sequence": sequence, "attempt": 2, "operation": operation, "outcome": outcome}


def test_the_last_writer_is_the_last_success_that_wrote_settings() -> None:
    history = [past("backup", sequence=4), past("upgrade", "failed", 3), past("scale", sequence=2), past("deploy")]
    assert last_writer({"status": {"history": history}}) == ("2-2", "scale")
    assert last_writer({"status": {}}) is None


# Operations that write some of the files, or files of some machines.
PARTLY = {"reset", "restore", "remove-node", "scale"}


def test_of_each_operation_it_is_known_which_files_it_writes() -> None:
    operations = {duty.operation for duty in (*DUTIES, *ETCD_DUTIES)}
    assert sorted(operations) == sorted([*WHOLE, *QUIET, *PARTLY])


def test_without_a_history_what_is_known_stays() -> None:
    assert settled(DEPLOYED, {**FILES, API: "a2"}, None)["changed"] == [f"a2 {API}"]
    assert settled(None, FILES, None)["operation"] == ""


def test_only_files_that_are_looked_at_are_put_back() -> None:
    of_roles = [path for path in OWNED if put_back(path)]
    assert "/var/lib/kubelet/config.yaml" in of_roles
    assert "/etc/systemd/system/kubelet.service" not in of_roles
    assert len(of_roles) >= len(PUT_BACK) - 4  # the four manifests are one pattern there
    assert not put_back("/etc/kubernetes/manifests/own.yaml")


START = datetime(2026, 1, 1, tzinfo=UTC)
PLANE = ("/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/etcd.yaml")
PKI = "/etc/kubernetes/pki"


def pem(days: int) -> bytes:
    """Return a certificate that expires so many days after the start."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one")])
    made = x509.CertificateBuilder(name, name, key.public_key(), days, START, START + timedelta(days=days))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_first_of_both_kinds_is_told() -> None:
    found = {
        f"{PKI}/apiserver.crt": pem(20),
        f"{PKI}/etcd/server.crt": pem(10),
        "/etc/kubernetes/admin.conf": pem(30),
        f"{PKI}/ca.crt": pem(5),
        "/var/lib/kubelet/pki/kubelet-client-current.pem": pem(3),
    }
    assert dates(found, PLANE) == {
        "firstExpiry": "2026-01-11T00:00:00Z",
        "file": f"{PKI}/etcd/server.crt",
        "otherExpiry": "2026-01-04T00:00:00Z",
        "otherFile": "/var/lib/kubelet/pki/kubelet-client-current.pem",
    }


@pytest.mark.parametrize("files", [PLANE, ()])
def test_a_kubelets_certificate_counts_where_nothing_in_the_cluster_signs(files: tuple[str, ...]) -> None:
    pair = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    found = {f"{PKI}/ca.crt": pem(5), pair: pem(3)}
    assert (dates(found, files, outside=True) or {})["file"] == pair
    cluster = {"status": {"history": HISTORY, "applied": {"variables": {"cluster_external_ca": True}}}}
    seen = findings(machine(), Inspected(certificates=found), 0, cluster, NOW)
    assert seen["certificates"]["file"] == pair
    assert findings(machine(), Inspected(certificates=found), 0, CLUSTER, NOW)["certificates"]["otherFile"] == pair


EXTERNAL = "/etc/systemd/system/etcd.service"
# By a file of a machine: what is renewed there, and what is not.
RENEWAL = {
    PLANE[0]: ("apiserver-etcd-client.crt", "etcd/ca.crt"),
    PLANE[1]: ("etcd/server.crt", "etcd/ca.crt"),
    EXTERNAL: ("etcd/server.crt", "etcd/ca.crt"),
    f"{EXTERNAL} ": ("apiserver-etcd-client.crt", "ca.crt"),
}


@pytest.mark.parametrize("folder", [PKI, "/etc/kubernetes/ssl"])
@pytest.mark.parametrize("file", RENEWAL)
def test_certificates_are_renewed_wherever_they_are_and_etcd_runs(file: str, folder: str) -> None:
    own, other = (f"{folder}/{name}" for name in RENEWAL[file])
    found = dates({own: pem(10), other: pem(5)}, (file.strip(),)) or {}
    assert (found.get("file"), found.get("otherFile")) == (own, other)


def test_nothing_is_renewed_where_neither_runs() -> None:
    assert dates({f"{PKI}/etcd/server.crt": pem(10)}, ()) == {
        "otherExpiry": "2026-01-11T00:00:00Z",
        "otherFile": f"{PKI}/etcd/server.crt",
    }


def test_of_several_certificates_in_a_file_the_first_counts() -> None:
    found = dates({f"{PKI}/apiserver.crt": pem(20) + pem(10)}, PLANE)
    assert found == {"firstExpiry": "2026-01-11T00:00:00Z", "file": f"{PKI}/apiserver.crt"}


def test_a_file_that_holds_none_says_nothing() -> None:
    assert dates({f"{PKI}/apiserver.crt": b"", f"{PKI}/ca.crt": b"-----BEGIN CERTIFICATE-----\n"}, PLANE) is None
    assert dates({}, PLANE) is None


METRICS = """\
etcd_mvcc_db_total_size_in_bytes 1.05e+08
etcd_mvcc_db_total_size_in_use_in_bytes 2.1e+07
etcd_server_quota_backend_bytes 2.147483648e+09
etcd_server_has_leader 1
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 900
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} 995
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 1000
etcd_network_peer_round_trip_time_seconds_bucket{To="a",le="0.1"} 5
etcd_network_peer_round_trip_time_seconds_bucket{To="a",le="+Inf"} 5
etcd_network_peer_round_trip_time_seconds_bucket{To="b",le="0.1"} 0
etcd_network_peer_round_trip_time_seconds_bucket{To="b",le="0.2"} 0
etcd_network_peer_round_trip_time_seconds_bucket{To="b",le="+Inf"} 5
"""


def test_what_a_member_says_of_itself_is_read_in_steps() -> None:
    found = etcd_state(Inspected(health='{"health":"false","reason":"ALARM NOSPACE"}', etcd=METRICS))
    assert found == {
        "alarm": "NOSPACE",
        "hasLeader": True,
        "sizeMiB": 104,
        "freeMiB": 80,
        "quotaMiB": 2048,
        "fsyncMilliseconds": 2,
        "roundTripMilliseconds": 200,
    }


@pytest.mark.parametrize("health", ["", "no json", '{"health":"true","reason":""}', '{"reason":"RAFT NO LEADER"}'])
def test_what_is_no_alarm_is_none(health: str) -> None:
    assert (etcd_state(Inspected(health=health, etcd=METRICS)) or {})["alarm"] == ""


def test_a_machine_without_etcd_says_nothing_of_it() -> None:
    assert etcd_state(Inspected()) is None
    body = {**machine(), "status": {"etcd": {"alarm": "NOSPACE"}}}
    assert findings(body, Inspected(), 0, CLUSTER, NOW)["etcd"] is None


KEY = ("ns", "m-0")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_change_is_told_within_a_minute() -> None:
    assert LOOK_SECONDS < 60


def test_after_an_operation_a_machine_is_due_at_once(clock: Clock) -> None:
    times = InspectionTimes(clock)
    assert times.left(KEY, "1-1", known=False) == 0
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
    clock.now += LOOK_SECONDS - 1
    assert times.left(KEY, "1-1", known=True) == 1
    assert times.left(KEY, "2-1", known=False) == 0


def test_after_a_restart_of_the_manager_machines_are_spread(clock: Clock) -> None:
    first, second = InspectionTimes(clock), InspectionTimes(clock)
    names = [("ns", f"m-{n}") for n in range(50)]
    due = [first.left(key, "1-1", known=True) for key in names]
    assert len(set(due)) > 30
    assert all(0 <= one <= LOOK_SECONDS for one in due)
    assert due == [second.left(key, "1-1", known=True) for key in names]
    assert due == [first.left(key, "1-1", known=True) for key in names]


def test_a_first_failure_is_asked_about_again_soon(clock: Clock) -> None:
    times = InspectionTimes(clock)
    assert times.note(KEY, "1-1", answered=False) == 1
    assert times.left(KEY, "1-1", known=True) == AGAIN_SECONDS
    assert times.note(KEY, "1-1", answered=False) == 2
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
    assert times.note(KEY, "1-1", answered=True) == 0


def test_many_machines_are_looked_at_more_rarely(clock: Clock) -> None:
    times = InspectionTimes(clock)
    for number in range(2000):
        times.note(("ns", f"m-{number}"), "1-1", answered=True)
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == 2000 * EACH_SECONDS
    for number in range(2000):
        times.forget(("ns", f"m-{number}"))
    times.note(KEY, "1-1", answered=True)
    assert times.left(KEY, "1-1", known=True) == LOOK_SECONDS
