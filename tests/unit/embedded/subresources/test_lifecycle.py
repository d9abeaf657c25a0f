"""What each run strategy allows of start, stop and restart."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.embedded.subresources import routing
from harness.embedded.subresources.errors import StatusError
from harness.kube.client import Cluster
from harness.kube.resources import VM, VMI, Resource

Json = dict[str, Any]


class Api:
    """A cluster with a machine and perhaps its instance; keeps what is patched."""

    def __init__(self, vm: Json | None = None, vmi: Json | None = None) -> None:
        self.objects = {VM: vm, VMI: vmi}
        self.patches: list[tuple[str, Any]] = []

    def get(self, resource: Resource, _name: str, _namespace: str) -> Json | None:
        return self.objects[resource]

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
        getattr(routing, verb)(cast(Cluster, api), "n", "m", options or {})
    except StatusError as refused:
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
