"""Failures of object stores by their kind, keys of a destination, and how a bucket is used by a snapshot.

A real server is in tests/embedded/object_store.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boto3.exceptions import S3UploadFailedError
from botocore import exceptions
from botocore.exceptions import ClientError

from harness.errors import Blame, VmatrixError
from harness.operator.api.etcd import S3Destination
from harness.operator.execute.object_store import (
    FAILURES,
    UNKNOWN,
    Bucket,
    StoreDown,
    StoreMistake,
    StoreTrouble,
    connect,
    kind_of,
    metadata_of,
    telling,
)
from harness.operator.execute.snapshots import SnapshotStore
from harness.operator.execute.termination import PlayProgress, Termination, end_of
from tests.unit.operator.execute.etcd_files import place, snapshot_of, write

WHERE = S3Destination.model_validate(
    {"bucket": "backups", "prefix": "etcd", "endpoint": "https://s3.test:9000", "secretRef": {"name": "s3-keys"}}
)


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


def failed(error: Exception) -> StoreTrouble:
    with pytest.raises(StoreTrouble) as caught, telling(WHERE):
        raise error
    return caught.value


CODES = [(kind.reason, code) for kind in FAILURES for code in sorted(kind.codes)]


@pytest.mark.parametrize(("reason", "code"), CODES)
def test_a_code_has_one_kind_which_decides_who_acts_and_whether_it_is_repeated(reason: str, code: str) -> None:
    kind = kind_of(code)
    assert kind.reason == reason, "no code is of two kinds"
    error = failed(refused(code))
    assert (error.reason, error.blame) == (reason, kind.blame)
    assert isinstance(error, StoreMistake if kind.blame is Blame.USER else StoreDown)
    assert error.summary.startswith("https://s3.test:9000/backups/etcd: ")
    assert f"({code}: no)" in error.summary
    assert error.hint
    assert "{" not in error.summary + error.hint


def test_kinds_differ_and_each_names_somebody_who_can_act() -> None:
    assert len({kind.reason for kind in FAILURES}) == len(FAILURES)
    assert {kind.blame for kind in FAILURES} == {Blame.USER, Blame.INFRA}
    assert kind_of("NobodyKnows") is UNKNOWN
    assert failed(refused("NobodyKnows")).blame is Blame.INFRA


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="x"), "EndpointDown"),
        (exceptions.ConnectTimeoutError(endpoint_url="x"), "EndpointDown"),
        (exceptions.ConnectionClosedError(endpoint_url="x"), "EndpointDown"),
        (exceptions.ProxyConnectionError(proxy_url="x"), "EndpointDown"),
        (exceptions.ReadTimeoutError(endpoint_url="x"), "StoreSlow"),
        (exceptions.SSLError(endpoint_url="x", error="self-signed"), "CertificateRefused"),
        (exceptions.DataNotFoundError(data_path="x"), "StoreFailed"),
    ],
)
def test_errors_of_the_client_have_kinds_as_well(error: Exception, reason: str) -> None:
    assert failed(error).reason == reason


def test_a_code_that_nobody_knows_is_of_the_kind_of_its_status() -> None:
    answer = {"Error": {"Code": "Strange", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 507}}
    assert failed(ClientError(answer, "PutObject")).reason == "StoreFull"


def test_the_cause_of_a_failed_upload_is_its_kind() -> None:
    error = S3UploadFailedError("Failed to upload")
    error.__cause__ = refused("NoSuchBucket")
    assert failed(error).reason == "BucketNotFound"


def test_a_kind_reaches_the_end_of_the_operation_with_its_hint(tmp_path: Path) -> None:
    error = failed(refused("SlowDown"))
    end = end_of(error, PlayProgress(lambda _: None), tmp_path / "none", "", "log")
    assert (end.reason, end.blame, end.hint) == ("StoreSlow", "infra", error.hint)
    assert Termination.parse(end.to_text()) == end


def secrets(folder: Path, **keys: str) -> Path:
    """Write Secrets as the executor's pod has them."""
    for name, value in keys.items():
        write(folder / "credentials" / name, value.encode())
    return folder


