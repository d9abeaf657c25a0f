"""EtcdBackups as a person sees them: listed, and their snapshots copied out of a bucket or a claim.

A bucket is asked with the keys of its Secret, which whoever wants the copy has to be allowed to read. A claim can only
be read by a pod that mounts it. So its copy is made by a pod that does nothing but hold the claim, and by `cat` in it,
whose output comes through the API. Where no pod can run, or where the claim is mounted elsewhere and can be mounted
only once, there is no way to it from here.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from harness.errors import BadInput, InfraError, InfraRetriable
from harness.files import sha256_of, write_atomically
from harness.kube.client import Cluster, Json
from harness.kube.objects import dig, parse_time, phase
from harness.kube.resources import JOB, POD, SECRET, container_security, pod_security
from harness.machines.reach.portforward import open_stream
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.conditions import PROVEN
from harness.operator.api.etcd import VERIFIED, EtcdBackup, S3Destination
from harness.operator.api.resources import BEFORE_LABEL, CLUSTER_LABEL, ETCD_BACKUP, SCHEDULED_LABEL
from harness.operator.execute.object_store import Bucket, secret_files
from harness.operator.execute.objects import CONTAINER, SNAPSHOTS, USER
from harness.operator.execute.snapshots import is_whole
from harness.operator.execute.termination import waits_for
from harness.until import Deadline, NotYet, until

COPY_SECONDS = 3600  # after which a pod ends by itself whose command was killed
START_SECONDS = 180.0  # for a volume to be attached, and an image to be pulled
EXEC = "v4.channel.k8s.io"  # the first byte of a message is its channel, and the last message says how it ended
STDOUT, STDERR, END = 1, 2, 3  # channels


@dataclass(frozen=True)
class BackupRow:
    """One EtcdBackup. origin: `schedule`, `upgrade` or `person`.  said: why it is not verified.

    drill: what the last drill of it has shown.
    """

    name: str
    cluster: str
    phase: str
    origin: str
    location: str
    taken: str
    age_seconds: float | None
    size_bytes: int | None
    revision: int | None
    keys: int | None
    objects: int | None
    etcd_version: str
    sha256: str
    said: str
    drill: str

    def json(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return asdict(self)


def rows(cluster: Cluster, namespace: str, of: str | None, now: datetime) -> list[BackupRow]:
    """Return the EtcdBackups of a namespace, or of one of its clusters: by cluster, the newest first."""
    all_rows = [row_of(row, now) for row in cluster.list(ETCD_BACKUP, namespace).items]
    rows_of_cluster = [row for row in all_rows if of in (None, row.cluster)]
    newest_first = sorted(rows_of_cluster, key=lambda row: (row.taken or "~", row.name), reverse=True)
    return sorted(newest_first, key=lambda row: row.cluster)


def row_of(backup: Json, now: datetime) -> BackupRow:
    """Return an EtcdBackup as a row; its age is that of its data."""
    model = EtcdBackup.model_validate(backup)
    status, labels = model.status, model.metadata.labels
    refusal = next((c.message for c in status.conditions if c.type == VERIFIED and c.status == "False"), "")
    return BackupRow(
        model.metadata.name,
        model.spec.cluster,
        status.phase or "Pending",
        "schedule" if SCHEDULED_LABEL in labels else "upgrade" if BEFORE_LABEL in labels else "person",
        status.location or "",
        status.taken or "",
        (now - parse_time(status.taken)).total_seconds() if status.taken else None,
        status.size_bytes,
        status.revision,
        status.keys,
        status.objects,
        status.etcd_version or "",
        status.sha256 or "",
        refusal,
        next((c.message for c in status.conditions if c.type == PROVEN), ""),
    )


def backup_named(cluster: Cluster, namespace: str, name: str) -> Json:
    """Return an EtcdBackup.

    Raises:
        BadInput: there is none of the name.
    """
    backup = cluster.get(ETCD_BACKUP, name, namespace)
    if backup is None:
        known = ", ".join(sorted(other["metadata"]["name"] for other in cluster.list(ETCD_BACKUP, namespace).items))
        raise BadInput(f"there is no EtcdBackup {name} in namespace {namespace}", hint=f"there are: {known or 'none'}")
    return backup


def age_text(seconds: float | None) -> str:
    """Return an age as kubectl shows it: 5m, 3h, 12d; "" for none."""
    if seconds is None:
        return ""
    age = timedelta(seconds=max(seconds, 0.0))
    for size, letter in ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "m")):
        if age >= 2 * size:
            return f"{age // size}{letter}"
    return f"{age.total_seconds():.0f}s"


def copy_snapshot(cluster: Cluster, namespace: str, name: str, target: Path, image: str | None) -> int:
    """Copy the snapshot of an EtcdBackup to a file that there is not yet; return its size.

    Args:
        image: of the pod that reads the claim; None: that of the cluster's last executor.

    Raises:
        BadInput: there is no such snapshot, or the file is there.
        InfraError: no pod can read the claim, or what it read is not what was verified.
    """
    backup = backup_named(cluster, namespace, name)
    row = row_of(backup, parse_time(backup["metadata"]["creationTimestamp"]))
    if row.phase != VERIFIED:
        why = f": {row.said}" if row.said else ""
        raise BadInput(f"EtcdBackup {name} is {row.phase}{why}", hint="`vmatrix operator backup list` shows others")
    if target.exists():
        raise BadInput(f"{target} is there already", hint="remove it, or name another file with --to")
    if not target.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {target.absolute().parent}", hint="create it first")
    store, _, file = row.location.rpartition(":")
    where = EtcdBackup.model_validate(backup).status.s3
    part = target.with_name(f"{target.name}.part")
    try:
        if where is not None:
            _read_bucket(cluster, namespace, where, file, part)
        else:
            pod = _pod(namespace, name, store, image or _image_of(cluster, namespace, row.cluster))
            _read_claim(cluster, pod, file, part)
        if not is_whole(part) or (row.sha256 and sha256_of(part) != row.sha256):
            raise InfraError(
                f"what was read of {row.location} is not the snapshot that was verified",
                hint="try again; if it is the same, the volume has damaged it: restore another EtcdBackup",
            )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def _read_bucket(cluster: Cluster, namespace: str, where: S3Destination, file: str, target: Path) -> None:
    """Write an object to a new file, opened with the keys of the destination's Secrets."""
    secrets = {name: cluster.get(SECRET, name, namespace) for name in where.secrets}
    if absent := [name for name, value in secrets.items() if value is None]:
        raise BadInput(f"there is no Secret {', '.join(absent)} in namespace {namespace}", hint="the bucket needs it")
    with tempfile.TemporaryDirectory() as folder:
        for name, key, path in secret_files(where):
            content = dig(secrets[name], "data", key)
            if content is not None:
                (Path(folder) / path).parent.mkdir(exist_ok=True)
                write_atomically(Path(folder) / path, base64.b64decode(content), mode=0o600)
        Bucket.open(where, Path(folder)).download(file, target)


