"""Executors: how far their Jobs are, how they ended, and what is kept of them.

Nothing depends on having been there when a Job ended: the operation stands in the Cluster's status until its end does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from harness.errors import Blame
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import condition, deleting, dig, is_condition, now, parse_time, phase
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import CONFIG_MAP, JOB, JOB_NAME_LABEL
from harness.operator.api.cluster import (
    HISTORY_LENGTH,
    SNAPSHOTS_LENGTH,
    AppliedState,
    CurrentOperation,
    DrillState,
    Obstacle,
    PastOperation,
    UnsettledState,
)
from harness.operator.api.etcd import ABSENT, LOCKED, SnapshotFacts, SnapshotPlace
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, GIVEN_UP
from harness.operator.api.rules import ETCD_USERS
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import (
    ClusterLooks,
    Workable,
    final_pods,
    is_cancelled,
    of_uid,
    owned_by,
    still_run,
)
from harness.operator.controllers.guest import hand_out, take_back
from harness.operator.decide.etcdclients import cluster_of
from harness.operator.decide.observed import ADOPT, CHECKS, DRILL, RESET, drilled, unsettled_after
from harness.operator.execute.inputs import ATTEMPT_LABEL, BACKUP, SEQUENCE_LABEL, log_name
from harness.operator.execute.logs import read
from harness.operator.execute.termination import ANNOTATION, Outcome, Termination, of_pod, progress_of, waits_for


def snapshots_after(known: Sequence[Json], operation: Json, facts: Mapping[str, Any]) -> list[Json]:
    """Return the snapshots that there are after an operation that succeeded.

    Args:
        known: those before it.  facts: what its executor found out about the one that it took.
    """
    about = operation.get("snapshot")
    if about is None:
        return list(known)
    place = SnapshotPlace.model_validate(about)
    locked: Mapping[str, str] = facts.get(LOCKED) or {}
    gone = {(place.store, file) for file in about.get("forget") or () if file not in locked}
    if operation["operation"] != BACKUP:
        return [snapshot for snapshot in known if _where(snapshot) not in gone]
    gone.add((place.store, place.file))
    kept = [_looked_for(snapshot, about, facts) for snapshot in known if _where(snapshot) not in gone]
    made: Json = place.model_dump(mode="json", by_alias=True, exclude_none=True)
    names = _clusters(operation)
    return [{**made, **_facts(facts), **({"clusters": names} if names else {})}, *kept][:SNAPSHOTS_LENGTH]


def _clusters(operation: Json) -> list[str]:
    """Return the clusters that had their keys in an EtcdCluster when a snapshot was taken."""
    users = dig(operation, "applies", "variables", ETCD_USERS) or []
    return [cluster_of(user["name"]) for user in users]


def _looked_for(snapshot: Json, about: Json, facts: Mapping[str, Any]) -> Json:
    """Return a snapshot of before with whether its file was there, if the executor has looked for it."""
    file = snapshot["file"]
    if _where(snapshot)[0] != SnapshotPlace.model_validate(about).store:
        return snapshot
    if (until := (facts.get(LOCKED) or {}).get(file)) is not None:
        return {**snapshot, "lockedUntil": until}
    if file not in (about.get("expected") or ()):
        return snapshot
    rest = {name: value for name, value in snapshot.items() if name != "absent"}
    return {**rest, "absent": True} if file in (facts.get(ABSENT) or ()) else rest


def _where(snapshot: Json) -> tuple[str, str]:
    """Return the claim or bucket that a snapshot lies in, and its file there."""
    place = SnapshotPlace.model_validate(snapshot)
    return place.store, place.file


def _facts(facts: Mapping[str, Any]) -> Json:
    """Return facts as a status has them; none where the executor's words have another form."""
    try:
        snapshot_facts = SnapshotFacts.model_validate(dict(facts))
        made: Json = snapshot_facts.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"clusters"})
    except ValidationError:
        return {}
    return made


COMPLETE, FAILED = "Complete", "Failed"
SUCCEEDED: Outcome = "succeeded"
SEE_LOG = "`vmatrix operator log` shows its output"


def has_ended(job: Json) -> bool:
    """Tell whether a Job has ended and none of its pods lives any more."""
    return is_condition(job, COMPLETE, "True") or is_condition(job, FAILED, "True")


def is_given_up(job: Json) -> bool:
    """Tell whether a Job was given up before its executor was started."""
    return bool(dig(job, "metadata", "annotations", GIVEN_UP))


