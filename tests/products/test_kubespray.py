"""kubespray is a product: the cells of examples/kubespray, from nothing to torn down, and no alarm about a right one.

Nothing of kubespray is in this repository. VMATRIX_PRODUCT_SOURCES names a checkout of it, at the revision in the
example's product.yml; its Python packages come from the package index. A cell takes 5 to 40 minutes on two cores.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.spec import load_spec
from tests.products.conftest import EXAMPLES, NOT_OFFERED, UNDECLARED, Example, copied

SOURCES = "VMATRIX_PRODUCT_SOURCES"  # a folder; vmatrix reads the same variable
SUITES = ("nodes", "cluster", "network", "conformance")
# What is judged of clusters that kubeadm made as ours are, or whose kube-proxy and namespaces are declared.
OF_KUBEADM = {
    "test_certificates_are_of_the_clusters_own_authorities",
    "test_coredns_is_configured_as_the_cell_asks",
    "test_kube_proxy_has_the_settings_of_the_cell",
    "test_kubeconfigs_are_those_of_kubeadm",
    "test_running_kubelets_are_configured_as_kubeadm_keeps_it",
    "test_static_pods_are_as_kubeadm_makes_them",
    "test_the_clusters_own_accounts_have_their_rights",
    "test_the_systems_namespaces_have_the_systems_pods_only",
}
# The cells of the tier, by the end of their ids, with the phases that they consist of.
CELLS = {
    "c1w1-fresh-k": ("deploy",),
    "c1w1-fresh-h": ("deploy",),
    "c1w2-scale-h": ("deploy", "scale-out", "scale-in"),
    "c3w2-less-k": ("deploy", "remove-node"),
    "c1w1-minor-k": ("deploy", "upgrade"),
    "c1w1-reset-h": ("deploy", "reset", "deploy-2"),
}


@pytest.fixture(scope="module")
def sources() -> Path:
    """A checkout of kubespray; without one, say how to give it."""
    named = os.environ.get(SOURCES)
    if not named:
        wanted = load_spec(EXAMPLES / "kubespray" / "matrix").product.sources
        assert wanted is not None
        pytest.skip(f"set {SOURCES} to a checkout of {wanted.git} at {wanted.revision}")
    folder = Path(named).resolve()
    assert (folder / "cluster.yml").is_file(), f"{SOURCES}: {folder} has no cluster.yml"
    return folder


@pytest.fixture
def kubespray(sources: Path, infra: str, tmp_path: Path) -> Example:
    """The project, and the infra cluster for its cells."""
    assert infra
    return copied("kubespray", tmp_path, {SOURCES: str(sources)})


@pytest.mark.parametrize("ending", CELLS)
def test_a_cell_of_kubespray_is_green(ending: str, kubespray: Example) -> None:
    done = kubespray.run(f"*-{ending}-*", "--tier", "kubespray")
    assert done.status == 0, done.output
    steps = {name.rpartition(": step ")[2] for name in done.checks if ": step " in name}
    assert steps >= set(CELLS[ending])
    for suite in (*SUITES, *(["phases"] if len(CELLS[ending]) > 1 else [])):
        assert done.passed_in(suite) > 0, suite
    unexpected = {name: said for name, said in done.not_passed.items() if not any(one in said for one in NOT_OFFERED)}
    assert unexpected == {}
    assert done.undeclared == UNDECLARED | OF_KUBEADM
