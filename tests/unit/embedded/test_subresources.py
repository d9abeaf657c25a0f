"""The aggregated API: who asks, what each run strategy allows, what a paused machine's pod says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from harness.embedded.node import pods
from harness.embedded.subresources import discovery, instances, machines
from harness.embedded.subresources.answers import Refused
from harness.embedded.subresources.identity import Trust, asker_of, trust_of
from harness.embedded.vmi import phases
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.resources import VM, VMI, Resource

Json = dict[str, Any]
TRUST = Trust("PEM", frozenset({"front-proxy-client"}), ("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Extra-",))
FRONT = {"subject": ((("organizationName", "o"),), (("commonName", "front-proxy-client"),))}
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def test_the_api_server_says_who_asks() -> None:
    found = asker_of(
        TRUST,
        FRONT,
        headers(
            ("X-Remote-User", "ann"),
            ("X-Remote-Group", "dev"),
            ("X-Remote-Group", "system:authenticated"),
            ("X-Remote-Extra-Example.org%2fjob", "7"),
        ),
    )
    assert found is not None
    assert (found.user, found.groups) == ("ann", ("dev", "system:authenticated"))
    assert found.extra == {"example.org/job": ("7",)}


@pytest.mark.parametrize("peer", [None, {}, {"subject": ((("commonName", "somebody"),),)}])
def test_nobody_else_does(peer: Json | None) -> None:
    assert asker_of(TRUST, peer, headers(("X-Remote-User", "system:admin"))) is None


def test_without_a_user_nobody_asks() -> None:
    assert asker_of(TRUST, FRONT, headers(("X-Remote-Group", "system:masters"))) is None


class Api:
    """A cluster with a machine and perhaps its instance; keeps what is patched."""

    def __init__(self, vm: Json | None = None, vmi: Json | None = None, config: Json | None = None) -> None:
        self.objects = {VM: vm, VMI: vmi}
        self.config = config
        self.patches: list[tuple[str, Any]] = []

    def get(self, resource: Resource, _name: str, _namespace: str) -> Json | None:
        return self.objects.get(resource, self.config)

    def request(self, _method: str, path: str, *, body: Any, query: Json, content_type: str) -> None:
        assert content_type == "application/json-patch+json"
        self.patches.append((path.rsplit("/", 1)[1], body))


def machine(strategy: str, **status: Any) -> Json:
    meta = {"name": "m", "namespace": "n", "uid": "vm-1"}
    return {"metadata": meta, "spec": {"runStrategy": strategy}, "status": {"printableStatus": "?", **status}}


def instance(phase: str, **spec: Any) -> Json:
    return {"metadata": {"name": "m", "namespace": "n", "uid": "vmi-1"}, "spec": spec, "status": {"phase": phase}}


def asked(verb: str, vm: Json | None, vmi: Json | None, options: Json | None = None) -> tuple[Api, str]:
    """Return what was patched, and what was refused in which words."""
    api = Api(vm, vmi)
    try:
        getattr(machines, verb)(cast(Cluster, api), "n", "m", options or {})
    except Refused as refused:
        return api, f"{refused.code} {refused.status['message'].rpartition(': ')[2]}"
    return api, ""


@pytest.mark.parametrize(
    ("verb", "strategy", "phase", "options", "words"),
    [
        ("start", "Halted", "Running", {}, "409 VM is already running"),
        ("start", "Always", "", {}, "409 Always does not support manual start requests"),
        ("start", "Once", "Succeeded", {}, "409 Once does not support manual start requests"),
        (
            "start",
            "RerunOnFailure",
            "Failed",
            {},
            "409 RerunOnFailure does not support starting VM from failed state",
        ),
        ("stop", "Manual", "", {}, "409 VM is not running"),
        ("stop", "Halted", "Succeeded", {}, "409 VM is not running"),
        (
            "stop",
            "Halted",
            "Running",
            {},
            "409 Halted only supports manual stop requests with a shorter graceperiod",
        ),
        ("restart", "Once", "Running", {}, "409 RunStategy Once does not support manual restart requests"),
        ("restart", "Always", "", {}, "409 Halted"),
        (
            "restart",
            "Always",
            "Running",
            {"gracePeriodSeconds": 5},
            "400 For force restart, only gracePeriod=0 is supported for now",
        ),
    ],
)
def test_what_a_run_strategy_does_not_allow_is_refused(
    verb: str, strategy: str, phase: str, options: Json, words: str
) -> None:
    api, refused = asked(verb, machine(strategy), instance(phase) if phase else None, options)
    assert (refused, api.patches) == (words, [])


def test_a_halted_machine_is_started_in_its_spec() -> None:
    api, refused = asked("start", machine("Halted"), None)
    test = {"op": "test", "path": "/spec/runStrategy", "value": "Halted"}
    assert (refused, api.patches) == (
        "",
        [("m", [test, {"op": "replace", "path": "/spec/runStrategy", "value": "Always"}])],
    )


def test_a_machine_that_is_always_on_is_halted_when_it_is_stopped() -> None:
    api, _ = asked("stop", machine("Always"), instance("Running"), {"gracePeriod": 0})
    grace = {"op": "add", "path": "/spec/terminationGracePeriodSeconds", "value": 0}
    assert api.patches[0] == ("m", [grace])
    assert api.patches[1][1][1] == {"op": "replace", "path": "/spec/runStrategy", "value": "Halted"}


def test_a_manual_machine_gets_requests_in_its_status() -> None:
    path = "/status/stateChangeRequests"
    started, _ = asked("start", machine("Manual"), None)
    stopped, _ = asked("stop", machine("Manual", stateChangeRequests=[{"action": "Start"}]), instance("Running"))
    again, _ = asked("restart", machine("Manual", startFailure={}), instance("Running"))
    _, underway = asked("start", machine("Manual", stateChangeRequests=[{"action": "Start"}]), None)

    assert started.patches == [
        (
            "status",
            [
                {"op": "test", "path": path, "value": None},
                {"op": "add", "path": path, "value": [{"action": "Start"}]},
            ],
        )
    ]
    assert stopped.patches[0][1][1] == {"op": "replace", "path": path, "value": [{"action": "Stop", "uid": "vmi-1"}]}
    assert [one["op"] for one in again.patches[0][1]] == ["test", "add", "remove"]
    assert underway == "500 stop/start already underway"


def test_a_machine_that_is_not_there() -> None:
    assert asked("start", None, None)[1].startswith("404 virtualmachine.kubevirt.io")


def test_a_cluster_that_does_not_aggregate_is_named() -> None:
    with pytest.raises(InfraError, match="names no request-header authority"):
        trust_of(cast(Cluster, Api(config={"data": {"client-ca-file": "PEM"}})))


def test_a_guest_says_what_its_files_say(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="13"\n', encoding="utf-8")
    (tmp_path / "etc/hostname").write_text("cp-0\n", encoding="utf-8")
    found = instances.os_info(tmp_path)
    assert (found["hostname"], found["os"]["name"], found["os"]["versionId"]) == ("cp-0", "Debian GNU/Linux", "13")


def test_a_paused_machines_pod_is_not_ready() -> None:
    pod = {"status": {"conditions": [{"type": phases.UNPAUSED, "status": "True"}, {"type": "Ready", "status": "True"}]}}
    paused = {"status": {"conditions": [{"type": phases.PAUSED, "status": "True"}]}}
    assert phases.unpaused_condition({}, pod, MOMENT) is None
    assert pods.ready_by_gate(pod, phases.UNPAUSED) is None

    closed = phases.unpaused_condition(paused, pod, MOMENT)
    assert closed is not None
    assert (closed[0]["status"], closed[0]["reason"]) == ("False", "Paused")
    pod["status"]["conditions"][0] = closed[0]
    ready = pods.ready_by_gate(pod, phases.UNPAUSED)
    assert ready is not None
    assert (ready[0]["status"], ready[0]["reason"]) == ("False", "ReadinessGatesNotReady")


def test_the_endpoints_port_has_the_services_name() -> None:
    """An API server that routes to endpoints itself finds the port by its name."""
    service, endpoints = discovery.service(8444), discovery.endpoints("10.213.0.1", 8444)
    assert service["spec"]["ports"][0]["name"] == endpoints["ports"][0]["name"]
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service["metadata"]["name"]
