"""What is done on machines of etcd: a cluster begins only with all its members, and no snapshot stays there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, load, run_here

MEMBER = ["/var/lib/etcd/member", "/etc/etcd/began"]
# By a machine's name, in the order of their plays: what it has, whom a limit leaves out, and how it is refused. Nobody
# answers at that address, which is for documentation.
ROWS: dict[str, tuple[list[str], list[str], str]] = {
    "bare": ([], [], ""),
    "limited": (
        [],
        ["e-9"],
        "and e-9, which this run leaves out, cannot be asked: a second etcd might begin beside them. No etcd was begun",
    ),
    "member": (MEMBER, ["e-9"], ""),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what Ansible said of all rows."""
    hosts: dict[str, dict[str, Any]] = {
        name: {
            "etcd_look": {"stdout_lines": has},
            "etcd_address": "127.0.0.1",
            "etcd_members": [{"name": name, "address": "127.0.0.1"}]
            + [{"name": other, "address": "192.0.2.1"} for other in absent],
        }
        for name, (has, absent, _) in ROWS.items()
    }
    others = {"ansible.builtin.include_role": {"name": "etcd", "tasks_from": "others"}}
    return run_here(
        tmp_path_factory.mktemp("others"), [{"hosts": name, "tasks": [others]} for name in ROWS], {}, **hosts
    )


@pytest.mark.parametrize("row", ROWS)
def test_a_cluster_begins_only_with_all_its_members(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][2], "include all machines of the group etcd in --limit, or start the others")


def test_no_snapshot_stays_on_the_machine_where_it_cannot_be_verified(tmp_path: Path) -> None:
    programs = {
        "etcdctl": 'for last; do :; done; echo all >"$last"; ls -l "$last" >"$place/saved"\n',
        "etcdutl": 'echo "snapshot file integrity check failed" >&2; exit 1\n',
    }
    given = {
        "etcd_backup_folder": str(tmp_path / "copy"),
        "etcd_backup_program": str(tmp_path / "etcdctl"),
        "etcd_backup_etcdutl": str(tmp_path / "etcdutl"),
        "etcd_backup_path": str(tmp_path / "snapshot.db"),
    }
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/snapshot.db.part").touch()
    save = {"ansible.builtin.include_role": {"name": "etcd_backup", "tasks_from": "save"}, "vars": given}
    said = run_here(tmp_path, [{"tasks": [save]}], programs, ("-M", str(PLAYBOOKS / "library")), here={})
    assert "integrity check failed" in said
    assert (tmp_path / "saved").exists(), said
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "snapshot.db").exists()


@pytest.mark.parametrize("role", ["etcd_backup", "etcd_restore"])
def test_a_snapshot_lies_on_a_disk_where_a_reset_removes_it(role: str) -> None:
    given = load(PLAYBOOKS / f"roles/{role}/vars/main.yml")
    place = given.get("etcd_backup_folder") or given["etcd_restore_copy"]
    assert place in load(PLAYBOOKS / "roles/reset/defaults/main.yml")["reset_paths"]
    assert place.startswith("/var/lib/")
