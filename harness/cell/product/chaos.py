"""Programs of a declared product that are ended on request while a phase runs: executors and managers."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness.cell.finalizers import is_own
from harness.cell.product.declared_wait import KILLS, kills_of, own_pods
from harness.errors import BadInput, HarnessBug, ProductError, VmatrixError
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.informer import Informer, labels_of, revision_of
from harness.kube.objects import condition, dig, is_condition, phase
from harness.kube.resources import JOB, JOB_NAME_LABEL, POD
from harness.machines.runner.playbook_output import task_of
from harness.spec.settings import HINT, Blow
from harness.until import Deadline, NotYet, until

PROC = Path("/proc")


def id_of(pod: Json) -> str:
    """Return the id of a pod's first container, "" before it has one."""
    states = (pod.get("status") or {}).get("containerStatuses") or [{}]
    return str(states[0].get("containerID") or "").rpartition("//")[2]


def first_process(container: str, proc: Path = PROC) -> int | None:
    """Return a container's first process, None where there is none."""
    return next((pid for pid in _candidates(proc) if _is_first(container, proc / str(pid))), None)


def kill(container: str, proc: Path = PROC) -> int | None:
    """Kill a container's first process, with which the kernel ends all others; return its id, None if there is none.

    Args:
        container: its id.
    """
    pid = first_process(container, proc)
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid) if pid is not None else None
        if pid is None or handle is None:
            return None
        try:
            if _is_first(container, proc / str(pid)):  # and no other process that got its number meanwhile
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return pid
        finally:
            os.close(handle)
    return None


def _candidates(proc: Path) -> Iterator[int]:
    return (int(path.name) for path in proc.iterdir() if path.name.isdigit())


def _is_first(container: str, process: Path) -> bool:
    """Tell whether a process is the first one of a container: number 1 in its namespace of processes."""
    try:
        if container not in (process / "cgroup").read_text(encoding="utf-8"):
            return False
        status = (process / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return False
    inner = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(inner) > 1 and inner[-1] == "1"


ENDS = ("Complete", "Failed")
RECORD_HINT = "the record beside the phase's log has every change of Jobs and pods"
Span = tuple[str, str, str | None]  # name, began, ended


class ChaosRecord:
    """A watch of Jobs and pods, a line of JSON for each change."""

    def __init__(self, cluster: Cluster, namespace: str, selector: str, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._stopped = False
        self._evicted: dict[str, str] = {}  # the Jobs of evicted pods
        self._before = frozenset[str]()
        self._latest: dict[str, Json] = {}  # each Job and each executor's pod as it was seen last, by uid
        self._cluster, self._namespace = cluster, namespace
        self._labels = {JOB: selector, POD: ""}
        self._informers = [Informer(cluster, k, namespace=namespace, labels=v) for k, v in self._labels.items()]
        for informer in self._informers:
            informer.subscribe(partial(self._take, informer.resource.kind))

    def start(self, seconds: float) -> None:
        """Begin to watch; what is there already is of another phase."""
        self._file.unlink(missing_ok=True)
        deadline = Deadline.after(seconds)
        for informer in self._informers:
            informer.start()
            until(partial(_synced, informer), deadline=deadline, what="the first list of Jobs and pods")
        self._before = frozenset(self._latest)

    def catch_up(self) -> None:
        """Look at what is there now, whatever the watches have brought so far."""
        for resource, labels in self._labels.items():
            for obj in self._cluster.list(resource, self._namespace, labels=labels).items:
                if revision_of(obj) > revision_of(self._latest.get(obj["metadata"]["uid"])):
                    self._take(resource.kind, "LISTED", obj)

    def stop(self) -> None:
        """Watch no more."""
        for informer in self._informers:
            informer.stop()
        with self._lock:
            self._stopped = True  # an informer tells one more event

    def executors(self) -> list[Json]:
        """Return the pods of the Jobs that are there, or were, in the order in which they began."""
        names = {job["metadata"]["name"] for job in self._kept("Job")}
        pods = [pod for pod in self._kept("Pod") if _job_of(pod) in names]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def runs(self, pod: Json) -> bool:
        """Tell whether a pod's program runs, as far as is known."""
        with self._lock:
            return alive(self._latest[pod["metadata"]["uid"]])

    def note(self, blow: Blow, pod: Json, pid: int | None) -> None:
        """Write down what is done to a pod: the process that was killed, None for an eviction."""
        name = str(pod["metadata"]["name"])
        if pid is None:
            self._evicted[name] = _job_of(pod)
        self._write({"event": "BLOW", "blow": blow.text, "pod": name, "pid": pid})

    def judge(self, seconds: float) -> None:
        """Look whether executors worked one after the other, and each Job was made once.

        Raises:
            ProductError: they did not, or one was; or nobody went on for an executor that was evicted.
        """

        def ended() -> bool | NotYet:
            late = [job["metadata"]["name"] for job in self._kept("Job") if _ended(job) is None]
            return NotYet(f"{', '.join(late)} has not ended") if late else True

        until(ended, deadline=Deadline.after(seconds), what="the Jobs of the phase to end")
        jobs = self._kept("Job")
        names = [job["metadata"]["name"] for job in jobs]
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise ProductError(f"Job {twins[0]} was made twice", hint=RECORD_HINT, paths=(self._file,))
        spans = [(job["metadata"]["name"], str(job["metadata"]["creationTimestamp"]), _ended(job)) for job in jobs]
        for pod, of in self._evicted.items():
            if not any(_job_of(each) == of and each["metadata"]["name"] != pod for each in self.executors()):
                raise ProductError(
                    f"{of} did not go on after its pod {pod} was evicted", hint=RECORD_HINT, paths=(self._file,)
                )
        for name, other in (*_overlapping(spans), *_overlapping(list(map(_span, self.executors())))):
            raise ProductError(f"{other} began before {name} had ended", hint=RECORD_HINT, paths=(self._file,))

    def _kept(self, kind: str) -> list[Json]:
        with self._lock:
            return [o for uid, o in self._latest.items() if o["kind"] == kind and uid not in self._before]

    def _take(self, kind: str, event: str, obj: Json) -> None:
        if kind == "Pod" and not is_own(obj):
            return
        with self._lock:
            self._latest[obj["metadata"]["uid"]] = {**obj, "kind": kind}
        meta = obj["metadata"]
        entry = {"event": event, "kind": kind, "name": meta["name"], "uid": meta["uid"], "owner": _job_of(obj)}
        self._write({**entry, **(_of_job(obj) if kind == "Job" else _of_pod(obj))})

    def _write(self, entry: Json) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry})
        with self._lock:
            if not self._stopped:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


