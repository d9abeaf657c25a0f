"""What a process takes from elsewhere than its flags is found: environment, files, control group."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.validate.remote import on_node

FILE = """\
name: etcd-1
listen-client-urls: "https://127.0.0.1:2379,https://10.0.0.1:2379" # both
client-transport-security:
  cert-file: /tls/server.crt
  client-cert-auth: true
  trusted-ca-file: '/tls/ca.crt'
peer-transport-security:
  client-cert-auth: true
  trusted-ca-file: /tls/peer-ca.crt
snapshot-count: 10000
"""


def test_the_settings_of_etcd_come_from_its_environment(tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.symlink_to("/bin/sleep")
    given = {"ETCD_NAME": "etcd1", "ETCD_TRUSTED_CA_FILE": "/etc/ssl/etcd/ssl/ca.pem", "HOME": "/root"}
    with subprocess.Popen([str(program), "60"], env=given) as process:
        try:
            (found,) = [one for one in on_node.processes("etcd") if one["pid"] == process.pid]
        finally:
            process.kill()
    assert found["settings"] == {"name": "etcd1", "trusted-ca-file": "/etc/ssl/etcd/ssl/ca.pem"}
    assert on_node.effective(found, "trusted-ca-file") == "/etc/ssl/etcd/ssl/ca.pem"


def test_the_settings_of_etcd_come_from_its_file() -> None:
    assert on_node.etcd_file(FILE) == {
        "name": "etcd-1",
        "listen-client-urls": "https://127.0.0.1:2379,https://10.0.0.1:2379",
        "client-transport-security": "",
        "cert-file": "/tls/server.crt",
        "client-cert-auth": "true",
        "trusted-ca-file": "/tls/ca.crt",
        "peer-transport-security": "",
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": "/tls/peer-ca.crt",
        "snapshot-count": "10000",
    }


def test_a_file_wins_over_the_environment_as_for_etcd_itself(tmp_path: Path) -> None:
    file = tmp_path / "etcd.yml"
    file.write_text(FILE, encoding="utf-8")
    assert on_node.settings(os.getpid(), "etcd", ["etcd", f"--config-file={file}"])["name"] == "etcd-1"


def test_modes_of_authorization_come_from_the_file_that_a_flag_names(tmp_path: Path) -> None:
    file = tmp_path / "authorization.yml"
    text = "authorizers:\n  - type: Node\n    name: node\n  - name: rbac\n    type: RBAC\n"
    file.write_text(text, encoding="utf-8")
    argv = ["kube-apiserver", f"--authorization-config={file}"]
    assert on_node.settings(os.getpid(), "kube-apiserver", argv) == {"authorization-mode": "Node,RBAC"}


@pytest.mark.parametrize("program", ["kubelet", "kube-scheduler"])
def test_other_programs_take_nothing_from_elsewhere(program: str) -> None:
    assert on_node.settings(os.getpid(), program, [program]) == {}


def test_a_flag_wins_over_other_settings() -> None:
    process = {"argv": ["etcd", "--name=flag"], "settings": {"name": "variable"}}
    assert on_node.effective(process, "name") == "flag"
