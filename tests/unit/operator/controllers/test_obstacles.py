"""What keeps an executor from running."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.obstacles import obstacle_of

Json = dict[str, Any]


def pod(phase: str = "Pending", *, scheduled: str = "True", reason: str = "", waiting: str = "", **meta: Any) -> Json:
    condition = {"type": "PodScheduled", "status": scheduled, "reason": reason, "message": "0/1 nodes are available"}
    state = {"waiting": {"reason": waiting, "message": "no such host"}} if waiting else {}
    status = {"phase": phase, "conditions": [condition], "containerStatuses": [{"state": state}]}
    return {"metadata": meta, "status": status}


def test_pod_that_no_node_takes_is_told_in_the_schedulers_words() -> None:
    found = obstacle_of([pod(scheduled="False", reason="Unschedulable")])
    assert found == ("NoNodeForPods", "no node can run the executor's pod: 0/1 nodes are available")


def test_pod_whose_image_is_not_there_is_told() -> None:
    reason, message = obstacle_of([pod(waiting="ImagePullBackOff")]) or ("", "")
    assert reason == "ImageNotPulled"
    assert "no such host" in message


def test_pod_that_runs_starts_or_goes_is_no_obstacle() -> None:
    for one in (pod("Running"), pod(), pod(scheduled="False", reason="SchedulerError"), pod(waiting="PodInitializing")):
        assert obstacle_of([one]) is None
    assert obstacle_of([pod(scheduled="False", reason="Unschedulable", deletionTimestamp="x")]) is None
    assert obstacle_of([]) is None
