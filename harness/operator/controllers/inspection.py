"""Inspection: log in to machines of clusters from time to time; drift of files, expiry of certificates, health of etcd.

Nothing that an operation does is a change. A change that was seen before is forgotten only by an operation that put
the file back, or wrote another one: an operation that passes it by has not made it right.

Not while an operation runs, which may change all of it. After one that wrote settings, a look takes down how they are.
What was seen before an operation ended is old: nothing is decided by it (`decide.observed`).
"""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Informer, Key
from harness.kube.objects import condition, deleting, dig, stamp
from harness.kube.reconcile import Controller, follow
from harness.machines.programs import Inspected, inspected, inspection_command
from harness.operator.api.components import PKI
from harness.operator.api.conditions import ANSWERING, SETTINGS_AS_APPLIED, new
from harness.operator.api.machine import FILES
from harness.operator.api.resources import CLUSTER, MACHINE
from harness.operator.context import OperatorContext
from harness.operator.controllers.etcdpeers import BELIEVED, EtcdPeers
from harness.operator.controllers.machine import ssh_login, steady
from harness.operator.controllers.machine_phase import follow_clusters, use_of
from harness.operator.controllers.ssh import KEY_SECONDS, ProbeTrouble, TroubleReason
from harness.operator.decide.authority import signs_outside
from harness.operator.decide.observed import (
    CLONE,
    DEPLOY_ETCD,
    DRILL,
    ETCD_USERS,
    RECONFIGURE_ETCD,
    SUCCEEDED,
    UPGRADE_ETCD,
)

# They put back all that reconfigure does.
WHOLE = frozenset(
    {
        *("deploy", CLONE, "upgrade", "reconfigure", "recover", "rebuild", "adopt"),
        *(DEPLOY_ETCD, UPGRADE_ETCD, RECONFIGURE_ETCD),
    }
)
QUIET = frozenset({"backup", "certificates", "addons", "defragment", DRILL, ETCD_USERS})  # they write none of the files
# What reconfigure.yml puts back; of the other files, an operation that wants another content writes it.
PUT_BACK = (
    *(f"/etc/kubernetes/manifests/{name}.yaml" for name in ("etcd", "kube-apiserver")),
    *(f"/etc/kubernetes/manifests/kube-{name}.yaml" for name in ("controller-manager", "scheduler")),
    "/etc/kubernetes/kubeadm.yml",
    "/etc/kubernetes/patches/*",
    "/etc/kubernetes/flannel.yml",
    "/etc/kubernetes/pod-routes.yml",
    "/etc/etcd/kubeadm.yml",
    "/var/lib/kubelet/config.yaml",
    "/etc/containerd/*",
    "/etc/containers/registries.conf.d/*",
    "/etc/crictl.yaml",
    "/etc/crio/*",
    "/etc/virtual-address/*",
    "/etc/systemd/system/virtual-address.service",
    "/etc/systemd/system/containerd.service",
    "/etc/systemd/system/crio.service",
    "/etc/systemd/system/etcd.service",
    "/etc/systemd/system/pod-routes.service",
    "/etc/systemd/system/flannel-cni.*",
    "/usr/local/lib/*",
)
GONE = "-"
CHANGED, NOT_PUT_BACK = "Changed", "NotPutBack"
NAMED = 5  # files that a message names


def last_writer(cluster: Json) -> tuple[str, str] | None:
    """Return number and name of the last successful operation that wrote settings, None if none is remembered."""
    for past in dig(cluster, "status", "history") or ():
        if past.get("outcome") == SUCCEEDED and past["operation"] not in QUIET:
            return _number(past), past["operation"]
    return None


def last_end(cluster: Json) -> str:
    """Return the number of the last operation that ended, "" if none did. What was seen before it may be old."""
    return next((_number(past) for past in dig(cluster, "status", "history") or ()), "")


def put_back(path: str) -> bool:
    """Tell whether the operation reconfigure makes a file as it has to be."""
    return any(fnmatchcase(path, pattern) for pattern in PUT_BACK)


