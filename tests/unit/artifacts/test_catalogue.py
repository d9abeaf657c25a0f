"""The catalogue is whole: everything it names exists, and everything a release needs is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.artifacts import refs
from harness.artifacts.catalogue import Catalogue, fill, load, module_dir
from harness.artifacts.modules import staging_modules, staging_version
from harness.artifacts.recipe import Ref
from harness.errors import BadInput

CATALOGUE = load()
BUILDS = [(name, version) for name in CATALOGUE.programs for version in CATALOGUE.versions(name)]


@pytest.mark.parametrize(("name", "version"), BUILDS)
def test_every_version_has_a_wrapper_module_with_checksums(name: str, version: str) -> None:
    recipe = CATALOGUE.program(name).recipes(version).gomod
    folder = module_dir(recipe.module, version)
    text = (folder / "go.mod").read_text()
    if recipe.module not in CATALOGUE.modules:  # our own program, which needs nothing
        assert "require" not in text
        return
    for path in CATALOGUE.modules[recipe.module].requires:
        assert re.search(rf"^(require )?\s*{re.escape(path)} v{re.escape(version)}$", text, re.MULTILINE)
        assert f"{path} v{version} h1:" in (folder / "go.sum").read_text()
    for package in recipe.packages.values():
        assert f'"{package}"' in (folder / "tools.go").read_text()


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_every_staging_repository_is_replaced_by_the_release_cut_with_it(version: str) -> None:
    text = (module_dir("kubernetes", version) / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (k8s\.io/\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert all(left == right and cut == staging_version(version) for left, right, cut in replaced)


def test_staging_repositories_are_those_at_the_placeholder_version() -> None:
    text = "require (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.140.0\n\tk8s.io/kubelet v0.0.0 // indirect\n)\n"
    assert staging_modules(text) == ("k8s.io/api", "k8s.io/kubelet")
    assert staging_version("1.36.3") == "v0.36.3"


@pytest.mark.parametrize("repository", CATALOGUE.images)
def test_every_file_of_an_image_is_a_file_of_a_program(repository: str) -> None:
    for version in CATALOGUE.tags(repository).values():
        for source in CATALOGUE.image(repository).files.values():
            name, _, file = source.partition("/")
            assert version in CATALOGUE.versions(name)
            assert file in CATALOGUE.program(name).recipes(version).gomod.packages


@pytest.mark.parametrize("name", CATALOGUE.programs)
def test_both_sources_give_the_same_files(name: str) -> None:
    for version in CATALOGUE.versions(name):
        recipes = CATALOGUE.program(name).recipes(version)
        if recipes.release is not None:
            assert set(recipes.release.members or {name: ""}) == set(recipes.gomod.packages)


@pytest.mark.parametrize("version", CATALOGUE.kubernetes)
def test_all_that_a_release_needs_is_declared(version: str) -> None:
    needed = (*refs.host(CATALOGUE, version), *refs.for_kubernetes(CATALOGUE, version))
    for ref in needed:
        assert ref.version in CATALOGUE.versions(ref.name)
    assert Ref("image/kube-proxy", f"v{version}") in needed
    assert Ref("kubelet", version) in needed


def test_a_cells_variables_choose_versions() -> None:
    variables = {"cluster_kubernetes_version": "1.36.3", "cluster_containerd_version": "1.7.35"}
    needed = refs.for_cell(CATALOGUE, variables, infra_version="1.36.3")
    assert Ref("containerd", "1.7.35") in needed
    assert Ref("containerd", "2.4.2") not in needed
    assert Ref("kube-apiserver", "1.36.3") in needed
    assert Ref("kube-apiserver", "1.36.3") not in refs.for_cell(CATALOGUE, variables)
    assert len(needed) == len(set(needed))


def test_add_ons_are_only_in_cells_that_ask_for_them() -> None:
    plain = {"cluster_kubernetes_version": "1.36.3"}
    asked = {**plain, "cluster_metrics_server_version": "0.9.0", "cluster_local_path_provisioner_version": "0.0.30"}
    added = set(refs.for_cell(CATALOGUE, asked)) - set(refs.for_cell(CATALOGUE, plain))
    assert added == {Ref("image/metrics-server", "v0.9.0"), Ref("image/local-path-provisioner", "v0.0.30")}
    assert added == set(refs.add_ons(CATALOGUE))
    empty = {**plain, "cluster_metrics_server_version": ""}
    assert refs.for_cell(CATALOGUE, empty) == refs.for_cell(CATALOGUE, plain)


def test_a_network_of_plain_routes_needs_no_image_of_a_plugin() -> None:
    plain = {"cluster_kubernetes_version": "1.36.3"}
    flannel, routes = ({**plain, "cluster_network_plugin": plugin} for plugin in ("flannel", "routes"))
    without = set(refs.for_cell(CATALOGUE, flannel)) - set(refs.for_cell(CATALOGUE, routes))
    assert without == {Ref("image/flannel", "v0.28.4")}
    assert refs.for_cell(CATALOGUE, plain) == refs.for_cell(CATALOGUE, flannel)


def test_an_undeclared_kubernetes_version_says_how_to_declare_it() -> None:
    with pytest.raises(BadInput, match=r"Kubernetes 1\.36\.4 is not in the catalogue") as raised:
        refs.for_kubernetes(CATALOGUE, "1.36.4")
    assert "vmatrix artifacts module kubernetes 1.36.4" in raised.value.hint


def test_references_are_parsed() -> None:
    assert refs.parse(CATALOGUE, ["runc", "etcd@3.6.8"]) == (Ref("runc", "1.5.2"), Ref("etcd", "3.6.8"))
    with pytest.raises(BadInput):
        refs.parse(CATALOGUE, ["nothing"])


def test_templates_know_the_version() -> None:
    filled = fill("{name} v{version} {minor} {major_number}.{minor_number}", "kubelet", "1.36.3")
    assert filled == "kubelet v1.36.3 1.36 1.36"


@pytest.mark.parametrize("text", ["programs: [", "kubernetes: {}\nsurprise: 1\n"])
def test_a_catalogue_that_does_not_fit_is_bad_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "catalogue.yml"
    path.write_text(text)
    with pytest.raises(BadInput, match="not a valid catalogue") as raised:
        load(path)
    assert raised.value.paths == (path,)


def test_the_catalogue_is_one_object() -> None:
    assert isinstance(CATALOGUE, Catalogue)
    assert load() is CATALOGUE