def _read_claim(cluster: Cluster, pod: Json, file: str, target: Path) -> None:
    """Write a file of a claim to a new one, by a pod that is there meanwhile."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    if not cluster.create_if_absent(POD, pod):
        raise BadInput(f"pod {name} is there: another copy runs", hint=f"`kubectl delete pod {name}` if none does")
    try:
        claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        until(
            lambda: _started(cluster, namespace, name),
            deadline=Deadline.after(START_SECONDS),
            what=f"pod {name}, which mounts PersistentVolumeClaim {claim}",
            describe=lambda: "; ".join(cluster.events_of(namespace, name)),
        )
        with target.open("xb") as content:
            target.chmod(0o600)  # it has every secret of the cluster
            for chunk in _output(cluster, namespace, name, ["cat", f"{SNAPSHOTS}/{file}"]):
                content.write(chunk)
    finally:
        cluster.delete(POD, name, namespace)


def _pod(namespace: str, name: str, claim: str, image: str) -> Json:
    """Return the pod that holds a claim for a while; it is not one of an executor, so nobody takes it for one."""
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["sleep", str(COPY_SECONDS)],
        "securityContext": container_security(),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": "snapshots", "mountPath": SNAPSHOTS, "readOnly": True}],
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": COPY_SECONDS,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {**pod_security(USER), "fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [container],
        "volumes": [{"name": "snapshots", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return POD.manifest(f"{name}-copy", namespace, labels={LABEL_MANAGED: MANAGED_BY}, spec=spec)


def _image_of(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the image of the last executor of a cluster that there is still something of."""
    jobs = cluster.list(JOB, namespace, labels=f"{CLUSTER_LABEL}={name}").items
    newest = max(jobs, key=lambda job: str(job["metadata"]["creationTimestamp"]), default=None)
    containers = dig(newest, "spec", "template", "spec", "containers") or []
    if not containers:
        raise BadInput(f"no Job of cluster {name} is left whose image a pod could have", hint="name one with --image")
    image: str = containers[0]["image"]
    return image


def _started(cluster: Cluster, namespace: str, name: str) -> bool | NotYet:
    pod = cluster.get(POD, name, namespace)
    if pod is None or phase(pod) in ("Failed", "Succeeded"):
        raise InfraRetriable(f"pod {name} has ended before the snapshot was read", hint="try again")
    if (why := waits_for(pod)) is not None:
        raise InfraError(f"pod {name} has no image: {why}", hint="name another one with --image")
    return phase(pod) == "Running" or NotYet(f"it is {phase(pod) or 'Pending'}")


def _output(cluster: Cluster, namespace: str, name: str, command: list[str]) -> Iterator[bytes]:
    """Yield what a command in a pod writes.

    Raises:
        InfraError: it failed, or the connection was lost before it said how it ended.
    """
    query = urlencode(
        [("container", CONTAINER), ("stdout", "true"), ("stderr", "true"), *(("command", w) for w in command)]
    )
    path = f"{POD.path(namespace, name, 'exec')}?{query}"
    errors = b""
    with closing(open_stream(cluster, path, subprotocol=EXEC)) as stream:
        while True:
            message = stream.recv()
            data = message.encode() if isinstance(message, str) else bytes(message)
            if not data:
                raise InfraRetriable(f"the connection to pod {name} was lost", hint="try again")
            if data[0] == STDOUT:
                yield data[1:]
            elif data[0] == STDERR:
                errors += data[1:]
            elif data[0] == END:
                end = json.loads(data[1:])
                if end.get("status") != "Success":
                    output = errors.decode("utf-8", "replace").strip() or end.get("message", "")
                    raise InfraError(f"the snapshot cannot be read: {output}", hint="see the volume of the claim")
                return
