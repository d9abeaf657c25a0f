"""A played Job controller: what the real one makes of Jobs and their pods, at once instead of once a second.

It plays for namespaces with its label: the API server hands their Jobs to it (`managedBy`), so the real one leaves them
alone. Its pods are no scheduler's, so they need no room on any Node. `test_played.py` holds both to the same behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.embedded.node.pods import running, write_status
from harness.kube.client import Cluster, Json
from harness.kube.informer import Informers, Key, key_of
from harness.kube.objects import controller_of, deleting, dig, ensure, is_condition, now, owner_reference, phase
from harness.kube.reconcile import Controller, follow_children
from harness.kube.resources import JOB, POD, Resource
from harness.operator.controllers.executions import has_ended
from harness.until import Deadline, NotYet, until

PLAYER = "tests.vmatrix.dev/played-jobs"
PLAYED = {"tests.vmatrix.dev/jobs": "played"}  # of a namespace whose Jobs are played
WAIT_SECONDS = 300.0  # against hanging: the API server learns of a policy within moments
ADMISSION = "admissionregistration.k8s.io"
POLICY = Resource(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False)
BINDING = Resource(
    ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False
)
NAME = "played-jobs"
OF_JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
HAND_OVER = f'[JSONPatch{{op: "add", path: "/spec/managedBy", value: "{PLAYER}"}}]'


def hand_over(cluster: Cluster, namespace: str) -> None:
    """Have the API server give Jobs to the player; return once it does so for a namespace that is played."""
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": HAND_OVER}}
    spec: Json = {"matchConstraints": {"resourceRules": [OF_JOBS]}, "mutations": [mutation]}
    spec |= {"failurePolicy": "Fail", "reinvocationPolicy": "Never"}
    ensure(cluster, POLICY, POLICY.manifest(NAME, "", labels={}, spec=spec))
    chosen = {"policyName": NAME, "matchResources": {"namespaceSelector": {"matchLabels": PLAYED}}}
    ensure(cluster, BINDING, BINDING.manifest(NAME, "", labels={}, spec=chosen))
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "nothing:1"}]}
    job = JOB.manifest("asked", namespace, labels={}, spec={"template": {"spec": pod}})

    def handed() -> bool | NotYet:
        return dig(cluster.create(JOB, job, dry_run=True), "spec", "managedBy") == PLAYER or NotYet("it is not")

    until(handed, deadline=Deadline.after(WAIT_SECONDS), what="Jobs to be handed over", interval=0.05)


class PlayedJobs:
    """Makes the pods of Jobs and writes what becomes of them, in all namespaces that are played."""

    def __init__(self, cluster: Cluster, *, runs: bool = False) -> None:
        """Play in a cluster. `runs`: pods run at once; without it they wait for a played kubelet."""
        self._cluster = cluster
        self._runs = runs
        self.informers = Informers(cluster)
        self._jobs, self._pods = self.informers.of(JOB), self.informers.of(POD)
        self.controller = Controller(NAME, self.reconcile)
        self._jobs.subscribe(lambda _, job: self.controller.queue.add(key_of(job)))
        follow_children(self._pods, JOB, self.controller.queue)

    def reconcile(self, key: Key) -> None:
        """Look at one Job."""
        job = self._jobs.get(*key)
        if job is None or deleting(job) or has_ended(job) or dig(job, "spec", "managedBy") != PLAYER:
            return
        uid = job["metadata"]["uid"]
        pods = [pod for pod in self._pods.list(key[0]) if (controller_of(pod) or {}).get("uid") == uid]
        counted = [pod for pod in pods if not taken_away(pod)]
        if counted:
            self._say(job, status_of(job, counted[0]))
        else:
            pod = self._cluster.create(POD, pod_of(job))
            self._pods.observe(
                write_status(self._cluster, pod, running(pod, addresses=["10.0.0.9"], host_address="10.0.0.1"))
                if self._runs
                else pod
            )
            self._say(job, {**begun(job), "active": 1})

    def _say(self, job: Json, status: Json) -> None:
        if status != job.get("status"):
            self._jobs.observe(self._cluster.replace(JOB, {**job, "status": status}, subresource="status"))


def taken_away(pod: Json) -> bool:
    """Tell whether a pod ended because its node was drained: its Job goes on in another pod."""
    return phase(pod) == "Failed" and is_condition(pod, "DisruptionTarget", "True")


def pod_of(job: Json) -> Json:
    """Return a pod of a Job."""
    name, template = job["metadata"]["name"], job["spec"]["template"]
    meta = {"generateName": f"{name}-", "namespace": job["metadata"]["namespace"]}
    meta |= {"labels": template["metadata"]["labels"], "ownerReferences": [owner_reference(job, JOB)]}
    spec = {**template["spec"], "schedulerName": PLAYER}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def begun(job: Json) -> Json:
    """Return the status of a Job, with its start."""
    return {"startTime": now(), **(job.get("status") or {})}


def status_of(job: Json, pod: Json) -> Json:
    """Return the status of a Job by its pod."""
    status, moment = begun(job), now()
    end = {"Succeeded": ("SuccessCriteriaMet", "Complete"), "Failed": ("FailureTarget", "Failed")}.get(phase(pod))
    if end is None:
        return status
    reason = "CompletionsReached" if end[1] == "Complete" else "BackoffLimitExceeded"
    said = {"status": "True", "reason": reason, "lastProbeTime": moment, "lastTransitionTime": moment}
    status |= {"conditions": [{"type": kind, **said} for kind in end], "active": 0, phase(pod).lower(): 1}
    return {**status, **({"completionTime": moment} if end[1] == "Complete" else {})}


@contextmanager
def playing(cluster: Cluster, *, runs: bool = False) -> Iterator[None]:
    """Play meanwhile. `runs`: pods run at once."""
    played = PlayedJobs(cluster, runs=runs)
    played.informers.start()
    played.informers.wait()
    played.controller.start()
    try:
        yield
    finally:
        played.controller.stop()
        played.informers.stop()
