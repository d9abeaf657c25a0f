"""Logs of an operation: followed while its executor runs, kept in a ConfigMap after its Job is gone."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig, is_condition, phase
from harness.kube.resources import CONFIG_MAP, JOB, POD
from harness.operator.api.resources import CLUSTER_LABEL
from harness.operator.execute.inputs import ATTEMPT_LABEL, SEQUENCE_LABEL, log_name
from harness.operator.execute.objects import CONTAINER, KEEPS_LABEL
from harness.operator.execute.termination import Termination, waits_for
from harness.until import Deadline, NotYet, until

FILE, END = "log.gz", "termination"
MOST_BYTES = 900 * 1024  # an object of the API has at most 1.5 MiB, and base64 makes a third more of this
CUT = "\n[... {} characters of the log were left out here ...]\n"


@dataclass(frozen=True)
class KeptLog:
    """What is kept of an operation. termination: None where its executor could not say how it ended."""

    text: str
    termination: Termination | None


def packed(text: str, most: int = MOST_BYTES) -> bytes:
    """Return a log compressed to at most so many bytes; where it is too long, the middle is left out."""
    keep = len(text)
    while True:
        kept = text if keep >= len(text) else text[: keep // 2] + CUT.format(len(text) - keep) + text[-(keep // 2) :]
        made = gzip.compress(kept.encode("utf-8", "replace"), mtime=0)
        if len(made) <= most or keep < 2:
            return made
        keep = min(keep - 1, keep * most // len(made) * 9 // 10)


def write(cluster: Cluster, namespace: str, job: str, text: str, end: Termination) -> None:
    """Keep a log and the end that it explains; the ConfigMap is there already."""
    found = cluster.get(CONFIG_MAP, log_name(job), namespace)
    if found is not None:
        content = {"binaryData": {FILE: base64.b64encode(packed(text)).decode()}, "data": {END: end.to_text()}}
        cluster.replace(CONFIG_MAP, {**found, **content})


def read(cluster: Cluster, namespace: str, job: str) -> KeptLog | None:
    """Return what is kept of a Job's operation; None where nothing is: it has not ended, or was killed."""
    found = cluster.get(CONFIG_MAP, log_name(job), namespace)
    return kept_in(found) if found is not None else None


def kept_in(found: Json) -> KeptLog | None:
    """Return what a log's ConfigMap has; None where nothing was written into it."""
    data: Mapping[str, str] = found.get("binaryData") or {}
    if FILE not in data:
        return None
    text = gzip.decompress(base64.b64decode(data[FILE])).decode("utf-8", "replace")
    return KeptLog(text, Termination.parse((found.get("data") or {}).get(END, "")))


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
    kept = None if shown else read(cluster, namespace, name_of_job)
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
