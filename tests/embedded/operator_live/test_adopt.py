"""The cluster of `make demo`, taken over by the operator and then scaled by its object: real playbooks, real pods."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness import providers
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.kube.client import Cluster
from harness.kube.objects import dig
from harness.kube.resources import NODE
from harness.model import Cell
from harness.operator.api.resources import CLUSTER
from harness.paths import packaged_dir, project_dir
from harness.plan.cells import make_cell
from harness.record import Recorder
from harness.spec import Spec, load_spec
from harness.spec.project import Project
from harness.spec.settings import load_settings
from tests.embedded.conftest import PREFIX, provider_of

TEMPLATE, WISH = "cluster.yml.j2", "  name: guest\nspec:\n"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """Return the packaged matrix, whose operator takes over what the playbooks have made."""
    shipped = load_spec(packaged_dir() / "matrix")
    operator = shipped.products["operator"]
    folder = tmp_path_factory.mktemp("objects") / "operator"
    shutil.copytree(packaged_dir() / operator.directory, folder)
    text = (folder / TEMPLATE).read_text(encoding="utf-8")
    assert text.count(WISH) == 1
    (folder / TEMPLATE).write_text(text.replace(WISH, f"{WISH}  adopt: true\n"), encoding="utf-8")
    return shipped.model_copy(update={"products": {"operator": operator.model_copy(update={"directory": str(folder)})}})


@pytest.fixture(scope="module")
def cells(spec: Spec) -> tuple[Cell, Cell]:
    """Return the cell of `make demo` with a spare worker, by the playbooks and by the operator."""
    demo = next(cell for cell in spec.tiers["smoke"].pinned if cell["os"] == "debian-13")
    grown: Mapping[str, str] = {**demo, "topology": "cp1-w2", "scenario": "scale"}
    return make_cell(spec, grown), make_cell(spec, {**grown, "product": "operator"})


@pytest.fixture(scope="module")
def site(spec: Spec, cells: tuple[Cell, Cell]) -> Iterator[Site]:
    """Return an infra cluster of this module's own that runs pods."""
    name = f"{PREFIX}{os.getpid()}-adopt"
    settings = load_settings(project_dir(), options={"provider": "embedded", "infra_name": name}).settings
    try:
        made = providers.open_site(Project(project_dir(), spec, settings), cells, progress=print)
        yield made
        made.held.close()
    finally:
        provider_of(name).down()


def nodes(kubeconfig: Path) -> dict[str, str]:
    """Return the uids of a guest's nodes, by name."""
    found = Cluster.from_kubeconfig(kubeconfig).list(NODE).items
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in found}


def test_the_cluster_of_the_demo_is_taken_over_and_then_scaled_by_its_object(
    site: Site, cells: tuple[Cell, Cell], tmp_path: Path
) -> None:
    _, cell = cells
    attempt = Attempt("adopt1", cell, 1, tmp_path / cell.id)
    by_playbooks = replace(site, spec=site.spec.model_copy(update={"products": {}}))
    life = Life(by_playbooks, attempt, Steps(Recorder(tmp_path), cell.id, 1), on_task=print)
    try:
        before = nodes(life.apply(0).kubeconfig)
        assert sorted(before) == ["cp-0", "w-0"]
        attempt.files.kubeconfig.unlink()
        life.site = site
        life.guests.clear()
        adopted = nodes(life.apply(0).kubeconfig)
        assert adopted == before
        grown = nodes(life.apply(1).kubeconfig)
        assert grown == {**before, "w-1": grown["w-1"]}
        found = site.cluster.get(CLUSTER, "guest", attempt.namespace)
        past = [(one["operation"], one["outcome"]) for one in dig(found, "status", "history")]
        assert past == [("scale", "succeeded"), ("adopt", "succeeded")]
    except BaseException:
        life.collect()
        raise
    finally:
        life.teardown()
