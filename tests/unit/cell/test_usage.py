"""The most that a cell's machines took, by looks at them."""

from __future__ import annotations

from typing import Any, cast

from harness.cell.usage import UsageWatch
from harness.kube import Cluster
from harness.kube.failures import Answer, Unreachable
from harness.machines.kubevirt.presence import Sighting

MIB = 2**20
SEEN = (Sighting("cp-0", "vmi-1", "pod-1", "n", "10.1.0.2"), Sighting("w-0", "vmi-2", "pod-2", "n", "10.1.0.3"))


class Api:
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
    watch = UsageWatch(cast(Cluster, Api(*looks)), SEEN)
    watch.look()
    watch.deployed()
    watch.look()
    watch.look()
    assert watch.stop() == {
        "cp-0": {"deployed": 900, "peak": 1000, "clone": 600, "disk": 1650},
        "w-0": {"deployed": 500, "peak": 500, "clone": 600, "disk": 1200},
    }


def test_an_api_in_trouble_costs_one_look() -> None:
    watch = UsageWatch(cast(Cluster, Api({"pod-1": (100, 600)}, None, {"pod-1": (90, 700)})), SEEN)
    watch.look()
    watch.deployed()
    watch.look()
    assert watch.stop() == {"cp-0": {"deployed": 0, "peak": 100, "clone": 600, "disk": 700}}


def test_it_looks_by_itself_until_it_is_told_to_stop() -> None:
    watch = UsageWatch(cast(Cluster, Api({"pod-1": (100, 600)})), SEEN).start()
    thread = watch.thread
    assert thread is not None
    watch.stop()
    thread.join(timeout=10)
    assert not thread.is_alive()
