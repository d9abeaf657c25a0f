"""What the embedded node says of its machines is what the harness reads from any kubelet's Summary."""

from __future__ import annotations

from harness.embedded.machines.usage import Memory
from harness.embedded.node.stats import MIB, document, of_pod
from harness.infra.cluster.capacity import NodeUsage, PodUsage, read_summary

META = {"name": "p", "namespace": "ns", "uid": "pod-1", "creationTimestamp": "2026-11-26T10:00:00Z"}


def test_it_is_read_as_it_was_meant() -> None:
    memory = Memory(usage=2000 * MIB, working_set=900 * MIB, kept=600 * MIB)
    pod = of_pod(META, memory, {"root": ("cp-0", 1500 * MIB)})
    told = read_summary(document("n", 4096 * MIB, [pod]))
    assert told == NodeUsage(4096, {"pod-1": PodUsage(memory=900, kept=600, disk=1500)})


def test_a_pod_whose_machine_is_not_there_takes_nothing_that_is_known() -> None:
    assert read_summary(document("n", MIB, [of_pod(META, None, {})])) == NodeUsage(1, {})
