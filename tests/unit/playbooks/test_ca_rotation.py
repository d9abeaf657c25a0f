"""Each stage of a rotation of CAs has whom a machine trusts and what it signs with; what cannot go well is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, run_here

FORMER = {name: f"former {name}\n" for name in ("ca.crt", "front-proxy-ca.crt", "etcd/ca.crt", "sa.pub")}
NEW = {name: f"new {name}\n" for name in (*FORMER, "ca.key", "front-proxy-ca.key", "etcd/ca.key", "sa.key")}
KEY = "    client-key-data: c2VjcmV0\n"  # in kubeconfigs, beside whom they trust
MANIFEST = "    - --cluster-signing-cert-file=/pki/ca.crt\n    - --cluster-signing-key-file=/pki/ca.key\n"
# What machines are, whom of their cluster's CAs they trust, and which machines are members of etcd.
KINDS: dict[str, tuple[str, set[str], list[str]]] = {
    "cp": ("control plane", set(FORMER), ["{{ inventory_hostname }}"]),
    "cp-beside": ("control plane", set(FORMER), ["etcd-0"]),
    "cp-elsewhere": ("control plane", set(FORMER) - {"etcd/ca.crt"}, []),
    "worker": ("worker", {"ca.crt"}, ["etcd-0"]),
    "worker-elsewhere": ("worker", {"ca.crt"}, []),
    "worker-member": ("worker", {"ca.crt", "etcd/ca.crt"}, ["etcd-0", "{{ inventory_hostname }}"]),
    "etcd": ("", {"etcd/ca.crt"}, ["{{ inventory_hostname }}"]),
}
# By stage: the parts of each file that says whom to trust, what the controller manager signs with, and by which file.
STAGES = {
    "trust": ((FORMER, NEW), FORMER, "ca-signing.crt"),
    "sign": ((NEW, FORMER), NEW, "ca-signing.crt"),
    "only": ((NEW,), NEW, "ca.crt"),
}
FILES = [(kind, stage) for kind in KINDS for stage in STAGES]

READY = ["cp-0 v1.36.3 True", "w-0 v1.35.4 True", "w-1 v1.35.4 True"]
READY_WORKERS = ["w-0", "w-1"]
IMAGES = ["mirror:5000/kube-apiserver:v1.36.3", "mirror:5000/kube-scheduler:v1.36.3"]
# By a machine's name: what nodes run, what control planes run, and how it is refused.
NODES: dict[str, tuple[list[str], list[str], str]] = {
    "well": (READY, IMAGES, ""),
    "workers-behind": ([READY[0], "w-0 v1.33.9 True", "w-1 v1.33.9 True"], IMAGES, ""),
    "node-down": ([READY[0], "w-0 v1.35.4 Unknown", READY[2]], IMAGES, "the nodes w-0 are not Ready"),
    "one-worker-upgraded": ([READY[0], READY[1], "w-1 v1.36.3 True"], IMAGES, "an upgrade has not ended"),
    "one-image-upgraded": (READY, [IMAGES[0], "mirror:5000/kube-scheduler:v1.35.4"], "an upgrade has not ended"),
    "kubelet-behind": (["cp-0 v1.35.4 True", *READY[1:]], IMAGES, "control planes run v1.36.3 and v1.35.4"),
    "kubelet-asks": ([READY[0], "w-0 v1.35.4 Unknown", READY[2]], IMAGES, ""),
    "stranger-down": ([*READY, "w-9 v1.35.4 Unknown"], IMAGES, "the nodes w-9 are not Ready"),
    "other-version": (READY, [one.replace("1.36.3", "1.35.4") for one in IMAGES], "or request the running version"),
}
ENDED = {"name": "2025", "stage": "done"}
UNDER_WAY = {"name": "2026", "stage": "sign"}
NODES_STATES = dict.fromkeys(("kubelet-asks", "stranger-down"), UNDER_WAY)  # there is none for other rows
# By a machine's name: the state that it has, whether it is in the middle of a rotation, and the controller's then.
READS: dict[str, tuple[dict[str, Any] | None, bool, dict[str, Any]]] = {
    "has-a-state": (ENDED, False, ENDED),
    "has-none": (None, False, {}),
    "follows-a-lost-one": (None, True, UNDER_WAY),
}
# By a machine's name: which role looks at it before an entry writes anything, and how it is refused.
GOES_ON = "run rotate-ca.yml, which goes on where it was"
GUARDED = {
    "version_skew_target": "1.36.3",
    "version_skew_etcd": "3.6.8",
    "version_skew_container_runtime": "containerd://2.4.2",
    "version_skew_runtime_variable": "cluster_containerd_version",
    "version_skew_control_planes": [{"name": "cp-0", "address": "10.0.0.2"}],
    "running_version_wanted": "1.36.3",
    "running_version_container_runtime": "containerd/2.4.2",
}
GUARDS = {
    "skew-rotating": ("version_skew", GOES_ON),
    "skew-well": ("version_skew", "the API server of cp-0 does not respond"),
    "running-rotating": ("running_version", GOES_ON),
    "running-well": ("running_version", ""),
}
# A node has a kubelet's kubeconfig, which this host has not; what is not in /etc is in the machine's folder.
FIND = """case "$1" in
  /etc/kubernetes/kubelet.conf) echo "$1"; printf '%s\\n' "$@" | grep -v ^/etc/ | xargs ls -d; true ;;
  *) exec /usr/bin/find "$@" ;;