def _synced(informer: Informer) -> bool | NotYet:
    return informer.synced.is_set() or NotYet("the API has not answered")


def alive(pod: Json) -> bool:
    """Tell whether a pod's program may run."""
    return phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def _job_of(obj: Json) -> str:
    return str(labels_of(obj).get(JOB_NAME_LABEL, ""))


def _of_job(job: Json) -> Json:
    """Return what a line says of a Job."""
    status = job.get("status") or {}
    return {
        "active": status.get("active", 0),
        "failed": status.get("failed", 0),
        "succeeded": status.get("succeeded", 0),
        "ended": next((kind for kind in ENDS if is_condition(job, kind, "True")), None),
    }


def _of_pod(pod: Json) -> Json:
    """Return what a line says of a pod."""
    states = dig(pod, "status", "containerStatuses") or [{}]
    return {
        "phase": phase(pod),
        "deleting": bool(pod["metadata"].get("deletionTimestamp")),
        "disrupted": (condition(pod, "DisruptionTarget") or {}).get("reason"),
        "restarts": states[0].get("restartCount", 0),
        "exit": dig(states[0], "state", "terminated", "exitCode"),
    }


def _ended(job: Json) -> str | None:
    """Return when a Job ended, by its own account."""
    return next((str(condition(job, k)["lastTransitionTime"]) for k in ENDS if is_condition(job, k, "True")), None)  # type: ignore[index] # it has it


def _span(pod: Json) -> Span:
    """Return from when to when a pod's program ran, by the kubelet's account."""
    states = dig(pod, "status", "containerStatuses") or [{}]
    state = states[0].get("state") or {}
    ended = dig(state, "terminated", "finishedAt")
    began = dig(state, "terminated", "startedAt") or dig(state, "running", "startedAt")
    return pod["metadata"]["name"], str(began or pod["metadata"]["creationTimestamp"]), ended


def _overlapping(spans: list[Span]) -> Iterator[tuple[str, str]]:
    """Yield the names of each two of which the later one began before the earlier one had ended."""
    ordered = sorted(spans, key=lambda span: (span[1], span[2] or "~"))
    for (name, _, ended), (other, began, _) in pairwise(ordered):
        if ended is None or began < ended:
            yield name, other


LOOK_SECONDS = 0.2  # pacing: between looks for an executor that is not there yet
LATE = "it ended before it could be; name an earlier task, or run on a host with less load"


