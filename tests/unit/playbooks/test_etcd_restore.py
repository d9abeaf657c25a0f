"""A snapshot is restored only by an etcd that reads it; a refusal stops nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, load, run_here

# By a machine's name: which etcd the snapshot is of, the etcd that is to read it, and how it is refused.
ROWS: dict[str, tuple[dict[str, str], str, str]] = {
    "same": ({"etcdVersion": "3.6.8"}, "3.6.8", ""),
    "earlier-patch": ({"etcdVersion": "3.6.8"}, "3.6.5", ""),
    "earlier": ({"etcdVersion": "3.6.8"}, "3.7.0", ""),
    "later": (
        {"etcdVersion": "3.7.0"},
        "3.6.8",
        "was taken of etcd 3.7.0, and cluster_etcd_version is 3.6.8, which",
    ),
    "later-of-two-digits": (
        {"etcdVersion": "3.10.0"},
        "3.9.1",
        "was taken of etcd 3.10.0, and cluster_etcd_version is",
    ),
    "nobody-knows": ({}, "3.6.8", ""),
    "without-a-snapshot": ({"etcdVersion": "3.7.0"}, "3.6.8", "there is no snapshot at cluster_etcd_snapshot_path"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what Ansible said of all rows."""
    place, hosts = tmp_path_factory.mktemp("restore"), dict[str, dict[str, Any]]()
    for name, (description, version, _) in ROWS.items():
        path = place / f"{name}.db"
        (place / f"{name}.db.json").write_text(json.dumps(description), encoding="utf-8")
        if name != "without-a-snapshot":
            path.write_bytes(b"a snapshot")
        hosts[name] = {"etcd_restore_path": str(path), "etcd_restore_version": version, "etcd_restore_members": []}
    refuse = {"ansible.builtin.include_role": {"name": "etcd_restore", "tasks_from": "refuse"}}
    return run_here(place, [{"tasks": [refuse]}], {}, **hosts)


@pytest.mark.parametrize("row", ROWS)
def test_what_cannot_be_restored_is_refused_with_the_remedy(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][2], "Nothing was changed")


def test_nothing_is_stopped_before_that() -> None:
    steps = [str(task) for task in load(PLAYBOOKS / "roles/etcd_restore/tasks/restore.yml")]
    assert "refuse.yml" in steps[0]
    assert [number for number, step in enumerate(steps) if "stop.yml" in step] == [1]
