"""A run's cells and what their product is offered; and a mirror of somebody else's that lacks it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import mirror
from harness.artifacts.catalogue import load
from harness.artifacts.product.files import Tree
from harness.artifacts.store import Store
from harness.errors import BadInput
from harness.model import Mirror
from harness.paths import PROJECT
from harness.plan import make_cell
from harness.plan.tiers import tier_cells
from harness.providers import named, offered
from harness.session import plan_run
from harness.session.plan import RunPlan
from harness.spec.models import ProductArtifacts
from harness.spec.models.product import Sources
from harness.spec.options import RunRequest
from harness.spec.project import Project
from tests.image_archives import docker_files, write_tar

FOUND = {"[]": Tree("0123456789abcdef", {"a": "0" * 64})}


def asking(plan: RunPlan, artifacts: dict[str, Any] | None) -> Project:
    """Return the project of a plan, with a product that asks for artifacts."""
    asked = ProductArtifacts.model_validate(artifacts) if artifacts is not None else None
    product = plan.project.spec.product.model_copy(update={"artifacts": asked})
    spec = plan.project.spec.model_copy(update={"product": product})
    return Project(plan.project.directory, spec, plan.project.settings)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    monkeypatch.chdir(tmp_path)
    return plan_run(RunRequest(tier="smoke"))


def test_a_product_that_fetches_for_itself_has_only_what_the_checks_run(plan: RunPlan) -> None:
    found = offered.offer_of(asking(plan, {}), plan.cells)
    assert {ref.name for ref in found.programs} == {"e2e.test", "ginkgo", "kubectl"}
    images = {ref.name.removeprefix("image/") for ref in found.images}
    assert images == {"e2e-test-images/agnhost", "e2e-test-images/busybox", "pause"}
    assert found.publish(Store(), Path("/nowhere")) == {}


def test_a_product_that_does_not_say_has_everything(plan: RunPlan) -> None:
    found = offered.offer_of(asking(plan, None), plan.cells)
    assert {"kubeadm", "containerd"} <= {ref.name for ref in found.programs}
    assert "image/kube-apiserver" in {ref.name for ref in found.images}


def test_suites_that_a_kept_cell_is_checked_with_have_their_own_images(plan: RunPlan) -> None:
    known = load()
    assert offered.of_suites(known, ("nodes", "conformance"), plan.cells) == ()
    assert {ref.name for ref in offered.of_suites(known, ["performance"], plan.cells)} == {"image/performance-tools"}
    found = {str(ref) for ref in offered.of_suites(known, {"e2e", "certification"}, plan.cells)}
    assert {"image/e2e-test-images/nginx@1.15-4", "image/e2e-test-images/nginx@1.27-0"} <= found


def test_machines_find_what_an_upgrade_goes_through(plan: RunPlan) -> None:
    spec = plan.project.spec
    cell = make_cell(spec, {**plan.cells[0].values, "scenario": "upgrade-hops", "product": "operator"})
    found = offered.offer_of(asking(plan, None), [cell])
    kubelets = {ref.version for ref in found.programs if ref.name == "kubelet"}
    assert kubelets == {"1.34.4", "1.35.4", "1.36.3"}


def test_a_run_is_refused_before_it_begins(plan: RunPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    project = asking(plan, {"serve": ["kublet"]})
    monkeypatch.setattr(Project, "load", staticmethod(lambda _: project))
    with pytest.raises(BadInput, match="no artifact `kublet`"):
        plan_run(RunRequest(tier="smoke"))


def test_what_lies_in_sources_is_judged_once_they_are_there(
    plan: RunPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = asking(plan, {"folder": "{sources}/own", "images": [{"archive": "{sources}/agent.tar"}]})
    sources = Sources.model_validate({"git": "https://example.org/p.git", "revision": "v1"})
    product = project.spec.product.model_copy(update={"sources": sources})
    project = Project(project.directory, project.spec.model_copy(update={"product": product}), project.settings)
    offered.refuse_unusable(project, plan.cells)
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("VMATRIX_PRODUCT_SOURCES", str(tmp_path / "here"))
    with pytest.raises(BadInput, match=r"here/agent\.tar does not exist"):
        offered.refuse_unusable(project, plan.cells)
    write_tar(tmp_path / "here" / "agent.tar", docker_files("our/agent:1.2"))
    found = offered.offer_of(project, plan.cells)
    assert (found.folder, found.uploads[0].source) == (tmp_path / "here/own", tmp_path / "here/agent.tar")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Mirror]:
    """Serve an empty cache."""
    with mirror.server("127.0.0.1:0", tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield Mirror(f"http://127.0.0.1:{server.server_address[1]}", "r:5000")
        server.shutdown()
        thread.join()


def test_a_mirror_that_lacks_the_files_is_bad_input(plan: RunPlan, elsewhere: Mirror) -> None:
    offer, store = offered.offer_of(asking(plan, {}), plan.cells), Store()
    with pytest.raises(BadInput, match=r"does not have the files that product\.yml asks for: .* answers 404"):
        offered.told(offer, FOUND, store, named("kubeconfig"), elsewhere)
    for definition, found in ((named("kubeconfig"), {}), (named("embedded"), FOUND)):
        offered.told(offer, found, store, definition, elsewhere)


def test_a_mirror_that_only_the_cluster_reaches_is_believed(plan: RunPlan) -> None:
    offer = offered.offer_of(asking(plan, {}), plan.cells)
    told = offered.told(offer, FOUND, Store(), named("kubeconfig"), Mirror("http://127.0.0.1:9", "r:5000"))
    found = told(plan.cells[0].phases[0].vars)
    assert found["cluster_file_checksums"] == {"http://127.0.0.1:9/files/0123456789abcdef/a": "0" * 64}
    assert "cluster_checksums" not in found


def test_the_programs_that_measure_are_there_where_their_suite_runs(plan: RunPlan) -> None:
    tools = "image/performance-tools"
    without, there = (offered.offer_of(plan.project, plan.cells, suites=of) for of in (plan.suites(), {"performance"}))
    assert tools not in {ref.name for ref in without.images}
    assert tools in {ref.name for ref in there.images}


AMENDED = """\
extends: default
axes:
  - name: runtime
    values:
      - id: containerd-2.4
        vars: {cluster_runc_version: "1.5.99"}
