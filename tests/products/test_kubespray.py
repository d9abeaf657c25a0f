"""kubespray as the product, by examples/kubespray: each cell of its tier, from nothing to torn down, on real machines.

Nothing of kubespray is in this repository. VMATRIX_PRODUCT_SOURCES names a checkout of it, at the revision in the
example's product.yml; its Python packages come from the package index. Each cell takes 10 to 40 minutes on two cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import record
from harness.proc import Completed, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "kubespray"
SOURCES = "VMATRIX_PRODUCT_SOURCES"  # a folder; vmatrix reads the same variable
TIER = "kubespray"
INFRA = "test-kubespray"
CELL_SECONDS = 7200.0  # the slowest cell deploys five machines; an upper bound, never what is measured
COMMAND_SECONDS = 300.0  # infra up and down, with everything cached
CELLS = yaml.safe_load((EXAMPLE / "matrix" / "tiers.yml").read_text(encoding="utf-8"))["tiers"][TIER]["pinned"]


def vmatrix(*words: str | Path, seconds: float = COMMAND_SECONDS) -> Completed:
    """Run a vmatrix command for the example."""
    return run(["vmatrix", "--project", EXAMPLE, *words], timeout=seconds, check=False)


@pytest.fixture(scope="module")
def sources() -> Path:
    """Find a checkout of kubespray; without one, say how to give it."""
    named = os.environ.get(SOURCES)
    if not named:
        revision = yaml.safe_load((EXAMPLE / "matrix" / "product.yml").read_text(encoding="utf-8"))["product"][
            "sources"
        ]
        pytest.skip(f"set {SOURCES} to a checkout of {revision['git']} at {revision['revision']}")
    folder = Path(named).resolve()
    assert (folder / "cluster.yml").is_file(), f"{SOURCES}: {folder} has no cluster.yml"
    return folder


@pytest.fixture(scope="module")
def infra(sources: Path) -> Iterator[str]:
    """Bring up an infrastructure of the tests' own, and take it down with everything on it."""
    assert sources.is_dir()
    try:
        up = vmatrix("infra", "up", "--name", INFRA, seconds=CELL_SECONDS)  # builds what is not cached
        assert up.returncode == 0, up.stderr or up.stdout
        yield INFRA
    finally:
        down = vmatrix("infra", "down", "--name", INFRA)
        assert down.returncode == 0, down.stderr or down.stdout


@pytest.mark.parametrize("values", CELLS, ids=lambda v: f"{v['topology']}-{v['scenario']}-{v['etcd']}")
def test_a_cell_passes_without_a_false_alarm(values: dict[str, str], infra: str, tmp_path: Path) -> None:
    """A right cluster of kubespray's passes: every phase, and every check that can judge it."""
    words = [f"{axis}={value}" for axis, value in values.items()]
    where = ("--infra-name", infra, "--runs", tmp_path, "--run-id", "kubesp")
    done = vmatrix("run", "--tier", TIER, *words, *where, seconds=CELL_SECONDS)
    assert done.returncode == 0, done.stdout[-6000:]
    events = list(record.read(tmp_path / "kubesp"))
    checks = [event for event in events if event["event"] == "check"]
    assert {check["suite"] for check in checks} >= {"nodes", "cluster", "network", "conformance"}
    assert not [check["name"] for check in checks if check["outcome"] == "failed"]
    phases = _phases(values["scenario"])
    assert {check["stage"] for check in checks} >= phases, "each phase that leaves a cluster was judged"


def _phases(scenario: str) -> set[str]:
    """Return the phases of a scenario that leave a cluster, by vmatrix's own list of them."""
    packaged = Path(__file__).parents[2] / "matrix" / "scenarios.yml"
    listed: list[dict[str, Any]] = yaml.safe_load(packaged.read_text(encoding="utf-8"))["scenarios"][scenario]["phases"]
    return {phase["phase"] for phase in listed if phase.get("cluster", True)}


def test_the_example_is_a_project_without_mistakes() -> None:
    """The example loads without kubespray's sources, and its tier has every cell that it pins."""
    done = vmatrix("list", "--tier", TIER, "--json")
    assert done.returncode == 0, done.stderr or done.stdout
    assert len(yaml.safe_load(done.stdout)["cells"]) == len(CELLS)


def test_nothing_of_kubespray_is_here() -> None:
    """The example has playbooks that import kubespray's, and no role, module or task of its own for Kubernetes."""
    folders = {path.name for path in EXAMPLE.rglob("*") if path.is_dir()}
    assert not folders & {"roles", "library", "plugins", "contrib"}
    plays = [play for file in (EXAMPLE / "adapter").glob("*.yml") for play in yaml.safe_load(file.read_text("utf-8"))]
    imported = [play["ansible.builtin.import_playbook"] for play in plays if "hosts" not in play]
    assert sum("{{ product_sources }}" in name for name in imported) >= 5