@dataclass
class Chaos:
    """What one phase has to stand, blow by blow in their order; `judge` says whether it did.

    selector: labels of the Jobs whose pods are executors.  seconds: for whatever happened last to be seen.
    """

    cluster: Cluster
    namespace: str
    selector: str
    blows: Sequence[Blow]
    record: Path
    seconds: float
    _done: list[Blow] = field(default_factory=list)
    _error: Exception | None = None

    def __post_init__(self) -> None:
        self._seen = ChaosRecord(self.cluster, self.namespace, self.selector, self.record)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="chaos", daemon=True)

    def __enter__(self) -> Chaos:
        self._seen.start(self.seconds)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._seen.stop()

    def judge(self) -> None:
        """Look at all that happened, once the phase has succeeded.

        Raises:
            BadInput: a task never began.  ProductError: two executors worked at a time, or a Job was made twice.
            HarnessBug: somebody else's error.
        """
        self._seen.catch_up()
        self._over.set()
        until(
            lambda: not self._thread.is_alive() or NotYet("an executor's log has not ended"),
            deadline=Deadline.after(self.seconds),
            what="the last executor's log to end",
        )
        if isinstance(self._error, VmatrixError):
            raise self._error
        if self._error is not None:
            raise HarnessBug(f"{type(self._error).__name__}: {self._error}") from self._error
        if left := self.blows[len(self._done) :]:
            raise BadInput(f"the setting chaos: {left[0].text}: no executor began that task", hint=HINT)
        self._seen.judge(self.seconds)

    def _work(self) -> None:
        try:
            for pod in self._executors():
                self._follow(pod)
                if self._done_all:
                    return
        except (VmatrixError, OSError) as error:
            self._error = error

    def _executors(self) -> Iterator[Json]:
        """Yield each executor's pod once its program runs, or has run, until the phase is over."""
        known = set[str]()
        while True:
            last = self._over.is_set()  # what began before is looked at all the same
            for pod in self._seen.executors():
                if pod["metadata"]["uid"] not in known and id_of(pod):
                    known.add(pod["metadata"]["uid"])
                    yield pod
            if last:
                return
            self._over.wait(LOOK_SECONDS)

    def _follow(self, pod: Json) -> None:
        """Read an executor's log until it is struck, or has ended; a silence, or a broken connection, ends no log."""
        read = 0
        while True:
            ended = not self._seen.runs(pod)  # before its log is read: nothing comes after that
            try:
                for number, line in enumerate(self._log(pod), 1):
                    if number > read:
                        read = number
                        if self._struck(line, pod):
                            return
            except (ApiFailure, Unreachable) as failure:
                if not failure.passing:
                    raise
                self._over.wait(LOOK_SECONDS)
            else:
                if ended:
                    return

    def _struck(self, line: str, pod: Json) -> bool:
        """Do what the next blow says if its task begins with a line; tell whether the log is of no interest then."""
        blow = self.blows[len(self._done)]
        if not _begins(line, blow.task):
            return False
        self._strike(blow, pod)
        self._done.append(blow)
        return self._done_all or blow.part != "manager"

    def _log(self, pod: Json) -> Iterator[str]:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        return self.cluster.follow_pod_log(self.namespace, name, container=container)

    @property
    def _done_all(self) -> bool:
        return len(self._done) == len(self.blows)

    def _strike(self, blow: Blow, executor: Json) -> None:
        name = executor["metadata"]["name"]
        if blow.part == "eviction":
            self._seen.note(blow, executor, None)
            meta = {"name": name, "namespace": self.namespace}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            self.cluster.request("POST", POD.path(self.namespace, name, "eviction"), body=body)
            return
        for pod in [executor] if blow.part == "executor" else self._managers():
            if blow.part == "manager":  # before, so that no look takes its restart for a crash
                kills = {"metadata": {"annotations": {KILLS: str(kills_of(pod) + 1)}}}
                self.cluster.merge(POD, pod["metadata"]["name"], kills, self.namespace)
            killed = kill(id_of(pod))
            if killed is None:
                raise HarnessBug(f"the setting chaos: {blow.text} of pod {pod['metadata']['name']}: {LATE}", hint=HINT)
            self._seen.note(blow, pod, killed)

    def _managers(self) -> list[Json]:
        managers = [
            pod for pod in own_pods(self.cluster, self.namespace) if JOB_NAME_LABEL not in labels_of(pod) and alive(pod)
        ]
        if not managers:
            raise HarnessBug("the setting chaos: no manager runs", hint=HINT)
        return managers


def _begins(line: str, task: str) -> bool:
    """Tell whether a line of an executor's log begins a task, named with its role or without."""
    name = task_of(line)
    return name is not None and task in (name, name.partition(" : ")[2])
