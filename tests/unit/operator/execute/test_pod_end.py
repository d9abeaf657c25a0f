"""How an executor ended that could not say it: killed, evicted, never started, gone."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import Blame
from harness.operator.execute.pod_end import of_pod, waits_for
from harness.operator.execute.termination import Termination


def pod(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Return a pod whose container is in a state."""
    return {"status": {"containerStatuses": [{"name": "executor", "state": state}], **status}}


def ended(message: str = "", **said: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "message": message, **said}}


def test_an_executor_that_could_say_it_is_believed() -> None:
    said = Termination("failed", "product", task="Join", host="w-0", summary="no")
    assert of_pod(pod(ended(said.to_text()))) == said


def test_an_evicted_executor_that_could_say_it_is_believed_too() -> None:
    said = Termination("interrupted", "infra", task="Join")
    condition = {"type": "DisruptionTarget", "status": "True"}
    assert of_pod(pod(ended(said.to_text()), conditions=[condition])) == said


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (None, "is gone"),
        (pod(ended(exitCode=137, reason="OOMKilled")), "OOMKilled, status 137"),
        (pod(ended(exitCode=137, reason="Error")), "Error, status 137"),
        (pod({}, conditions=[{"type": "DisruptionTarget", "status": "True"}]), "evicted"),
        (pod({}, reason="NodeLost"), "NodeLost"),
        ({"status": {}}, "no reason"),
    ],
)
def test_a_killed_executor_is_the_infrastructures_fault(seen: dict[str, Any] | None, said: str) -> None:
    end = of_pod(seen)
    assert (end.outcome, end.blame) == ("interrupted", Blame.INFRA)
    assert said in end.summary
    assert end.hint


def test_an_image_that_cannot_be_had_is_told_and_a_slow_one_is_awaited() -> None:
    missing = pod({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})
    assert waits_for(missing) == "ImagePullBackOff: not found"
    assert of_pod(missing).blame == Blame.HARNESS
    assert waits_for(pod({"waiting": {"reason": "ContainerCreating"}})) is None
    assert waits_for(pod({"running": {}})) is None
