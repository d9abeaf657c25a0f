"""Programs of a declared product that are ended on request while a phase runs: executors and managers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.cell.product.chaos_record import JOB_NAME, ChaosRecord, alive
from harness.cell.product.declared_pods import own_pods
from harness.errors import BadInput, HarnessBug, VmatrixError
from harness.infra.host import containers
from harness.kube.client import ApiFailure, Cluster, Json, Unreachable
from harness.kube.resources import POD
from harness.machines.runner.playbook_output import task_of
from harness.spec.chaos import HINT, Blow
from harness.until import Deadline, NotYet, until

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
                if pod["metadata"]["uid"] not in known and containers.id_of(pod):
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
            killed = containers.kill(containers.id_of(pod))
            if killed is None:
                raise HarnessBug(f"the setting chaos: {blow.text} of pod {pod['metadata']['name']}: {LATE}", hint=HINT)
            self._seen.note(blow, pod, killed)

    def _managers(self) -> list[Json]:
        found = [pod for pod in own_pods(self.cluster, self.namespace) if JOB_NAME not in _labels(pod) and alive(pod)]
        if not found:
            raise HarnessBug("the setting chaos: no manager runs", hint=HINT)
        return found


def _begins(line: str, task: str) -> bool:
    """Tell whether a line of an executor's log begins a task, named with its role or without."""
    name = task_of(line)
    return name is not None and task in (name, name.partition(" : ")[2])


def _labels(pod: Json) -> Json:
    return pod["metadata"].get("labels") or {}
