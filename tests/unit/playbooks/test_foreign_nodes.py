"""A node that is not in the inventory and not ready is named by both roles that would wait for its pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import run_here

# Knows its Nodes, and notes what else it is asked for.
KUBECTL = """case "$*" in
  *"get nodes "*) cat {place}/nodes ;;
  *) echo "$@" >>{place}/calls; echo '{}' ;;
esac
"""
ROLES: dict[str, dict[str, Any]] = {
    "postinstall": {
        "postinstall_control_planes": ["cp-0"],
        "postinstall_workers": ["w-0"],
        "postinstall_daemon_sets": ["kube-system/kube-proxy"],
    },
    "kubeadm_addons": {"kubeadm_addons_nodes": ["cp-0", "w-0"], "kubeadm_addons_coredns_version": "1.14.2"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_node_of_no_machine_that_is_not_ready_is_named(role: str, tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("cp-0 True\nw-0 False\nghost Unknown\n", encoding="utf-8")
    done = run_here(tmp_path, [{"roles": [role], "vars": ROLES[role]}], {"kubectl": KUBECTL})
    assert done.returncode == 2, done.stdout
    assert "[foreign_nodes : Refuse to wait for a foreign node]" in done.stdout
    assert "Node ghost is not ready and none of the inventory's machines" in done.stdout
    assert "kubectl delete node ghost" in done.stdout
    assert "rollout status" not in (tmp_path / "calls").read_text(encoding="utf-8")


def test_what_is_ready_or_in_the_inventory_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("cp-0 True\nw-0 False\nother True\n", encoding="utf-8")
    done = run_here(tmp_path, [{"roles": ["postinstall"], "vars": ROLES["postinstall"]}], {"kubectl": KUBECTL})
    assert done.returncode == 0, done.stdout
    assert "rollout status" in (tmp_path / "calls").read_text(encoding="utf-8")
