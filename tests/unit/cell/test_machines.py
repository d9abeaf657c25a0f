"""A machine that has ended while it should come up: who ended it, as far as its objects tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.machines import UsageWatch, Watchpoint, changes, refuse_hopeless
from harness.cell.place import Place
from harness.errors import Blame, InfraError
from harness.kube.client import Cluster, Listing
from harness.kube.failures import Answer, Unreachable
from harness.kube.resources import VMI, Resource
from harness.machines.kubevirt.launchers import Sighting
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

    def events_about(self, _namespace: str, _name: str) -> tuple[Json, ...]:
        return ()

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


SEEN = (Sighting("w-0", "vmi-1", "pod-1", "node-a", "10.1.0.5"),)


def vmi(uid: str = "vmi-1", **status: Any) -> Json:
    return {"metadata": {"name": "w-0", "uid": uid}, "status": {"phase": "Running", "nodeName": "node-a", **status}}


def pod(uid: str = "pod-1", of: str = "vmi-1", address: str = "10.1.0.5", **status: Any) -> Json:
    labels = {"kubevirt.io/created-by": of}
    meta = {"name": uid, "uid": uid, "labels": labels, "creationTimestamp": "2026-11-21T10:00:00Z"}
    return {"metadata": meta, "status": {"podIP": address, **status}}


def deleted(**status: Any) -> Json:
    found = vmi(**status)
    found["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    return found


class ApiSighting:
    """Lists what it was given."""

    def __init__(self, vmis: list[Json], pods: list[Json]) -> None:
        self.vmis, self.pods = vmis, pods

    def list(self, resource: Resource, *_: object, **__: object) -> Listing:
        return Listing(list(self.vmis if resource == VMI else self.pods), "1")


def said(vmis: list[Json], pods: list[Json]) -> list[str]:
    return changes(cast(Cluster, ApiSighting(vmis, pods)), Place("ns"), SEEN, {"w-0"})


def ended(reason: str, code: int, message: str = "") -> Json:
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    return {"containerStatuses": [{"name": "compute", "state": state}]}


def test_a_machine_that_is_as_it_was_is_not_spoken_of() -> None:
    assert said([vmi(activePods={"pod-1": "node-a"})], [pod()]) == []


@pytest.mark.parametrize(
    ("vmis", "pods", "told"),
    [
        ([], [], "is gone"),
        ([vmi("vmi-2")], [pod(of="vmi-2")], "was restarted"),
        ([vmi(phase="Failed", reason="crashed")], [pod()], "is Failed: crashed"),
        ([vmi(phase="Succeeded")], [pod(**ended("Completed", 0))], "has ended: it shut down, and nobody deleted it"),
        ([deleted(phase="Succeeded")], [pod(**ended("Completed", 0))], "is being deleted"),
        ([vmi()], [pod(**ended("OOMKilled", 137))], "died: OOMKilled (exit code 137)"),
        ([vmi()], [], "lost its launcher pod"),
        ([vmi(activePods={"pod-2": "node-b"}, nodeName="node-b")], [pod()], "was moved from node node-a to node-b"),
        ([vmi()], [pod(address="10.1.0.9")], "has another address: 10.1.0.9 instead of 10.1.0.5"),
    ],
)
def test_what_became_of_a_machine(vmis: list[Json], pods: list[Json], told: str) -> None:
    (line,) = said(vmis, pods)
    assert line.startswith(f"machine w-0 {told}")


def test_machines_that_are_not_asked_about_may_be_gone() -> None:
    assert changes(cast(Cluster, ApiSighting([], [])), Place("ns"), SEEN, set()) == []


MIB = 2**20
SEEN_USAGE = (Sighting("cp-0", "vmi-1", "pod-1", "n", "10.1.0.2"), Sighting("w-0", "vmi-2", "pod-2", "n", "10.1.0.3"))


class ApiUsage:
    """Says of each look what it was told: memory (MiB) and disk by the launcher's uid; None fails."""

    def __init__(self, *looks: dict[str, tuple[int, int]] | None) -> None:
        self.looks = list(looks)

    def send(self, *_: Any, **__: Any) -> Answer:
        look = self.looks.pop(0)
        if look is None:
            raise Unreachable("nobody answers")
        pods = [
            {
                "podRef": {"uid": uid},
                "memory": {"workingSetBytes": memory * MIB, "rssBytes": 0},
                "volume": [{"usedBytes": disk * MIB, "pvcRef": {"name": "c"}}],
            }
            for uid, (memory, disk) in look.items()
        ]
        return Answer(200, {"node": {}, "pods": pods}, (), None, "", "application/json")


def test_the_most_memory_counts_and_the_first_and_the_last_disk() -> None:
    looks: list[dict[str, tuple[int, int]] | None] = [
        {"pod-1": (100, 600), "pod-2": (80, 600), "other": (9999, 1)},
        {"pod-1": (900, 1500), "pod-2": (500, 1200)},  # as the first phase ends
        {"pod-1": (1000, 1600)},  # the second machine is gone
        {"pod-1": (950, 1650)},
    ]
    watch = UsageWatch(cast(Cluster, ApiUsage(*looks)), SEEN_USAGE)
    watch.look()
    watch.deployed()
    watch.look()
    watch.look()
    assert watch.stop() == {
        "cp-0": {"deployed": 900, "peak": 1000, "clone": 600, "disk": 1650},
        "w-0": {"deployed": 500, "peak": 500, "clone": 600, "disk": 1200},
    }


def test_an_api_in_trouble_costs_one_look() -> None:
    watch = UsageWatch(cast(Cluster, ApiUsage({"pod-1": (100, 600)}, None, {"pod-1": (90, 700)})), SEEN_USAGE)
    watch.look()
    watch.deployed()
    watch.look()
    assert watch.stop() == {"cp-0": {"deployed": 0, "peak": 100, "clone": 600, "disk": 700}}


def test_it_looks_by_itself_until_it_is_told_to_stop() -> None:
    watch = UsageWatch(cast(Cluster, ApiUsage({"pod-1": (100, 600)})), SEEN_USAGE).start()
    thread = watch.thread
    assert thread is not None
    watch.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
