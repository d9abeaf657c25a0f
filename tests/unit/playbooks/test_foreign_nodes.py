"""A node that is not in the inventory and not ready is named by both roles that would wait for its pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import refusal_of, run_here

# Knows the Nodes that each machine is asked about, and notes what else it is asked for.
KUBECTL = """case "$*" in
  *"get nodes "*) cat "$place/$machine.nodes" ;;
  *) echo "$@" >>"$place/$machine.calls"; echo '{}' ;;
esac
"""
POSTINSTALL = {
    "role": "postinstall",
    "postinstall_control_planes": ["cp-0"],
    "postinstall_workers": ["w-0"],
    "postinstall_daemon_sets": ["kube-system/kube-proxy"],
}
ADDONS = {"role": "kubeadm_addons", "kubeadm_addons_nodes": ["cp-0", "w-0"], "kubeadm_addons_coredns_version": "1.14.2"}
# By a machine's name, the role that it runs, the Nodes that there are, and whether one of them is refused.
ROWS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "all-ready": (POSTINSTALL, "cp-0 True\nw-0 True\nother True\n", False),
    "own-not-ready": (POSTINSTALL, "cp-0 True\nw-0 False\n", False),
    "foreign-unknown": (POSTINSTALL, "cp-0 True\nghost Unknown\n", True),
    "foreign-without-condition": (POSTINSTALL, "cp-0 True\nghost \n", True),
    "addons": (ADDONS, "cp-0 True\nghost False\n", True),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what Ansible said of all rows in one run, and the folder of the calls."""
    place = tmp_path_factory.mktemp("nodes")
    for name, (_, nodes, _) in ROWS.items():
        (place / f"{name}.nodes").write_text(nodes, encoding="utf-8")
        (place / f"{name}.calls").touch()
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "{{ role }}"}}]}
    return run_here(place, [play], {"kubectl": KUBECTL}, **{name: given for name, (given, _, _) in ROWS.items()}), place


@pytest.mark.parametrize("row", ROWS)
def test_only_a_node_of_no_machine_that_is_not_ready_is_refused(row: str, said: tuple[str, Path]) -> None:
    text, place = said
    refusal = refusal_of(text, row)
    assert bool(refusal) is ROWS[row][2], text
    if refusal:
        assert "Node ghost is not ready and none of the inventory's machines" in refusal
        assert "kubectl delete node ghost" in refusal
    waits = "rollout status" in (place / f"{row}.calls").read_text(encoding="utf-8")
    assert waits is not ROWS[row][2]
