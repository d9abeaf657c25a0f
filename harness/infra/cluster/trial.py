"""Dry run of an infra cluster's network: two pods on one node for half a minute, and what they find out.

`vmatrix doctor` learns by trying what no API tells: whether machines can be bridged, and whether NetworkPolicies are
enforced. Without a dry run, the API groups and images of network plugins tell as much as they can.
"""

from __future__ import annotations

import copy
import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from harness.embedded.node.registration import RUNTIME
from harness.errors import VmatrixError
from harness.infra.cluster.access import ENFORCE, VIOLATES, allowed
from harness.infra.cluster.capacity import SCHEDULABLE, usable
from harness.infra.cluster.network import check_plugin
from harness.infra.cluster.rights import TRIAL, TRIAL_NAMESPACE, TRIAL_SHARED
from harness.infra.findings import Finding
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import NAMESPACE, NETWORK_POLICY, NODE, POD
from harness.until import Deadline, NotYet, until

SMALL = frozenset({"busybox", "alpine", "agnhost", "netshoot"})  # have a shell, ip, wget and arping
HANDLER, LAUNCHER = "virt-handler", "virt-launcher"  # KubeVirt's: one has bash and ip, the other bash and ncat


@dataclass(frozen=True)
class Images:
    """A node, and the images of the pod that listens on it and of the one that looks around."""

    node: str
    peer: str
    looker: str


def choose(cluster: Cluster, others: Sequence[str]) -> Images | str | None:
    """Return a node on which machines run and the images; why there are none; or None where no pod ever runs.

    Args:
        others: images that nodes can perhaps pull.
    """
    try:
        nodes = [node for node in cluster.list(NODE).items if usable(node)]
    except ApiFailure as failure:
        if failure.forbidden:
            return "not allowed: list nodes"
        raise
    able = [n for n in nodes if (n["metadata"].get("labels") or {}).get(SCHEDULABLE) == "true"]
    real = [n for n in able if not _runtime(n).startswith(RUNTIME)]
    if not real:  # embedded KubeVirt, or none at all, which another check says
        return None
    small = (Images(name, image, image) for name, image in _small(real))
    pulled = (Images(real[0]["metadata"]["name"], image, image) for image in others)
    found = next(small, None) or _of_kubevirt(cluster, {n["metadata"]["name"] for n in real}) or next(pulled, None)
    return found or "no node has an image that will do (busybox, or KubeVirt's own)"


def _runtime(node: Json) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion", ""))


