"""The files that Ansible is given: keys that ssh takes, the way to each machine, paths of what playbooks keep."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.operator.execute.folder import OperationFolder
from harness.operator.execute.workplace import Workplace
from tests.unit.operator.execute.operations import execution, host, write_folder

MIXED = execution(hosts=(host("cp-0", "10.9.9.2"), host("w-0", "10.9.9.3", "node", through="vm-w-0")))


def test_a_key_is_copied_for_nobody_elses_eyes(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", execution()))
    given = Workplace(tmp_path / "work").prepare(folder, None)
    hosts = yaml.safe_load(given.hosts.read_text(encoding="utf-8"))["all"]["hosts"]
    key = Path(hosts["cp-0"]["ansible_ssh_private_key_file"])
    assert key.read_text(encoding="utf-8") == "key of cp-0\n"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "StrictHostKeyChecking=no" in hosts["cp-0"]["ansible_ssh_common_args"]
    assert "ProxyCommand" not in hosts["cp-0"]["ansible_ssh_common_args"]
    assert given.tunnels is None
    assert given.machines == {("10.9.9.2", 22): "cp-0", ("10.9.9.3", 22): "w-0"}


def test_only_machines_that_need_it_are_reached_through_the_api(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", MIXED))
    given = Workplace(tmp_path / "work").prepare(folder, tmp_path / "kubeconfig")
    hosts = yaml.safe_load(given.hosts.read_text(encoding="utf-8"))["all"]["hosts"]
    assert "ProxyCommand" not in hosts["cp-0"]["ansible_ssh_common_args"]
    assert "ProxyCommand" in hosts["w-0"]["ansible_ssh_common_args"]
    assert given.tunnels is not None
    way = json.loads(given.tunnels.read_text(encoding="utf-8"))
    assert (way["namespace"], way["instances"]) == ("clusters", {"10.9.9.3": "vm-w-0"})
    assert way["kubeconfig"] == str(tmp_path / "kubeconfig")


def test_without_a_way_to_a_machine_nothing_begins(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", MIXED))
    with pytest.raises(BadInput, match="w-0: reached through the infra cluster's API, and no kubeconfig"):
        Workplace(tmp_path / "work").prepare(folder, None)


def test_a_missing_key_is_named_with_its_machine(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "in", execution())
    (path / "keys" / "w-0-ssh" / "ssh-privatekey").unlink()
    with pytest.raises(BadInput, match="the SSH key of w-0 cannot be read"):
        Workplace(tmp_path / "work").prepare(OperationFolder.load(path), None)


def test_what_playbooks_keep_lies_where_the_executor_looks_for_it(tmp_path: Path) -> None:
    wanted = execution(variables={"cluster_kubeconfig_path": "/elsewhere", "cluster_pod_cidr": "10.0.0.0/16"})
    place = Workplace(tmp_path / "work")
    given = place.prepare(OperationFolder.load(write_folder(tmp_path / "in", wanted)), None)
    variables = yaml.safe_load(given.variables.read_text(encoding="utf-8"))
    assert variables["cluster_kubeconfig_path"] == str(place.state / "kubeconfig")
    assert variables["cluster_pod_cidr"] == "10.0.0.0/16"