@pytest.mark.parametrize("keys", [{}, {"accessKeyId": "a"}, {"accessKeyId": "a", "secretAccessKey": " \n"}])
def test_a_key_that_is_missing_is_named(keys: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(StoreMistake, match=r"Secret s3-keys has no (accessKeyId|secretAccessKey)") as caught:
        connect(WHERE, secrets(tmp_path, **keys))
    assert caught.value.reason == "WrongCredentials"


@pytest.mark.parametrize(
    ("prefix", "key"), [("", "guest/a.db"), ("etcd", "etcd/guest/a.db"), ("a/b", "a/b/guest/a.db")]
)
def test_objects_lie_below_the_prefix(prefix: str, key: str, tmp_path: Path) -> None:
    assert Bucket(WHERE.model_copy(update={"prefix": prefix}), tmp_path, None).key("guest/a.db") == key


@pytest.mark.parametrize(
    ("change", "url"),
    [
        ({}, "https://s3.test:9000/backups/etcd"),
        ({"prefix": ""}, "https://s3.test:9000/backups"),
        ({"endpoint": None}, "s3://backups/etcd"),
    ],
)
def test_no_two_places_have_the_same_url(change: dict[str, Any], url: str) -> None:
    assert WHERE.model_copy(update=change).url == url


def test_metadata_are_headers_whatever_an_authority_is_called() -> None:
    facts = {"sizeBytes": "7", "authority-Größe & Co": "ab", "member": "größe"}
    assert metadata_of(facts) == {"sizebytes": "7", "authority-gr-e-co": "ab", "member": "gr??e"}


class MemoryClient:
    """The objects of a bucket in memory; each request is written down. What is in `refuse` fails with that code."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.refuse: dict[str, str] = {}
        self.damage = False

    def _begin(self, verb: str, key: str) -> None:
        self.asked.append(f"{verb} {key}")
        if (code := self.refuse.get(verb)) is not None:
            raise refused(code)

    def upload_file(self, path: str, bucket: str, key: str, **_: Any) -> None:
        self._begin("upload", key)
        self.objects[key] = Path(path).read_bytes()[: -1 if self.damage else None]

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803 - the client's names
        self._begin("put", Key)
        self.objects[Key] = Body

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        self._begin("get", Key)
        return {"Body": Body(self._found(Key))}

    def head_object(self, *, Key: str, **_: Any) -> None:  # noqa: N803
        self._begin("head", Key)
        self._found(Key)

    def delete_object(self, *, Key: str, **_: Any) -> None:  # noqa: N803
        self._begin("delete", Key)
        self.objects.pop(Key, None)

    def get_paginator(self, name: str) -> MemoryClient:
        self.asked.append(name)
        return self

    def paginate(self, *, Prefix: str, **_: Any) -> list[dict[str, Any]]:  # noqa: N803
        return [{"Versions": [{"Key": key, "VersionId": "null"} for key in self.objects if key.startswith(Prefix)]}]

    def _found(self, key: str) -> bytes:
        if key not in self.objects:
            raise refused("NoSuchKey")
        return self.objects[key]


class Body(io.BytesIO):
    """The content of an object as the client gives it."""

    def iter_chunks(self, size: int) -> Iterator[bytes]:
        while chunk := self.read(size):
            yield chunk


def store_of(folder: Path, client: MemoryClient, **more: Any) -> SnapshotStore:
    about = place(claim=None, s3=WHERE.model_dump(), **more)
    return SnapshotStore(folder, "prod", about, Bucket(WHERE, folder, client))


def taken(store: SnapshotStore) -> dict[str, Any]:
    """Take the snapshot as the playbook does."""
    store.begin("backup")
    write(store.path, snapshot_of())
    return store.end({"kubernetesVersion": "1.36.3"})


SNAPSHOT, DESCRIPTION = "etcd/prod/a.db", "etcd/prod/a.db.json"


def test_a_snapshot_is_uploaded_read_back_and_described_in_this_order(tmp_path: Path) -> None:
    client = MemoryClient()
    facts = taken(store_of(tmp_path, client))
    assert facts["sizeBytes"] == len(snapshot_of())
    assert client.objects[SNAPSHOT] == snapshot_of()
    wanted = [f"upload {SNAPSHOT}", f"get {SNAPSHOT}", f"put {DESCRIPTION}"]
    assert [one for one in client.asked if one in wanted] == wanted
    assert b'"kubernetesVersion": "1.36.3"' in client.objects[DESCRIPTION]
    assert not (tmp_path / "prod" / "a.db").exists(), "the pod's folder has no room for two"
    restored = store_of(tmp_path / "other", client)
    restored.begin("recover")
    assert restored.path.read_bytes() == snapshot_of()


@pytest.mark.parametrize("verb", ["upload", "get", "put"])
def test_an_upload_that_ends_anywhere_before_its_description_does_not_count(verb: str, tmp_path: Path) -> None:
    client = MemoryClient()
    client.refuse = {verb: "SlowDown"}
    with pytest.raises(StoreDown):
        taken(store_of(tmp_path, client))
    assert DESCRIPTION not in client.objects
    client.refuse = {}
    with pytest.raises(VmatrixError, match=r"there is no snapshot prod/a\.db in bucket https"):
        store_of(tmp_path / "other", client).begin("recover")


def test_what_was_stored_otherwise_does_not_count(tmp_path: Path) -> None:
    client = MemoryClient()
    client.damage = True
    with pytest.raises(StoreDown, match=r"has 1567 bytes that are not the 1568 it was given"):
        taken(store_of(tmp_path, client))
    assert DESCRIPTION not in client.objects


def test_the_description_of_an_earlier_try_goes_before_the_next_begins(tmp_path: Path) -> None:
    client = MemoryClient()
    taken(store_of(tmp_path, client))
    store_of(tmp_path, client).begin("backup")
    assert DESCRIPTION not in client.objects


def test_objects_of_deleted_backups_go_and_those_that_are_expected_are_looked_for(tmp_path: Path) -> None:
    client = MemoryClient()
    client.objects = {f"etcd/prod/{name}": b"x" for name in ("old.db", "old.db.json", "b.db")}
    facts = taken(store_of(tmp_path, client, forget=["prod/old.db"], expected=["prod/b.db", "prod/c.db"]))
    assert sorted(client.objects) == [SNAPSHOT, DESCRIPTION, "etcd/prod/b.db"]
    assert facts["absent"] == ["prod/c.db"]


def test_a_damaged_snapshot_is_not_restored(tmp_path: Path) -> None:
    client = MemoryClient()
    taken(store_of(tmp_path, client))
    client.objects[SNAPSHOT] = snapshot_of(b"other")
    with pytest.raises(VmatrixError, match="is damaged"):
        store_of(tmp_path / "other", client).begin("recover")
