"""The pod of an executor: what it may do, what it sees, and when it ends.

It passes Pod Security `restricted`. Its root is read-only: Ansible and ssh write below /tmp alone. A Secret's files
belong to root, so the pod's group may read them; ssh takes no key that others may read, so the program copies it.
https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from __future__ import annotations

from harness.kube.failures import Json
from harness.kube.in_cluster import ACCOUNT
from harness.operator.execute.inputs import Execution, executor_name

CONTAINER = "executor"
USER = 65532  # the image's /etc/passwd names it: ssh refuses a user without a name
INPUTS, TEMPORARY = "/var/run/vmatrix/operation", "/tmp"  # noqa: S108 - the pod's own
REPORT = "/dev/termination-log"
TOKEN_SECONDS = 3600  # the kubelet replaces it long before; a copy of it is of no use tomorrow
# From SIGTERM to SIGKILL: Ansible ends within program.GRACE_SECONDS, then what is kept is written to the API.
GRACE_SECONDS = 90
FORKS = 50  # as in playbooks/ansible.cfg
OWNER_ONLY, MAY_READ = 0o400, 0o444


def pod_template(execution: Execution) -> Json:
    """Return the template of the pods of an execution's Job."""
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
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(execution)],
            "volumes": [_inputs(execution), _account(), _temporary()],
        },
    }


def _container(execution: Execution) -> Json:
    return {
        "name": CONTAINER,
        "image": execution.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vmatrix"],
        "args": [
            *("operator", "execute", "--from", INPUTS),
            *("--work", f"{TEMPORARY}/work", "--report", REPORT, "--in-cluster"),
        ],
        "env": [{"name": "HOME", "value": TEMPORARY}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": _resources(len(execution.hosts)),
        "terminationMessagePath": REPORT,
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "inputs", "mountPath": INPUTS, "readOnly": True},
            {"name": "account", "mountPath": str(ACCOUNT), "readOnly": True},
            {"name": "temporary", "mountPath": TEMPORARY},
        ],
    }


def _resources(machines: int) -> Json:
    """Return what a pod needs: Ansible has a process for each machine, which shares about half of its memory."""
    processes = min(machines, FORKS)
    requests = {"cpu": "100m", "memory": f"{128 + 16 * processes}Mi"}
    return {"requests": requests, "limits": {"memory": f"{512 + 64 * processes}Mi"}}


def _inputs(execution: Execution) -> Json:
    """Return the volume with the operation's files and each machine's key, once."""
    keys = sorted({host.key for host in execution.hosts}, key=lambda key: key.file)
    secrets = [
        {"secret": {"name": key.name, "items": [{"key": key.key, "path": key.file, "mode": OWNER_ONLY}]}}
        for key in keys
    ]
    sources = [{"configMap": {"name": execution.job}}, *secrets]
    return {"name": "inputs", "projected": {"defaultMode": MAY_READ, "sources": sources}}


def _account() -> Json:
    """Return the volume with a token of an hour, where programs in pods look for one."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources: list[Json] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": "account", "projected": {"defaultMode": MAY_READ, "sources": sources}}


def _temporary() -> Json:
    return {"name": "temporary", "emptyDir": {"sizeLimit": "1Gi"}}
