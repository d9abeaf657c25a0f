"""The module etcd_keys with a real etcd: what it proves is what was counted, and whatever differs is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.embedded.drill.conftest import OBJECTS, Json, Source, call

BLOCK = 512


@pytest.fixture(scope="module")
def taken(source: Source) -> tuple[Path, Json]:
    """Return a snapshot of 2000 objects and its description; 500 more were written after it, and one deleted."""
    made = source.backup()
    source.write({"/registry/pods/": 500}, "later")
    source.delete("/registry/secrets/ns/a-0")
    return made


def sealed(content: bytes) -> bytes:
    """Return a snapshot whose digest is right, whatever is in it."""
    data = content[:-32]
    return data + hashlib.sha256(data).digest()


def test_counts_are_those_at_the_revision_of_the_snapshot(source: Source, taken: tuple[Path, Json]) -> None:
    assert taken[1]["objects"] == sum(OBJECTS.values()) == 2000
    assert taken[1]["counts"] == OBJECTS


def test_a_snapshot_is_proven_by_an_etcd_that_begins_with_it(source: Source, taken: tuple[Path, Json]) -> None:
    found = source.prove(*taken)
    assert not found.get("failed"), found
    assert (found["objects"], found["counts"], found["changed"]) == (2000, OBJECTS, False)


def test_a_later_snapshot_has_what_was_written_since(source: Source, taken: tuple[Path, Json]) -> None:
    later = source.backup("later.db")
    assert later[1]["objects"] == 2499
    assert source.prove(*later)["counts"] == {**OBJECTS, "/registry/pods/": 1700, "/registry/secrets/": 499}
    found = source.prove(later[0], {**later[1], "counts": taken[1]["counts"]})
    assert "/registry/pods/: 1700 read, 1200 counted in the cluster" in found["msg"]


def test_a_snapshot_of_an_etcd_that_has_users_is_proven(source: Source) -> None:
    """The etcd that begins with it would ask the drill who it is."""
    with source.users():
        made = source.backup("users.db")
    found = source.prove(*made)
    assert (found.get("failed"), found.get("counts")) == (None, made[1]["counts"]), found


def test_what_a_drill_left_that_was_killed_is_removed(source: Source, taken: tuple[Path, Json]) -> None:
    left = source.folder / "drill/data/restored/member"
    left.mkdir(parents=True)
    assert not source.prove(*taken).get("failed"), "nothing of either is left"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"counts": {**OBJECTS, "/registry/pods/": 1201}}, "/registry/pods/: 1200 read, 1201 counted in the cluster"),
        ({"counts": {**OBJECTS, "/registry/jobs/": 3}}, "/registry/jobs/: 0 read, 3 counted in the cluster"),
        ({"objects": 1999}, "2000 keys were read, and 1999 counted in the cluster"),
        ({"hash": 1}, "and had 1 when it was taken"),
        ({"revision": 5}, "and had 5 when it was taken"),
        ({"counts": None}, "nothing says the snapshot's counts: it was taken by an earlier version"),
    ],
)
def test_what_was_counted_otherwise_is_not_proven(
    source: Source, taken: tuple[Path, Json], change: Json, words: str
) -> None:
    found = source.prove(taken[0], {**taken[1], **change})
    assert (found["failed"], found["blame"]) == (True, "user")
    assert words in found["msg"]


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "flipped and sealed", "zeros and sealed"])
def test_a_damaged_file_is_not_proven(source: Source, taken: tuple[Path, Json], damage: str) -> None:
    content = taken[0].read_bytes()
    middle = len(content) // 2 // BLOCK * BLOCK
    # Half of the file: one page of it may be free, and what is on a free page is nobody's.
    flipped = content[:middle] + bytes(byte ^ 0xFF for byte in content[middle:])
    damaged = {
        "flipped": flipped,
        "short": content[:-4096],
        "empty": b"",
        "flipped and sealed": sealed(flipped),
        "zeros and sealed": sealed(content[:middle] + bytes(len(content) - middle)),
    }[damage]
    target = source.folder / "damaged.db"
    target.write_bytes(damaged)
    found = source.prove(target, taken[1])
    assert (found["failed"], found["blame"]) == (True, "user"), found
    assert found["msg"].startswith("the snapshot is not proven: ")


def test_a_snapshot_that_lost_keys_before_it_was_written_is_not_proven(
    source: Source, taken: tuple[Path, Json]
) -> None:
    """Its file is whole, and has the digest and hash that were noted: only the cluster's own counts tell."""
    other, described = source.backup("other.db")
    found = source.prove(other, {**described, "counts": {**described["counts"], "/registry/secrets/": 500}})
    assert "/registry/secrets/: 499 read, 500 counted in the cluster" in found["msg"]


def test_what_cannot_be_asked_is_said(source: Source) -> None:
    found = call({"etcdctl": [*source.etcdctl()[:1], "--endpoints=http://127.0.0.1:1"], "revision": 2, "timeout": 2})
    assert found["msg"].startswith("keys could not be counted: at revision 2: etcdctl: ")
    found = call({"etcdctl": source.etcdctl(), "revision": 10**9})
    assert "future revision" in found["msg"]
