"""What an execution is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.operator.api.cluster import AppliedState, AuthorityPart, AuthorityState, CurrentOperation
from harness.operator.controllers.cluster_view import Workable
from harness.operator.controllers.clusterinstall import begun, execution_of
from harness.operator.decide.operations import due_of
from tests.unit.operator.controllers.looks import cluster, declared, given, seen


def workable(**spec: object) -> tuple[Workable, CurrentOperation]:
    found = Workable.of(seen(declared(**spec), cluster(), given("m-0")))
    assert found is not None
    assert isinstance(found.verdict, CurrentOperation)
    return found, found.verdict


def test_operation_is_written_down_with_its_job_and_without_a_start() -> None:
    _, verdict = workable()
    state = begun("guest", verdict, "image:1")
    assert (state.job, state.image, state.started) == ("guest-1-deploy", "image:1", None)
    assert state.applies == verdict.applies


def test_execution_is_what_the_status_says_with_the_machines_of_the_wish() -> None:
    found, verdict = workable(jobs={"deadlineSeconds": 120})
    due = due_of(verdict, found.desired, found.observed)
    assert due is not None
    made = execution_of(begun("guest", verdict, "image:1"), due, found.desired, "Auto")
    assert (made.job, made.entry, made.image, made.deadline_seconds) == (
        "guest-1-deploy",
        "cluster.yml",
        "image:1",
        120,
    )
    (host,) = made.hosts
    assert (host.name, host.address, host.groups) == ("m-0", "192.0.2.10", ("control_plane", "etcd", "node"))
    assert (host.key.name, host.key.key) == ("keys", "ssh-privatekey")
    assert made.variables["cluster_kubernetes_version"] == "1.36.3"


def test_machines_get_cas_by_operations_that_begin_a_control_plane() -> None:
    found, verdict = workable()
    part = AuthorityPart(name="ca", secret="guest-ca", public_key="sha256:0")
    state = AuthorityState(usable=True, reason="Valid", parts=(part,))
    due = due_of(verdict, found.desired, found.observed)
    assert due is not None
    first = begun("guest", verdict, "image:1")
    made = execution_of(first, due, found.desired, "Auto", state)
    assert made.authority == {"ca.crt": ("guest-ca", "tls.crt"), "ca.key": ("guest-ca", "tls.key")}
    later = first.model_copy(update={"operation": "scale"})
    assert execution_of(later, due, found.desired, "Auto", state).authority == {}
    outside = AppliedState(variables={"cluster_external_ca": True})
    assert execution_of(later, due, found.desired, "Auto", state, outside).authority == made.authority, "keys come back"
    signs = replace(due, variables={**due.variables, "cluster_external_ca": True})
    for operation, wanted in {"scale": True, "certificates": True, "reset": False, "backup": False}.items():
        one = first.model_copy(update={"operation": operation})
        assert bool(execution_of(one, signs, found.desired, "Auto", state).authority) == wanted, operation
    rebuilt = first.model_copy(update={"operation": "rebuild"})
    assert execution_of(rebuilt, due, found.desired, "Auto", state).authority == made.authority


@pytest.mark.parametrize(
    ("access", "default", "through"),
    [("Auto", "Auto", "vmi-m-0"), ("Auto", "Direct", ""), ("Direct", "Auto", ""), ("PortForward", "Direct", "vmi-m-0")],
)
def test_way_to_machines_is_the_objects_else_the_managers(access: str, default: str, through: str) -> None:
    found, verdict = workable(access=access)
    due = due_of(verdict, found.desired, found.observed)
    assert due is not None
    made = execution_of(begun("guest", verdict, "image:1"), due, found.desired, default)
    assert [host.through for host in made.hosts] == [through]
