"""What a kubelet would say of executors' pods: a Job controller, the real or the played one, takes it from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.embedded.node.pods import ended, running, write_status
from harness.kube.client import Cluster, Json
from harness.kube.failures import ApiFailure
from harness.kube.objects import deleting, dig, is_condition, now, phase
from harness.kube.resources import JOB, POD
from harness.until import Deadline, NotYet, until

WAIT_SECONDS = 300.0  # against hanging: a test that passes waits for a fraction of it, even on a host that is very busy
INTERVAL = 0.02
ENDED = frozenset({"Succeeded", "Failed"})
LONG_AGO = "2001-01-01T00:00:00Z"


@dataclass(frozen=True)
class PlayedKubelet:
    """Plays the pods of Jobs in a namespace."""

    cluster: Cluster
    namespace: str

    def job(self, name: str) -> Json:
        """Return a Job once it is there."""
        return until(
            lambda: self.cluster.get(JOB, name, self.namespace) or NotYet(f"there are {self.jobs()}"),
            deadline=Deadline.after(WAIT_SECONDS),
            what=f"Job {name}",
            interval=INTERVAL,
        )

    def jobs(self) -> list[str]:
        """Return the names of all Jobs."""
        return sorted(job["metadata"]["name"] for job in self.cluster.list(JOB, self.namespace).items)

    def pod(self, job: str) -> Json:
        """Return the pod of a Job that has not ended, once the Job controller made it."""

        def living() -> Json | NotYet:
            pods = self.cluster.list(POD, self.namespace, labels=f"batch.kubernetes.io/job-name={job}").items
            found = [pod for pod in pods if phase(pod) not in ENDED and not deleting(pod)]
            return found[0] if found else NotYet(f"of {len(pods)} pods none lives")

        return until(living, deadline=Deadline.after(WAIT_SECONDS), what=f"a pod of Job {job}", interval=INTERVAL)

    def run(self, job: str) -> Json:
        """Let a Job's pod run."""
        return self._say(job, lambda pod: running(pod, addresses=["10.0.0.9"], host_address="10.0.0.1"))

    def end(self, job: str, *, exit_code: int = 0, message: str = "", reason: str = "") -> Json:
        """Let a Job's pod end, with a termination message; return the Job once it has ended, too."""
        word = reason or ("Completed" if exit_code == 0 else "Error")
        self._say(job, lambda pod: ended(pod, exit_code=exit_code, reason=word, message=message))
        return self.ended(job)

    def evict(self, job: str) -> Json:
        """Take a Job's pod away as a node that is drained does; return the pod as it was.

        It ended long ago, so that the real Job controller sees no reason to wait before it makes another.
        """

        def disrupted(pod: Json) -> Json:
            status = ended(pod, exit_code=143, reason="Error")
            for container in status["containerStatuses"]:
                container["state"]["terminated"] |= {"startedAt": LONG_AGO, "finishedAt": LONG_AGO}
            words = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            mark = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now(), **words}
            return {**status, "conditions": [*status["conditions"], mark]}

        return self._say(job, disrupted)

    def ended(self, job: str) -> Json:
        """Return a Job once it is complete or has failed; {} if somebody has deleted it after that."""

        def over() -> Json | NotYet:
            found = self.cluster.get(JOB, job, self.namespace)
            if found is None or any(is_condition(found, kind, "True") for kind in ("Complete", "Failed")):
                return found or {}
            return NotYet(f"its status is {dig(found, 'status')}")

        return until(over, deadline=Deadline.after(WAIT_SECONDS), what=f"the end of Job {job}", interval=INTERVAL)

    def _say(self, job: str, status: Callable[[Json], Json]) -> Json:
        def said() -> Json | NotYet:
            pod = self.pod(job)
            try:
                return write_status(self.cluster, pod, status(pod))
            except ApiFailure as failure:
                if failure.conflict or failure.not_found:
                    return NotYet(str(failure))
                raise

        what = f"the status of Job {job}'s pod to be written"
        return until(said, deadline=Deadline.after(WAIT_SECONDS), what=what, interval=INTERVAL)
