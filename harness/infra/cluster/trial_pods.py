"""The objects of the doctor's dry run: a policy, a pod that listens on two ports, one that looks around.

The policy lets the listening pod be reached on one of the ports alone. The shell scripts run in BusyBox and in bash,
with whichever tools an image has.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from harness.infra.cluster.trial_images import Images
from harness.kube.client import Json
from harness.kube.resources import NETWORK_POLICY, POD

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