def settled(before: Json | None, files: Mapping[str, str], writer: tuple[str, str] | None) -> Json:
    """Return a Machine's `settings` after a look at its files.

    Args:
        before: as they were at the last look.  files: digests by path.  writer: see last_writer.
    """
    number, operation = writer or (dig(before, "operation") or "", "")
    expected, known = _read(dig(before, "files") or ()), _read(dig(before, "changed") or ())
    if before is None or number != before.get("operation"):
        passed_by = {
            path
            for path, digest in known.items()
            if files.get(path, GONE) == digest and not (operation in WHOLE and put_back(path))
        }
        digests = {path: digest for path, digest in files.items() if path not in passed_by}
        expected = {**digests, **{path: expected[path] for path in passed_by if path in expected}}
    paths = [path for path in {**expected, **files} if expected.get(path) != files.get(path)]
    return {
        "operation": number,
        "files": _written(expected),
        "changed": _written({path: files.get(path, GONE) for path in paths}),
    }


def as_applied(settings: Json, moment: datetime) -> Json:
    """Return the condition SettingsAsApplied of a Machine with these settings."""
    expected, changed = _read(settings["files"]), _read(settings["changed"])
    if not changed:
        return new(SETTINGS_AS_APPLIED, True, "AsApplied", "files are as the last operation left them", moment, None)
    changes = [
        f"{path} {'is gone' if digest == GONE else 'was changed' if path in expected else 'was added'}"
        for path, digest in sorted(changed.items())
    ]
    words = ", ".join([*changes[:NAMED], *([f"and {len(changes) - NAMED} more"] if len(changes) > NAMED else [])])
    words = f"seen at {stamp(moment)}: {words}"
    if any(map(put_back, changed)):
        return new(SETTINGS_AS_APPLIED, False, CHANGED, words, moment, None)
    hint = "no operation puts this back: do it by hand, or replace the machine"
    return new(SETTINGS_AS_APPLIED, False, NOT_PUT_BACK, f"{words}; {hint}", moment, None)


def _number(past: Json) -> str:
    return f"{past['sequence']}-{past.get('attempt', 1)}"


def _read(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition(" ") for line in lines)
    return {path: digest for digest, _, path in pairs}


def _written(digests: Mapping[str, str]) -> list[str]:
    return [f"{digest} {path}" for path, digest in sorted(digests.items())[:FILES]]


CONFIGS, MANIFESTS = "/etc/kubernetes", "/etc/kubernetes/manifests"
OTHER_FOLDER = re.compile(rf"^{CONFIGS}/[^/]+/")  # of certificates, with the same files as kubeadm's own
# What the operation certificates renews: on control planes, and on members of etcd, wherever they run.
OF_THE_API = (
    *(f"{PKI}/{name}.crt" for name in ("apiserver", "apiserver-kubelet-client", "front-proxy-client")),
    *(f"{CONFIGS}/{name}.conf" for name in ("admin", "super-admin", "controller-manager", "scheduler")),
    ETCD_CLIENT := f"{PKI}/apiserver-etcd-client.crt",
)
OF_ETCD = (ETCD_CLIENT, *(f"{PKI}/etcd/{name}.crt" for name in ("server", "peer", "healthcheck-client")))
KUBELET_PAIR = "/var/lib/kubelet/pki/kubelet-client-current.pem"  # elsewhere the cluster renews it
RENEWED = {  # by the file that tells what a machine runs
    f"{MANIFESTS}/kube-apiserver.yaml": OF_THE_API,
    f"{MANIFESTS}/etcd.yaml": OF_ETCD,
    "/etc/systemd/system/etcd.service": OF_ETCD,
}


