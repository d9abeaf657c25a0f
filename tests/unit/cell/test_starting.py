"""A machine that has ended while it should come up: who ended it, as far as its objects tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.starting import Watchpoint, refuse_hopeless
from harness.errors import Blame, InfraError
from harness.kube.client import Cluster, Listing
from harness.kube.resources import Resource
from harness.machines.kubevirt.starting import Start
from harness.spec.models import Timeouts

Json = dict[str, Any]


class Api:
    """Lists launchers, and knows nothing more."""

    def __init__(self, pod: Json) -> None:
        self.pod = pod

    def list(self, *_: object, **__: object) -> Listing:
        return Listing([self.pod], "1")

    def get(self, _resource: Resource, _name: str, _namespace: str) -> None:
        return None

    def events_of(self, _namespace: str, _name: str) -> tuple[str, ...]:
        return ()


def told(phase: str, *, code: int = 0, deleted: bool = False, **status: Any) -> str:
    """Return what is said of a machine that has ended in a phase, its launcher with an exit code."""
    terminated = {"reason": "Completed" if code == 0 else "Error", "exitCode": code}
    meta = {"creationTimestamp": "2026-11-22T10:00:00Z"}
    pod = {
        "metadata": meta,
        "status": {"containerStatuses": [{"name": "compute", "state": {"terminated": terminated}}]},
    }
    going = {"deletionTimestamp": "2026-11-22T10:00:00Z"} if deleted else {}
    vmi = {"metadata": {"name": "m-0", "uid": "u", **going}, "status": {"phase": phase, **status}}
    timeouts = SimpleNamespace(unschedulable=60.0, machine_phase=60.0)
    start = Start(cast(Cluster, Api(pod)), "ns", "m-0", 512, {"printableStatus": "Stopped", "created": True}, vmi)
    with pytest.raises(InfraError, match="machine ns/m-0 does not stay up: ") as refused:
        refuse_hopeless(start, cast(Timeouts, timeouts), Watchpoint(), Watchpoint())
    assert refused.value.blame is Blame.INFRA
    return refused.value.summary.partition("does not stay up: ")[2]


@pytest.mark.parametrize(
    ("phase", "seen", "said"),
    [
        ("Succeeded", {}, "it shut down, and nobody deleted it"),
        ("Succeeded", {"deleted": True}, "its instance is being deleted: by a drain of its node"),
        ("Failed", {"reason": "machine gone"}, "machine gone"),
        ("Failed", {"code": 1}, "Error (exit code 1)"),
        ("Failed", {"code": 137, "deleted": True}, "Error (exit code 137)"),
    ],
)
def test_a_machine_that_has_ended_says_how(phase: str, seen: Json, said: str) -> None:
    assert told(phase, **seen).startswith(said)
