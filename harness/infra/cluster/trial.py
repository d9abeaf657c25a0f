"""Two pods on one node of an infra cluster, for half a minute: what `vmatrix doctor` can only find out by trying.

Whether a machine that KubeVirt bridges to the pod network would reach its neighbours, and whether the network plugin
enforces NetworkPolicies. No name of a plugin tells: kindnet, for one, depends on a setting of the nodes and on its age.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from harness.errors import VmatrixError
from harness.infra.cluster import trial_pods
from harness.infra.cluster.access import allowed
from harness.infra.cluster.namespace import ENFORCE, VIOLATES
from harness.infra.cluster.rights import TRIAL, TRIAL_NAMESPACE, TRIAL_SHARED
from harness.infra.cluster.trial_images import Images, choose
from harness.infra.cluster.trial_report import Report, read
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, POD
from harness.until import Deadline, NotYet, until


@dataclass(frozen=True)
class NetworkTrial:
    """How the pods are made.

    name: of their namespace, or of all objects where there is one already.
    labels: by which `vmatrix reap` finds them, should nobody be left to take them away.
    shared: the namespace that is there already, which cells share; without it they get a separate one.
    images: those to try where nodes have none that will do.
    seconds: until the pods have ended.
    """

    name: str
    labels: Mapping[str, str]
    shared: str | None
    images: tuple[str, ...]
    seconds: float

    @property
    def namespace(self) -> str:
        """Return the namespace that the pods are in."""
        return self.shared or self.name


@dataclass(frozen=True)
class NotTried:
    """Why the pods told nothing, and what to do; `why` is "" where there is nothing to try."""

    why: str = ""
    remedy: str = ""


def carry_out(cluster: Cluster, trial: NetworkTrial) -> Report | NotTried:
    """Make the pods, and return what they saw; everything is deleted again.

    Raises:
        ApiFailure, Unreachable: the API has trouble, or refuses more than was asked about first.
    """
    images = choose(cluster, trial.images)
    if images is None:
        return NotTried()
    missing = _missing(cluster, trial)
    if missing:
        allow = "run it as the cluster's owner, or see docs/infrastructure.md for the permissions"
        return NotTried(f"not allowed: {', '.join(missing)}", allow)
    if isinstance(images, str):
        return NotTried(images, "pull a busybox image to a node (crictl pull), or set registry to one that nodes reach")
    try:
        with _made(cluster, trial, images) as pod:
            return _outcome(cluster, trial, pod)
    except VmatrixError as failure:
        if isinstance(failure, ApiFailure):
            raise
        return NotTried(failure.summary, f"kubectl get events -n {trial.namespace}")


def _missing(cluster: Cluster, trial: NetworkTrial) -> list[str]:
    """Return what these rights do not allow of the trial."""
    rights = TRIAL_SHARED if trial.shared else (*TRIAL_NAMESPACE, *TRIAL)
    return [
        f"{verb} {right.plural}"
        for right in rights
        for verb in right.verbs
        if not allowed(cluster, right, verb, trial.shared if right.resource.namespaced else None)
    ]


@contextmanager
def _made(cluster: Cluster, trial: NetworkTrial, images: Images) -> Iterator[str]:
    """Have the policy and both pods; yield the name of the one that looks around."""
    policy = trial_pods.policy(trial.name, trial.namespace, trial.labels)
    try:
        if trial.shared is None:
            labels = {**trial.labels, ENFORCE: "privileged"}
            cluster.create(NAMESPACE, NAMESPACE.manifest(trial.name, "", labels=labels))
        made = cluster.create(NETWORK_POLICY, policy)
        peer = trial_pods.peer(made, images, trial.seconds)
        deadline = Deadline.after(trial.seconds)
        _create(cluster, peer, deadline)
        address = until(lambda: _address(cluster, peer), deadline=deadline, what="the trial's first pod to run")
        looker = trial_pods.looker(made, images, trial.seconds, address=address)
        _create(cluster, looker, deadline)
        yield str(looker["metadata"]["name"])
    finally:
        if trial.shared is None:
            cluster.delete(NAMESPACE, trial.name)
        else:
            for name in trial_pods.names(trial.name):
                cluster.delete(POD, name, trial.namespace, grace=0)
            cluster.delete(NETWORK_POLICY, trial.name, trial.namespace)


def _create(cluster: Cluster, pod: Json, deadline: Deadline) -> None:
    """Create a pod as soon as its namespace has an account, without extra capabilities where those are refused."""

    def created() -> bool | NotYet:
        for body in (pod, trial_pods.without_capabilities(pod)):
            try:
                cluster.create(POD, body)
            except ApiFailure as failure:
                if failure.forbidden and VIOLATES in failure.message:
                    continue
                if failure.forbidden and "serviceaccount" in failure.message:
                    return NotYet(failure.message)
                raise
            return True
        return NotYet("Pod Security refuses it")

    until(created, deadline=deadline, what=f"pod {pod['metadata']['name']} to be admitted", interval=0.3)


def _status(cluster: Cluster, pod: str, namespace: str) -> Json:
    """Return a pod's status; a role that lists pods need not allow to get one."""
    found = (p for p in cluster.list(POD, namespace).items if p["metadata"]["name"] == pod)
    status: Json = next(found, {}).get("status") or {}
    return status


def _address(cluster: Cluster, peer: Json) -> str | NotYet:
    status = _status(cluster, peer["metadata"]["name"], peer["metadata"]["namespace"])
    if status.get("phase") == "Running" and status.get("podIP"):
        return str(status["podIP"])
    return NotYet(_waiting(status))


def _waiting(status: Json) -> str:
    states = [c.get("state") or {} for c in status.get("containerStatuses") or []]
    said = [f"{s['waiting'].get('reason')} {s['waiting'].get('message', '')}".strip() for s in states if "waiting" in s]
    refused = " ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return "; ".join(said) or f"phase {status.get('phase', 'none')} {refused}".rstrip()


def _outcome(cluster: Cluster, trial: NetworkTrial, pod: str) -> Report:
    def ended() -> Report | NotYet:
        status = _status(cluster, pod, trial.namespace)
        for container in status.get("containerStatuses") or []:
            terminated = (container.get("state") or {}).get("terminated")
            if terminated:
                return read(str(terminated.get("message", "")))
        return NotYet(_waiting(status))

    return until(ended, deadline=Deadline.after(trial.seconds), what="the trial's second pod to end")
