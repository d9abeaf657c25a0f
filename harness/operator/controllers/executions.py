"""Executors: how far their Jobs are, how they ended, and what is kept of them.

Nothing depends on having been there when a Job ended: the operation stands in the Cluster's status until its end does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from harness.errors import Blame
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import condition, deleting, dig, now, parse_time, phase
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import CONFIG_MAP, JOB
from harness.operator.api.cluster import Obstacle
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, GIVEN_UP
from harness.operator.context import OperatorContext
from harness.operator.controllers import execution_end as end_of
from harness.operator.controllers.cluster_view import ClusterLooks, Workable, of_uid, owned_by, still_run
from harness.operator.controllers.execution_end import cancelled, is_cancelled
from harness.operator.controllers.guest import hand_out, take_back
from harness.operator.decide.observed import RESET
from harness.operator.execute.inputs import log_name
from harness.operator.execute.logs import read
from harness.operator.execute.progress import ANNOTATION, progress_of
from harness.operator.execute.termination import Termination, waits_for

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


COMPONENT = "executions"
AGAIN_SECONDS = 1.0  # pacing: while pods of a Job that is gone end, which takes them half a minute


class Executions:
    """Follows the Jobs of operations."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._cluster = context.cluster
        self._looks = looks = ClusterLooks(context)
        self._unstarted = Unstarted(context, looks)
        self.controller = Controller("executions", self.reconcile)
        queue = self.controller.queue
        follow(looks.clusters, queue)
        follow(looks.deployments, queue)  # a newer wish may end what was never started
        follow_children(looks.jobs, CLUSTER, queue)
        looks.pods.subscribe(lambda _, pod: queue.add((key_of(pod)[0], labels_of(pod)[CLUSTER_LABEL])))

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; do one thing."""
        cluster = self._looks.clusters.get(*key)
        if cluster is None or deleting(cluster):
            return None
        operation = dig(cluster, "status", "operation")
        if operation is None:
            self._tidy(cluster)
            return None
        job = self._looks.jobs.get(key[0], operation["job"])
        if job is None or not owned_by(job, cluster):
            return self._without_job(cluster, operation) if operation.get("started") else None
        if end_of.is_given_up(job):  # also where its executor was started after all, and ended when it saw that
            return self._gave_up(cluster, operation, job)
        if not end_of.has_ended(job):
            return self._follow(cluster, operation, job)
        self._end(cluster, operation, job)
        return None

    def _cancelled(self, cluster: Json, operation: Json) -> bool:
        return is_cancelled(self._looks.deployments.get(*key_of(cluster)), operation)

    def _follow(self, cluster: Json, operation: Json, job: Json) -> float | None:
        """Write where an executor is, or what keeps it from being started, if that is something else."""
        play, task = progress_of(job)
        found = self._unstarted.obstacle(job)
        obstacle = found.model_dump() if found is not None else None
        wanted = {"started": dig(job, "status", "startTime"), "play": play, "task": task}
        after = {**operation, **{name: value for name, value in wanted.items() if value}, "obstacle": obstacle}
        after = {name: value for name, value in after.items() if value is not None}
        if after != operation:
            self._looks.clusters.replace_status(cluster, {**cluster["status"], "operation": after})
            deployment = self._looks.deployments.get(*key_of(cluster))
            if obstacle is not None and obstacle != operation.get("obstacle") and deployment is not None:
                say = self._context.events.warning
                say(deployment, obstacle["reason"], obstacle["message"], component=COMPONENT)
            return 0.0
        if found is not None and self._superseded(cluster) and self._unstarted.give_up(job):
            return 0.0
        if operation.get("started") and self._cancelled(cluster, operation):
            self._cluster.delete(JOB, job["metadata"]["name"], job["metadata"]["namespace"])
            return AGAIN_SECONDS
        return self._unstarted.look_again(job)

    def _superseded(self, cluster: Json) -> bool:
        """Tell whether something else than what runs would be decided now."""
        view = Workable.of(self._looks.view(key_of(cluster)))
        return view is not None and view.observed.running is not None and not view.wants(view.observed.running)

    def _gave_up(self, cluster: Json, operation: Json, job: Json) -> float | None:
        """Write the end of an operation that was given up before it began, once no pod of it is left."""
        namespace, name = key_of(job)
        if still_run(self._cluster, namespace, f"batch.kubernetes.io/job-name={name}"):
            return AGAIN_SECONDS
        end = unstarted(operation, "something else is wanted by now, and the executor was never started")
        end = cancelled(end) if self._cancelled(cluster, operation) else end
        self._over(cluster, operation, end, end_of.past(operation, end, None, now(), untouched=True))
        return None

    def _without_job(self, cluster: Json, operation: Json) -> float | None:
        """Write the end of an operation whose Job is gone, once nothing of it lives."""
        namespace, job = cluster["metadata"]["namespace"], operation["job"]
        if self._cluster.get(JOB, job, namespace) is not None:  # the local copy will have it soon
            return AGAIN_SECONDS
        if still_run(self._cluster, namespace, f"batch.kubernetes.io/job-name={job}"):
            return AGAIN_SECONDS
        end = self._kept(cluster, job) or end_of.deleted()
        end = cancelled(end) if self._cancelled(cluster, operation) else end
        self._over(cluster, operation, end, end_of.past(operation, end, operation["started"], now()))
        return None

    def _end(self, cluster: Json, operation: Json, job: Json) -> None:
        """Write the end of an operation."""
        namespace, name = key_of(job)
        pods = self._looks.pods_of(namespace, name)
        late = too_late(operation, job, pods)
        end = late or end_of.termination_of(job, pods, partial(self._kept, cluster, name))
        times = dig(job, "status", "startTime"), end_of.ended_at(job)
        entry = end_of.past(operation, end, *times, untouched=late is not None)
        self._over(cluster, operation, end, entry)

    def _kept(self, cluster: Json, job: str) -> Termination | None:
        """Return what the program said beside its log: all that there is once its pod is gone."""
        kept = read(self._cluster, cluster["metadata"]["namespace"], job)
        return kept.termination if kept is not None else None

    def _over(self, cluster: Json, operation: Json, end: Termination, entry: Json) -> None:
        """Hand out or take back the kubeconfig, then move the operation into the history, then tell."""
        if end.outcome == end_of.SUCCEEDED:
            take_back(self._cluster, cluster) if operation["operation"] == RESET else hand_out(self._cluster, cluster)
        self._looks.clusters.replace_status(cluster, end_of.after(cluster["status"], entry, end.snapshot))
        for log in end_of.forgotten(cluster["status"], entry):
            self._cluster.delete(CONFIG_MAP, log, cluster["metadata"]["namespace"])
        self._context.metrics.operation_ended(operation["operation"], end.outcome, end_of.lasted(entry))
        deployment = self._looks.deployments.get(*key_of(cluster))
        if deployment is not None:
            good = end.outcome == end_of.SUCCEEDED
            say = self._context.events.normal if good else self._context.events.warning
            reason = "OperationSucceeded" if good else "OperationFailed"
            say(deployment, reason, end_of.told(operation, entry), component=COMPONENT)

    def _tidy(self, cluster: Json) -> None:
        """Keep the kubeconfig handed out; delete Jobs, with their inputs, that the object's policy does not keep."""
        if dig(cluster, "status", "applied"):
            hand_out(self._cluster, cluster)
        deployment = self._looks.deployments.get(*key_of(cluster))
        policy = dig(deployment, "spec", "jobs") or {}
        namespace = cluster["metadata"]["namespace"]
        jobs = self._looks.jobs.by(of_uid, cluster["metadata"]["uid"])
        keep = {"keep_failed": policy.get("keepFailed", 3), "keep_succeeded": policy.get("keepSucceeded", 1)}
        for job in end_of.surplus(jobs, **keep):
            for name in (job["metadata"]["name"], *([log_name(job["metadata"]["name"])] * end_of.is_given_up(job))):
                self._cluster.delete(CONFIG_MAP, name, namespace)
            self._cluster.delete(JOB, job["metadata"]["name"], namespace)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Executions(context).controller)