def _small(nodes: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield nodes with a small image that they have; nodes tell of their fifty largest images alone."""
    for node in nodes:
        for image in node["status"].get("images") or []:
            for name in image.get("names") or []:
                if repository(name).rpartition("/")[2] in SMALL:
                    yield node["metadata"]["name"], name


def repository(image: str) -> str:
    """Return an image's name without its tag and its digest."""
    name = image.partition("@")[0]
    before, _, last = name.rpartition("/")
    return f"{before}/{last.partition(':')[0]}".lstrip("/")


def _of_kubevirt(cluster: Cluster, nodes: set[str]) -> Images | None:
    """Return KubeVirt's own images on a node: virt-handler's pod pulls the launcher's to it, too."""
    try:
        pods = cluster.list(POD, labels=f"kubevirt.io={HANDLER}").items
    except ApiFailure as failure:
        if failure.forbidden:
            return None
        raise
    for pod in pods:
        named = {word: image for image in _images_of(pod["spec"]) for word in (HANDLER, LAUNCHER) if word in image}
        if pod["spec"].get("nodeName") in nodes and {HANDLER, LAUNCHER} <= named.keys():
            return Images(pod["spec"]["nodeName"], named[LAUNCHER], named[HANDLER])
    return None


def _images_of(spec: Mapping[str, Any]) -> list[str]:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return [str(container.get("image", "")) for container in containers]


OPEN, CLOSED = 7001, 7002
ROLE = "vmatrix.dev/trial"
SCRIPT_SECONDS = 40  # of the second pod at most: each try below has its own limit
LISTEN = """
listen() {
  if command -v httpd; then httpd -f -p $1 -h /tmp
  elif command -v ncat; then ncat --listen --keep-open $1
  else while :; do nc -l -p $1 </dev/null; done
  fi
}
listen $OPEN & listen $CLOSED & wait
"""
LOOK = """
say() { echo "$1=$2" >>/dev/termination-log; }
reach() {
  if command -v bash >/dev/null; then
    timeout $3 bash -c "exec 3<>/dev/tcp/$1/$2" >/dev/null 2>&1 && echo yes || echo no
  else
    said=$(timeout $3 wget -q -T $3 -O - http://$1:$2/ 2>&1)
    case "$?$said" in 0*|*HTTP/*|*response*) echo yes ;; *) echo no ;; esac
  fi
}
asked() {
  if command -v arping >/dev/null; then
    said=$(arping -c 3 -w 4 -I eth0 $1 2>&1) && echo yes && return
    case "$said" in *ermitted*|*denied*) echo unknown ;; *) echo no ;; esac
  elif [ -n "$2" ] && ip route replace $1/32 dev eth0 2>/dev/null; then
    reach $1 $2 5
    ip route del $1/32 dev eth0
  else
    echo unknown
  fi
}
say peer $PEER
say address "$(ip -4 -o addr show dev eth0 2>/dev/null)"
say route "$(ip -4 route show default 2>/dev/null)"
set -- $(ip -4 route show default 2>/dev/null)
gateway=$3
for try in 1 2 3 4 5; do
  open=$(reach $PEER $OPEN 2)
  [ $open = yes ] && break
  sleep 1
done
say open $open
say neighbours "$(echo $(ip -4 neigh show dev eth0 2>/dev/null))"
say link $(asked $PEER $OPEN)
[ -n "$gateway" ] && say gateway $(asked $gateway "")
for try in 1 2 3 4 5; do
  closed=$(reach $PEER $CLOSED 2)
  [ $closed = no ] && break
  sleep 1
done
say closed $closed
say still_open $(reach $PEER $OPEN 2)
"""


def names(trial: str) -> tuple[str, str]:
    """Return the names of both pods."""
    return f"{trial}-peer", f"{trial}-looker"


def policy_of(name: str, namespace: str, labels: Mapping[str, str]) -> Json:
    """Return the policy that closes one of the first pod's ports."""
    spec = {
        "podSelector": {"matchLabels": {ROLE: name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": OPEN}]}],
    }
    return NETWORK_POLICY.manifest(name, namespace, labels=labels, spec=spec)


def listener_pod(owner: Json, images: Images, seconds: float) -> Json:
    """Return the pod that listens; it ends with the policy, its owner."""
    name = names(owner["metadata"]["name"])[0]
    pod = _pod(owner, name, images.node, images.peer, LISTEN, {}, seconds)
    pod["metadata"]["labels"][ROLE] = owner["metadata"]["name"]
    return pod


def prober_pod(owner: Json, images: Images, seconds: float, *, address: str) -> Json:
    """Return the pod that looks around and tells by its last words."""
    name = names(owner["metadata"]["name"])[1]
    return _pod(owner, name, images.node, images.looker, LOOK, {"PEER": address}, seconds)


def _pod(
    owner: Json, name: str, node: str, image: str, script: str, environment: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    meta = owner["metadata"]
    variables = {"OPEN": str(OPEN), "CLOSED": str(CLOSED), **environment}
    container = {
        "name": "trial",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
    }
    spec = {
        "nodeName": node,
        "containers": [container],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "activeDeadlineSeconds": int(seconds) + SCRIPT_SECONDS,
        "terminationGracePeriodSeconds": 0,
    }
    labels = {key: value for key, value in meta["labels"].items() if key != ROLE}
    pod = POD.manifest(name, meta["namespace"], labels=labels, spec=spec)
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def without_capabilities(pod: Json) -> Json:
    """Return the pod as Pod Security's level `baseline` admits it."""
    plain = copy.deepcopy(dict(pod))
    for container in plain["spec"]["containers"]:
        container.pop("securityContext")
    return plain


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
    report = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    if report.get("open") != "yes":
        return Report(None, None, "two pods on one node do not reach each other: " + (text.strip()[-200:] or "no word"))
    enforced = None
    if report.get("still_open") == "yes":
        enforced = {"yes": False, "no": True}.get(report.get("closed", ""))
    match = re.search(r"inet (\S+)", report.get("address", ""))
    if match is None:
        return Report(None, enforced, "the image has no ip, or the pod no eth0")
    prefix = ipaddress.ip_interface(match[1]).network
    if ipaddress.ip_address(report["peer"]) in prefix:
        return _told(report.get("link", ""), enforced, "the pod may not ask by ARP")
    gateway = (re.search(r"via (\S+)", report.get("route", "")) or ["", ""])[1]
    entry = re.search(rf"{re.escape(gateway)} lladdr \S+ (?:router )?([A-Z]+)", report.get("neighbours", ""))
    if gateway and entry:  # the pod has learned it, or was given it
        return Report(entry[1] != "PERMANENT", enforced)
    return _told(report.get("gateway", ""), enforced, "the pod may not ask by ARP")


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
    rules = policy_of(trial.name, trial.namespace, trial.labels)
    try:
        if trial.shared is None:
            labels = {**trial.labels, ENFORCE: "privileged"}
            cluster.create(NAMESPACE, NAMESPACE.manifest(trial.name, "", labels=labels))
        made = cluster.create(NETWORK_POLICY, rules)
        listener = listener_pod(made, images, trial.seconds)
        deadline = Deadline.after(trial.seconds)
        _create(cluster, listener, deadline)
        address = until(lambda: _address(cluster, listener), deadline=deadline, what="the trial's first pod to run")
        prober = prober_pod(made, images, trial.seconds, address=address)
        _create(cluster, prober, deadline)
        yield str(prober["metadata"]["name"])
    finally:
        if trial.shared is None:
            cluster.delete(NAMESPACE, trial.name)
        else:
            for name in names(trial.name):
                cluster.delete(POD, name, trial.namespace, grace=0)
            cluster.delete(NETWORK_POLICY, trial.name, trial.namespace)


def _create(cluster: Cluster, pod: Json, deadline: Deadline) -> None:
    """Create a pod as soon as its namespace has an account, without extra capabilities where those are refused."""

    def created() -> bool | NotYet:
        for body in (pod, without_capabilities(pod)):
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
    pods = (p for p in cluster.list(POD, namespace).items if p["metadata"]["name"] == pod)
    status: Json = next(pods, {}).get("status") or {}
    return status


def _address(cluster: Cluster, pod: Json) -> str | NotYet:
    status = _status(cluster, pod["metadata"]["name"], pod["metadata"]["namespace"])
    if status.get("phase") == "Running" and status.get("podIP"):
        return str(status["podIP"])
    return NotYet(_waiting(status))


def _waiting(status: Json) -> str:
    states = [c.get("state") or {} for c in status.get("containerStatuses") or []]
    reasons = [
        f"{s['waiting'].get('reason')} {s['waiting'].get('message', '')}".strip() for s in states if "waiting" in s
    ]
    refused = " ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return "; ".join(reasons) or f"phase {status.get('phase', 'none')} {refused}".rstrip()


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
    plugins = list(_by_images(sorted(images)))
    return next((plugin for plugin in plugins if plugin.enforces), plugins[0] if plugins else Known())


def _by_images(images: Iterable[str]) -> Iterator[Known]:
    """Yield what images tell; a firewall may enforce policies beside a plugin that does not."""
    for image in images:
        name = repository(image).rpartition("/")[2]
        if name == KINDNET and (made := re.search(r":v(\d{8})-", image)):
            yield Known("kindnet", enforces=int(made[1]) >= KINDNET_SINCE)
        if name in IMAGES:
            yield Known(name, IMAGES[name])


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
    observed = _seen(cluster, trial)
    report = observed if isinstance(observed, Report) else Report(None, None, observed.why)
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
            observed.remedy
            if isinstance(observed, NotTried)
            else "try a single machine first: vmatrix run --tier single",
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
