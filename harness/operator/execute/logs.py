"""Logs of operations and builds: followed while a pod runs, kept in a ConfigMap after its Job is gone."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig, is_condition, phase
from harness.kube.resources import CONFIG_MAP, JOB, JOB_NAME_LABEL, POD
from harness.operator.api.resources import CLUSTER_LABEL, DECLARED, DELIVERY
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
    config_map = cluster.get(CONFIG_MAP, log_name(job), namespace)
    if config_map is not None:
        content = {"binaryData": {FILE: base64.b64encode(packed(text)).decode()}, "data": {END: end.to_text()}}
        cluster.replace(CONFIG_MAP, {**config_map, **content})


def read(cluster: Cluster, namespace: str, job: str) -> KeptLog | None:
    """Return what is kept of a Job's operation; None where nothing is: it has not ended, or was killed."""
    config_map = cluster.get(CONFIG_MAP, log_name(job), namespace)
    return kept_in(config_map) if config_map is not None else None


def text_in(config_map: Json | None) -> str | None:
    """Return the text that a log's ConfigMap has; None where there is none."""
    data: Mapping[str, str] = (config_map or {}).get("binaryData") or {}
    return gzip.decompress(base64.b64decode(data[FILE])).decode("utf-8", "replace") if FILE in data else None


def kept_in(config_map: Json) -> KeptLog | None:
    """Return what a log's ConfigMap has; None where nothing was written into it."""
    text = text_in(config_map)
    return KeptLog(text, Termination.parse((config_map.get("data") or {}).get(END, ""))) if text is not None else None


STARTED = frozenset({"Running", "Succeeded", "Failed"})
# After a Job's deadline: its controller notices, its pod ends within its grace period.
OVER = timedelta(minutes=5)
DELIVERY_PREFIX = "delivery/"
LOOK_SECONDS = 1.0  # between looks at an executor that has not started
Show = Callable[[str], None]


def show_log_of(cluster: Cluster, namespace: str, name: str, which: str, show: Show) -> None:
    """Show the log of an operation of a ClusterDeployment or an EtcdCluster, or of a build of a Delivery.

    Args:
        name: of the object; `delivery/NAME` for a Delivery, also where there is a cluster of the name.
        which: number of the operation, or what the revision begins with; "" for the newest.

    Raises:
        BadInput: there is nothing of it, or `which` is neither.
    """
    object_name = name.removeprefix(DELIVERY_PREFIX)
    is_cluster = object_name == name and any(cluster.get(kind, name, namespace) is not None for kind in DECLARED)
    delivery = cluster.get(DELIVERY, object_name, namespace) if not is_cluster else None
    if delivery is not None:
        show_build_log(cluster, namespace, delivery, which.lower(), show)
    elif object_name != name:
        raise BadInput(
            f"there is no Delivery {object_name} in {namespace}", hint="`kubectl get deliveries -A` lists them"
        )
    elif which and not which.isdecimal():
        raise BadInput(f"{which} is not the number of an operation", hint="`kubectl get vcl -o yaml` has the history")
    else:
        show_log(cluster, namespace, name, int(which) if which else None, show)


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


def show_build_log(cluster: Cluster, namespace: str, delivery: Json, revision: str, show: Show) -> None:
    """Show all that the build of a Delivery's revision says, to its end.

    Args:
        revision: what its SHA begins with; "" for the latest.
        show: gets each line.

    Raises:
        BadInput: there is nothing of it.
    """
    entries = [entry for entry in dig(delivery, "status", "history") or () if entry["revision"].startswith(revision)]
    name = delivery["metadata"]["name"]
    if not entries or not entries[0].get("job"):
        known = ", ".join(entry["revision"][:12] for entry in dig(delivery, "status", "history") or ()) or "none"
        what = f"revision {revision}" if revision else "any revision"
        raise BadInput(f"nothing is known of {what} of Delivery {name} in {namespace}", hint=f"known: {known}")
    entry = entries[0]
    job = cluster.get(JOB, entry["job"], namespace)
    if job is not None and not _over(job) and _follow(cluster, job, show):
        return
    text = text_in(cluster.get(CONFIG_MAP, entry["log"], namespace)) if entry.get("log") else None
    if text is not None:
        for line in text.splitlines():
            show(line)
    elif job is None or not _follow(cluster, job, show):
        told = f"`kubectl get deliveries.delivery.vmatrix.dev {name} -o yaml` shows the history"
        raise BadInput(f"nothing is kept of the log of {entry['job']}", hint=told)