esac
"""
KUBECTL = """case "$*" in
  *--raw*) exit 1 ;;
  *nodes*) cat "$place/$machine.nodes" ;;
  *pods*) cat "$place/$machine.pods" ;;
esac
"""
ELSEWHERE = {"ca_rotation_certificates": "/nowhere"}
# By a machine's name: the name that is asked for, the state, its own variables, and how it is refused.
CHECKS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "nothing": ("", {}, {}, ""),
    "ended": ("2026", {"name": "2026", "stage": "done"}, {}, ""),
    "other-goes-on": ("2027", {"name": "2026", "stage": "sign"}, {}, "the rotation 2026 has not ended"),
    "no-name": ("of November", {}, {}, "set it to letters, digits, dots and hyphens"),
    "left-out": ("2026", {}, {"ca_rotation_machines": ["w-9"]}, "this run leaves out w-9"),
    "external-ca": (
        "2026",
        {},
        {"ca_rotation_external_ca": True},
        "with an external CA, replace it where its keys are",
    ),
    "without-keys": ("2026", {}, ELSEWHERE, "has not the keys of all CAs"),
    "member-down": (
        "2026",
        {},
        {"ca_rotation_etcd_members": ["member-down"]},
        "CAs are only replaced while every member",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all machines' files, and in `said` what Ansible said."""
    place = tmp_path_factory.mktemp("rotation")
    hosts: dict[str, dict[str, Any]] = {}
    for kind, stage in FILES:
        name = f"{kind}-{stage}"
        (place / name / "pki" / "etcd").mkdir(parents=True)
        (place / name / "manifests").mkdir()
        (place / name / "manifests" / "kube-controller-manager.yaml").write_text(MANIFEST, encoding="utf-8")
        (place / name / "kubelet.conf").write_text(f"    certificate-authority-data: b2xk\n{KEY}", encoding="utf-8")
        hosts[name] = own(place, name, "", {"name": "x", "stage": stage, "former": FORMER, "new": NEW})
        what, _, members = KINDS[kind]
        hosts[name] |= {"from": "files", "ca_rotation_control_plane": what == "control plane"}
        hosts[name] |= {"ca_rotation_workers": [name] if what == "worker" else [], "ca_rotation_etcd_members": members}
    for name, (seen, images, _) in NODES.items():
        (place / f"{name}.nodes").write_text("\n".join(seen), encoding="utf-8")
        (place / f"{name}.pods").write_text("\n".join(images), encoding="utf-8")
        hosts[name] = own(place, name, "", NODES_STATES.get(name, {}))
        hosts[name] |= {"from": "nodes", "ca_rotation_workers": READY_WORKERS}
        hosts[name] |= {"ca_rotation_machines": ["cp-0", *READY_WORKERS]}
    for name, (present, under_way, _) in READS.items():
        (place / name / "pki").mkdir(parents=True)
        (place / name / "ca-rotation").mkdir()
        if present is not None:
            (place / name / "ca-rotation" / "state.yml").write_text(json.dumps(present), encoding="utf-8")
        if under_way:
            (place / name / "pki" / "ca-signing.crt").touch()
        hosts[name] = own(place, name, "", UNDER_WAY) | {"from": "read"}
    for name, (asked, state, given, _) in CHECKS.items():
        (place / name / "pki" / "etcd").mkdir(parents=True)
        for file in ("ca.key", "front-proxy-ca.key", "sa.key", "etcd/ca.key"):
            (place / name / "pki" / file).write_text("", encoding="utf-8")
        hosts[name] = own(place, name, asked, state) | {"from": "main", "ca_rotation_first": False, **given}
    for name, (role, _) in GUARDS.items():
        (place / name).mkdir()
        if name.endswith("rotating"):
            (place / name / "ca-signing.crt").touch()
        hosts[name] = {"from": role, f"{role}_certificates": str(place / name), **GUARDED}
    paths = {"ca_rotation_kubernetes": "{{ place }}/{{ inventory_hostname }}"}
    steps = (("files", "trust"), ("nodes", "check"), ("read", "look"), ("main", "look"), ("main", "check"))
    plays = [
        {
            "hosts": ":".join(name for name, given in hosts.items() if given["from"] == file),
            "tasks": [
                {
                    "ansible.builtin.include_role": {"name": "ca_rotation", "tasks_from": file},
                    "vars": {**paths, "ca_rotation_step": step},  # over the role's own
                }
            ],
        }
        for file, step in steps
    ]
    plays += [
        {
            "hosts": ":".join(name for name, given in hosts.items() if given["from"] == role),
            "tasks": [{"ansible.builtin.include_role": {"name": role}}],
        }
        for role in ("running_version", "version_skew")  # Ansible ends once every machine of a play has failed
    ]
    said = run_here(place, plays, {"kubectl": KUBECTL, "find": FIND}, ["--diff"], **hosts)
    (place / "said").write_text(said, encoding="utf-8")
    return place


