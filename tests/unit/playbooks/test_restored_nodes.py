"""A node of nobody is named, not waited for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness import proc

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
ROLES = Path(__file__).parents[3] / "playbooks/roles"
# Knows its Nodes, and notes what else it is asked for.
KUBECTL = """#!/bin/sh
case "$*" in
  *"get nodes "*) cat {place}/nodes ;;
  *) echo "$@" >>{place}/calls ;;
esac
"""


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [("cp-0 True\nghost True\n", False), ("cp-0 True\nw-0 False\nghost Unknown\n", True)],
)
def test_a_node_of_no_machine_that_is_not_ready_is_named(tmp_path: Path, nodes: str, *, refused: bool) -> None:
    """By Ansible on this host: the role has `kubectl` alone of a machine."""
    (tmp_path / "nodes").write_text(nodes, encoding="utf-8")
    (tmp_path / "calls").touch()
    (tmp_path / "kubectl").write_text(KUBECTL.format(place=tmp_path), encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    given = {
        "postinstall_control_planes": ["cp-0"],
        "postinstall_workers": ["w-0"],
        "postinstall_daemon_sets": ["kube-system/kube-proxy"],
    }
    play = [{"hosts": "all", "gather_facts": False, "roles": ["postinstall"], "vars": given}]
    (tmp_path / "play.yml").write_text(json.dumps(play), encoding="utf-8")
    done = proc.run(
        [
            ANSIBLE,
            "-i",
            "here,",
            "-c",
            "local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            tmp_path / "play.yml",
        ],
        timeout=120,
        check=False,
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_ROLES_PATH": str(ROLES),
            "ANSIBLE_FILTER_PLUGINS": str(ROLES.parent / "filter_plugins"),
        },
    )
    assert (done.returncode != 0) is refused, done.stdout
    assert ("Node ghost is not ready and none of the inventory's machines" in done.stdout) is refused
    assert ("kubectl delete node ghost" in done.stdout) is refused
    waits = "rollout status" in (tmp_path / "calls").read_text(encoding="utf-8")
    assert waits is not refused
