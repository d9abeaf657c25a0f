"""Snapshots in a real S3 server: whole or not there, kept and deleted, locked, encrypted; and what its failures say."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.kube.objects import parse_time, stamp
from harness.operator.api.etcd import OperationSnapshot
from harness.operator.execute import object_store
from harness.operator.execute.object_store import PART_BYTES, Bucket, StoreTrouble
from harness.operator.execute.snapshots import SnapshotStore
from tests.embedded.s3_gateway import Gateway, secrets_in
from tests.unit.operator.execute.etcd_files import snapshot_of, write

BLOCK = 512
MANY_PARTS = snapshot_of(blocks=(2 * PART_BYTES + PART_BYTES // 2) // BLOCK)


def store_of(folder: Path, bucket: Bucket, name: str = "a", **more: Any) -> SnapshotStore:
    """Return the store of a backup of cluster prod in an empty folder of a pod."""
    about = {"backup": name, "uid": f"uid-{name}", "s3": bucket.where.model_dump(), "file": f"prod/{name}.db", **more}
    return SnapshotStore(folder, "prod", OperationSnapshot.model_validate(about), bucket)


def taken(store: SnapshotStore, content: bytes = b"") -> dict[str, Any]:
    """Take a snapshot as the playbook does."""
    store.begin("backup")
    write(store.path, content or snapshot_of())
    return store.end({"kubernetesVersion": "1.36.3", "authority-kubernetes": "ab" * 32})


def names(bucket: Bucket) -> list[str]:
    """Return the names of the objects of a bucket."""
    found = bucket.client.list_objects_v2(Bucket=bucket.where.bucket).get("Contents") or ()
    return sorted(one["Key"] for one in found)


@pytest.mark.parametrize("content", [snapshot_of(), MANY_PARTS], ids=["one part", "three parts"])
def test_a_snapshot_goes_there_and_comes_back(content: bytes, gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket(f"round-{len(content)}")
    facts = taken(store_of(tmp_path / "a", bucket), content)
    assert facts["sizeBytes"] == len(content)
    assert names(bucket) == ["etcd/prod/a.db", "etcd/prod/a.db.json"]
    metadata = bucket.client.head_object(Bucket=bucket.where.bucket, Key="etcd/prod/a.db")["Metadata"]
    assert (metadata["cluster"], metadata["sha256"]) == ("prod", facts["sha256"])
    assert (metadata["kubernetesversion"], metadata["authority-kubernetes"]) == ("1.36.3", "ab" * 32)
    restored = store_of(tmp_path / "b", bucket)
    restored.begin("recover")
    assert restored.path.read_bytes() == content


def test_of_a_server_that_dies_nothing_counts_and_the_next_try_works(
    start_gateway: Callable[..., Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = start_gateway()
    bucket = gateway.bucket("dies")
    part = bucket.client.create_multipart_upload(Bucket="dies", Key="etcd/prod/a.db")
    bucket.client.upload_part(Bucket="dies", Key="etcd/prod/a.db", UploadId=part["UploadId"], PartNumber=1, Body=b"x")
    store = store_of(tmp_path / "a", bucket)
    store.begin("backup")
    assert not bucket.client.list_multipart_uploads(Bucket="dies").get("Uploads"), "what a killed executor has left"
    write(store.path, snapshot_of())
    gateway.stop()
    with pytest.raises(StoreTrouble) as down:
        store.end({})
    assert down.value.reason == "EndpointDown"
    gateway.start()
    assert names(bucket) == []
    with pytest.raises(BadInput, match="there is no snapshot"):
        store_of(tmp_path / "b", bucket).begin("recover")
    taken(store_of(tmp_path / "c", bucket))
    assert len(names(bucket)) == 2


def test_a_server_that_does_not_answer_is_slow(
    start_gateway: Callable[..., Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = start_gateway()
    gateway.bucket("slow")
    monkeypatch.setattr(object_store, "READ_SECONDS", 1)
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    bucket = gateway.bucket("slow", make=False)
    assert gateway.service is not None
    os.killpg(gateway.service.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreTrouble) as slow:
            taken(store_of(tmp_path, bucket))
    finally:
        os.killpg(gateway.service.pid, signal.SIGCONT)
    assert slow.value.reason == "StoreSlow"
    taken(store_of(tmp_path, bucket))


def test_a_server_without_room_is_full_and_what_goes_makes_room(
    start_gateway: Callable[..., Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = start_gateway(megabytes=8)
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    bucket = gateway.bucket("full")
    big = snapshot_of(blocks=10_000)
    taken(store_of(tmp_path, bucket, "old"), big)
    with pytest.raises(StoreTrouble) as full:
        taken(store_of(tmp_path, bucket, "new"), big)
    assert full.value.reason == "StoreFull", full.value.summary
    assert names(bucket) == ["etcd/prod/old.db", "etcd/prod/old.db.json"]
    taken(store_of(tmp_path, bucket, "new", forget=["prod/old.db"]), big)
    assert names(bucket) == ["etcd/prod/new.db", "etcd/prod/new.db.json"]


# What is wrong: fields of the destination or content of Secrets, and the kind of failure.
WRONG: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "no such bucket": ({"bucket": "no-such-bucket"}, {}, "BucketNotFound"),
    "an unknown key": ({}, {"accessKeyId": "nobody"}, "WrongCredentials"),
    "another secret": ({}, {"secretAccessKey": "wrong"}, "WrongCredentials"),
    "nobody listens": ({"endpoint": "http://127.0.0.1:9"}, {}, "EndpointDown"),
    "no such host": ({"endpoint": "http://no-such-host.invalid"}, {}, "EndpointDown"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_by_its_kind_and_nothing_is_there(
    case: str, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "ATTEMPTS", 1)
    change, keys, reason = WRONG[case]
    name = f"wrong-{list(WRONG).index(case)}"
    right = gateway.bucket(name)
    secrets = secrets_in(tmp_path / "secrets")
    for key, value in keys.items():
        (secrets / "credentials" / key).write_text(value, encoding="utf-8")
    bucket = Bucket.open(right.where.model_copy(update=change), secrets)
    with pytest.raises(StoreTrouble) as caught:
        taken(store_of(tmp_path / "a", bucket))
    assert caught.value.reason == reason, caught.value.summary
    assert names(right) == []


def test_a_server_says_which_region_is_right(gateway: Gateway, tmp_path: Path) -> None:
    right = gateway.bucket("region")
    other = Bucket.open(right.where.model_copy(update={"region": "eu-west-9"}), gateway.secrets)
    taken(store_of(tmp_path, other))
    assert len(names(right)) == 2


def test_a_server_with_a_certificate_is_trusted_by_its_authority_alone(
    start_gateway: Callable[..., Gateway], tmp_path: Path
) -> None:
    gateway = start_gateway(tls=True)
    bucket = gateway.bucket("tls")
    taken(store_of(tmp_path, bucket))
    stranger = Bucket.open(bucket.where.model_copy(update={"ca_secret_ref": None}), gateway.secrets)
    with pytest.raises(StoreTrouble) as caught:
        taken(store_of(tmp_path, stranger, "b"))
    assert caught.value.reason == "CertificateRefused"


def test_deleted_backups_are_gone_with_all_of_their_versions(gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket("versions")
    bucket.client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for _ in range(2):
        taken(store_of(tmp_path, bucket, "old"))
    facts = taken(store_of(tmp_path, bucket, "new", forget=["prod/old.db"], expected=["prod/gone.db"]))
    found = bucket.client.list_object_versions(Bucket="versions")
    every = [one["Key"] for kind in ("Versions", "DeleteMarkers") for one in found.get(kind) or ()]
    assert {key for key in every if "old" in key} == set()
    assert facts["absent"] == ["prod/gone.db"]
    assert "locked" not in facts


def test_what_is_locked_stays_with_its_time_and_goes_afterwards(gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket("locked", locks=True)
    taken(store_of(tmp_path, bucket, "old"))
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    version = bucket.client.head_object(Bucket="locked", Key="etcd/prod/old.db")["VersionId"]
    lock = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    bucket.client.put_object_retention(Bucket="locked", Key="etcd/prod/old.db", VersionId=version, Retention=lock)
    facts = taken(store_of(tmp_path, bucket, "new", forget=["prod/old.db"]))
    assert facts["locked"] == {"prod/old.db": stamp(until)}
    assert parse_time(facts["locked"]["prod/old.db"]) == until
    assert "etcd/prod/old.db" in names(bucket)
    assert "etcd/prod/old.db.json" not in names(bucket), "it does not count any more"
    assert bucket.exists("prod/new.db")
    bucket.client.delete_object(
        Bucket="locked", Key="etcd/prod/old.db", VersionId=version, BypassGovernanceRetention=True
    )


def test_an_encrypted_snapshot_is_of_no_use_without_its_key(gateway: Gateway, tmp_path: Path) -> None:
    secrets = secrets_in(tmp_path / "secrets", encryption_key=b"k" * 32)
    gateway.bucket("sealed")
    where = gateway.destination("sealed", encryptionKeyRef={"name": "k", "key": "key"})
    bucket = Bucket.open(where, secrets)
    content = snapshot_of(b"a secret of the cluster", blocks=3000)
    taken(store_of(tmp_path / "a", bucket), content)
    stored = bucket.client.get_object(Bucket="sealed", Key="etcd/prod/a.db")["Body"].read()
    assert b"a secret" not in stored
    restored = store_of(tmp_path / "b", bucket)
    restored.begin("recover")
    assert restored.path.read_bytes() == content
    (secrets / "encryption.key").write_bytes(b"o" * 32)
    with pytest.raises(BadInput, match="another key"):
        store_of(tmp_path / "c", bucket).begin("recover")


def test_a_damaged_object_is_not_restored(gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket("damaged")
    taken(store_of(tmp_path / "a", bucket))
    bucket.client.put_object(Bucket="damaged", Key="etcd/prod/a.db", Body=snapshot_of(b"other"))
    with pytest.raises(BadInput, match="is damaged"):
        store_of(tmp_path / "b", bucket).begin("recover")