def dates(certificates: Mapping[str, bytes], files: Collection[str], *, outside: bool = False) -> Json | None:
    """Return a Machine's `certificates`, None when nothing was found.

    Args:
        certificates: PEM by path.  files: paths of other files that are on the machine.
        outside: nothing in the cluster signs what its kubelet asks for.
    """
    renewed = {KUBELET_PAIR} if outside else set()
    renewed |= {path for program, paths in RENEWED.items() if program in files for path in paths}
    renewed |= {path for path in certificates if OTHER_FOLDER.sub(f"{PKI}/", path) in renewed}
    ends = {path: end for path, pem in certificates.items() if (end := _end(pem)) is not None}
    made: Json = {}
    for date, file, paths in (
        ("firstExpiry", "file", [path for path in ends if path in renewed]),
        ("otherExpiry", "otherFile", [path for path in ends if path not in renewed]),
    ):
        if paths:
            first = min(sorted(paths), key=lambda path: ends[path])
            made |= {date: stamp(ends[first]), file: first}
    return made or None


def _end(pem: bytes) -> datetime | None:
    """Return when the first certificate of a file expires, None if it holds none that can be read."""
    try:
        return min(
            (certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(pem)), default=None
        )
    except ValueError:  # a file that is just being written
        return None


MIB, STEP = 1 << 20, 8  # of sizes in a status
SIZE, USED, QUOTA = (
    *("etcd_mvcc_db_total_size_in_bytes", "etcd_mvcc_db_total_size_in_use_in_bytes"),
    "etcd_server_quota_backend_bytes",
)
LEADER = "etcd_server_has_leader"
FSYNC, ROUND_TRIP = "etcd_disk_wal_fsync_duration_seconds_bucket", "etcd_network_peer_round_trip_time_seconds_bucket"
MOST = 0.99


def etcd_state(reading: Inspected) -> Json | None:
    """Return a Machine's `etcd` by what its member says of itself, None where no member runs or none answers."""
    samples: dict[str, list[tuple[str, float]]] = {}
    for family in text_string_to_metric_families(reading.etcd + "\n"):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels.get("le", ""), sample.value))
    if SIZE not in samples:
        return None
    size, used, quota = (samples.get(name, [("", 0.0)])[0][1] for name in (SIZE, USED, QUOTA))
    return {
        "alarm": _alarm(reading.health),
        "hasLeader": samples.get(LEADER, [("", 1.0)])[0][1] > 0,
        "sizeMiB": math.ceil(size / MIB / STEP) * STEP,
        "freeMiB": math.floor((size - used) / MIB / STEP) * STEP,
        "quotaMiB": round(quota / MIB),
        "fsyncMilliseconds": math.ceil(_most(samples.get(FSYNC, [])) * 1000),
        "roundTripMilliseconds": math.ceil(_most(samples.get(ROUND_TRIP, [])) * 1000),
    }


def _alarm(health: str) -> str:
    """Return the alarm that etcd's /health gives as its reason, "" for none."""
    try:
        reason = str(json.loads(health).get("reason", "")) if health else ""
    except ValueError:  # it was just ending
        return ""
    return reason.removeprefix("ALARM ") if reason.startswith("ALARM ") else ""


def _most(buckets: Iterable[tuple[str, float]]) -> float:
    """Return the bound in seconds below which 99 in 100 are, of all histograms together; 0 where there are none."""
    counts: dict[float, float] = {}
    for bound, count in buckets:
        counts[float(bound)] = counts.get(float(bound), 0.0) + count
    whole = counts.get(math.inf, 0.0)
    finite = sorted(bound for bound in counts if bound != math.inf)
    if not whole or not finite:
        return 0.0
    return next((bound for bound in finite if counts[bound] >= whole * MOST), finite[-1])


ANSWERS = frozenset({TroubleReason.KEY_REFUSED, TroubleReason.NOT_PERMITTED})  # said by a machine that runs
KUBELET = "/var/lib/kubelet/config.yaml"
OURS = frozenset({ANSWERING, SETTINGS_AS_APPLIED})


