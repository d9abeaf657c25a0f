"""A control plane is made anew only with all that it is made of; whatever lacks is named with the remedy."""

from __future__ import annotations

import hashlib
import json
import socket
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, SHOW_GROUPS, check_refusal, groups_of, load, run_here

FILES = (
    "ca.crt",
    "ca.key",
    "front-proxy-ca.crt",
    "front-proxy-ca.key",
    "sa.key",
    "sa.pub",
    "etcd/ca.crt",
    "etcd/ca.key",
)
OWN, FOREIGN = (f"-----BEGIN CERTIFICATE-----\n{letter * 64}\n-----END CERTIFICATE-----\n" for letter in "AB")
SNAPSHOT, TAKEN = b"a snapshot", "2026-11-22T03:00:00Z"
DIGEST = hashlib.sha1(SNAPSHOT).hexdigest()  # noqa: S324 - as Ansible's module stat has it
# By a machine's name: what it has, what its run is given, and how it is refused.
ROWS: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "bare": ({}, {}, ""),
    "limited-to-all": ({}, {"rebuild_check_machines": ["bare", "limited-to-all"]}, ""),
    "limited": ({}, {"rebuild_check_machines": ["limited", "cp-9"]}, "this run leaves out cp-9, which may have what"),
    "worker": ({"ca.crt": OWN}, {}, ""),
    "worker-of-a-chain": ({"ca.crt": OWN + FOREIGN}, {}, ""),
    "worker-of-another": ({"ca.crt": FOREIGN}, {}, "has another CA than cluster_authority_path"),
    "another-at-work": ({"ca.crt": FOREIGN}, {"rebuild_check_authority_wanted": False}, ""),
    "no-folder": ({}, {"rebuild_check_authority_path": ""}, "in cluster_authority_path (not set): put the CAs and"),
    "key-missing": ({}, {"rebuild_check_authority_path": "{{ place }}/half"}, "sa.key, sa.pub, etcd/ca.crt, etcd/ca"),
    "no-snapshot": ({}, {"rebuild_check_snapshot_path": ""}, "no snapshot at cluster_etcd_snapshot_path (not set)"),
    "snapshot-gone": ({}, {"rebuild_check_snapshot_path": "{{ place }}/none"}, "set it to a file from backup.yml"),
    "etcd-left": ({}, {"rebuild_check_snapshot_path": "", "rebuild_check_left": ["e-0"]}, ""),
    "later-etcd": ({}, {"rebuild_check_etcd_version": "3.5.21"}, "was taken of etcd 3.6.8, and cluster_etcd_version"),
    "another-key": (
        {},
        {"rebuild_check_snapshot_path": "{{ place }}/encrypted.db", "rebuild_check_encryption": "key-1"},
        "are encrypted with key-0, and cluster_encryption_key is key-1: set it to the key that the cluster had when",
    ),
    "key-not-set": (
        {},
        {"rebuild_check_snapshot_path": "{{ place }}/encrypted.db"},
        "are encrypted with key-0, and cluster_encryption_key is not set",
    ),
    "same-key": (
        {},
        {"rebuild_check_snapshot_path": "{{ place }}/encrypted.db", "rebuild_check_encryption": "key-0"},
        "",
    ),
    "another-key-since": (
        {},
        {
            "rebuild_check_snapshot_path": "{{ place }}/encrypted.db",
            "rebuild_check_encryption": "key-1",
            "rebuild_check_same": ["cp-0"],
        },
        "",
    ),
    "restored-before": ({"restored": DIGEST}, {}, ""),
    "restored-another": ({"restored": "0000"}, {"rebuild_check_other": ["cp-0"]}, ""),
    "runs-with-another": (
        {},
        {"rebuild_check_other": ["cp-0"], "rebuild_check_left": ["cp-0"]},
        "etcd runs with it: what was written since would be lost. Nothing was changed: name the former snapshot, or, "
        f"to confirm that, set cluster_etcd_restore_confirmation to {TAKEN}, the time of the snapshot at",
    ),
    "runs-with-another-than-none": (
        {},
        {"rebuild_check_other": ["cp-0"], "rebuild_check_left": ["cp-0"], "rebuild_check_snapshot_path": ""},
        "set cluster_etcd_snapshot_path to a file from backup.yml that has its description (.json) beside it",
    ),
    "runs-with-another-confirmed": (
        {},
        {"rebuild_check_other": ["cp-0"], "rebuild_check_left": ["cp-0"], "rebuild_check_confirmation": TAKEN},
        "",
    ),
    "restored-elsewhere": (
        {},
        {"rebuild_check_same": ["cp-1"]},
        "for cp-1 to begin the control plane, and now cp-0 is first: list cp-1 before it in the group control_plane",
    ),
    "joining": ({"joining": ""}, {}, ""),
    "half-joined": (
        {},
        {"rebuild_check_half": ["cp-1"]},
        "cp-1 has joined the lost cluster half, and nothing that it joined is left: reset it first. Nothing was",
    ),
    "half-joined-by-this-run": ({}, {"rebuild_check_half": ["cp-1"], "rebuild_check_same": ["cp-0"]}, ""),
    "half-joined-with-another": (
        {},
        {"rebuild_check_other": ["cp-0"], "rebuild_check_left": ["cp-0"], "rebuild_check_half": ["cp-1"],
         "rebuild_check_confirmation": TAKEN},
        "has restored another snapshot, and cp-1 joined since: name the former snapshot, or reset these machines first",
    ),
    "former-known-to-a-worker": (
        {"haproxy.cfg": "  server cp-9 127.0.0.1:6443\n  server cp-8 [::1]:6443 check\n"},
        {},
        "former control planes are up: 127.0.0.1, ::1 answers former-known-to-a-worker, and this would be a second",
    ),
    "former-given": ({}, {"rebuild_check_former": ["127.0.0.1"]}, "shut them down, or add them to the inventory"),
    "former-down": ({}, {"rebuild_check_former": ["127.0.0.1"], "rebuild_check_ports": [1]}, ""),
    "former-of-the-inventory": (
        {"haproxy.cfg": "  server cp-9 127.0.0.1:6443\n"}, {"rebuild_check_own": ["127.0.0.1"]}, ""
    ),
    "joined-with-another": (
        {"restored": "0000"},
        {"rebuild_check_other": ["cp-0"], "rebuild_check_left": ["cp-0", "cp-1"]},
        "has restored another snapshot, and cp-1 joined since: name the former snapshot, or reset these machines first",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what Ansible said of all rows in one run."""
    place, hosts = tmp_path_factory.mktemp("rebuild"), dict[str, dict[str, Any]]()
    server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = server.getsockname()[1]
    for folder, names in (("whole", FILES), ("half", FILES[:4])):
        for name in names:
            path = place / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(OWN, encoding="utf-8")
    for name, key in (("snapshot", ""), ("encrypted", "key-0")):
        description = {"etcdVersion": "3.6.8", "taken": TAKEN, "encryption": key}
        (place / f"{name}.db").write_bytes(SNAPSHOT)
        (place / f"{name}.db.json").write_text(json.dumps(description), encoding="utf-8")
    for name, (files, given, _) in ROWS.items():
        (place / name).mkdir()
        for file, text in files.items():
            (place / name / file).write_text(text, encoding="utf-8")
        hosts[name] = given
    given = {
        "rebuild_check_certificates": "{{ place }}/{{ inventory_hostname }}",
        "rebuild_check_restored": "{{ place }}/{{ inventory_hostname }}/restored",
        "rebuild_check_began": "{{ place }}/{{ inventory_hostname }}/began",
        "rebuild_check_joining": "{{ place }}/{{ inventory_hostname }}/joining",
        "rebuild_check_endpoints": "{{ place }}/{{ inventory_hostname }}/haproxy.cfg",
        "rebuild_check_member": True,
        "rebuild_check_beginning": ["cp-0"],
        "rebuild_check_first": "cp-0",
        "rebuild_check_authority_files": [*FILES],
    }
    defaults = {
        "rebuild_check_left": [],
        "rebuild_check_half": [],
        "rebuild_check_own": [],
        "rebuild_check_ports": [port],
        "rebuild_check_same": [],
        "rebuild_check_other": [],
        "rebuild_check_authority_wanted": True,
        "rebuild_check_authority_path": "{{ place }}/whole",
        "rebuild_check_snapshot_path": "{{ place }}/snapshot.db",
        "rebuild_check_etcd_version": "3.6.8",
    }
    hosts = {name: {**defaults, **own} for name, own in hosts.items()}
    plays: list[dict[str, Any]] = [
        {"roles": ["rebuild_check"], "vars": given},
        {"tasks": [SHOW_GROUPS], "vars": given},
    ]
    with server:
        return run_here(place, plays, {}, **hosts)


@pytest.mark.parametrize("row", ROWS)
def test_what_lacks_is_named_with_the_remedy(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][2], "Nothing was changed")


def test_machines_are_told_apart_by_the_snapshot_that_they_have(said: str) -> None:
    groups = groups_of(said)
    assert groups["rebuild_etcd_half"] == ["joining"]
    assert groups["rebuild_restored_same"] == ["restored-before"]
    assert groups["rebuild_restored_other"] == ["restored-another", "joined-with-another"]


def test_no_machine_changes_before_all_is_there() -> None:
    plays = load(PLAYBOOKS / "rebuild.yml")
    check = next(number for number, play in enumerate(plays) if "rebuild_check" in str(play))
    before = [play.get("ansible.builtin.import_playbook") or play["roles"][0]["role"] for play in plays[:check]]
    assert before == ["preflight.yml", "etcd_inventory", "running-version.yml"]