def ended_at(job: Json) -> str | None:
    """Return when a Job ended, by its own account."""
    failed = condition(job, FAILED) or {}
    return dig(job, "status", "completionTime") or failed.get("lastTransitionTime")


def lasted(entry: Json) -> float | None:
    """Return the seconds that an operation of the history took; None where its Job never ran."""
    started, ended = entry.get("started"), entry.get("ended")
    return (parse_time(ended) - parse_time(started)).total_seconds() if started and ended else None


def termination_of(job: Json, pods: Sequence[Json], kept: Callable[[], Termination | None]) -> Termination:
    """Return how a Job ended: in its program's own words where there are some, else in its pod's or its own.

    Args:
        pods: of the Job, as far as they are there, the latest first.
        kept: returns what the program left beside its log.
    """
    statuses = (status for pod in pods for status in dig(pod, "status", "containerStatuses") or [])
    messages = (dig(status, "state", "terminated", "message") for status in statuses)
    told = (
        next((termination for text in messages if (termination := Termination.parse(text or "")) is not None), None)
        or kept()
    )
    if told is not None:
        return told
    if is_condition(job, COMPLETE, "True"):
        return Termination(SUCCEEDED)
    reason = (condition(job, FAILED) or {}).get("reason")
    if reason == "DeadlineExceeded":
        seconds = dig(job, "spec", "activeDeadlineSeconds")
        summary = f"the operation did not end within {seconds} s"
        hint = f"raise spec.jobs.deadlineSeconds, or see what it waited for: {SEE_LOG}"
        return Termination("failed", blame=Blame.PRODUCT, summary=summary, hint=hint)
    return of_pod(pods[0] if pods else None)


def deleted() -> Termination:
    """Return the end of an operation whose Job somebody deleted."""
    summary, hint = "somebody deleted the Job before it ended", "the operation is repeated; pause it with spec.paused"
    return Termination("interrupted", blame=Blame.USER, summary=summary, hint=hint)


def past(operation: Json, end: Termination, started: str | None, ended: str | None, *, untouched: bool = False) -> Json:
    """Return the entry of the history; `started` and `ended` are the Job's.

    An executor that was killed has said where it was while it ran.

    Args:
        untouched: the executor was never started. It has touched nothing, either, if it failed where it only checks.
    """
    fields = {
        name: getattr(end, name) for name in ("outcome", "blame", "play", "task", "host", "reason", "summary", "hint")
    }
    if end.outcome != SUCCEEDED and not (end.play or end.task):
        fields |= {name: operation.get(name) for name in ("play", "task")}
    same = {name: operation.get(name) for name in ("sequence", "attempt", "operation", "why", "digest")}
    made = {**same, **fields, "started": started, "ended": ended}
    made |= {"backup": dig(operation, "snapshot", "backup"), "backupUid": dig(operation, "snapshot", "uid")}
    made |= {"restoreUid": dig(operation, "snapshot", "restore") or None}
    only_looked = operation["operation"] == ADOPT and end.outcome != SUCCEEDED
    before_anything = end.play in CHECKS.get(operation["operation"], ())
    checked = only_looked or (end.outcome == "failed" and bool(end.host) and before_anything)
    made |= {"untouched": True} if untouched or checked else {}
    made |= {} if untouched else {"log": log_name(operation["job"])}
    return {name: value for name, value in made.items() if value not in (None, "")}


def after(status: Json, entry: Json, snapshot: Mapping[str, Any] | None = None) -> Json:
    """Return a Cluster's status once its operation has ended; `snapshot`: what it said of the one that it took."""
    operation, applied, unsettled = status["operation"], status.get("applied"), status.get("unsettled")
    made = {**status, "history": _kept([entry, *(status.get("history") or [])]), "operation": None}
    if not entry.get("untouched"):
        left = unsettled_after(
            UnsettledState.model_validate(unsettled) if unsettled else None,
            AppliedState.model_validate(applied) if applied else None,
            CurrentOperation.model_validate(operation),
            entry["outcome"],
        )
        made["unsettled"] = left and left.model_dump(mode="json", by_alias=True, exclude_none=True)
    if operation["operation"] == DRILL:
        known, current = status.get("drill"), CurrentOperation.model_validate(operation)
        before = DrillState.model_validate(known) if known else None
        state = drilled(before, current, PastOperation.model_validate(entry), snapshot)
        made["drill"] = state and state.model_dump(mode="json", by_alias=True, exclude_none=True)
    if entry["outcome"] == SUCCEEDED:
        made["applied"] = None if operation["operation"] == RESET else operation.get("applies") or applied
        made["snapshots"] = snapshots_after(status.get("snapshots") or [], operation, snapshot or {}) or None
        made["approval"] = None if _was_approved(status) else status.get("approval")
    return {name: value for name, value in made.items() if value is not None}


