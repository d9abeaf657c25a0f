"""A workload of two replicas on two machines that has to keep answering, and a probe that says how long it did not."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from harness.proc import Completed
from harness.until import Deadline, NotYet, until
from tests.embedded.playbooks.conftest import Bench
from tests.embedded.playbooks.running import KUBECTL, given

PORT = 30080
# It goes on answering for five seconds after it was told to end, which is what a drain and kube-proxy's rules need.
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: answers}
spec:
  replicas: 2
  selector: {matchLabels: {app: answers}}
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: answers}}
    spec:
      terminationGracePeriodSeconds: 15
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: answers}}}
      containers:
        - name: answers
          image: REGISTRY/e2e-test-images/agnhost:2.59
          args: [netexec, --http-port=8080, --delay-shutdown=5]
          readinessProbe: {httpGet: {path: /hostname, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: answers}
spec:
  type: NodePort
  selector: {app: answers}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: answers}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: answers}}
"""


def start(bench: Bench, machine: int = 0) -> None:
    """Have the workload run on two machines. Its budget leaves no room: see `make_room`."""
    text = MANIFEST.replace("REGISTRY", bench.mirror.registry)
    done = bench.on(machine, f"{KUBECTL} apply -f - <<'END'\n{text}\nEND")
    assert done.returncode == 0, done.stderr
    done = bench.on(machine, f"{KUBECTL} rollout status --timeout 100s deployment/answers")
    assert done.returncode == 0, done.stdout + done.stderr


def make_room(bench: Bench, machine: int = 0) -> Completed:
    """Let one of the two replicas be evicted at a time."""
    return bench.on(machine, f'{KUBECTL} patch pdb answers -p \'{{"spec": {{"minAvailable": 1}}}}\'')


@dataclass
class Probe:
    """Ask through one machine's port again and again; remember the longest time without an answer, in seconds."""

    url: str
    timeout: float = 2.0
    interval: float = 0.2
    longest: float = 0.0
    longest_until: str = ""  # the time of day when it ended
    asked: int = 0
    failed: int = 0
    reasons: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def through(cls, bench: Bench, machine: int) -> Probe:
        """Return a probe that asks a machine, by its place among the cluster's hosts."""
        address = given(bench)["cluster_hosts"][machine]["address"]
        return cls(f"http://{address}:{PORT}/hostname")

    def __enter__(self) -> Probe:
        until(self._answers, deadline=Deadline.after(60), what=f"{self.url} answers")
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __str__(self) -> str:
        """Return what a person wants to read of it."""
        ended = f" until {self.longest_until}" if self.reasons else ""
        said = f"; {', '.join(dict.fromkeys(self.reasons))}" if self.reasons else ""
        return (
            f"{self.asked} requests, {self.failed} without an answer, longest outage {self.longest:.1f} s{ended}{said}"
        )

    def _answers(self) -> bool | NotYet:
        try:
            urllib.request.urlopen(self.url, timeout=self.timeout).close()  # noqa: S310 - an address of this test
        except (urllib.error.URLError, OSError) as error:
            return NotYet(str(error))
        return True

    def _ask(self) -> None:
        last = time.monotonic()  # when it was last known to answer
        while not self._stop.wait(self.interval):
            self.asked += 1
            answer = self._answers()
            now = time.monotonic()
            if now - last > self.longest:
                self.longest, self.longest_until = now - last, time.strftime("%H:%M:%S")
            if answer is True:
                last = now
            else:
                self.failed += 1
                self.reasons.append(str(answer))
