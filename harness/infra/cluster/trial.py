"""Dry run of an infra cluster's network: two pods on one node for half a minute, and what they find out.

`vmatrix doctor` learns by trying what no API tells: whether machines can be bridged, and whether NetworkPolicies are
enforced. Without a dry run, the API groups and images of network plugins tell as much as they can.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from harness.errors import VmatrixError
from harness.infra.cluster import trial_pods
from harness.infra.cluster.access import ENFORCE, VIOLATES, allowed
from harness.infra.cluster.network import check_plugin
from harness.infra.cluster.rights import TRIAL, TRIAL_NAMESPACE, TRIAL_SHARED
from harness.infra.cluster.trial_pods import Images, choose, repository
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, NODE, POD
from harness.until import Deadline, NotYet, until

Answer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Report:
    """What a pod saw of its neighbour on the same node.

    bridged: whether a machine in its place, bridged to the pod network, would reach its neighbours.
    enforced: whether the policy's closed port was closed, while the other was open.
    Each is None where it could not be told; `why` says why.
    """

    bridged: bool | None
    enforced: bool | None
    why: str = ""


def read_report(text: str) -> Report:
    """Read the pod's last words.

    A bridged machine has its pod's address and prefix. It asks by ARP for a neighbour within the prefix, else for the
    gateway; a gateway that the network plugin has written into the pod as a static entry is not in the machine.
    """
    said = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    if said.get("open") != "yes":
        return Report(None, None, "two pods on one node do not reach each other: " + (text.strip()[-200:] or "no word"))
    enforced = None
    if said.get("still_open") == "yes":
        enforced = {"yes": False, "no": True}.get(said.get("closed", ""))
    found = re.search(r"inet (\S+)", said.get("address", ""))
    if found is None:
        return Report(None, enforced, "the image has no ip, or the pod no eth0")
    prefix = ipaddress.ip_interface(found[1]).network
    if ipaddress.ip_address(said["peer"]) in prefix:
        return _told(said.get("link", ""), enforced, "the pod may not ask by ARP")
    gateway = (re.search(r"via (\S+)", said.get("route", "")) or ["", ""])[1]
    entry = re.search(rf"{re.escape(gateway)} lladdr \S+ (?:router )?([A-Z]+)", said.get("neighbours", ""))
    if gateway and entry:  # the pod has learned it, or was given it
        return Report(entry[1] != "PERMANENT", enforced)
    return _told(said.get("gateway", ""), enforced, "the pod may not ask by ARP")


def _told(answer: str, enforced: bool | None, why: str) -> Report:
    bridged = {"yes": True, "no": False}.get(answer)
    return Report(bridged, enforced, "" if bridged is not None else why)


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
                return read_report(str(terminated.get("message", "")))
        return NotYet(_waiting(status))

    return until(ended, deadline=Deadline.after(trial.seconds), what="the trial's second pod to end")


GROUPS = {
    "crd.projectcalico.org": "Calico",
    "cilium.io": "Cilium",
    "crd.antrea.io": "Antrea",
    "k8s.ovn.org": "OVN-Kubernetes",
    "kubeovn.io": "Kube-OVN",
    "networking.k8s.aws": "AWS VPC with its policy agent",
}
IMAGES = {"kube-router": True, "weave-npc": True, "flannel": False}
KINDNET = "kindnetd"
# kind's pull request 3612 was merged then and released in 0.24: https://github.com/kubernetes-sigs/kind/issues/842
KINDNET_SINCE = 20240723


@dataclass(frozen=True)
class Known:
    """What is known of a plugin: its name, and whether it enforces policies (None: nobody knows)."""

    name: str = "the network plugin"
    enforces: bool | None = None


def known(groups: Collection[str], images: Collection[str]) -> Known:
    """Tell what is known of the plugin of a cluster that serves these API groups and has these images on its nodes."""
    for group, name in GROUPS.items():
        if group in groups:
            return Known(name, enforces=True)
    for image in sorted(images):
        name = repository(image).rpartition("/")[2]
        if name == KINDNET and (made := re.search(r":v(\d{8})-", image)):
            return Known("kindnet", enforces=int(made[1]) >= KINDNET_SINCE)
        if name in IMAGES:
            return Known(name, IMAGES[name])
    return Known()


def check_enforcement(plugin: Known, tried: bool | None, why: str) -> Iterator[Finding]:
    """Yield that cells are not isolated, or that nobody knows.

    Args:
        tried: what a dry run showed.
        why: why it showed nothing.
    """
    if tried or (tried is None and plugin.enforces):
        return
    if tried is False or plugin.enforces is False:
        how = "a dry run with two pods showed it" if tried is False else f"{plugin.name} is known not to"
        yield Finding(
            f"NetworkPolicies are not enforced ({how})",
            "machines reach those of other cells and everything else in the cluster",
            "use a network plugin that enforces them (Calico, Cilium, Antrea), or let only one project's cells in",
            fatal=False,
        )
    else:
        yield Finding(
            f"not checked whether NetworkPolicies are enforced ({why})",
            "without it, machines reach those of other cells and everything else in the cluster",
            "see docs/infrastructure.md, Isolation",
            fatal=False,
        )


def check_network(
    cluster: Cluster, served: Collection[str], trial: NetworkTrial | None, *, bridged: bool, isolated: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the pod network, tried out where that is possible.

    Args:
        served: all group/versions of the API.
        trial: how to try it; None: not at all, and then nothing is said about isolation.
        bridged, isolated: whether machines are bridged to the pod network, and each cell gets a NetworkPolicy.
    """
    seen = _seen(cluster, trial)
    report = seen if isinstance(seen, Report) else Report(None, None, seen.why)
    yield from check_plugin(cluster, served, report.bridged if bridged else None)
    if not report.why and report.bridged is None and report.enforced is None:
        return  # nothing was to be tried
    images = _images(cluster)
    if bridged and report.bridged is None:
        kindnet = any(repository(image).rpartition("/")[2] == KINDNET for image in images)
        yield Finding(
            f"not checked whether bridged machines reach pods of their node ({report.why})",
            "with kindnet, which this cluster has, and ptp they do only if nodes answer ARP for their pods"
            if kindnet
            else "on some network plugins they do not, and `portforward` times out",
            seen.remedy if isinstance(seen, NotTried) else "try a single machine first: vmatrix run --tier single",
            fatal=False,
        )
    if isolated:
        groups = {version.partition("/")[0] for version in served}
        yield from check_enforcement(known(groups, images), report.enforced, report.why)


def _seen(cluster: Cluster, trial: NetworkTrial | None) -> Report | NotTried:
    if trial is None:
        return NotTried()
    try:
        return carry_out(cluster, trial)
    except ApiFailure as failure:
        return NotTried(failure.message or failure.summary, "ask the cluster's owner to run it")


def _images(cluster: Cluster) -> set[str]:
    """Return the names of the images that nodes have, as far as one may look."""
    try:
        nodes = cluster.list(NODE).items
    except ApiFailure as failure:
        if failure.forbidden:
            return set()
        raise
    return {name for node in nodes for image in node["status"].get("images") or [] for name in image.get("names") or []}
