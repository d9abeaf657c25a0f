"""Pods of the dry run: a policy, a pod that listens on two ports, one that looks around, and their images."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.embedded.node.registration import RUNTIME
from harness.infra.cluster.capacity import SCHEDULABLE, usable
from harness.kube import ApiFailure, Cluster
from harness.kube.client import Json
from harness.kube.resources import NETWORK_POLICY, NODE, POD

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
        named = {word: image for image in _images(pod["spec"]) for word in (HANDLER, LAUNCHER) if word in image}
        if pod["spec"].get("nodeName") in nodes and {HANDLER, LAUNCHER} <= named.keys():
            return Images(pod["spec"]["nodeName"], named[LAUNCHER], named[HANDLER])
    return None


def _images(spec: Mapping[str, Any]) -> list[str]:
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


def policy(name: str, namespace: str, labels: Mapping[str, str]) -> Json:
    """Return the policy that closes one of the first pod's ports."""
    spec = {
        "podSelector": {"matchLabels": {ROLE: name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": OPEN}]}],
    }
    return NETWORK_POLICY.manifest(name, namespace, labels=labels, spec=spec)


def peer(owner: Json, images: Images, seconds: float) -> Json:
    """Return the pod that listens; it ends with the policy, its owner."""
    name = names(owner["metadata"]["name"])[0]
    pod = _pod(owner, name, images.node, images.peer, LISTEN, {}, seconds)
    pod["metadata"]["labels"][ROLE] = owner["metadata"]["name"]
    return pod


def looker(owner: Json, images: Images, seconds: float, *, address: str) -> Json:
    """Return the pod that looks around and tells by its last words."""
    name = names(owner["metadata"]["name"])[1]
    return _pod(owner, name, images.node, images.looker, LOOK, {"PEER": address}, seconds)


def _pod(
    owner: Json, name: str, node: str, image: str, script: str, given: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    meta = owner["metadata"]
    variables = {"OPEN": str(OPEN), "CLOSED": str(CLOSED), **given}
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