def _was_approved(status: Json) -> bool:
    digest = dig(status, "approval", "digest")
    return digest is not None and digest == status["operation"].get("digest")


def forgotten(status: Json, entry: Json) -> list[str]:
    """Return the logs of the operations for which an end leaves no room in the history."""
    history = status.get("history") or []
    kept = _kept([entry, *history])
    return [old["log"] for old in history if old not in kept and old.get("log")]


def _kept(history: list[Json]) -> list[Json]:
    """Return the latest operations, and among them always the last that touched a machine: a reset follows from it."""
    latest = history[:HISTORY_LENGTH]
    touched = next((entry for entry in history if not entry.get("untouched")), None)
    return latest if touched is None or touched in latest else [*latest[:-1], touched]


def told(operation: Json, entry: Json) -> str:
    """Return the end of an operation in one line for people."""
    if entry["outcome"] == SUCCEEDED:
        return f"{operation['operation']} succeeded (Job {operation['job']})"
    where = f" at task {entry['task']!r}" if entry.get("task") else ""
    where += f" on {entry['host']}" if entry.get("host") else ""
    blame = f" ({entry['blame']} to blame)" if entry.get("blame") else ""
    summary = entry.get("summary", entry["outcome"])
    return f"{operation['operation']} failed{where}{blame}: {summary} (Job {operation['job']})"


def surplus(jobs: Iterable[Json], *, keep_failed: int, keep_succeeded: int) -> list[Json]:
    """Return the Jobs to delete: those given up, and of those that ended well and of the others all but the latest few.

    Args:
        jobs: of one cluster that no operation runs of.
    """
    jobs = [job for job in jobs if not deleting(job)]
    ended = [job for job in jobs if has_ended(job) and not is_given_up(job)]
    ended.sort(key=_number, reverse=True)
    good = [job for job in ended if is_condition(job, COMPLETE, "True")]
    bad = [job for job in ended if not is_condition(job, COMPLETE, "True")]
    return [*good[keep_succeeded:], *bad[keep_failed:], *filter(is_given_up, jobs)]


def _number(job: Json) -> tuple[int, int]:
    """Return a Job's place in its cluster's life: two Jobs may end within the same second."""
    sequence, attempt = (labels_of(job).get(label, "") for label in (SEQUENCE_LABEL, ATTEMPT_LABEL))
    return int(sequence or 0), int(attempt or 0)


HINT = "it is not tried again before the object changes"


