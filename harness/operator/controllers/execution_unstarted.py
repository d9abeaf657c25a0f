"""Executors that are not started: what keeps them from it, and how their Jobs are given up without touching a machine.

The scheduler and the kubelet write most of it into the pod's status. That a volume cannot be mounted, because a Secret
is missing, they only tell in events: these count once a pod has been without a container for a while.

An executor says in its Job that it begins, before it touches anything, and does not begin in a Job that is given up. A
Job is given up in one write, which fails if the Job was changed since nothing was said in it. So one of the two sees
the other, whenever the pod is started after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from harness.errors import Blame
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import key_of
from harness.kube.objects import condition, deleting, dig, parse_time, phase
from harness.kube.resources import JOB
from harness.operator.api.cluster import Obstacle
from harness.operator.api.resources import GIVEN_UP
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import ClusterLooks
from harness.operator.execute.pod_end import waits_for
from harness.operator.execute.progress import ANNOTATION
from harness.operator.execute.termination import Termination

NO_NODE, NO_IMAGE, NOT_STARTED = "NoNodeForPods", "ImageNotPulled", "ExecutorNotStarted"
LATE = "DeadlineExceeded"
PATIENCE_SECONDS = 20.0  # policy: an image that is there starts within seconds, and people want to know why not
SILENCE_SECONDS = 120.0  # policy: the same where nothing warns: a large image may be on its way
STATES = ("running", "terminated")


class Unstarted:
    """Looks after executors that nothing has started yet."""

    def __init__(self, context: OperatorContext, looks: ClusterLooks) -> None:
        self._cluster = context.cluster
        self._looks = looks

    def obstacle(self, job: Json) -> Obstacle | None:
        """Return what keeps a Job's executor from being started."""
        pods = self._looks.pods_of(*key_of(job))
        return obstacle_of(pods, lambda pod: self._cluster.events_of(*key_of(pod)), datetime.now(UTC))

    def look_again(self, job: Json) -> float | None:
        """Return when to look again: what only events tell changes no pod."""
        waits = any(phase(pod) == "Pending" for pod in self._looks.pods_of(*key_of(job)))
        return PATIENCE_SECONDS if waits else None

    def give_up(self, job: Json) -> bool:
        """End a Job whose executor was never started; tell whether that was so, and is done."""
        namespace, name = key_of(job)
        now = self._cluster.get(JOB, name, namespace)
        if now is None or now["metadata"]["uid"] != job["metadata"]["uid"] or _has_begun(now):
            return False
        if not _never_ran(self._looks.pods_of(namespace, name)):
            return False
        try:
            patch = {"metadata": {"annotations": {GIVEN_UP: "true"}}, "spec": {"suspend": True}}
            self._looks.jobs.merge(now, patch)
        except ApiFailure as failure:
            if failure.conflict or failure.not_found:
                return False
            raise
        return True


def obstacle_of(pods: Sequence[Json], events: Callable[[Json], Sequence[str]], now: datetime) -> Obstacle | None:
    """Return what the living pod of an executor waits for that may never come; None: nothing.

    Args:
        events: returns the events about a pod, the latest last, as lines that begin with their type.
    """
    pod = next((pod for pod in pods if phase(pod) == "Pending" and not deleting(pod)), None)
    if pod is None:
        return None
    scheduled = condition(pod, "PodScheduled") or {}
    if (scheduled.get("status"), scheduled.get("reason")) == ("False", "Unschedulable"):
        said = scheduled.get("message") or "the scheduler says no more"
        return Obstacle(reason=NO_NODE, message=f"no node can run the executor's pod: {said}")
    if waiting := waits_for(pod):
        return Obstacle(reason=NO_IMAGE, message=f"the executor cannot start: {waiting}")
    age = (now - parse_time(pod["metadata"]["creationTimestamp"])).total_seconds()
    warnings = [line for line in events(pod) if line.startswith("Warning ")]
    if age < (PATIENCE_SECONDS if warnings else SILENCE_SECONDS):
        return None
    said = warnings[-1].removeprefix("Warning ") if warnings else "nothing says why; is the kubelet of its node alive?"
    return Obstacle(reason=NOT_STARTED, message=f"the executor's pod has no container yet: {said}")


def too_late(operation: Json, job: Json, pods: Sequence[Json]) -> Termination | None:
    """Return the end of a Job whose time was over before its executor was started; None of any other."""
    if (condition(job, "Failed") or {}).get("reason") != LATE or _has_begun(job) or not _never_ran(pods):
        return None
    return unstarted(operation, f"the executor was not started within {dig(job, 'spec', 'activeDeadlineSeconds')} s")


def unstarted(operation: Json, why: str) -> Termination:
    """Return the end of an operation whose executor was never started."""
    obstacle = operation.get("obstacle") or {}
    blame = Blame.HARNESS if obstacle.get("reason") == NO_IMAGE else Blame.INFRA
    summary = f"{why}: {obstacle['message']}" if obstacle else why
    return Termination("interrupted", blame=blame, summary=summary, hint="no machine was touched")


def _has_begun(job: Json) -> bool:
    """Tell whether an executor has said that it begins."""
    return dig(job, "metadata", "annotations", ANNOTATION) is not None


def _never_ran(pods: Sequence[Json]) -> bool:
    """Tell whether no container of these pods has run, as far as they tell."""
    statuses = [status for pod in pods for status in dig(pod, "status", "containerStatuses") or []]
    ran = any(dig(status, key, state) for status in statuses for key in ("state", "lastState") for state in STATES)
    return not ran and all(phase(pod) in {"Pending", ""} for pod in pods)
