"""The cluster of `make demo`, taken over by the operator and then scaled by its object: real playbooks, real pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cell.site import Site
from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import NODE
from harness.model import Cell
from harness.operator.api.resources import CLUSTER
from harness.plan.cells import make_cell
from harness.spec import Spec
from tests.embedded.operator_live.lived import changed_spec, living, site_of

WISH = "  name: guest\nspec:\n"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """Return the packaged matrix, whose operator takes over what the playbooks have made."""
    changes = {"cluster.yml.j2": [(WISH, f"{WISH}  adopt: true\n")]}
    return changed_spec("operator", tmp_path_factory.mktemp("objects") / "operator", changes)


@pytest.fixture(scope="module")
def cells(spec: Spec) -> tuple[Cell, Cell]:
    """Return the cell of `make demo` with a spare worker, by the playbooks and by the operator."""
    demo = next(cell for cell in spec.tiers["smoke"].pinned if cell["os"] == "debian-13")
    grown: Mapping[str, str] = {**demo, "topology": "cp1-w2", "scenario": "scale"}
    return make_cell(spec, grown), make_cell(spec, {**grown, "product": "operator"})


@pytest.fixture(scope="module")
def site(spec: Spec, cells: tuple[Cell, Cell]) -> Iterator[Site]:
    """Return an infra cluster of this module's own that runs pods."""
    with site_of(spec, cells, "adopt") as made:
        yield made


def nodes(kubeconfig: Path) -> dict[str, str]:
    """Return the uids of a guest's nodes, by name."""
    found = Cluster.from_kubeconfig(kubeconfig).list(NODE).items
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in found}


def test_the_cluster_of_the_demo_is_taken_over_and_then_scaled_by_its_object(
    site: Site, cells: tuple[Cell, Cell], tmp_path: Path
) -> None:
    _, cell = cells
    by_playbooks = replace(site, spec=site.spec.model_copy(update={"products": {}}))
    with living(by_playbooks, cell, tmp_path) as life:
        before = nodes(life.apply(0).kubeconfig)
        assert sorted(before) == ["cp-0", "w-0"]
        life.attempt.files.kubeconfig.unlink()
        life.site = site
        life.guests.clear()
        adopted = nodes(life.apply(0).kubeconfig)
        assert adopted == before
        grown = nodes(life.apply(1).kubeconfig)
        assert grown == {**before, "w-1": grown["w-1"]}
        found = site.cluster.get(CLUSTER, "guest", life.attempt.namespace)
        past = [(one["operation"], one["outcome"]) for one in dig(found, "status", "history")]
        assert past == [("scale", "succeeded"), ("adopt", "succeeded")]
