"""Snapshots of etcd in a claim's folder: only what is whole counts, and only what nobody wants is deleted."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput, InfraError
from harness.operator.execute.snapshots import MOST_NAMED, SnapshotStore, described, is_whole
from tests.unit.operator.execute.etcd_files import place, snapshot_of, write

TOLD = {"member": "cp-0", "etcdVersion": "3.6.11", "revision": 7, "hash": 5, "keys": 3}


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """Return the store of backup `a` in an empty claim."""
    return SnapshotStore(tmp_path, "prod", place())


def taken(store: SnapshotStore) -> dict[str, Any]:
    """Take the snapshot as the playbook does."""
    store.begin("backup")
    write(store.path, snapshot_of())
    described(store.path).write_text(json.dumps(TOLD), encoding="utf-8")
    return store.end({})


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (snapshot_of(), True),
        (snapshot_of(blocks=5000), True),
        (snapshot_of()[:-1], False),
        (snapshot_of()[:-512], False),
        (b"x" + snapshot_of()[1:], False),
        (b"", False),
    ],
)
def test_snapshot_is_whole_if_it_ends_with_the_digest_of_itself(tmp_path: Path, content: bytes, whole: bool) -> None:
    assert is_whole(write(tmp_path / "x.db", content)) is whole


def test_snapshot_is_described_once_it_was_read_back(store: SnapshotStore) -> None:
    facts = taken(store)
    assert {name: facts[name] for name in TOLD} == TOLD
    assert facts["sizeBytes"] == len(snapshot_of())
    said = json.loads(described(store.path).read_text(encoding="utf-8"))
    assert (said["cluster"], said["backup"], said["uid"], said["sha256"]) == ("prod", "a", "uid-a", facts["sha256"])
    assert stat.S_IMODE(described(store.path).stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.begin("recover")


@pytest.mark.parametrize("content", [None, snapshot_of()[:-32], b""])
def test_what_is_not_whole_is_not_described(store: SnapshotStore, content: bytes | None) -> None:
    store.begin("backup")
    if content is not None:
        write(store.path, content)
    with pytest.raises(InfraError, match=r"prod/a\.db in claim claim is not what etcd wrote"):
        store.end({})
    assert not described(store.path).exists()


def test_description_of_an_earlier_snapshot_does_not_outlive_the_beginning_of_a_new_one(store: SnapshotStore) -> None:
    taken(store)
    store.begin("backup")
    assert not described(store.path).exists()


def test_files_of_deleted_backups_and_halves_go_and_no_others(tmp_path: Path) -> None:
    gone, other, half = (write(tmp_path / "prod" / name, b"x") for name in ("gone.db", "other.db", "b.db.part"))
    cloned = write(tmp_path / "prod" / "a.db.cp-0.clone", b"x")
    elsewhere = write(tmp_path / "stage" / "gone.db.part", b"x")
    described(gone).write_text("{}", encoding="utf-8")
    SnapshotStore(tmp_path, "prod", place(forget=["prod/gone.db"])).begin("backup")
    assert [gone.exists(), described(gone).exists(), half.exists(), cloned.exists()] == [False, False, False, False]
    assert [other.exists(), elsewhere.exists()] == [True, True]


def test_a_clone_deletes_nothing_that_its_source_is_writing(tmp_path: Path) -> None:
    taken(SnapshotStore(tmp_path, "prod", place()))
    begun, half = write(tmp_path / "prod" / "b.db.part", b"x"), write(tmp_path / "copy" / "a.db.part", b"x")
    SnapshotStore(tmp_path, "copy", place()).begin("clone")
    assert [begun.exists(), half.exists()] == [True, False]


def test_files_that_are_expected_and_not_there_are_named_up_to_what_a_message_has_room_for(tmp_path: Path) -> None:
    there = write(tmp_path / "prod" / "b.db", b"x")
    absent = [f"prod/gone-{number}.db" for number in range(MOST_NAMED + 1)]
    found = taken(SnapshotStore(tmp_path, "prod", place(expected=["prod/b.db", *absent])))
    assert found["absent"] == absent[:MOST_NAMED]
    assert "absent" not in taken(SnapshotStore(tmp_path, "prod", place(expected=["prod/b.db"])))
    assert there.exists()
    assert "absent" not in described(tmp_path / "prod" / "a.db").read_text(encoding="utf-8")


def test_restoring_never_deletes_the_snapshot_that_is_restored(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, "prod", place(forget=["prod/a.db"]))
    taken(store)
    store.begin("recover")
    assert store.path.exists()


COUNTED = {**TOLD, "objects": 2, "counts": {"/registry/pods/": 1, "/registry/secrets/": 1}}


def test_counts_stay_beside_the_snapshot_and_their_sum_is_told(store: SnapshotStore) -> None:
    store.begin("backup")
    write(store.path, snapshot_of())
    described(store.path).write_text(json.dumps(COUNTED), encoding="utf-8")
    facts = store.end({})
    assert facts["objects"] == 2
    assert "counts" not in facts, "a container's last message has no room for them"
    assert json.loads(described(store.path).read_text(encoding="utf-8"))["counts"] == COUNTED["counts"]
    assert store.proven() == {"objects": 2, "revision": 7}


def test_a_drill_changes_nothing_where_snapshots_lie(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, "prod", place(forget=["prod/gone.db"]))
    taken(SnapshotStore(tmp_path, "prod", place()))
    gone, half = write(tmp_path / "prod" / "gone.db", b"x"), write(tmp_path / "prod" / "b.db.part", b"x")
    tmp_path.joinpath("prod").chmod(0o500)
    try:
        store.begin("drill")
    finally:
        tmp_path.joinpath("prod").chmod(0o700)
    assert [gone.exists(), half.exists(), store.path.exists()] == [True, True, True]


@pytest.mark.parametrize("content", [None, snapshot_of(b"another"), snapshot_of()[:-32]])
def test_a_drill_refuses_what_is_gone_or_damaged_and_says_how_to_go_on(
    store: SnapshotStore, content: bytes | None
) -> None:
    taken(store)
    store.path.unlink() if content is None else write(store.path, content)
    with pytest.raises(BadInput, match=r"there is no snapshot|is damaged") as refused:
        store.begin("drill")
    assert "the next verified backup is drilled at once" in refused.value.hint


def test_snapshot_that_is_gone_or_damaged_is_not_restored(store: SnapshotStore) -> None:
    with pytest.raises(BadInput, match=r"there is no snapshot prod/a\.db in claim claim"):
        store.begin("recover")
    taken(store)
    write(store.path, snapshot_of(b"another"))
    with pytest.raises(BadInput, match="is damaged") as refused:
        store.begin("recover")
    assert "an EtcdRestore of another EtcdBackup" in refused.value.hint


def test_claim_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write(tmp_path / "prod", b"a file where the folder should be")
    with pytest.raises(InfraError, match="PersistentVolumeClaim claim cannot be written: File exists"):
        SnapshotStore(tmp_path, "prod", place()).begin("backup")