def containers_of(spec: Json) -> list[str]:
    """Return the containers of a pod's spec that come to an end, in the order in which they run."""
    first = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") != "Always"]
    return [container["name"] for container in (*first, *(spec.get("containers") or ()))]


def _over(job: Json) -> bool:
    return any(is_condition(job, kind, "True") for kind in ("Complete", "Failed"))


def _job_of(cluster: Cluster, namespace: str, name: str, sequence: int | None) -> str:
    """Return the Job of the last attempt at an operation; its log outlives it."""
    of_cluster = f"{CLUSTER_LABEL}={name}"
    job_names = {_number(job): job["metadata"]["name"] for job in cluster.list(JOB, namespace, labels=of_cluster).items}
    for kept in cluster.list(CONFIG_MAP, namespace, labels=f"{of_cluster},{KEEPS_LABEL}=log").items:
        job_names.setdefault(_number(kept), kept["metadata"]["name"].removesuffix(log_name("")))
    numbers = [number for number in job_names if sequence is None or number[0] == sequence]
    if not numbers:
        what = "any operation" if sequence is None else f"operation {sequence}"
        known = (
            ", ".join(str(number) for number in sorted({sequence_known for sequence_known, _ in job_names})) or "none"
        )
        raise BadInput(f"nothing is known of {what} of cluster {name} in {namespace}", hint=f"known: {known}")
    return str(job_names[max(numbers)])


def _number(obj: Json) -> tuple[int, int]:
    labels = obj["metadata"].get("labels") or {}
    return int(labels.get(SEQUENCE_LABEL, 0)), int(labels.get(ATTEMPT_LABEL, 1))


def _follow(cluster: Cluster, job: Json, show: Show) -> bool:
    """Show what a Job's pods say, until the Job has ended; tell whether they said anything."""
    seconds = float(dig(job, "spec", "activeDeadlineSeconds") or 0) + OVER.total_seconds()
    containers = containers_of(dig(job, "spec", "template", "spec") or {}) or [CONTAINER]
    following = _Following(cluster, job["metadata"]["namespace"], job["metadata"]["name"], show, containers)
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
    containers: Sequence[str]
    pod: str = ""
    shown: dict[str, int] = field(default_factory=dict)
    said: str = ""

    def look(self) -> bool | NotYet:
        """Show what there is; tell whether the Job has ended."""
        labels = f"{JOB_NAME_LABEL}={self.job}"
        pods = self.cluster.list(POD, self.namespace, labels=labels).items
        newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
        if newest is not None:
            for container in self.containers:
                if _has_begun(newest, container):
                    self._show_rest(newest["metadata"]["name"], container)
            why = waits_for(newest) if phase(newest) not in STARTED else None
            if why is not None and why != self.said:
                self.said = why
                self.show(f"[the executor cannot start: {why}]")
        job = self.cluster.get(JOB, self.job, self.namespace)
        return job is None or _over(job) or NotYet("it has not ended")

    def _show_rest(self, pod: str, container: str) -> None:
        if pod != self.pod:
            self.pod, self.shown = pod, {}
        lines = self.cluster.follow_pod_log(self.namespace, pod, container=container)
        for number, line in enumerate(lines, 1):
            if number > self.shown.get(container, 0):
                self.shown[container] = number
                self.show(line)


def _has_begun(pod: Json, container: str) -> bool:
    """Tell whether a container has written something, or may have."""
    if phase(pod) in STARTED:
        return True
    statuses = dig(pod, "status", "initContainerStatuses") or ()
    states = [status.get("state") or {} for status in statuses if status["name"] == container]
    return any("running" in state or "terminated" in state for state in states)
