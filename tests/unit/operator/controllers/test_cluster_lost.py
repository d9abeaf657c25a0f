"""When a cluster is gone with its machines, so that its sets leave the pool to others."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.cluster_lost import is_gone
from tests.unit.operator.controllers.objects import cluster, condition, machine

Json = dict[str, Any]
LOST = condition("InfrastructureReady", "False", "Lost")


def deployed() -> Json:
    found = cluster("cp-0", "cp-1", "w-0")
    groups = {"cp-0": ["control_plane", "etcd"], "cp-1": ["control_plane", "etcd"], "w-0": ["node"]}
    hosts = [{"machine": name, "groups": of} for name, of in groups.items()]
    found["status"]["applied"]["hosts"] = hosts
    return found


def test_it_is_gone_once_no_control_plane_is_left() -> None:
    one = machine("cp-1", LOST)
    assert not is_gone(deployed(), [machine("cp-0"), one, machine("w-0", LOST)])
    assert is_gone(deployed(), [machine("cp-0", LOST), one, machine("w-0")])
    assert is_gone(deployed(), [one]), "a Machine that was deleted is not there either"


def test_one_that_was_never_deployed_is_not_gone() -> None:
    assert not is_gone(None, [])
    assert not is_gone(cluster(), [])
