"""A backup every minute of a real cluster, while the store that takes it has every kind of trouble. In order."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from harness.kube.client import Json
from harness.kube.objects import condition, dig
from harness.kube.resources import PVC, SECRET
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, ETCD_BACKUP, SCHEDULED_LABEL
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.joined import netns_of
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, deployed, says
from tests.embedded.operator_live.service_pod import manager
from tests.embedded.s3_gateway import ACCESS, Gateway, gateways
from tests.embedded.s3_gateway import SECRET as RIGHT_KEY

PRODUCT, BUCKET, KEEP = "operator", "backups", 3
MEGABYTES = 256  # of the store: some snapshots of a small cluster
EVERY_MINUTE = "* * * * *"
STOPPED_SECONDS = 30.0  # of a server that does not answer in the middle of a backup
BACKUPS_SECONDS = 600.0


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell of one machine."""
    return cell_of(spec, PRODUCT, topology="all-in-one", scenario="fresh", addons="core")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed."""
    with deployed(spec, planned, "schedules", tmp_path_factory.mktemp("cell")) as found:
        yield found


def secret(lived: Lived, name: str, **content: str) -> None:
    """Write a Secret, whatever it had."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
    if lived.api.get(SECRET, name, lived.namespace) is None:
        lived.api.create(SECRET, SECRET.manifest(name, lived.namespace, labels={}, data=data))
    else:
        lived.api.merge(SECRET, name, {"data": data}, lived.namespace)


@pytest.fixture(scope="module")
def gateway(lived: Lived, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Return a store beside the infra cluster's pods, and give its keys to the operator."""
    host = manager(lived)["status"]["hostIP"]
    with gateways(tmp_path_factory) as begin:
        made = begin(tls=True, megabytes=MEGABYTES, host=host, inside=netns_of(host))
        made.bucket(BUCKET)
        secret(lived, "keys", accessKeyId=ACCESS, secretAccessKey=RIGHT_KEY)
        secret(lived, "ca", **{"ca.crt": made.ca.decode()})
        yield made


def scheduled(lived: Lived) -> list[Json]:
    """Return the EtcdBackups of the schedule, the earliest first."""
    every = lived.api.list(ETCD_BACKUP, lived.namespace).items
    return sorted(
        (one for one in every if SCHEDULED_LABEL in (dig(one, "metadata", "labels") or {})),
        key=lambda one: one["metadata"]["name"],
    )


def verified(lived: Lived) -> list[str]:
    """Return the names of those that are verified."""
    return [one["metadata"]["name"] for one in scheduled(lived) if says(one, "Verified")[0] == "True"]


def next_backup(lived: Lived, wanted: Callable[[Json], bool], what: str) -> Json:
    """Return the first EtcdBackup that the schedule makes from now on and that becomes as wanted."""
    known = {one["metadata"]["name"] for one in scheduled(lived)}

    def probe() -> Json | NotYet:
        later = [one for one in scheduled(lived) if one["metadata"]["name"] not in known]
        found = next((one for one in later if wanted(one)), None)
        if found is not None:
            return found
        return NotYet(str([(one["metadata"]["name"], condition(one, "Verified")) for one in later]))

    return until(probe, deadline=Deadline.after(BACKUPS_SECONDS), what=f"a backup that {what}", interval=INTERVAL)


def is_verified(backup: Json) -> bool:
    """Tell whether a backup is verified."""
    return says(backup, "Verified")[0] == "True"


def fresh(lived: Lived, status: str) -> None:
    """Wait until the cluster's backups are fresh, or are not."""
    lived.wait("guest", lambda one: says(one, "BackupFresh")[0] == status, f"fresh: {status}", CLUSTER_DEPLOYMENT)


@contextmanager
def stopped(lived: Lived, gateway: Gateway) -> Iterator[None]:
    """Stop the server."""
    gateway.stop()
    yield
    gateway.start()


@contextmanager
def full(lived: Lived, gateway: Gateway) -> Iterator[None]:
    """Leave no room in the store."""
    other = gateway.folder / "data" / "of-another"
    with other.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(other.parent).free)
    yield
    other.unlink()