"""


def planned(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> RunPlan:
    """Plan a run in a project with these files of its matrix."""
    monkeypatch.setenv(PROJECT, str(folder))
    (folder / "matrix").mkdir()
    (folder / "vmatrix.yml").touch()
    for name, text in files.items():
        (folder / "matrix" / name).write_text(text, encoding="utf-8")
    return plan_run(RunRequest(tier="smoke"))


@pytest.mark.parametrize(
    ("axis", "value", "variable", "version"),
    [
        ("runtime", "containerd-2.4", "cluster_runc_version", "1.5.99"),
        ("runtime", "containerd-2.4", "cluster_containerd_version", "2.4.99"),
        ("runtime", "containerd-2.4", "cluster_cni_plugins_version", "1.9.99"),
        ("kubernetes", '"1.36.3"', "cluster_kubernetes_version", "1.36.99"),
        ("kubernetes", '"1.36.3"', "cluster_etcd_version", "3.6.99"),
        ("kubernetes", '"1.36.3"', "cluster_coredns_version", "1.14.99"),
        ("kubernetes", '"1.36.3"', "cluster_pause_version", "3.10.99"),
        ("network", "flannel", "cluster_flannel_version", "0.28.99"),
        ("addons", "core", "cluster_metallb_version", "0.16.99"),
        ("addons", "core", "cluster_traefik_version", "3.6.99"),
    ],
)
def test_a_version_that_nothing_provides_is_refused_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: str, value: str, variable: str, version: str
) -> None:
    text = AMENDED.replace("runtime", axis).replace("containerd-2.4", value)
    text = text.replace("cluster_runc_version", variable).replace("1.5.99", version)
    with pytest.raises(BadInput) as raised:
        planned(tmp_path, monkeypatch, {"axes.yml": text})
    name = variable.removeprefix("cluster_").removesuffix("_version").replace("_", "-")
    assert f"nothing provides {name} {version} (known: " in raised.value.summary
    assert f"{tmp_path}/matrix/axes.yml:6: axes[" in raised.value.summary
    assert f".vars.{variable}: " in raised.value.summary


def test_a_word_of_the_product_that_nothing_provides_is_refused_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "extends: default\nproduct:\n  artifacts:\n    serve: [runc@1.5.99]\n"
    with pytest.raises(BadInput, match=r"product\.yml:4: product\.artifacts\.serve\[0\]: nothing provides runc"):
        planned(tmp_path, monkeypatch, {"product.yml": text})


def test_an_added_version_is_provided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "http://127.0.0.1:9")
    added = f"artifacts:\n  runc:\n    1.5.99: {{sums: {{github.com/opencontainers/runc: h1:{'A' * 43}=}}}}\n"
    plan = planned(tmp_path, monkeypatch, {"axes.yml": AMENDED, "artifacts.yml": added})
    assert "runc@1.5.99" in {str(ref) for ref in offered.offer_of(plan.project, plan.cells).programs}


def test_images_of_a_phase_are_for_cells_that_have_the_phase(plan: RunPlan) -> None:
    spec = plan.project.spec
    fresh, delivering = (tier_cells(spec, tier, "embedded")[0] for tier in ("operator", "delivery"))
    assert list(offered.controllers(plan.project, [fresh])) == ["vmatrix"]
    assert list(offered.controllers(plan.project, [fresh, delivering])) == [
        "vmatrix",
        "buildkit",
        "e2e-test-images/busybox",
    ]
