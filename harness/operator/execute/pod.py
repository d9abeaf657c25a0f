"""The pod of an executor: what it may do, what it sees, and when it ends.

It passes Pod Security `restricted`. Its root is read-only: Ansible and ssh write below /tmp alone. A Secret's files
belong to root, so the pod's group may read them; ssh takes no key that others may read, so the program copies it.
"""

from __future__ import annotations

from harness.kube.failures import Json
from harness.kube.in_cluster import ACCOUNT
from harness.kube.restricted import container_security, pod_security
from harness.operator.execute.inputs import Execution, executor_name, key_file

CONTAINER = "executor"
USER = 65532  # the image's /etc/passwd names it: ssh refuses a user without a name
INPUTS, TEMPORARY = "/var/run/vmatrix/operation", "/tmp"  # noqa: S108 - the pod's own
SNAPSHOTS = "/var/lib/vmatrix/snapshots"  # the claim of an operation on a snapshot of etcd
REPORT = "/dev/termination-log"
TOKEN_SECONDS = 3600  # the kubelet replaces it long before; a copy of it is of no use tomorrow
# From SIGTERM to SIGKILL: Ansible ends within program.GRACE_SECONDS, then what is kept is written to the API.
GRACE_SECONDS = 90
FORKS = 50  # as in playbooks/ansible.cfg
OWNER_ONLY, MAY_READ = 0o400, 0o444


def pod_template(execution: Execution) -> Json:
    """Return the template of the pods of an execution's Job."""
    sources = {"inputs": _inputs(execution), "account": _account()}
    projected = [{"name": name, "projected": {"defaultMode": MAY_READ, "sources": of}} for name, of in sources.items()]
    return {
        "metadata": {"labels": execution.labels},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": executor_name(execution.cluster),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "dnsPolicy": "Default",  # there may be no cluster DNS; nothing here needs one
            "securityContext": {**pod_security(USER), "fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"},
            "containers": [_container(execution)],
            "volumes": [*projected, {"name": "temporary", "emptyDir": {"sizeLimit": "1Gi"}}, *_snapshots(execution)],
        },
    }


def _container(execution: Execution) -> Json:
    words = ["operator", "execute", "--from", INPUTS, "--work", f"{TEMPORARY}/work", "--report", REPORT, "--in-cluster"]
    mounted = [{"name": one["name"], "mountPath": SNAPSHOTS} for one in _snapshots(execution)]
    words += ["--snapshots", SNAPSHOTS] if mounted else []
    # Ansible has a process for each machine, which shares about half of its memory.
    processes = min(len(execution.hosts), FORKS)
    return {
        "name": CONTAINER,
        "image": execution.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vmatrix"],
        "args": words,
        "env": [{"name": "HOME", "value": TEMPORARY}],
        "securityContext": container_security(),
        "resources": {
            "requests": {"cpu": "100m", "memory": f"{128 + 16 * processes}Mi"},
            "limits": {"memory": f"{512 + 64 * processes}Mi"},
        },
        "terminationMessagePath": REPORT,
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "inputs", "mountPath": INPUTS, "readOnly": True},
            {"name": "account", "mountPath": str(ACCOUNT), "readOnly": True},
            {"name": "temporary", "mountPath": TEMPORARY},
            *mounted,
        ],
    }


def _snapshots(execution: Execution) -> list[Json]:
    """Return the volume with the snapshot of etcd that is taken or restored."""
    if execution.snapshot is None:
        return []
    return [{"name": "snapshots", "persistentVolumeClaim": {"claimName": execution.snapshot.claim}}]


def _inputs(execution: Execution) -> list[Json]:
    """Return the operation's files and each machine's key, once."""
    keys = {key_file(host.key): host.key for host in execution.hosts}
    secrets = [
        {"secret": {"name": key.name, "items": [{"key": key.key, "path": path, "mode": OWNER_ONLY}]}}
        for path, key in sorted(keys.items())
    ]
    return [{"configMap": {"name": execution.job}}, *secrets]


def _account() -> list[Json]:
    """Return a token of an hour and what belongs to it, as programs in pods look for them."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