@contextmanager
def other_keys(lived: Lived, gateway: Gateway) -> Iterator[None]:
    """Give the operator keys that the server does not know."""
    secret(lived, "keys", accessKeyId=ACCESS, secretAccessKey="wrong")
    yield
    secret(lived, "keys", accessKeyId=ACCESS, secretAccessKey=RIGHT_KEY)


@dataclass(frozen=True)
class Trouble:
    """What befalls the store, and the reasons of a backup that fails by it."""

    befalls: Callable[[Lived, Gateway], object]
    reasons: Sequence[str]


TROUBLES = {
    "stopped": Trouble(stopped, ["EndpointDown"]),
    "full": Trouble(full, ["StoreFull"]),
    "wrong key": Trouble(other_keys, ["WrongCredentials"]),
}


def test_the_schedule_begins(lived: Lived, gateway: Gateway) -> None:
    where = gateway.destination(BUCKET).model_dump(mode="json", by_alias=True, exclude_none=True)
    policy = {"schedule": EVERY_MINUTE, "keep": KEEP, "destination": {"s3": where}}
    lived.edit({"etcd": {"backup": policy}, "jobs": {"retries": 0}})
    next_backup(lived, is_verified, "is verified")
    fresh(lived, "True")


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_is_named_nothing_is_lost_and_the_next_backup_works(name: str, lived: Lived, gateway: Gateway) -> None:
    trouble, before = TROUBLES[name], set(verified(lived))
    with trouble.befalls(lived, gateway):  # type: ignore[attr-defined]
        next_backup(lived, lambda one: says(one, "Verified")[1] in trouble.reasons, f"fails by {trouble.reasons}")
        fresh(lived, "False")
        assert says(lived.get("guest", CLUSTER_DEPLOYMENT), "Ready")[0] == "True"
        assert before <= set(verified(lived)), "no backup is given up for one that fails"
    next_backup(lived, is_verified, "is verified")
    fresh(lived, "True")


def test_a_server_that_hangs_delays_a_backup_or_fails_it(lived: Lived, gateway: Gateway) -> None:
    running = next_backup(lived, lambda one: dig(one, "status", "phase") == "Running", "runs")
    assert gateway.service is not None
    os.killpg(gateway.service.pid, signal.SIGSTOP)
    try:
        time.sleep(STOPPED_SECONDS)
    finally:
        os.killpg(gateway.service.pid, signal.SIGCONT)
    name = running["metadata"]["name"]
    over = lived.wait(name, lambda one: dig(one, "status", "phase") in ("Verified", "Failed"), "over", ETCD_BACKUP)
    assert is_verified(over) or says(over, "Verified")[1] in ("StoreSlow", "EndpointDown")
    next_backup(lived, is_verified, "is verified")
    fresh(lived, "True")


def test_the_bucket_has_what_counts_and_hardly_more(lived: Lived, gateway: Gateway) -> None:
    for _ in range(KEEP + 1):
        next_backup(lived, is_verified, "is verified")
    lived.edit({"etcd": {"backup": {"suspend": True}}})
    lived.wait("guest", lambda one: dig(one, "status", "operation") is None, "idle", CLUSTER)
    kept = verified(lived)
    assert len(kept) <= KEEP
    client = gateway.bucket(BUCKET, make=False).client
    keys = {one["Key"] for one in client.list_objects_v2(Bucket=BUCKET).get("Contents") or ()}
    wanted = {f"etcd/guest/{name}.db{end}" for name in kept for end in ("", ".json")}
    assert wanted <= keys
    assert len(keys) <= 2 * (KEEP + 1), "the next backup deletes the file of the one before it that is not kept"
    assert not client.list_multipart_uploads(Bucket=BUCKET).get("Uploads")


def test_a_claim_takes_them_as_well(lived: Lived) -> None:
    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": "pods", "resources": {"requests": {"storage": "2Gi"}}}
    lived.api.create(PVC, PVC.manifest("guest-backups", lived.namespace, labels={}, spec=size))
    claim = {"s3": None, "claim": "guest-backups"}
    lived.edit({"etcd": {"backup": {"suspend": None, "destination": claim}}})
    for _ in range(KEEP + 1):
        made = next_backup(lived, is_verified, "is verified")
        assert dig(made, "status", "location").startswith("guest-backups:")
    assert len(verified(lived)) <= KEEP + 1  # one more until the operator has seen the latest
    fresh(lived, "True")