def findings(
    machine: Json,
    reading: Inspected | ProbeTrouble,
    failed: int,
    cluster: Json,
    moment: datetime,
) -> Json:
    """Return the keys of a Machine's status after a look.

    Args:
        failed: logins in a row that have failed, this one included.  cluster: its Cluster, as it was all the while.
    """
    conditions = dig(machine, "status", "conditions") or []
    if isinstance(reading, ProbeTrouble):
        unanswered = _no_answer(reading, failed, moment)
        return {"conditions": steady(conditions, [unanswered])} if unanswered is not None else {}
    kubelet = f"; its kubelet.service is {reading.kubelet}" if KUBELET in reading.files else ""
    words = f"{dig(machine, 'spec', 'user') or 'the operator'} can log in{kubelet}"
    settings = settled(dig(machine, "status", "settings"), reading.files, last_writer(cluster))
    settings["seen"] = last_end(cluster)
    wanted_now = [new(ANSWERING, True, "LoggedIn", words, moment, None), as_applied(settings, moment)]
    outside = signs_outside(dig(cluster, "status", "applied", "variables") or {})
    expiry = dates(reading.certificates, reading.files, outside=outside)
    return {
        "certificates": _whole(dig(machine, "status", "certificates"), expiry),
        "etcd": _whole(dig(machine, "status", "etcd"), etcd_state(reading)),
        "settings": settings,
        "conditions": steady(conditions, wanted_now),
    }


def without_findings(machine: Json) -> Json:
    """Return the keys of the status of a Machine that is part of no cluster (any more), where it has others."""
    status = machine.get("status") or {}
    conditions = status.get("conditions") or []
    kept = [known_condition for known_condition in conditions if known_condition["type"] not in OURS]
    return {
        "certificates": None,
        "etcd": None,
        "settings": None,
        **({"conditions": kept} if kept != conditions else {}),
    }


def _no_answer(trouble: ProbeTrouble, failed: int, moment: datetime) -> Json | None:
    """Return what a login that found nothing says of whether the machine answers; None: nothing yet."""
    if trouble.reason in ANSWERS:
        return new(ANSWERING, True, trouble.reason, trouble.message, moment, None)
    if trouble.reason != TroubleReason.UNREACHABLE:
        return new(ANSWERING, None, trouble.reason, trouble.message, moment, None)
    return new(ANSWERING, False, trouble.reason, trouble.message, moment, None) if failed >= BELIEVED else None


def _whole(old: Json | None, new: Json | None) -> Json | None:
    """Return the patch after which a map is another one as a whole."""
    return {**dict.fromkeys(old or {}, None), **new} if new is not None and new != old else new


LOOK_SECONDS = 50.0  # a change is told within a minute: the pause, and some seconds for the login
EACH_SECONDS = 0.5  # pacing: two logins a second at most, however many machines there are; each is a request to the API
AGAIN_SECONDS = 10.0  # after a first login that failed: the second one decides


class InspectionTimes:
    """When each machine is due. Whoever asks about a machine is the only one who looks at it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[Key, tuple[str, float]] = {}
        self._failures: dict[Key, int] = {}

    def left(self, key: Key, operation: str, *, known: bool) -> float:
        """Return the seconds until a machine is due; 0: now.

        Args:
            operation: after which one a look is due at once.  known: an earlier manager has looked after that one.
        """
        now = self._clock()
        if key not in self._due and known:  # after a restart of the manager: not all at once, but in a fixed order
            share = zlib.crc32("/".join(key).encode()) % 1000 / 1000
            self._due[key] = operation, now + share * self._pause()
        looked, due = self._due.get(key, (operation, now))
        self._due[key] = operation, due if looked == operation else now
        return max(0.0, self._due[key][1] - now)

    def note(self, key: Key, operation: str, *, answered: bool) -> int:
        """Say that a machine was just logged in to; return how many logins in a row have failed now."""
        failed = 0 if answered else self._failures.get(key, 0) + 1
        self._failures[key] = failed
        self._due[key] = operation, self._clock() + (AGAIN_SECONDS if failed == 1 else self._pause())
        return failed

    def forget(self, key: Key) -> None:
        """Drop a machine that is part of no cluster."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def _pause(self) -> float:
        return max(LOOK_SECONDS, len(self._due) * EACH_SECONDS)


