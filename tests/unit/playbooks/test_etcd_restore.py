"""A snapshot is restored only by an etcd that reads it; a refusal stops nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, load, run_here, tasks
from tests.unit.playbooks.test_templates import render

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
    "limited": ({"etcdVersion": "3.6.8"}, "3.6.8", "this run leaves out cp-9, which would go on with what etcd had"),
    "nobody-knows": ({}, "3.6.8", ""),
    "same-key": ({"encryption": "key-1"}, "3.6.8", ""),
    "encrypted-from-now-on": ({"encryption": ""}, "3.6.8", ""),
    "another-key": (
        {"encryption": "key-0"},
        "3.6.8",
        "are encrypted with key-0, and cluster_encryption_key is key-1: name a snapshot that was taken since",
    ),
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
        hosts[name]["etcd_restore_encryption"] = "key-1"
        hosts[name] |= {"etcd_restore_machines": ["same", name, *(["cp-9"] if name == "limited" else [])]}
    refuse = {"ansible.builtin.include_role": {"name": "etcd_restore", "tasks_from": "refuse"}}
    return run_here(place, [{"tasks": [refuse]}], {}, **hosts)


@pytest.mark.parametrize("row", ROWS)
def test_what_cannot_be_restored_is_refused_with_the_remedy(row: str, said: str) -> None:
    check_refusal(said, row, ROWS[row][2], "Nothing was changed")


def test_nothing_is_stopped_before_that() -> None:
    steps = [str(task) for task in load(PLAYBOOKS / "roles/etcd_restore/tasks/restore.yml")]
    assert "refuse.yml" in steps[0]
    assert "prepare.yml" in steps[1]
    assert [number for number, step in enumerate(steps) if "stop.yml" in step] == [2]
    seeded = [
        str(task.get("ansible.builtin.include_role")) for task in tasks(PLAYBOOKS / "roles/etcd_seed/tasks/seed.yml")
    ]
    assert [word for step in seeded for word in ("prepare", "stop", "swap", "start") if f"'{word}'" in step] == [
        "prepare",
        "stop",
        "swap",
        "start",
    ]


DENIED = "Error: etcdserver: permission denied"
DEADLINE = "Error: context deadline exceeded"
KEY = "/k8s/configmaps/kube-system/kubeadm-config"


def warning(text: str) -> str:
    """Return the line that etcdctl writes before its last one."""
    words = "rpc error: code = DeadlineExceeded desc = latest balancer error: connection error: desc = "
    return json.dumps({"level": "warn", "msg": "retrying of unary invoker failed", "error": f'{words}"{text}"'})


NOBODY = f"{warning('transport: Error while dialing: dial tcp 10.0.0.2:2379: connect: connection refused')}\n{DEADLINE}"
STRANGER = "remote error: tls: unknown certificate authority"
EXPIRED = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
# By a machine's name: how etcdctl ends and what it says when it asks members e-0 and e-1, and how that is refused.
ASKED: dict[str, tuple[tuple[int, str], tuple[int, str], str]] = {
    "quorum": ((0, KEY), (0, KEY), ""),
    "one-is-down": ((1, NOBODY), (0, KEY), ""),
    "one-refuses": ((1, DENIED), (0, KEY), ""),
    "all-are-down": ((1, NOBODY), (1, DEADLINE), ""),
    "no-leader": ((1, "Error: etcdserver: no leader"), (1, "Error: etcdserver: request timed out, possibly"), ""),
    "corrupt": ((1, "Error: etcdserver: corrupt cluster"), (1, NOBODY), ""),
    "empty": ((0, ""), (0, ""), ""),
    "no-user": ((1, DENIED), (1, DENIED), "e-0: etcdserver: permission denied, e-1: etcdserver: permission denied."),
    "strange": ((1, f"{warning(STRANGER)}\n{DEADLINE}"), (1, NOBODY), "e-0: tls: unknown certificate authority. Noth"),
    "expired": ((1, NOBODY), (1, f"{warning(EXPIRED)}\n{DEADLINE}"), "e-1: tls: failed to verify certificate: x509: c"),
    "no-file": ((128, "Error: open /a.crt: no such file or directory"), (128, DEADLINE), "e-0: open /a.crt: no such"),
    "busy": ((1, "Error: etcdserver: too many requests"), (1, NOBODY), "e-0: etcdserver: too many requests"),
    "no-program": ((0, KEY), (0, KEY), "was not told: e-0: "),
}
LOST = {"all-are-down", "no-leader", "corrupt", "empty"}
ETCDCTL = """echo "$@" >>"$place/$machine.calls"
case "$*" in *10.0.0.2:2379*) one=0 ;; *) one=1 ;; esac
. "$place/$machine.$one"
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder in which all rows asked, and what Ansible said of them."""
    place, hosts = tmp_path_factory.mktemp("ask"), dict[str, dict[str, Any]]()
    for name, (*answers, _) in ASKED.items():
        for number, (status, text) in enumerate(answers):
            end = f"cat >&{2 if status else 1} <<'END'\n{text}\nEND\nexit {status}\n"
            (place / f"{name}.{number}").write_text(end, encoding="utf-8")
        program = "/nowhere/etcdctl" if name == "no-program" else str(place / "etcdctl")
        hosts[name] = {"program": program, "etcd_restore_certificates": str(place / name)}
    (place / "no-user/etcd").mkdir(parents=True)
    (place / "no-user/etcd/healthcheck-client.crt").touch()
    (place / "no-user/apiserver-etcd-client.crt").touch()
    given = {
        "etcd_restore_program": "{{ program }}",
        "etcd_restore_members": [{"name": f"e-{number}", "address": f"10.0.0.{number + 2}"} for number in (0, 1)],
        "etcd_restore_prefix": "/k8s",
        "etcd_restore_patience": 1,
        "etcd_restore_version": "3.6.8",
        "etcd_restore_tools": {"changed": False},
    }
    ask = {"ansible.builtin.include_role": {"name": "etcd_restore", "tasks_from": "ask"}, "vars": given}
    show = {"ansible.builtin.debug": {"msg": "AGREED {{ inventory_hostname }} {{ etcd_restore_agreed }}"}}
    return place, run_here(place, [{"tasks": [ask, show]}], {"etcdctl": ETCDCTL}, **hosts)


@pytest.mark.parametrize("row", ASKED)
def test_only_a_missing_answer_is_a_lost_quorum(row: str, asked: tuple[Path, str]) -> None:
    *_, refusal = ASKED[row]
    check_refusal(asked[1], row, refusal, "Nothing was changed: mend what the error names")
    seen = re.search(rf"AGREED {row} (\w+)", asked[1])
    assert (seen is None) is bool(refusal)
    assert seen is None or seen.group(1) == str(row not in LOST)


def test_members_are_asked_with_the_right_to_read_everything_where_there_is_one(asked: tuple[Path, str]) -> None:
    place, _ = asked
    for row, name in (("no-user", "etcd/healthcheck-client"), ("quorum", "apiserver-etcd-client")):
        (call, *_) = (place / f"{row}.calls").read_text(encoding="utf-8").splitlines()
        assert f"--cert={place}/{row}/{name}.crt --key={place}/{row}/{name}.key" in call
        assert call.endswith(f" get --keys-only {KEY}")


@pytest.mark.parametrize(("given", "prefix"), [({}, "/registry"), ({"etcd-prefix": "/k8s"}, "/k8s")])
def test_keys_are_where_the_api_server_has_them(tmp_path: Path, given: dict[str, str], prefix: str) -> None:
    place = render("cp1-w1", tmp_path, frozenset({"chosen.json"}), cluster_apiserver_extra_args=given)
    found = json.loads((place / "chosen.json").read_text(encoding="utf-8"))["etcd_prefixes"]
    assert set(found.values()) == {prefix}


ETCDUTL = """for word; do case "$word" in --data-dir=*) made=${word#--data-dir=} ;; esac; done
mkdir -p "$made/member"
case "$machine" in full) echo "no space left on device" >&2; exit 1 ;; esac
cp "$3" "$made/member/db"
"""
# By a machine's name: files that it has with what is in them, and those that it has afterwards.
SWAPPED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "plain": (
        {"etcd/member/db": "old", "etcd.lost/member/db": "older"},
        {"etcd/member/db": "new", "etcd.lost/member/db": "old"},
    ),
    "disk": (
        {"etcd/member/db": "old", "etcd/lost+found/a": "a"},
        {"etcd/member/db": "new", "etcd/lost/member/db": "old", "etcd/lost+found/a": "a"},
    ),
    "link": (
        {"elsewhere/member/db": "old"},
        {"elsewhere/member/db": "new", "elsewhere/lost/member/db": "old"},
    ),
    "bare": ({}, {"etcd/member/db": "new"}),
    # killed before it was noted that the former data are kept, and afterwards
    "moved": ({"etcd.lost/member/db": "old"}, {"etcd/member/db": "new", "etcd.lost/member/db": "old"}),
    "noted": (
        {"etcd.lost/member/db": "old", "aside/kept": "", "etcd.restored/member/db": "a part"},
        {"etcd/member/db": "new", "etcd.lost/member/db": "old"},
    ),
    "swapped": (
        {"etcd/member/db": "another", "etcd.lost/member/db": "old", "aside/kept": ""},
        {"etcd/member/db": "new", "etcd.lost/member/db": "old"},
    ),
    "full": ({"etcd/member/db": "old"}, {"etcd/member/db": "old"}),
    "below": ({"etcd/member/db": "old"}, {"etcd/member/db": "old"}),
}


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder in which all rows have the snapshot's data, and what Ansible said of them."""
    place = tmp_path_factory.mktemp("swap")
    for name, (files, _) in SWAPPED.items():
        (place / name / "aside").mkdir(parents=True)
        for file, text in files.items():
            (place / name / file).parent.mkdir(parents=True, exist_ok=True)
            (place / name / file).write_text(text, encoding="utf-8")
    (place / "link/etcd").symlink_to("elsewhere")
    (place / "snapshot.db").write_text("new", encoding="utf-8")
    mounts = {
        "filesystems": [{"target": target} for target in ("/", f"{place}/disk/etcd", f"{place}/below/etcd/member")]
    }
    given = {
        "etcd_restore_folder": f"{place}/{{{{ inventory_hostname }}}}/etcd",
        "etcd_restore_aside": f"{place}/{{{{ inventory_hostname }}}}/aside",
        "etcd_restore_copy": f"{place}/{{{{ inventory_hostname }}}}/copy",
        "etcd_restore_etcdutl": f"{place}/etcdutl",
        "etcd_restore_path": f"{place}/snapshot.db",
        "etcd_restore_cluster": "here=https://10.0.0.2:2380",
        "etcd_restore_own_peer": "https://10.0.0.2:2380",
    }
    steps = [
        {"ansible.builtin.include_role": {"name": "etcd_restore", "tasks_from": step}, "vars": given}
        for step in ("prepare", "swap")
    ]
    programs = {"etcdutl": ETCDUTL, "findmnt": f"echo '{json.dumps(mounts)}'\n"}
    return place, run_here(place, [{"tasks": steps}], programs, **{name: {} for name in SWAPPED})


@pytest.mark.parametrize("row", SWAPPED)
def test_the_snapshot_takes_the_place_of_the_data_and_they_are_kept(row: str, swapped: tuple[Path, str]) -> None:
    place, said = swapped[0] / row, swapped[1]
    found = {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}
    found.pop("aside/kept", None)
    assert found == SWAPPED[row][1], said
    assert [*place.glob("*.restored"), *place.glob("*/restored"), *place.glob("copy")] == []
    assert (place / "etcd").stat().st_mode & 0o77 == 0 or row in ("full", "below")


def test_what_cannot_be_restored_is_said_before_anything_stops(swapped: tuple[Path, str]) -> None:
    place, said = swapped
    assert "cannot be restored on full: no space left on device. Nothing was changed: make room" in said
    check_refusal(said, "below", f"{place}/below/etcd/member is mounted", "Nothing was changed")
    check_refusal(said, "disk", "")
