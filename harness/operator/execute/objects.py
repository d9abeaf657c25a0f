"""The objects of one operation, in the order in which they are made."""

from __future__ import annotations

from harness.errors import InfraRetriable
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.in_cluster import ACCOUNT
from harness.kube.objects import controller_of, ensure, owner_reference
from harness.kube.resources import (
    CONFIG_MAP,
    JOB,
    PORT_FORWARD,
    RBAC,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
    Resource,
    container_security,
    pod_security,
)
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, GROUP
from harness.operator.decide.observed import CLONE, DRILL
from harness.operator.execute.inputs import (
    AUTHORITY,
    CLIENT_FILES,
    ETCD_CLIENT,
    Execution,
    executor_name,
    files_of,
    key_file,
    log_name,
    state_name,
)
from harness.operator.execute.object_store import SESSION_TOKEN, secret_files

CONTAINER = "executor"
USER = 65532  # the image's /etc/passwd names it: ssh refuses a user without a name
INPUTS, TEMPORARY = "/var/run/vmatrix/operation", "/tmp"  # noqa: S108 - the pod's own
SNAPSHOTS = "/var/lib/vmatrix/snapshots"  # the claim of an operation on a snapshot of etcd
STORE = "/var/run/vmatrix/store"  # Secrets of the bucket that it lies in instead
SCRATCH = "1Gi"
STAGING = "20Gi"  # of a node's disk: etcd has at most 8 GiB, and what is encrypted is there twice
ETCD_MIB = 2048  # of memory: its index, and pages of a file of up to 8 GiB, which the kernel takes back
REPORT = "/dev/termination-log"
TOKEN_SECONDS = 3600  # the kubelet replaces it long before; a copy of it is of no use tomorrow
# From SIGTERM to SIGKILL: Ansible ends within program.GRACE_SECONDS, then what is kept is written to the API.
GRACE_SECONDS = 90
FORKS = 50  # as in playbooks/ansible.cfg
OWNER_ONLY, MAY_READ = 0o400, 0o444


def pod_template(execution: Execution) -> Json:
    """Return the template of the pods of an execution's Job."""
    sources = {"inputs": _inputs(execution), "account": _account_volume()}
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
            "volumes": [
                *projected,
                {"name": "temporary", "emptyDir": {"sizeLimit": STAGING if _copies(execution) else SCRATCH}},
                *_snapshots(execution),
                *_bucket(execution),
            ],
        },
    }


def _container(execution: Execution) -> Json:
    words = ["operator", "execute", "--from", INPUTS, "--work", f"{TEMPORARY}/work", "--report", REPORT, "--in-cluster"]
    kept = _drills(execution) and _bucket(execution) == []  # what a drill reads stays as it is
    read_only = {"readOnly": True} if kept else {}
    mounted = [{"name": volume["name"], "mountPath": SNAPSHOTS, **read_only} for volume in _snapshots(execution)]
    words += ["--snapshots", SNAPSHOTS] if mounted else []
    bucket = _bucket(execution)
    words += ["--store", STORE] if bucket else []
    mounted += [{"name": volume["name"], "mountPath": STORE, "readOnly": True} for volume in bucket]
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
            "limits": {"memory": f"{512 + 64 * processes + ETCD_MIB * _drills(execution)}Mi"},
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


def _drills(execution: Execution) -> bool:
    """Tell whether an etcd runs in the pod, with restored data."""
    return execution.operation == DRILL


def _copies(execution: Execution) -> bool:
    """Tell whether another database is made of the snapshot in the pod."""
    return _drills(execution) or execution.operation == CLONE


def _snapshots(execution: Execution) -> list[Json]:
    """Return the volume with the snapshot of etcd that is taken or restored."""
    if execution.snapshot is None:
        return []
    if execution.snapshot.s3 is not None:
        return [{"name": "snapshots", "emptyDir": {"sizeLimit": STAGING}}]
    return [{"name": "snapshots", "persistentVolumeClaim": {"claimName": execution.snapshot.claim}}]


def _bucket(execution: Execution) -> list[Json]:
    """Return the volume with what opens the bucket that a snapshot lies in."""
    where = execution.snapshot.s3 if execution.snapshot is not None else None
    if where is None:
        return []
    sources = [
        {"secret": {"name": name, "items": [{"key": key, "path": path}], "optional": key == SESSION_TOKEN}}
        for name, key, path in secret_files(where)
    ]
    return [{"name": "store", "projected": {"defaultMode": MAY_READ, "sources": sources}}]


def _inputs(execution: Execution) -> list[Json]:
    """Return the operation's files and each machine's key, once."""
    keys = {key_file(host.key): host.key for host in execution.hosts}
    secrets = [
        {"secret": {"name": key.name, "items": [{"key": key.key, "path": path, "mode": OWNER_ONLY}]}}
        for path, key in sorted(keys.items())
    ]
    return [{"configMap": {"name": execution.job}}, *secrets, *_authority(execution), *_etcd_client(execution)]


