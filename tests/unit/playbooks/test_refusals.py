"""Whole entries given bad input: each mistake is named with its remedy, and no machine is spoken to."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import ansible_programs
from tests.unit.playbooks.mirror import serving
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, run_here
from tests.unit.playbooks.test_templates import ANSIBLE, HERE

REFUSED = 2  # ansible-playbook's exit status when a host has failed
ENTRIES = ("cluster", "scale", "upgrade", "reconfigure")
Json = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """How a run of an entry ended, what it said, and with whom it tried to speak."""

    status: int
    said: str
    spoken_to: str


@pytest.fixture(scope="module")
def mirror() -> Iterator[str]:
    """Serve the letter x wherever a mirror has something, but no kubelet at all."""
    with serving(lambda path: "/kubelet/" not in path, b"x") as address:
        yield address


def attempt(directory: Path, entry: str, groups: dict[str, list[str]], **variables: Any) -> Attempt:
    """Run an entry for machines that nobody can reach: whatever is said to one of them is written down."""
    spoken = directory / "spoken"
    ssh = directory / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{spoken}\nexit 255\n', encoding="utf-8")
    ssh.chmod(0o755)
    children = {name: {"hosts": dict.fromkeys(names)} for name, names in groups.items()}
    hosts, extra = directory / "hosts.yml", directory / "extra-vars.yml"
    hosts.write_text(yaml.safe_dump({"all": {"children": children}}), encoding="utf-8")
    given = {**load(HERE / "variables.yml"), "cluster_kubeconfig_path": str(directory / "kubeconfig"), **variables}
    extra.write_text(yaml.safe_dump(given), encoding="utf-8")
    done = ansible_programs.run(
        [ANSIBLE, "-i", hosts, "-e", f"@{extra}", PLAYBOOKS / f"{entry}.yml"],
        timeout=180,
        check=False,
        env={
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
            "ANSIBLE_HOME": str(directory),
            "ANSIBLE_SSH_EXECUTABLE": str(ssh),
            "ANSIBLE_SSH_RETRIES": "0",
            "ANSIBLE_SSH_TRANSFER_METHOD": "piped",
            "ANSIBLE_NOCOLOR": "1",
        },
    )
    text = spoken.read_text(encoding="utf-8") if spoken.exists() else ""
    return Attempt(done.returncode, done.stdout, text)


STACKED = {"control_plane": ["cp"], "etcd": ["cp"], "node": ["w"]}


def served(mirror: str) -> Json:
    """Return the variables by which everything comes from the mirror."""
    return {"cluster_mirror_url": f"http://{mirror}", "cluster_image_registry": mirror}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_mistake_is_said_at_once_before_any_machine_is_touched(tmp_path: Path, entry: str) -> None:
    ended = attempt(
        tmp_path,
        entry,
        {"control_plane": ["cp", "cp-1"], "etcd": ["cp", "cp-1"], "worker": ["w"]},
        cluster_kubernetes_version="1.33.1",
        cluster_pod_cidr="10.0.0.0/16",
        cluster_service_cidr="10.0.128.0/20",
        cluster_metrics_server_version="v0.9.0",
        cluster_timeout_scale=0,
        cluster_kubeadm_patches={"kubelet0.json": {"a": 1}},
    )
    assert ended.status == REFUSED
    assert ended.spoken_to == ""
    assert "nothing was changed" in ended.said
    for mistake in (
        "machine w is in none of the groups control_plane, etcd, node (the inventory also has worker): add it to one",
        "use one or three control planes, or three separate machines for etcd",
        "cluster_kubernetes_version 1.33.1 is unknown: choose one of 1.34.x, 1.35.x, 1.36.x",
        "cluster_pod_cidr 10.0.0.0/16 contains 10.0.0.2, the address of machine cp",
        "choose a network without machines",
        "cluster_pod_cidr 10.0.0.0/16 overlaps cluster_service_cidr 10.0.128.0/20: choose separate networks",
        "cluster_timeout_scale is 0: set it to a number above 0",
        "cluster_kubeadm_patches: kubelet0.json names no patch of kubeadm's: use a name such as kube-apiserver1+",
        "cluster_metrics_server_version 'v0.9.0' is not a version such as 1.36.3",
    ):
        assert mistake in ended.said


def test_ipv6_that_a_cluster_cannot_have_is_said_before_any_machine_is_touched(tmp_path: Path) -> None:
    ended = attempt(
        tmp_path,
        "cluster",
        STACKED,
        cluster_ipv6_pod_cidr="fd10:243::/70",
    )
    assert (ended.status, ended.spoken_to) == (REFUSED, "")
    for mistake in (
        "cluster_ipv6_pod_cidr is set and cluster_ipv6_service_cidr is not: set both, or none",
        "cluster_ipv6_pod_cidr fd10:243::/70 has no /64 for each of",
        "machine cp needs an ipv6_address, and has none: add it, or leave cluster_ipv6_pod_cidr and",
    ):
        assert mistake in ended.said


def test_what_the_mirror_lacks_or_serves_wrongly_is_said_before_any_machine_is_touched(
    tmp_path: Path, mirror: str
) -> None:
    ended = attempt(tmp_path, "cluster", STACKED, **served(mirror), cluster_checksums={"runc/1.5.2": "0" * 64})
    assert ended.status == REFUSED
    assert ended.spoken_to == ""
    assert f"http://{mirror}/bin/kubelet/1.36.3/kubelet: 404" in ended.said
    assert f"but cluster_checksums has {'0' * 64}" in ended.said
    assert "Add it to the mirror, or request a version that it has" in ended.said


def test_a_request_without_a_mistake_is_carried_out(tmp_path: Path, mirror: str) -> None:
    elsewhere = {"kubelet": {"url": f"http://{mirror}/bin/elsewhere"}}
    places = {
        "mirror": {
            **load(PLAYBOOKS / "group_vars" / "all" / "main.yml")["cluster_release_places"]["mirror"],
            **elsewhere,
        }
    }
    ended = attempt(tmp_path, "cluster", STACKED, **served(mirror), cluster_release_places=places)
    assert "nothing was changed" not in ended.said
    assert "UNREACHABLE" in ended.said
    assert "cp" in ended.spoken_to


# Entries that an etcd without a cluster has, and what is given besides.
OF_ETCD: dict[str, Json] = {
    "etcd": {},
    "upgrade-etcd": {},
    "etcd-users": {"cluster_etcd_users": [{"name": "a", "prefix": "/registry/a"}]},
    "reconfigure": {},
    "certificates": {},
    "defragment-etcd": {},
    "backup": {"cluster_etcd_snapshot_path": "/nowhere/snapshot.db"},
    "recover": {},
    "remove-node": {"cluster_remove_nodes": ["etcd-2"]},
    "reset": {},
}


@pytest.mark.parametrize("entry", OF_ETCD)
def test_an_inventory_of_etcd_alone_is_taken_by_every_entry_that_etcd_has(
    tmp_path: Path, mirror: str, entry: str
) -> None:
    members = {"etcd": ["etcd-0", "etcd-1", "etcd-2"]}
    ended = attempt(tmp_path, entry, members, **served(mirror), **OF_ETCD[entry])
    assert "etcd-0" in ended.spoken_to, ended.said
    assert [word for word in ("undefined", "has no attribute", "nothing was changed") if word in ended.said] == []


def test_a_crio_that_does_not_go_with_kubernetes_or_comes_from_elsewhere_is_refused(
    tmp_path: Path, mirror: str
) -> None:
    ended = attempt(
        tmp_path,
        "cluster",
        STACKED,
        **served(mirror),
        cluster_container_runtime="crio",
        cluster_artifact_source="upstream",
        cluster_containerd_systemd_cgroup=True,
    )
    assert ended.status == REFUSED
    assert "cluster_crio_version 1.34.0 does not go with cluster_kubernetes_version 1.36.3: set it" in ended.said
    assert "set the latter to mirror" in ended.said
    assert "disagree" not in ended.said
    assert ended.spoken_to == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_an_external_ca_without_openssl_is_refused_before_any_machine_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    older = tmp_path / "openssl"
    older.write_text("#!/bin/sh\necho 'list: Unknown option: -providers' >&2\nexit 1\n", encoding="utf-8")
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    ended = attempt(tmp_path, "preflight", STACKED, cluster_external_ca=wanted)
    said = "cluster_external_ca: this controller has no openssl of version 3.0 or later"
    assert (said in ended.said) is wanted, ended.said
    assert ended.spoken_to == ""


def test_no_key_is_shown_however_much_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_VERBOSITY", "4")
    key = base64.b64encode(b"k" * 32).decode()
    ended = attempt(tmp_path, "preflight", STACKED, cluster_encryption_key=key, cluster_timeout_scale=0)
    assert "cluster_timeout_scale is 0" in ended.said
    assert key not in ended.said


@pytest.mark.parametrize(
    ("runtime", "systemd", "driver", "differ"),
    [
        ("containerd", True, "none", True),
        ("containerd", False, "none", True),
        ("containerd", False, "cgroupfs", False),
        ("crio", False, "systemd", True),
    ],
)
def test_cgroup_drivers_of_the_runtime_and_of_kubelets_that_differ_are_refused(
    tmp_path: Path, mirror: str, runtime: str, systemd: bool, driver: str, differ: bool
) -> None:
    settings = {"cluster_container_runtime": runtime, f"cluster_{runtime}_systemd_cgroup": systemd}
    kubelet = {"cgroupDriver": driver}
    ended = attempt(tmp_path, "preflight", STACKED, **served(mirror), **settings, cluster_kubelet_config=kubelet)
    mistake = f"cluster_{runtime}_systemd_cgroup and cgroupDriver of cluster_kubelet_config disagree"
    assert (mistake in ended.said) is differ
    assert ended.spoken_to == ""


def test_a_refusal_names_the_control_plane_that_refuses_and_no_other(tmp_path: Path) -> None:
    """A play that ends with its first failure takes every machine through `rescue`."""
    (tmp_path / "file").touch()
    folders = {"cp-0": tmp_path / "folder", "cp-1": tmp_path / "file/folder"}
    attempts = {"ansible.builtin.include_role": {"name": "control_plane", "tasks_from": "try"}}
    plays: list[dict[str, Any]] = [
        {"any_errors_fatal": True, "tasks": [attempts]},
        {"tasks": [{"ansible.builtin.debug": {"msg": "went on"}}]},
    ]
    hosts = {name: {"control_plane_dry_run_folder": str(path)} for name, path in folders.items()}
    output = " ".join(run_here(tmp_path, plays, {}, **hosts).split())
    assert "these settings do not work on cp-1, and nothing was changed: " in output
    assert "do not work on cp-0" not in output
    assert "went on" not in output
    assert not folders["cp-0"].exists()
