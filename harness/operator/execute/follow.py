"""The log of an operation for a person: as it comes while its executor runs, and what is kept of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig, is_condition, phase
from harness.kube.resources import CONFIG_MAP, JOB, POD
from harness.operator.api.resources import CLUSTER_LABEL
from harness.operator.execute import logs
from harness.operator.execute.inputs import ATTEMPT_LABEL, SEQUENCE_LABEL, log_name
from harness.operator.execute.objects import KEEPS_LABEL
from harness.operator.execute.pod import CONTAINER
from harness.operator.execute.pod_end import waits_for
from harness.until import Deadline, NotYet, until

STARTED = frozenset({"Running", "Succeeded", "Failed"})
# After a Job's deadline: its controller notices, its pod ends within its grace period.
OVER = timedelta(minutes=5)
LOOK_SECONDS = 1.0  # between looks at an executor that has not started
Show = Callable[[str], None]


def show_log(cluster: Cluster, namespace: str, name: str, sequence: int | None, show: Show) -> None:
    """Show all that the last attempt at an operation of a cluster says, to its end.

    Args:
        sequence: of the operation; None for the newest.
        show: gets each line.

    Raises:
        BadInput: there is nothing of it.
    """
    name_of_job = _job_of(cluster, namespace, name, sequence)
    job, shown = cluster.get(JOB, name_of_job, namespace), False
    if job is not None and not _over(job):
        shown = _follow(cluster, job, show)
    kept = None if shown else logs.read(cluster, namespace, name_of_job)
    if kept is not None:
        for line in kept.text.splitlines():
            show(line)
    elif not shown and (job is None or not _follow(cluster, job, show)):
        raise BadInput(
            f"nothing is kept of the log of {name_of_job}: its executor was killed, or has not started",
            hint=f"`kubectl get clusters.cluster.vmatrix.dev {name} -o yaml` shows the history",
        )


def _over(job: Json) -> bool:
    return any(is_condition(job, kind, "True") for kind in ("Complete", "Failed"))


def _job_of(cluster: Cluster, namespace: str, name: str, sequence: int | None) -> str:
    """Return the Job of the last attempt at an operation; its log outlives it."""
    of_cluster = f"{CLUSTER_LABEL}={name}"
    found = {_number(job): job["metadata"]["name"] for job in cluster.list(JOB, namespace, labels=of_cluster).items}
    for kept in cluster.list(CONFIG_MAP, namespace, labels=f"{of_cluster},{KEEPS_LABEL}=log").items:
        found.setdefault(_number(kept), kept["metadata"]["name"].removesuffix(log_name("")))
    wanted = [number for number in found if sequence is None or number[0] == sequence]
    if not wanted:
        what = "any operation" if sequence is None else f"operation {sequence}"
        known = ", ".join(str(number) for number in sorted({one for one, _ in found})) or "none"
        raise BadInput(f"nothing is known of {what} of cluster {name} in {namespace}", hint=f"known: {known}")
    return str(found[max(wanted)])


def _number(obj: Json) -> tuple[int, int]:
    labels = obj["metadata"].get("labels") or {}
    return int(labels.get(SEQUENCE_LABEL, 0)), int(labels.get(ATTEMPT_LABEL, 1))


def _follow(cluster: Cluster, job: Json, show: Show) -> bool:
    """Show what a Job's pods say, until the Job has ended; tell whether they said anything."""
    seconds = float(dig(job, "spec", "activeDeadlineSeconds") or 0) + OVER.total_seconds()
    following = _Following(cluster, job["metadata"]["namespace"], job["metadata"]["name"], show)
    what = f"the end of {following.job}"
    until(following.look, deadline=Deadline.after(seconds), what=what, interval=LOOK_SECONDS)
    return bool(following.pod)


@dataclass
class _Following:
    """A Job whose pods' logs are shown; after a lost connection the same log is read again, and shown from there on."""

    cluster: Cluster
    namespace: str
    job: str
    show: Show
    pod: str = ""
    shown: int = 0
    said: str = ""

    def look(self) -> bool | NotYet:
        """Show what there is; tell whether the Job has ended."""
        labels = f"batch.kubernetes.io/job-name={self.job}"
        pods = self.cluster.list(POD, self.namespace, labels=labels).items
        newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
        if newest is not None and phase(newest) in STARTED:
            self._show_rest(newest["metadata"]["name"])
        elif newest is not None and (why := waits_for(newest)) is not None and why != self.said:
            self.said = why
            self.show(f"[the executor cannot start: {why}]")
        job = self.cluster.get(JOB, self.job, self.namespace)
        return job is None or _over(job) or NotYet("it has not ended")

    def _show_rest(self, pod: str) -> None:
        if pod != self.pod:
            self.pod, self.shown = pod, 0
        lines = self.cluster.follow_pod_log(self.namespace, pod, container=CONTAINER)
        for number, line in enumerate(lines, 1):
            if number > self.shown:
                self.shown = number
                self.show(line)