def _authority(execution: Execution) -> list[Json]:
    """Return the CAs that a cluster is begun with, by their Secrets."""
    items: dict[str, list[Json]] = {}
    for file, (name, key) in execution.authority.items():
        items.setdefault(name, []).append({"key": key, "path": f"{AUTHORITY}/{file}", "mode": OWNER_ONLY})
    return [{"secret": {"name": name, "items": of}} for name, of in items.items()]


def _etcd_client(execution: Execution) -> list[Json]:
    """Return the certificate by which API servers ask an EtcdCluster, where they do."""
    if not execution.etcd_client:
        return []
    items = [{"key": key, "path": f"{ETCD_CLIENT}/{file}", "mode": OWNER_ONLY} for file, key in CLIENT_FILES.items()]
    return [{"secret": {"name": execution.etcd_client, "items": items}}]


def _account_volume() -> list[Json]:
    """Return a token of an hour and what belongs to it, as programs in pods look for them."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


KEEPS_LABEL = f"{GROUP}/keeps"  # on what outlives a Job: "state", "log"
KINDS = {kind.kind: kind for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, CONFIG_MAP, JOB)}


def objects_of(execution: Execution, owner: Json) -> list[Json]:
    """Return everything that an execution needs, the Job last.

    Args:
        owner: the Cluster; all of it goes with it.
    """
    objects = [*_account(execution), *_files(execution), _job(execution)]
    for meta in (body["metadata"] for body in objects):
        meta["labels"] = {CLUSTER_LABEL: execution.cluster, LABEL_MANAGED: MANAGED_BY, **meta["labels"]}
        meta["ownerReferences"] = [owner_reference(owner, CLUSTER)]
    return objects


def make(cluster: Cluster, execution: Execution, owner: Json) -> None:
    """Make what is not there. Only the rights are brought up to date: they name the present Job.

    Raises:
        InfraRetriable: something of the name is left of another Cluster, and not deleted yet.
    """
    for body in objects_of(execution, owner):
        kind, name = KINDS[body["kind"]], body["metadata"]["name"]
        if kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING):
            ensure(cluster, kind, body)
        elif not cluster.create_if_absent(kind, body):
            obj = cluster.get(kind, name, execution.namespace)
            # The inputs and the state of another Cluster are about other machines.
            if obj is None or (controller_of(obj) or {}).get("uid") != owner["metadata"]["uid"]:
                raise InfraRetriable(
                    f"{kind.kind} {name} is left of an earlier cluster of the same name",
                    hint="it is deleted in the background; delete it yourself if it stays",
                )


def _account(execution: Execution) -> list[Json]:
    name, namespace = executor_name(execution.cluster), execution.namespace
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    return [
        SERVICE_ACCOUNT.manifest(name, namespace, labels={}, automountServiceAccountToken=False),
        ROLE.manifest(name, namespace, labels={}, rules=rules_of(execution)),
        ROLE_BINDING.manifest(name, namespace, labels={}, roleRef=role, subjects=[subject]),
    ]


def rules_of(execution: Execution) -> list[Json]:
    """Return what an executor may do: keep the state and the log, say where it is, reach its machines."""
    machines = sorted({host.through for host in execution.hosts if host.through})
    rules = [
        _rule(SECRET, ["get", "update"], [state_name(execution.cluster)]),
        _rule(CONFIG_MAP, ["get", "update"], [log_name(execution.job)]),
        _rule(JOB, ["patch"], [execution.job]),
    ]
    return [*rules, _rule(PORT_FORWARD, ["get"], machines, "/portforward")] if machines else rules


def _rule(kind: Resource, verbs: list[str], names: list[str], subresource: str = "") -> Json:
    resources = [f"{kind.plural}{subresource}"]
    return {"apiGroups": [kind.group], "resources": resources, "verbs": verbs, "resourceNames": names}


def _files(execution: Execution) -> list[Json]:
    job, namespace, labels = execution.job, execution.namespace, execution.labels
    return [
        SECRET.manifest(state_name(execution.cluster), namespace, labels={KEEPS_LABEL: "state"}, type="Opaque"),
        CONFIG_MAP.manifest(job, namespace, labels=labels, data=files_of(execution), immutable=True),
        CONFIG_MAP.manifest(log_name(job), namespace, labels={**labels, KEEPS_LABEL: "log"}),
    ]


def single_pod_job(template: Json, seconds: int) -> Json:
    """Return the spec of a Job of one pod. An evicted one is made anew by the Job controller; every other end is last.

    Args:
        seconds: after which it is stopped.
    """
    evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "activeDeadlineSeconds": seconds,
        "podFailurePolicy": {"rules": [evicted]},
        "podReplacementPolicy": "Failed",  # never two at a time
        "template": template,
    }


def _job(execution: Execution) -> Json:
    spec = single_pod_job(pod_template(execution), execution.deadline_seconds)
    return JOB.manifest(execution.job, execution.namespace, labels=execution.labels, spec=spec)
