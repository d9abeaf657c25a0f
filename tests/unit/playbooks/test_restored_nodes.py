"""What a restored snapshot brings back of Nodes that left is removed, and a node of nobody is named, not waited for."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from harness import proc

ROLES = Path(__file__).parents[3] / "playbooks/roles"
# Knows its Nodes, CertificateSigningRequests and VolumeAttachments, and notes what it is asked to change.
KUBECTL = """#!/bin/sh
case "$*" in
  "get nodes "*) cat {place}/nodes ;;
  "get certificatesigningrequests "*system:node:ghost*) echo csr-ghost ;;
  "get volumeattachments "*nodeName==*ghost*) echo va-ghost ;;
  get*) ;;
  *) echo "$@" >>{place}/calls ;;
esac
"""


def run(script: str, place: Path, nodes: str, **given: object) -> proc.Completed:
    """Run a template of a role as a script, against a cluster with these Nodes."""
    role, name = script.split("/")
    environment = Environment(loader=FileSystemLoader(ROLES / role / "templates", followlinks=True), trim_blocks=True)  # noqa: S701 - shell
    environment.filters["stretched"] = lambda number, scale: number * scale
    environment.filters["quote"] = shlex.quote
    environment.filters["regex_replace"] = lambda text, _, prefix: f"{prefix}{text}"
    text = environment.get_template(name).render({f"{role}_timeout_scale": 1, f"{role}_timeout": 1, **given})
    (place / "nodes").write_text(nodes, encoding="utf-8")
    (place / "calls").touch()
    (place / "kubectl").write_text(KUBECTL.format(place=place), encoding="utf-8")
    (place / "kubectl").chmod(0o755)
    return proc.run(["sh", "-c", text], timeout=20, check=False, env={"PATH": f"{place}:/usr/bin:/bin"})


def removal(place: Path, *names: str, restored: bool) -> tuple[proc.Completed, str]:
    """Remove Nodes of a cluster of cp-0 and w-0 which has a ghost; return how that ended and what was asked for."""
    mark = place / "restored"
    if restored:
        mark.touch()
    done = run(
        "node_removal/delete-nodes.sh.j2",
        place,
        "cp-0\nw-0\nghost\n",
        node_removal_names=list(names),
        node_removal_known=["cp-0", "w-0"],
        node_removal_restored=str(mark),
    )
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    return done, (place / "calls").read_text(encoding="utf-8")


def test_after_a_restore_nodes_of_no_machine_go_with_all_that_is_theirs(tmp_path: Path) -> None:
    done, calls = removal(tmp_path, restored=True)
    assert "the snapshot brought back the Node ghost, which is none of the machines" in done.stdout
    asked = [line.split(" --")[0] for line in calls.splitlines()]
    assert asked == [
        "delete node ghost",
        "delete pods",
        "delete lease",
        "delete certificatesigningrequest csr-ghost",
        "delete volumeattachment va-ghost",
    ]
    assert "spec.nodeName=ghost" in calls
    assert "cp-0" not in calls
    assert "w-0" not in calls


def test_without_a_restore_only_what_is_named_goes(tmp_path: Path) -> None:
    _, calls = removal(tmp_path, "w-1", restored=False)
    assert calls.startswith("delete node w-1 --ignore-not-found")
    assert "ghost" not in calls


def test_without_a_restore_nothing_is_done_where_nothing_is_named(tmp_path: Path) -> None:
    done, calls = removal(tmp_path, restored=False)
    assert (done.stdout, calls) == ("", "")


def test_a_lost_machine_and_a_ghost_go_together(tmp_path: Path) -> None:
    done, calls = removal(tmp_path, "cp-1", restored=True)
    assert calls.startswith("delete node cp-1 ghost --ignore-not-found")
    assert "cp-1, which" not in done.stdout


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [("cp-0=True\nw-0=False\n", False), ("cp-0=True\nghost=True\n", False), ("cp-0=True\nghost=Unknown\n", True)],
)
def test_a_node_of_no_machine_that_is_not_ready_is_named(tmp_path: Path, nodes: str, *, refused: bool) -> None:
    done = run(
        "postinstall/finish.sh.j2",
        tmp_path,
        nodes,
        postinstall_control_planes=["cp-0"],
        postinstall_workers=["w-0"],
        postinstall_daemon_sets=["kube-system/kube-proxy"],
    )
    assert done.returncode == (65 if refused else 0), done.stderr
    assert ("Node ghost is not ready and none of the inventory's machines" in done.stderr) is refused
    assert ("kubectl delete node ghost" in done.stderr) is refused
    waits = "rollout status" in (tmp_path / "calls").read_text(encoding="utf-8")
    assert waits is not refused
