"""What nodes say of themselves, as far as they say it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from harness.infra.cluster.usage import NodeUsage, PodUsage, usage_of
from harness.kube import Cluster
from harness.kube.failures import Answer

MIB = 2**20
# From a kubelet of Kubernetes 1.36, cut down: containers, network, processor time and inodes left out.
SUMMARY = {
    "node": {"nodeName": "n", "memory": {"availableBytes": 2000 * MIB, "workingSetBytes": 500 * MIB}},
    "pods": [
        {
            "podRef": {"name": "p", "namespace": "ns", "uid": "pod-1"},
            "memory": {"usageBytes": 90 * MIB, "workingSetBytes": 40 * MIB + 1, "rssBytes": 30 * MIB},
            "volume": [
                {"name": "root", "usedBytes": 700 * MIB, "pvcRef": {"name": "cp-0", "namespace": "ns"}},
                {"name": "scratch", "usedBytes": 5 * MIB},
            ],
        },
        {"podRef": {"name": "q", "namespace": "ns", "uid": "pod-2"}},
    ],
}


class Api:
    """Answers for each node as it was told to."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers

    def send(self, method: str, path: str, **_: Any) -> Answer:
        node = path.removeprefix("/api/v1/nodes/").removesuffix("/proxy/stats/summary")
        return self.answers[node]


def answer(code: int, body: Any) -> Answer:
    return Answer(code, body, (), None, "", "application/json")


def test_amounts_are_rounded_up_and_volumes_without_a_claim_are_no_disks() -> None:
    api = Api(n=answer(200, SUMMARY))
    expected = NodeUsage(2000, {"pod-1": PodUsage(memory=41, kept=30, disk=700)})
    assert usage_of(cast(Cluster, api), ["n"]) == {"n": expected}


@pytest.mark.parametrize(("code", "body"), [(403, {"kind": "Status"}), (404, "not here"), (200, "a page"), (503, {})])
def test_a_node_that_does_not_tell_is_left_out(code: int, body: Any) -> None:
    api = Api(mute=answer(code, body), n=answer(200, SUMMARY))
    assert list(usage_of(cast(Cluster, api), ["mute", "n"])) == ["n"]