def own(place: Path, name: str, asked: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return a machine's variables; the controller has a state of its rotation."""
    (place / f"{name}.state").write_text(json.dumps(state), encoding="utf-8")
    return {
        "ca_rotation_name": asked,
        "ca_rotation_path": str(place / f"{name}.state"),
        "ca_rotation_machines": [name],
        "ca_rotation_first": True,
        "ca_rotation_control_plane": True,
        "ca_rotation_workers": [],
        "ca_rotation_etcd_members": [],
        "ca_rotation_etcd_external": False,
        "ca_rotation_address": "10.0.0.2",
        "ca_rotation_kubernetes_version": "1.36.3",
        "ca_rotation_certificates": str(place / name / "pki"),
        "ca_rotation_timeout_scale": 0.1,
    }


@pytest.mark.parametrize(("kind", "stage"), FILES)
def test_a_stage_has_whom_a_machine_trusts(kind: str, stage: str, place: Path) -> None:
    parts, signing, file = STAGES[stage]
    machine = place / f"{kind}-{stage}"
    trusted = {name for name in FORMER if (machine / "pki" / name).exists()}
    assert trusted == KINDS[kind][1], (place / "said").read_text(encoding="utf-8")
    for name in trusted:
        assert (machine / "pki" / name).read_text(encoding="utf-8") == "".join(part[name] for part in parts)
    bundle = base64.b64encode("".join(part["ca.crt"] for part in parts).encode()).decode()
    kubeconfig = (machine / "kubelet.conf").read_text(encoding="utf-8")
    assert kubeconfig == f"    certificate-authority-data: {bundle if KINDS[kind][0] else 'b2xk'}\n{KEY}"
    manifest = (machine / "manifests" / "kube-controller-manager.yaml").read_text(encoding="utf-8")
    if KINDS[kind][0] == "control plane":
        assert f"-cert-file={machine}/pki/{file}\n" in manifest
        assert (machine / "pki" / file).read_text(encoding="utf-8") == signing["ca.crt"]
    else:
        assert manifest == MANIFEST


def test_no_key_is_shown_with_what_differs(place: Path) -> None:
    said = (place / "said").read_text(encoding="utf-8")
    assert "ca-signing.crt" in said
    assert KEY.split()[-1] not in said


@pytest.mark.parametrize("row", [*NODES, *CHECKS, *GUARDS])
def test_what_cannot_go_well_is_refused_with_the_remedy(row: str, place: Path) -> None:
    said = (place / "said").read_text(encoding="utf-8")
    remedy = str({**NODES, **CHECKS, **GUARDS}[row][-1])
    check_refusal(said, row, remedy)


@pytest.mark.parametrize("row", READS)
def test_the_controller_has_a_copy_of_the_state_also_where_its_machine_is_lost(row: str, place: Path) -> None:
    copied = json.loads((place / f"{row}.state").read_text(encoding="utf-8"))
    assert copied == READS[row][-1], (place / "said").read_text(encoding="utf-8")


def test_every_step_is_in_an_entry_in_the_order_of_its_stages() -> None:
    plays = yaml.safe_load((PLAYBOOKS / "rotate-ca.yml").read_text(encoding="utf-8"))
    steps = [play["vars"]["ca_rotation_step"] for play in plays if "ca_rotation_step" in play.get("vars", {})]
    spec = yaml.safe_load((PLAYBOOKS / "roles/ca_rotation/meta/argument_specs.yml").read_text(encoding="utf-8"))
    choices = spec["argument_specs"]["main"]["options"]["ca_rotation_step"]["choices"]
    assert list(dict.fromkeys(["look", *steps])) == choices