TRIES = 5  # of a write that meets other writers'


def write_status(api: Cluster, objects: Informer, key: Key, make: Callable[[Json], Json]) -> Json | None:
    """Give keys of an object's status other values; return the object, None if it is gone.

    Args:
        make: returns the keys of an object as it is now, called again where somebody else wrote first.

    Raises:
        ApiFailure: the API refuses the write, or others wrote again and again.
    """
    obj = objects.get(*key)
    for number in range(TRIES):
        if obj is None:
            return None
        try:
            return objects.merge_status(obj, make(obj))
        except ApiFailure as failure:
            if failure.not_found:
                return None
            if not failure.conflict or number == TRIES - 1:
                raise
        obj = api.get(objects.resource, key[1], key[0])
        if obj is not None:
            objects.observe(obj)
    return obj


COMPONENT = "inspection-controller"
WORKERS = 6  # as many logins as for machines that nobody uses; each waits half a minute at most
Look = Callable[[Json], Inspected | ProbeTrouble]


class MachineInspection:
    """Looks into machines of clusters."""

    def __init__(self, context: OperatorContext, look: Look) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._machines = context.informers.of(MACHINE)
        self._clusters = context.informers.of(CLUSTER)
        self._look = look
        self._times = InspectionTimes()
        self._peers = EtcdPeers(context)
        self.controller = Controller("inspection", self.reconcile, workers=WORKERS)
        follow(self._machines, self.controller.queue)
        follow_clusters(self._clusters, self._machines, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look into one Machine, if that is due; return the seconds until the next look."""
        machine = self._machines.get(*key)
        if machine is None or deleting(machine):
            self._times.forget(key)
            return None
        cluster = self._of(machine)
        if cluster is None:
            self._times.forget(key)
            self._peers.forget(key)
            self._machines.merge_status(machine, without_findings(machine))
            return None
        if dig(cluster, "status", "operation"):
            return None  # its end is a change of the Cluster
        number = last_end(cluster)
        known = dig(machine, "status", "settings", "seen") == number
        if left := self._times.left(key, number, known=known):
            return left
        reading = self._look(machine)
        failed = self._times.note(key, number, answered=not isinstance(reading, ProbeTrouble))
        after = self._of(self._machines.get(*key) or machine)
        if after is None or dig(after, "status", "operation") or last_end(after) != number:
            return 0.0  # an operation began meanwhile
        moment = datetime.now(UTC)
        written = write_status(
            self._cluster, self._machines, key, lambda now: findings(now, reading, failed, after, moment)
        )
        if written is not None:
            self._tell(machine, written)
            self._peers.tell(written, after, reading, failed)
        return self._times.left(key, number, known=True)

    def _of(self, machine: Json) -> Json | None:
        """Return the Cluster that a Machine is a part of, None if it is part of none."""
        name = dig(machine, "spec", "claim", "cluster")
        cluster = self._clusters.get(machine["metadata"]["namespace"], name) if name else None
        part = machine["metadata"]["name"] in (dig(cluster, "status", "applied", "machines") or ())
        return cluster if part and use_of(machine, cluster).holds else None

    def _tell(self, before: Json, now: Json) -> None:
        """Say that files were changed, once for each change."""
        old, now_condition = condition(before, SETTINGS_AS_APPLIED), condition(now, SETTINGS_AS_APPLIED)
        if now_condition is not None and now_condition["status"] == "False" and now_condition != old:
            self._events.warning(now, now_condition["reason"], now_condition["message"], component=COMPONENT)


def ssh_inspection(context: OperatorContext) -> Look:
    """Return what looks into a machine by SSH."""
    return ssh_login(context, inspection_command(), inspected, remember=KEY_SECONDS)


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(MachineInspection(context, ssh_inspection(context)).controller)
