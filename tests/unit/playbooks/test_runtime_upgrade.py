"""A container runtime is replaced while no kubelet asks it for anything; what cannot be replaced is refused before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.filter.mathstuff import FilterModule as MathFilters
from ansible.plugins.test.core import TestModule as CoreTests
from jinja2 import Environment

from tests.unit.playbooks.playbook_files import load

ROLES = Path(__file__).parents[3] / "playbooks/roles"


def test_a_restart_of_the_runtime_stops_the_kubelet_first_and_starts_it_last() -> None:
    unit = (ROLES / "kubernetes_binaries/files/kubelet.service").read_text(encoding="utf-8")
    said = dict(line.split("=", 1) for line in unit.splitlines() if line.startswith(("After=", "PartOf=")))
    for runtime in ("containerd.service", "crio.service"):
        assert runtime in said["After"].split()
        assert runtime in said["PartOf"].split()


def refusals(role: str, **variables: Any) -> list[str]:
    """Return the names of a role's assertions about the container runtime that do not hold."""
    environment = Environment()  # noqa: S701 - expressions
    environment.tests.update(CoreTests().tests())
    environment.filters.update(MathFilters().filters())
    files = (ROLES / role / "tasks").glob("*.yml")
    tasks = [task for file in files for task in load(file) if "runtime" in task["name"]]
    asserted = {task["name"]: task["ansible.builtin.assert"]["that"] for task in tasks if "when" not in task}
    return [name for name, that in asserted.items() if not environment.compile_expression(that)(**variables)]


@pytest.mark.parametrize(
    ("seen", "wanted", "refused"),
    [
        ("containerd://1.7.35", "containerd://2.4.2", []),
        ("containerd://2.4.2", "containerd://2.4.2", []),
        ("containerd://2.10.0", "containerd://2.9.1", ["Refuse a downgrade of the container runtime"]),
        ("containerd://1.7.35", "cri-o://1.34.0", ["Refuse another container runtime"]),
        ("cri-o://1.34.0", "containerd://2.4.2", ["Refuse another container runtime"]),
    ],
)
def test_a_later_version_of_the_same_runtime_is_all_that_an_upgrade_may_bring(
    seen: str, wanted: str, refused: list[str]
) -> None:
    found = refusals("version_skew", version_skew_runtime_seen=seen, version_skew_container_runtime=wanted)
    assert found == refused


@pytest.mark.parametrize(("runs", "fits"), [([], True), (["containerd/2.4.2"], True), (["containerd/1.7.35"], False)])
def test_a_deployment_does_not_change_the_version_that_runs(runs: list[str], *, fits: bool) -> None:
    wanted = {"running_version_runtimes": runs, "running_version_container_runtime": "containerd/2.4.2"}
    assert (refusals("running_version", **wanted) == []) is fits


# Of files under /etc, what a runtime has read when it starts. CRI-O keeps registries until it is told to read them;
# whatever is in a folder certs.d is read for each pull.
# https://github.com/containerd/containerd/blob/main/docs/hosts.md
# https://github.com/cri-o/cri-o/blob/main/docs/crio.conf.5.md
READ = {
    "containerd": {"/etc/containerd/config.toml", "/etc/containerd/conf.d"},
    "crio": {"/etc/crio", "/etc/containers/registries.conf.d"},
}


@pytest.mark.parametrize("runtime", READ)
def test_a_runtime_is_restarted_for_what_it_reads_only_when_it_starts(runtime: str) -> None:
    read = load(ROLES / "container_runtime/vars/main.yml")["container_runtime_read"][runtime]
    assert {path for path in read if path.startswith("/etc") and "systemd" not in path} == READ[runtime]
    assert f"/etc/systemd/system/{runtime}.service" in read