def cancelled(end: Termination | None = None) -> Termination:
    """Return the end of an operation that was stopped; one that had succeeded before that has succeeded.

    Args:
        end: what its executor said; None if it never began.
    """
    if end is not None and end.outcome == "succeeded":
        return end
    summary = "somebody stopped it by annotation"
    sentence = f"{summary}; {end.summary}" if end is not None and end.summary else summary
    return replace(end or Termination("cancelled"), outcome="cancelled", blame=Blame.USER, summary=sentence, hint=HINT)


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
        message = scheduled.get("message") or "the scheduler says no more"
        return Obstacle(reason=NO_NODE, message=f"no node can run the executor's pod: {message}")
    if waiting := waits_for(pod):
        return Obstacle(reason=NO_IMAGE, message=f"the executor cannot start: {waiting}")
    age = (now - parse_time(pod["metadata"]["creationTimestamp"])).total_seconds()
    warnings = [line for line in events(pod) if line.startswith("Warning ")]
    if age < (PATIENCE_SECONDS if warnings else SILENCE_SECONDS):
        return None
    message = (
        warnings[-1].removeprefix("Warning ") if warnings else "nothing says why; is the kubelet of its node alive?"
    )
    return Obstacle(reason=NOT_STARTED, message=f"the executor's pod has no container yet: {message}")


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
        if is_given_up(job):  # also where its executor was started after all, and ended when it saw that
            return self._gave_up(cluster, operation, job)
        if not has_ended(job):
            return self._follow(cluster, operation, job)
        self._end(cluster, operation, job)
        return None

    def _cancelled(self, cluster: Json, operation: Json) -> bool:
        return is_cancelled(self._looks.deployments.get(*key_of(cluster)), operation)

    def _follow(self, cluster: Json, operation: Json, job: Json) -> float | None:
        """Write where an executor is, or what keeps it from being started, if that is something else."""
        play, task = progress_of(job)
        known_obstacle = self._unstarted.obstacle(job)
        obstacle = known_obstacle.model_dump() if known_obstacle is not None else None
        progress = {"started": dig(job, "status", "startTime"), "play": play, "task": task}
        after = {**operation, **{name: value for name, value in progress.items() if value}, "obstacle": obstacle}
        after = {name: value for name, value in after.items() if value is not None}
        if after != operation:
            self._looks.clusters.replace_status(cluster, {**cluster["status"], "operation": after})
            deployment = self._looks.deployments.get(*key_of(cluster))
            if obstacle is not None and obstacle != operation.get("obstacle") and deployment is not None:
                say = self._context.events.warning
                say(deployment, obstacle["reason"], obstacle["message"], component=COMPONENT)
            return 0.0
        if known_obstacle is not None and self._superseded(cluster) and self._unstarted.give_up(job):
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
        if still_run(self._cluster, namespace, f"{JOB_NAME_LABEL}={name}"):
            return AGAIN_SECONDS
        end = unstarted(operation, "something else is wanted by now, and the executor was never started")
        end = cancelled(end) if self._cancelled(cluster, operation) else end
        self._over(cluster, operation, end, past(operation, end, None, now(), untouched=True))
        return None

    def _without_job(self, cluster: Json, operation: Json) -> float | None:
        """Write the end of an operation whose Job is gone, once nothing of it lives."""
        namespace, job = cluster["metadata"]["namespace"], operation["job"]
        if self._cluster.get(JOB, job, namespace) is not None:  # the local copy will have it soon
            return AGAIN_SECONDS
        if still_run(self._cluster, namespace, f"{JOB_NAME_LABEL}={job}"):
            return AGAIN_SECONDS
        end = self._kept(cluster, job) or deleted()
        end = cancelled(end) if self._cancelled(cluster, operation) else end
        self._over(cluster, operation, end, past(operation, end, operation["started"], now()))
        return None

    def _end(self, cluster: Json, operation: Json, job: Json) -> None:
        """Write the end of an operation."""
        namespace, name = key_of(job)
        pods = final_pods(self._cluster, job, self._looks.pods_of(namespace, name))
        late = too_late(operation, job, pods)
        end = late or termination_of(job, pods, partial(self._kept, cluster, name))
        times = dig(job, "status", "startTime"), ended_at(job)
        entry = past(operation, end, *times, untouched=late is not None)
        self._over(cluster, operation, end, entry)

    def _kept(self, cluster: Json, job: str) -> Termination | None:
        """Return what the program said beside its log: all that there is once its pod is gone."""
        kept = read(self._cluster, cluster["metadata"]["namespace"], job)
        return kept.termination if kept is not None else None

    def _over(self, cluster: Json, operation: Json, end: Termination, entry: Json) -> None:
        """Hand out or take back the kubeconfig, then move the operation into the history, then tell."""
        if end.outcome == SUCCEEDED:
            take_back(self._cluster, cluster) if operation["operation"] == RESET else hand_out(self._cluster, cluster)
        self._looks.clusters.replace_status(cluster, after(cluster["status"], entry, end.snapshot))
        for log in forgotten(cluster["status"], entry):
            self._cluster.delete(CONFIG_MAP, log, cluster["metadata"]["namespace"])
        self._context.metrics.operation_ended(operation["operation"], end.outcome, lasted(entry))
        deployment = self._looks.deployments.get(*key_of(cluster))
        if deployment is not None:
            good = end.outcome == SUCCEEDED
            say = self._context.events.normal if good else self._context.events.warning
            reason = "OperationSucceeded" if good else "OperationFailed"
            say(deployment, reason, told(operation, entry), component=COMPONENT)

    def _tidy(self, cluster: Json) -> None:
        """Keep the kubeconfig handed out; delete Jobs, with their inputs, that the object's policy does not keep."""
        if dig(cluster, "status", "applied"):
            hand_out(self._cluster, cluster)
        deployment = self._looks.deployments.get(*key_of(cluster))
        policy = dig(deployment, "spec", "jobs") or {}
        namespace = cluster["metadata"]["namespace"]
        jobs = self._looks.jobs.by(of_uid, cluster["metadata"]["uid"])
        keep = {"keep_failed": policy.get("keepFailed", 3), "keep_succeeded": policy.get("keepSucceeded", 1)}
        for job in surplus(jobs, **keep):
            for name in (job["metadata"]["name"], *([log_name(job["metadata"]["name"])] * is_given_up(job))):
                self._cluster.delete(CONFIG_MAP, name, namespace)
            self._cluster.delete(JOB, job["metadata"]["name"], namespace)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Executions(context).controller)
